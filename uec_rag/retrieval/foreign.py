"""Corpora and questions unlike what an ensemble was fitted on, and what to say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.writing import letters_in, letters_of, writing_of, writings
from uec_rag.ensemble.fitted import Fitted
from uec_rag.retrieval.search import Asked
from uec_rag.stores.base import Found, Passage

_LOOKED_AT = 64  # passages that tell in what a corpus is written


def foreign_corpus(
    fitted: Fitted, texts: Sequence[str], vectors: Sequence[FloatArray]
) -> str | None:
    """Say which encoders cannot tell passages apart because of their language; None where all can.

    Parameters
    ----------
    fitted : Fitted
    texts : sequence of str
        Of the passages.
    vectors : sequence of K arrays, shape (m, d_k)
        Each encoder's means of them.
    """
    familiar = fitted.familiar
    if familiar is None:
        return None
    strange = familiar.strange(writings(texts[:_LOOKED_AT], least=0.5))
    lost = familiar.lost(vectors) if strange else []
    if not lost:
        return None
    names = ", ".join(repr(fitted.names[member]) for member in lost)
    words = 0 in familiar.distance
    so = "what is found is found by its words" if words else "its similarities say little"
    also = "" if words else ', or "bm25"'
    return (
        f"Most of these passages are in {strange[0]}, which the pairs of the fit were not, and to "
        f"{names} they look alike: {so}, and confidence is low. Take in an encoder that knows the "
        f"language{also}, and fit with pairs in it or self_calibrate."
    )


@dataclass(frozen=True)
class Foreign:
    """What is unlike the fit in n questions.

    Attributes
    ----------
    told : list of str
        In plain words; "" where nothing is.
    doubt : array, shape (n,)
        How far encoders that do not know the letters of a question count in it, from 0 to 1.
    """

    told: list[str]
    doubt: FloatArray


def foreign_questions(
    fitted: Fitted, asked: Asked, found: Found, queries: Sequence[str]
) -> Foreign:
    """Look whether questions are in letters or a language that no pair of the fit was in.

    In other letters an encoder's similarities are high whatever they are of; words are not misled.
    In another language of the same letters confidence was measured to be too low already, so that
    it is only told. That a question's variance is far from the fit's was tried and says nothing:
    3 to 4 standard deviations in Chinese to an English model, and as many in English of another
    subject.

    Parameters
    ----------
    fitted : Fitted
    asked : Asked
    found : Found
    queries : sequence of str
    """
    familiar = fitted.familiar
    told, strange = [""] * len(queries), np.zeros(len(queries), dtype=bool)
    for row, (query, passages) in enumerate(zip(queries, found.passages, strict=True)):
        writing = writing_of(query)
        if familiar is None or writing is None:
            continue
        letters = letters_of(writing)
        if writing not in familiar.writings:
            told[row] = f"the question is in {writing}, which the ensemble was not fitted on"
            strange[row] = letters not in map(letters_of, familiar.writings)
        elif _all_in_others(passages, letters):
            told[row] = f"the question is in {writing}, and none of its hits is"
            strange[row] = True
    vectors = [bool(part.dimension) for part in asked.parts]
    return Foreign(told, strange * asked.coefficients[:, vectors].sum(axis=1))


def _all_in_others(passages: Sequence[Passage], letters: str | None) -> bool:
    """Whether passages have letters, and none of them those of a question."""
    others = False
    for passage in passages:
        its = letters_in(passage.text)
        if its == letters:
            return False
        others |= its is not None  # a table of numbers is in no letters
    return others
