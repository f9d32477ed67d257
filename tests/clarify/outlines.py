"""Outlines of hits, and what is read in them."""

import numpy as np

from uec_rag.base.text import About
from uec_rag.clarify.outline import FEATURES, Outline, features, underspecified
from uec_rag.clarify.readings import readings

IDF = {"when": 0.5, "Elkins": 4.0, "founded": 2.0, "Arkansas": 5.0}
PLACES = ("Elkins, West Virginia", "Elkins, Arkansas")
SAID = ("Elkins", "founded")
QUESTION = "When was Elkins founded?"


def outline(titles, words=None, logits=None, idf=IDF, sources=None, documents=None, **options):
    count, keys = len(titles), ("title", "source", "document_title")
    said = zip(titles, sources or [""] * count, documents or [""] * count, strict=True)
    texts = options.pop("texts", [f"It was founded in {1800 + i}." for i in range(count)])
    metadatas = [dict(zip(keys, one, strict=True)) for one in said]
    return Outline(
        [f"p{i}" for i in range(count)],
        texts,
        [About.from_passage(*one) for one in zip(metadatas, texts, strict=True)],
        np.zeros(count, "f4") if logits is None else np.array(logits, "f4"),
        [frozenset(row) for row in words or [()] * count],
        idf,
        **{"size": 1000} | options,
    )


def below_headings(headings, texts, idf, sources=None):
    """Hits whose headings a splitter has noted, outermost first."""
    places = sources or [""] * len(texts)
    metadatas = [
        {"source": source, **{f"Header {at}": one for at, one in enumerate(above, start=1)}}
        for source, above in zip(places, headings, strict=True)
    ]
    described = map(About.from_passage, metadatas, texts)
    ids, nothing = [f"p{i}" for i in range(len(texts))], np.zeros(len(texts), "f4")
    return Outline(ids, texts, [*described], nothing, [()] * len(texts), idf, 1000)


def named(question, found):
    return dict(zip(FEATURES, features(question, found.split()), strict=True))


def probability(question, found):
    return underspecified(features(question, found.split()))


def labels_of(found):
    return [one.title for one in readings(found.split())]
