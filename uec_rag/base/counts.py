"""Word counts of passages, as sparse matrices, and their BM25 similarity to queries.

The corpus statistics of BM25, document frequencies and the mean length, are counted for each query
over the current passages, so they are exact after every addition and removal, and need no updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_ascending, are_finite
from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.base.records import cached_property

K1, B = 1.5, 0.75
"""BM25's saturation of counts, and the strength of its normalisation by length.

A count tf becomes ``tf / (tf + K1 (1 - B + B length / mean length))``, as in Robertson and Zaragoza
(2009). The common factor K1 + 1 cancels, since scores are divided by their maximum. The values are
a compromise over nine collections, on average .006 nDCG@10 below the best value for each.
"""

MOST_ROWS = 2**16
"""The largest number of passages in one matrix, so that a row takes two bytes."""


@dataclass(frozen=True)
class Frequencies:
    """The statistics of a corpus that BM25 needs.

    Attributes
    ----------
    passages : int
        Number of passages.
    length : float
        Sum of their lengths.
    document_frequency : mapping of int to int
        Number of passages that contain each term; 0 for absent terms.

    """

    passages: int
    length: float
    document_frequency: Mapping[int, int]

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Count the terms of some passages."""
        keys, counts = np.unique(terms.keys, return_counts=True)
        frequency = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        return cls(len(terms), float(terms.lengths.sum(dtype=np.float64)), frequency)

    def counts_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of passages that contain each term."""
        return np.array(
            [self.document_frequency.get(key, 0) for key in keys.tolist()], dtype=np.int64
        )


def idf(counts: NDArray[np.int64], passages: int) -> NDArray[np.float64]:
    """Compute the inverse document frequency of terms, which is positive.

    ``log(1 + (N - n + 1/2) / (n + 1/2))``, as in Robertson and Zaragoza (2009) except for the 1.

    Examples
    --------
    >>> idf(np.array([10, 0]), passages=10).round(2).tolist()
    [0.05, 3.09]
    """
    values: NDArray[np.float64] = np.log1p((passages - counts + 0.5) / (counts + 0.5))
    return values


_Entries: TypeAlias = Sequence[tuple[int, slice]]
"""The entries of some terms in one matrix: by the number of a term, the places of its entries."""


@dataclass(frozen=True, eq=False)
class LookedUp:
    """The terms of n queries, looked up in the word counts of a corpus.

    Attributes
    ----------
    spans : list of n slice
        The places of each query's terms, of which there are t.
    weights : array, shape (t,)
        The weights of the terms; those of a query add up to its scale times the passages'.
    idf : array, shape (t,)
        Inverse document frequency of each term.
    numbers : list of t int
        The number of each term among the distinct ones.
    entries : list of dict
        For each matrix, the places of the entries of the distinct terms that it has.
    similarities : array, shape (n, rows), or None
        Those to all rows of the corpus, once computed.
    counts : array, shape (t,), or None
        The queries' own weights, by which these are known again.
    """

    spans: list[slice]
    weights: FloatArray
    idf: NDArray[np.float64]
    numbers: list[int]
    entries: list[dict[int, slice]]
    similarities: FloatArray | None = None
    counts: FloatArray | None = None

    def scale_by(self, factors: FloatArray) -> LookedUp:
        """Multiply every similarity of each query by a factor."""
        sizes = [span.stop - span.start for span in self.spans]
        before = self.similarities
        scaled = None if before is None else before * factors[:, None]
        return replace(self, weights=self.weights * np.repeat(factors, sizes), similarities=scaled)

    def entries_of(self, query: int, matrix: int) -> _Entries:
        """Return the entries that a matrix has of a query's terms, by their places among these."""
        entries, numbers = self.entries[matrix], self.numbers[self.spans[query]]
        return [(at, entries[number]) for at, number in enumerate(numbers) if number in entries]


@dataclass(frozen=True, eq=False)
class Counts:
    """The term counts of passages: a sparse matrix in CSC format.

    Attributes
    ----------
    keys : uint64 array, shape (v,)
        Distinct terms, ascending: the columns.
    starts : int64 array, shape (v + 1,)
        Offset of each term's entries.
    rows : uint16 array, shape (p,)
        Passages of the entries, ascending within a term.
    counts : array, shape (p,)
        Counts, in the narrowest sufficient type, such as a byte.
    lengths : array, shape (m,)
        The sum of each passage's counts.
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint16]
    counts: NDArray[Any]
    lengths: FloatArray

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Count the terms of at most `MOST_ROWS` texts."""
        return cls._sort(terms.keys, terms.rows, _narrow(terms.weights), terms.lengths)

    @classmethod
    def join(cls, parts: Sequence[tuple[Counts, NDArray[np.bool_]]]) -> Counts:
        """Join matrices below each other, of each only the rows that its mask keeps."""
        if len(parts) == 1:
            return parts[0][0]._select(parts[0][1])
        keys, rows, counts, start = list[NDArray[Any]](), list[NDArray[Any]](), [], 0
        for part, keep in parts:
            moved = np.cumsum(keep) - 1 + start
            mask = keep[part.rows]
            keys.append(np.repeat(part.keys, np.diff(part.starts))[mask])
            rows.append(moved[part.rows[mask]])
            counts.append(part.counts[mask])
            start += int(np.count_nonzero(keep))
        lengths = np.concatenate([part.lengths[keep] for part, keep in parts])
        return cls._sort(
            np.concatenate(keys), np.concatenate(rows), np.concatenate(counts), lengths
        )

    def _select(self, keep: NDArray[np.bool_]) -> Counts:
        """Return the rows that a mask keeps, whose entries stay in their order."""
        mask, moved = keep.take(self.rows), (np.cumsum(keep) - 1).astype(np.uint16)
        before = np.concatenate([[0], np.cumsum(mask)])[self.starts]
        has_some = np.diff(before) > 0
        starts = np.concatenate([before[:-1][has_some], before[-1:]]).astype(np.int64)
        rows, counts = moved.take(self.rows[mask]), self.counts[mask]
        return Counts(self.keys[has_some], starts, rows, counts, self.lengths[keep])

    @classmethod
    def _sort(
        cls, keys: NDArray[np.uint64], rows: NDArray[Any], counts: NDArray[Any], lengths: FloatArray
    ) -> Self:
        # Stable, which keeps rows ascending within a term; what is nearly sorted takes a third.
        order = np.argsort((keys >> np.uint64(48)).astype(np.uint16), kind="stable")
        order = order[np.argsort(keys[order], kind="stable")]
        keys = keys[order]
        heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
        starts = np.concatenate([heads, [len(keys)]]).astype(np.int64)
        return cls(keys[heads], starts, rows[order].astype(np.uint16), counts[order], lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def check(self) -> None:
        """Raise ValueError unless the arrays belong together, as those of a file may not."""
        keys, starts, rows = self.keys, self.starts, self.rows
        fits = len(starts) == len(keys) + 1 and len(rows) == len(self.counts)
        fits = fits and starts[0] == 0 and starts[-1] == len(rows)
        fits = fits and are_ascending(starts) and are_ascending(keys)
        fits = fits and are_ascending(rows, starts) and int(rows.max(initial=0)) < max(1, len(self))
        tiny = float(np.finfo(np.float32).tiny)
        fits = fits and are_finite(self.counts, floor=tiny) and are_finite(self.lengths, floor=0)
        if not fits:
            raise ValueError("words: expected a sparse matrix of finite counts above 0.")

    def entries(self, keys: NDArray[np.uint64]) -> _Entries:
        """Find the entries of distinct terms; of terms that no passage has, there are none."""
        if not len(self.keys):
            return []
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        terms = np.flatnonzero(self.keys[at] == keys)
        starts, ends = self.starts[at[terms]].tolist(), self.starts[at[terms] + 1].tolist()
        return [*zip(terms.tolist(), map(slice, starts, ends), strict=True)]

    def add_up(
        self, entries: _Entries, weights: FloatArray, norms: FloatArray, out: FloatArray
    ) -> None:
        """Add the contributions of a query's terms to each row, shape (m,).

        `weights`: those of the query's terms. `norms`: the damping of each row.
        """
        for term, span in entries:
            rows = self.rows[span].astype(np.intp)
            impacts = self.counts[span].astype(np.float32)
            impacts /= norms.take(rows, mode="wrap") + impacts  # which skips the bounds check
            impacts *= weights[term]
            out[rows] += impacts

    def impacts(self, entries: _Entries, rows: NDArray[np.uint16], out: FloatArray) -> None:
        """Write the counts of the entries' terms in ascending rows, (terms, rows)."""
        for term, span in entries:
            column = self.rows[span]
            at = column.searchsorted(rows)
            is_there = column.take(at, mode="clip") == rows
            np.multiply(self.counts[span].take(at, mode="clip"), is_there, out=out[term])


def _narrow(weights: NDArray[Any]) -> NDArray[Any]:
    """Convert counts to the narrowest sufficient integer type; return other weights unchanged."""
    if weights.dtype.kind == "f" and (weights == np.floor(weights)).all():
        return weights.astype(np.min_scalar_type(int(weights.max(initial=0))))
    return weights


@dataclass(frozen=True, eq=False)
class Words:
    """The word counts of a corpus, in one matrix or several.

    Attributes
    ----------
    scale : float
        `Terms.scale` of every passage.
    parts : sequence of Counts
    alive : sequence of array of bool, shape (m,), or None
        For each matrix, the mask of the rows that count; None if all do.
    frequencies : Frequencies or None
        Statistics of a larger corpus, if the rows are some of its passages.
    places : int64 array or None
        The rows that are searched, among those of all matrices; None if all are.
    lookup : LookedUp or None
        Queries that were looked up before, with scales of 1.

    Examples
    --------
    >>> held = Terms.from_keys([[2, 4, 8], [2, 6, 6]])
    >>> words = Words.from_terms(held)
    >>> words.similarities(words.look_up(Terms.from_keys([[6]]))).round(2)
    array([[0.  , 0.57]], dtype=float32)
    """

    scale: float
    parts: Sequence[Counts]
    alive: Sequence[NDArray[np.bool_] | None]
    frequencies: Frequencies | None = None
    places: NDArray[np.int64] | None = None
    lookup: LookedUp | None = None

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Count the terms of any number of texts."""
        cuts = range(0, len(terms), MOST_ROWS)
        parts = [Counts.from_terms(terms[start : start + MOST_ROWS]) for start in cuts]
        scale = float(terms.scale[0]) if len(terms) else 1.0
        return cls(scale, parts, [None] * len(parts))

    def look_up(self, queries: Terms) -> LookedUp:
        """Look up the terms of n queries."""
        if self.lookup is not None and self.lookup.counts is queries.weights:
            return self.lookup.scale_by(queries.scale * np.float32(self.scale))
        keys, numbers = queries.keys, np.arange(len(queries.keys))
        if len(queries) > 1:  # those of one are distinct
            keys, numbers = np.unique(keys, return_inverse=True)
        entries = [part.entries(keys) for part in self.parts]
        rare, weights = idf(self.counts_of(keys, entries), self.size)[numbers], [np.zeros(0)]
        spans = [*starmap(slice, pairwise(queries.starts.tolist()))]
        for span, scale in zip(spans, queries.scale.tolist(), strict=True):
            products = queries.weights[span] * rare[span]
            weights.append(products * (scale * self.scale / max(float(products.sum()), 1e-30)))
        of_terms = np.concatenate(weights, dtype=np.float32)
        return LookedUp(spans, of_terms, rare, numbers.tolist(), [*map(dict, entries)])

    def similarities(self, queries: LookedUp) -> FloatArray:
        """Compute the similarity of n queries and every row, ``scale scale' s``, shape (n, rows).

        s is the BM25 score divided by the highest score that a passage could
        have for the query, including terms that no passage contains: from 0 to 1.
        """
        out = queries.similarities
        if out is None:
            out = self._similarities(queries)
        return out if self.places is None else out.take(self.places, axis=1)

    def _similarities(self, queries: LookedUp) -> FloatArray:
        out = np.zeros((len(queries.spans), sum(map(len, self._norms))), dtype=np.float32)
        for query, row in enumerate(out):
            weights, start = queries.weights[queries.spans[query]], 0
            for matrix, (part, norm) in enumerate(zip(self.parts, self._norms, strict=True)):
                scores = row[start : start + len(norm)]
                part.add_up(queries.entries_of(query, matrix), weights, norm, scores)
                start += len(norm)
        return out

    def contributions(
        self, queries: LookedUp, rows: Sequence[NDArray[np.int64]]
    ) -> list[FloatArray]:
        """Compute the contribution of each term of n queries to similarities with given rows.

        Parameters
        ----------
        rows : sequence of n int arrays, shape (k,)
            Different rows for each query.

        Returns
        -------
        list of n arrays, shape (k, terms of the query)
            Their sums are `similarities`.
        """
        blocks = list[FloatArray]()
        for query, columns in enumerate(rows):
            columns = columns if self.places is None else self.places[columns]
            order = np.argsort(columns)
            places, weights = columns[order], queries.weights[queries.spans[query]]
            impacts = np.zeros((len(weights), len(places)), dtype=np.float32)
            norms, start = np.empty(len(places), dtype=np.float32), 0
            for matrix, (part, norm) in enumerate(zip(self.parts, self._norms, strict=True)):
                span = slice(*places.searchsorted([start, start + len(norm)]).tolist())
                if span.start < span.stop:
                    at = (places[span] - start).astype(np.uint16)
                    part.impacts(queries.entries_of(query, matrix), at, impacts[:, span])
                    norms[span] = norm[at]
                start += len(norm)
            np.divide(impacts, impacts + norms, out=impacts, where=impacts > 0)
            block = np.empty((len(places), len(weights)), dtype=np.float32)
            block[order] = (impacts * weights[:, None]).T
            blocks.append(block)
        return blocks

    def counts_of(
        self, keys: NDArray[np.uint64], entries: Sequence[_Entries] | None = None
    ) -> NDArray[np.int64]:
        """Return the number of passages that contain each of some terms.

        `entries`: those of the terms in each matrix, if they are known.
        """
        if (stats := self.frequencies) is not None:
            return stats.counts_of(keys)
        counts = np.zeros(len(keys), dtype=np.int64)
        entries = entries or [part.entries(keys) for part in self.parts]
        for part, alive, spans in zip(self.parts, self.alive, entries, strict=True):
            for term, span in spans:
                counts[term] += (
                    span.stop - span.start
                    if alive is None
                    else np.count_nonzero(alive.take(part.rows[span]))
                )
        return counts

    @cached_property
    def size(self) -> int:
        """The number of passages by which inverse document frequencies are computed."""
        if (stats := self.frequencies) is not None:
            return stats.passages
        return sum(
            len(part) if alive is None else int(np.count_nonzero(alive))
            for part, alive in zip(self.parts, self.alive, strict=True)
        )

    @cached_property
    def _norms(self) -> list[FloatArray]:
        """The BM25 damping of counts in each row of each matrix."""
        if (stats := self.frequencies) is None:
            pairs = zip(self.parts, self.alive, strict=True)
            lengths = (p.lengths if alive is None else p.lengths[alive] for p, alive in pairs)
            length = float(sum(block.sum(dtype=np.float64) for block in lengths))
        else:
            length = stats.length
        scale = np.float32(K1 * B / max(length / max(1, self.size), 1e-30))
        return [part.lengths * scale + np.float32(K1 * (1 - B)) for part in self.parts]
