"""Sparse blocks in an engine: what is noted of them, what of a query they are asked for.

An engine finds and orders candidates by the same sum that a store in memory has; those that come
back are scored by the very same code (`uec_rag.base.postings`) with the frequencies of the whole
corpus, so that the numbers are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from uec_rag.base.frequencies import Frequencies, shares
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import Corpus, Postings
from uec_rag.base.terms import Saturation, Terms
from uec_rag.stores.engine_points import Wanted, Words


@dataclass(frozen=True)
class WordNotes:
    """What holds for all passages of a sparse block.

    Attributes
    ----------
    saturation : Saturation or None
    scale : float
        Of every passage, see `Terms.scale`.
    usual_length : float
        Mean length of the passages that came first: what an engine saturates counts by that does
        so when it stores them. It decides on candidates only.
    """

    saturation: Saturation | None
    scale: float
    usual_length: float

    @classmethod
    def of(cls, terms: Terms) -> Self:
        """What is noted about a first batch of passages."""
        usual = float(terms.lengths.mean()) if len(terms) else 1.0
        return cls(terms.saturation, float(terms.scale[0]), max(1.0, usual))

    def saturated(self, words: Words, mean_length: float | None = None) -> FloatArray:
        """Counts of a passage as what its similarity is a sum of.

        Parameters
        ----------
        words : Words
        mean_length : float, optional
            By default the usual one.
        """
        if self.saturation is None:
            return words.counts
        weights: FloatArray = words.counts / (words.counts + self.damping(words, mean_length))
        return weights

    def damping(self, words: Words, mean_length: float | None = None) -> float:
        """What is added below a passage's counts when they are saturated."""
        assert self.saturation is not None
        k1, b = self.saturation.k1, self.saturation.b
        usual = self.usual_length if mean_length is None else mean_length
        return k1 * (1 - b + b * float(words.counts.sum()) / max(usual, 1e-30))

    def wanted(self, queries: Terms, frequencies: Frequencies) -> list[Wanted]:
        """What each of n queries asks of the block."""
        found = []
        for row in range(len(queries)):
            mine = slice(queries.starts[row], queries.starts[row + 1])
            keys = queries.keys[mine]
            rare = None if self.saturation is None else frequencies.rarity(keys)
            scale = float(queries.scale[row]) * self.scale
            share = shares(queries.weights[mine], rare, scale).astype(np.float32)
            held = frequencies.held(keys)
            order = np.argsort(held, kind="stable")
            found.append(Wanted(keys[order], share[order], held[order], frequencies.mean_length))
        return found

    def terms(self, words: Sequence[Words]) -> Terms:
        """The terms of some passages."""
        sizes = [len(of_one.keys) for of_one in words]
        return Terms(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(of_one.keys for of_one in words)]),
            np.concatenate([np.zeros(0, np.float32), *(of_one.counts for of_one in words)]),
            np.full(len(words), self.scale, dtype=np.float32),
            self.saturation,
        )

    def metadata(self) -> dict[str, Any]:
        """JSON-able state."""
        saturation = self.saturation
        return {
            "saturation": None if saturation is None else [saturation.k1, saturation.b],
            "scale": self.scale,
            "usual_length": self.usual_length,
        }

    @classmethod
    def restore(cls, given: dict[str, Any]) -> Self:
        """Rebuild from `metadata`."""
        saturation = given["saturation"]
        return cls(
            None if saturation is None else Saturation(*saturation),
            given["scale"],
            given["usual_length"],
        )


def similarities(queries: Terms, passages: Terms, frequencies: Frequencies) -> FloatArray:
    """Similarity of n queries and m passages of a corpus, shape (n, m)."""
    corpus = Corpus(len(passages), frequencies=frequencies)
    return Postings.of(passages).similarities(queries, corpus)


def contributions(query: Terms, passages: Terms, frequencies: Frequencies) -> FloatArray:
    """What each of t terms of one query adds to its similarity with m passages, shape (m, t)."""
    corpus, rows = Corpus(len(passages), frequencies=frequencies), np.arange(len(passages))[None]
    return Postings.of(passages).contributions(query, rows, corpus)[0]


def words_among(count: int, blocks: int) -> int:
    """How many of `count` candidates are chosen by the words of each of some blocks."""
    return count // (2 * blocks)
