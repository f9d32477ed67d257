"""Inspect an index: its languages, and the hits of simpler searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from uec_rag.base.checks import visible
from uec_rag.encoders.lexical import writings
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage

_SAMPLE = 64  # passages from which the languages of a corpus are determined
_BEGINNING = 2_000  # characters of a passage that are encoded


def passage_at(retriever: Retriever, id_: str) -> Passage:
    """Return the passage with an id; KeyError if there is none."""
    for passage in retriever.get([id_]):
        return passage
    raise KeyError(
        f"id: {visible(id_)[:100]!r} is not in the index (any more); ids are shown with hits."
    )


def describe_languages(retriever: Retriever) -> dict[str, object]:
    """Determine the scripts or languages of an index's first passages, and whether they are known.

    Returns a mapping of "languages" (most frequent first), "fitted_on" (those of the fit, empty if
    unknown), and "strange" (a note on encoders that cannot distinguish these passages; None if all
    can).
    """
    uec, training_profile, strange = retriever.uec, retriever.uec.fitted.training_profile, None
    texts = [passage.text for passage in islice(retriever.passages(), _SAMPLE)]
    if texts and training_profile is not None:
        parts = uec.encode([text[:_BEGINNING] for text in texts], "passage")
        strange = uec.fitted.foreign_corpus(texts, [part.mean for part in parts])
    known = () if training_profile is None else training_profile.writings
    return {"languages": writings(texts), "fitted_on": known, "strange": strange}


Ranking: TypeAlias = list[list[Passage]]
"""Hits of n queries, best first."""

_C = 60  # the constant of Cormack et al.


def search_by_each_member(
    retriever: Retriever, queries: Sequence[str], k: int
) -> dict[str, SearchResult]:
    """Search by each encoder's similarity alone.

    Returns
    -------
    dict of str to SearchResult
        Searches by the encoder's name; empty if there is a single block of vectors.
    """
    names = retriever.uec.names
    if len(retriever.uec.fitted.block_names) < 2:
        return {}
    return {name: search_by_member(retriever, name, queries, k) for name in names}


def search_by_member(
    retriever: Retriever, name: str, queries: Sequence[str], k: int
) -> SearchResult:
    """Search by one encoder's similarity, which is then `mu`."""
    view = retriever.with_weights({other: float(other == name) for other in retriever.uec.names})
    view.uec.fitted = replace(view.uec.fitted, beta=0.0)
    return view.search(queries, k)


def fuse(rankings: Sequence[Ranking]) -> Ranking:
    """Fuse rankings by reciprocal ranks (Cormack et al., https://doi.org/10.1145/1571941.1572114).

    Examples
    --------
    >>> a, b, c = (Passage(name, name) for name in "abc")
    >>> [passage.id for passage in fuse([[[a, b]], [[b, c]]])[0]]
    ['b', 'a', 'c']
    """
    joined = []
    for rows in zip(*rankings, strict=True):
        passages = {passage.id: passage for row in rows for passage in row}
        gains: Counter[str] = Counter()
        for row in rows:
            for rank, passage in enumerate(row, 1):
                gains[passage.id] += 1 / (_C + rank)  # type: ignore[assignment]
        joined.append([passages[id_] for id_, _ in gains.most_common()])
    return joined
