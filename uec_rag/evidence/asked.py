"""Likeness of a question to those that were written for its hits, as evidence of an answer.

Cosines of models have different scales. What is compared is therefore how far a written question is
on the way from what those of the other hits usually have, 0, to the same question, 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import regex

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import cached_property
from uec_rag.base.text import questions_in, telling_words
from uec_rag.confidence.model import JUDGED
from uec_rag.encoders import lexical
from uec_rag.ensemble.sketches import Likeness
from uec_rag.evidence.words import QuestionWords
from uec_rag.questions.languages import function_words, matcher

LIKENED = 10
"""The number of first different texts whose written questions are compared with what is asked."""

_LEAST_SHARED = 0.05  # of the words of questions and names, those that their text has
_LEAST_NEAR = -0.03  # of a text, as far as above the others' texts on the way to the same
_CONTRACTED = regex.compile(r"n['’]t\b|\b(?:cannot|never)\b", regex.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Asked:
    """A question compared with those that were written for its first hits.

    Attributes
    ----------
    words : QuestionWords
    likenesses : sequence of Likeness or None
        How near it is to what stands beside each of the first `LIKENED` hits.
    texts : array
        Its cosines to the texts of these hits.
    """

    words: QuestionWords
    likenesses: Sequence[Likeness | None]
    texts: FloatArray

    @cached_property
    def place(self) -> int:
        """The place of that of the first `JUDGED` hits for which the nearest was written."""
        return int(np.argmax([of.largest if of else -np.inf for of in self.likenesses[:JUDGED]]))

    @cached_property
    def _usual(self) -> float:
        """The mean cosine to what was written for the other hits, or to their texts without it."""
        pairs = zip(self.likenesses, self.texts.tolist(), strict=True)
        means = [of.usual if of else text for of, text in pairs]
        del means[self.place]
        return float(np.mean(means)) if means else 0.0

    @property
    def alike(self) -> float:
        """The share of the way to the same question at which the nearest is."""
        likeness = self.likenesses[self.place]
        return self._on_the_way(likeness.largest, self._usual) if likeness else 0.0

    @property
    def ahead(self) -> float:
        """By how much that is more than of what was written for any other hit."""
        pairs = zip(self.likenesses, self.texts.tolist(), strict=True)
        largest = [of.largest if of else text for of, text in pairs]
        nearest = largest.pop(self.place)
        return (nearest - max(largest, default=self._usual)) / (1 - self._usual + 1e-6)

    @property
    def covered(self) -> float:
        """The share by idf of the question that the passage, its questions or its names have."""
        words, at = self.words, self.place
        rarity, there = words.content, words.tables[at].keys() | words.tables_beside[at].keys()
        return sum(rarity[word] for word in rarity.keys() & there) / (sum(rarity.values()) or 1.0)

    @property
    def is_sound(self) -> bool:
        """True if the text may answer by itself: anybody may have written the questions beside it.

        It is as near as the texts of the other hits, has the names, the numbers and the negation of
        the question, and some of the words of what stands beside it.
        """
        words, cosines, hit = self.words, self.texts.tolist(), self.words.hits[self.place]
        text = cosines.pop(self.place)
        usual = float(np.mean(cosines)) if cosines else 0.0
        missing = words.names - words.bags[self.place][0]
        if self._on_the_way(text, usual) < _LEAST_NEAR:
            return False
        if missing and not lexical.has_all_words(hit.with_source, missing):
            return False
        language, lines = words.phrasing.language, questions_in(hit.metadata)
        if negates(words.phrasing.text, language) and not negates(hit.text, language):
            return False
        if self._replaces(hit.seen_beside):
            return False
        terms = _terms("\n".join(lines), language)
        return len(terms & _terms(hit.with_source, language)) >= _LEAST_SHARED * max(len(terms), 1)

    def _replaces(self, lines: Sequence[str]) -> bool:
        """Return whether a question is the nearest one, but for a word that stands nowhere here.

        "Where do I throw batteries away?" is not what is asked of weeds.
        """
        words, likeness = self.words, self.likenesses[self.place]
        there = words.tables[self.place].keys() | words.tables_beside[self.place].keys()
        if likeness is None or len(words.content.keys() - there) != 1:
            return False
        nearest = lines[int(likeness.questions.argmax())]
        shared = [word for word in words.content if lexical.has_all_words(nearest, [word])]
        return 1 < len(shared) == len(words.content) - 1

    @staticmethod
    def _on_the_way(cosine: float, usual: float) -> float:
        return (cosine - usual) / (1 - usual + 1e-6)


def negates(text: str, language: str) -> bool:
    """Return whether a text denies or excludes something.

    Examples
    --------
    >>> [negates(text, "en") for text in ("Is it paid without a card?", "I can't pay.", "Pay?")]
    [True, True, False]
    """
    excludes = matcher("except", language, "replies")
    return _CONTRACTED.search(text) is not None or excludes.search(text) is not None


def _terms(text: str, language: str) -> set[int]:
    words = telling_words(lexical.written_words(text), function_words(language))
    return {*lexical.keys_of(" ".join(words)).tolist()}
