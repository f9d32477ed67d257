"""An inverted index: the passages that contain a term, and how often.

The corpus statistics of BM25, document frequencies and the mean length, are counted for each query
over the current passages: they are exact after every addition and removal, and need no updates.
Rows are immutable. Each new batch is a segment, and segments of similar size are merged, so that n
batches cost O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_ascending, are_finite, are_in_range
from uec_rag.base.gaussian import FloatArray, Saturation, Terms
from uec_rag.base.saved.files import read_array

_Number = TypeVar("_Number", bound=np.generic)


def with_room(buffer: NDArray[_Number], used: int, needed: int) -> NDArray[_Number]:
    """Return the buffer itself if it is long enough, else a copy at least twice as long.

    `buffer`: array, shape (capacity, ...). `used`: rows that are used. `needed`: rows that it must
    have.

    Examples
    --------
    >>> with_room(np.ones(2), 2, 3)[:2].tolist()
    [1.0, 1.0]
    """
    if needed <= len(buffer):
        return buffer
    grown = np.empty((max(needed, 2 * used), *buffer.shape[1:]), dtype=buffer.dtype)
    grown[:used] = buffer[:used]
    return grown


TIER = 4
"""The number of segments of similar size that are merged into one."""

_AT_ONCE = 2**22  # postings that are moved at a time


class Segment(NamedTuple):
    """The postings of consecutive rows.

    Attributes
    ----------
    keys : uint64 array, shape (v,)
        Distinct terms, ascending.
    starts : int array, shape (v + 1,)
        Offset of each term's postings.
    rows : int32 array, shape (p,)
        Rows of postings, ascending within a term.
    weights : array, shape (p,)
        Weights of postings, in the narrowest sufficient type, such as a byte for counts.
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[Any]


def check_segment(segment: Segment, rows: int) -> None:
    """Check a saved segment before it is used.

    `rows`: number of passages. Raises ValueError if an index is out of range, a count is not
    positive and finite, or the order is wrong.
    """
    keys, starts, rows_of_terms, weights = segment
    if len(starts) != len(keys) + 1 or len(rows_of_terms) != len(weights):
        raise ValueError("terms: expected one start per key, a final one, and a weight per row.")
    if starts[0] != 0 or starts[-1] != len(rows_of_terms) or not are_ascending(starts):
        raise ValueError("terms: expected starts that ascend from 0 to the number of postings.")
    if not are_ascending(keys) or not are_ascending(rows_of_terms, starts):
        raise ValueError("terms: expected keys that ascend, and rows that ascend for each.")
    # Rows ascend, so the first and the last of each term are enough.
    if not are_in_range(rows_of_terms[starts[:-1]], rows) or not are_in_range(
        rows_of_terms[starts[1:] - 1], rows
    ):
        raise ValueError(f"terms: expected rows from 0 to {rows - 1}.")
    if not are_finite(weights, least=float(np.finfo(np.float32).tiny)):
        raise ValueError("terms: expected finite counts above 0.")


def segment_of(start: int, terms: Terms) -> Segment:
    """Make the postings of a batch whose first row is `start`."""
    order = np.argsort(terms.keys, kind="stable")  # which keeps rows ascending within a term
    keys, rows = terms.keys[order], (terms.rows[order] + start).astype(np.int32)
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
    starts = np.concatenate([first, [len(keys)]]).astype(np.int64)
    return Segment(keys[first], starts, rows, _narrow(terms.weights[order]))


def _narrow(weights: NDArray[Any]) -> NDArray[Any]:
    """Convert counts to the narrowest sufficient integer type; return other weights unchanged."""
    if weights.dtype.kind == "f" and (weights == np.floor(weights)).all():
        return weights.astype(np.min_scalar_type(int(weights.max(initial=0))))
    return weights


def level(segment: Segment) -> int:
    """Return the level of a segment; sizes of one level differ by less than a factor of `TIER`."""
    return int(np.log(max(1, len(segment.rows))) / np.log(TIER))


def merge(segments: Sequence[Segment]) -> Segment:
    """Merge segments of consecutive rows into one."""
    if len(segments) == 1:
        return segments[0]
    keys = np.unique(np.concatenate([segment.keys for segment in segments]))
    places = [np.searchsorted(keys, segment.keys) for segment in segments]
    sizes = np.zeros(len(keys), dtype=np.int64)
    for segment, positions in zip(segments, places, strict=True):
        sizes[positions] += np.diff(segment.starts)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.empty(starts[-1], dtype=np.int32)
    weights = np.empty(starts[-1], dtype=np.result_type(*(s.weights for s in segments)))
    free = starts[:-1].copy()
    for segment, positions in zip(segments, places, strict=True):
        moved = free[positions] - segment.starts[:-1]
        free[positions] += np.diff(segment.starts)
        for terms in _slices_of_terms(segment):
            span = slice(segment.starts[terms.start], segment.starts[terms.stop])
            here = np.diff(segment.starts[terms.start : terms.stop + 1])
            to = np.repeat(moved[terms], here) + np.arange(span.start, span.stop)
            rows[to], weights[to] = segment.rows[span], segment.weights[span]
    return Segment(keys, starts, rows, weights)


def _slices_of_terms(segment: Segment) -> Iterator[slice]:
    """Split the terms into slices of about `_AT_ONCE` postings each, to bound the memory."""
    count = len(segment.keys)
    cuts = np.searchsorted(segment.starts, np.arange(0, len(segment.rows), _AT_ONCE))
    edges = np.unique(np.concatenate([[0], cuts, [count]]))
    return (slice(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def renumber(segment: Segment, positions: NDArray[np.int32]) -> Segment:
    """Renumber the postings of rows by `place`, and drop those of rows at which it is negative."""
    if not len(segment.rows):
        return segment
    rows = positions[segment.rows]
    keep = rows >= 0
    sizes = np.add.reduceat(keep, segment.starts[:-1], dtype=np.int64)
    left = sizes > 0
    starts = np.concatenate([[0], np.cumsum(sizes[left])])
    return Segment(segment.keys[left], starts, rows[keep], segment.weights[keep])


@dataclass(frozen=True, eq=False)
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

    Examples
    --------
    >>> Frequencies(10, 80.0, {7: 10}).idf(np.array([7, 8], dtype=np.uint64)).round(2).tolist()
    [0.05, 3.09]
    """

    passages: int
    length: float
    document_frequency: Mapping[int, int]

    @property
    def mean_length(self) -> float:
        """The mean length of a passage."""
        return self.length / max(1, self.passages)

    def counts_of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of passages that contain each term."""
        return np.array(
            [self.document_frequency.get(key, 0) for key in keys.tolist()], dtype=np.int64
        )

    def idf(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the inverse document frequency of each term."""
        return idf(self.counts_of(keys), self.passages)


def idf(counts: NDArray[np.int64], passages: int) -> NDArray[np.float64]:
    """Compute the inverse document frequency of terms, which is positive.

    ``log(1 + (N - n + 1/2) / (n + 1/2))``, as in Robertson and Zaragoza (2009) except for the 1.
    """
    counted: NDArray[np.float64] = np.log1p((passages - counts + 0.5) / (counts + 0.5))
    return counted


def shares(weights: FloatArray, idf: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return the weight of each of a query's terms; they add up to `scale`.

    `weights`, `idf`: arrays, shape (t,), of one query's terms.
    """
    counted: NDArray[np.float64] = weights * idf
    return counted * (scale / max(float(counted.sum()), 1e-30))


_QUERIES = 16  # queries whose terms are looked up together
_TYPES = ("u8",), ("i8",), ("i4",), ("u1", "u2", "u4", "u8", "f4")  # dtypes of a segment's arrays
_STRETCH = 2**16  # rows that are summed up at a time


class _Piece(NamedTuple):
    """The postings of a term in one segment, at least one."""

    term: int
    rows: NDArray[np.int32]
    weights: NDArray[Any]


class _QueryTerms(NamedTuple):
    """The terms of several queries, of which the distinct ones are numbered in ascending order.

    Attributes
    ----------
    distinct : int
        Number of distinct terms.
    term : int array, shape (t,)
        Number of each term of the concatenated queries.
    shares : array, shape (t,)
        Weight of each.
    idf : array, shape (t,)
        Inverse document frequency of each.
    """

    pieces: list[_Piece]
    distinct: int
    term: NDArray[np.int64]
    shares: FloatArray
    idf: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Corpus:
    """The rows of postings that have not been removed, and the statistics of the corpus.

    Attributes
    ----------
    rows : int
        Number of rows, including removed ones.
    alive : array of bool, shape (capacity,), or None
        Mask of the rows that have not been removed; None if none has.
    frequencies : Frequencies or None
        Statistics of a larger corpus, if the rows are some of its passages.
    """

    rows: int
    alive: NDArray[np.bool_] | None = None
    frequencies: Frequencies | None = None


@dataclass(frozen=True, eq=False)
class Postings:
    """The terms of N passages.

    Attributes
    ----------
    scale : float
        `Terms.scale` of every passage.
    lengths : array, shape (capacity,)
        Length of each passage.

    Examples
    --------
    >>> held = Terms.from_keys([[2, 4, 8], [2, 6, 6]], Saturation(k1=2.0))
    >>> postings = Postings.from_terms(held)
    >>> postings.similarities(Terms.from_keys([[6]], Saturation(k1=2.0)), Corpus(2))
    array([[0. , 0.5]], dtype=float32)
    """

    saturation: Saturation
    scale: float = 1.0
    lengths: FloatArray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    segments: tuple[Segment, ...] = ()

    @classmethod
    def none(cls) -> Postings:
        """Return the postings of no passages."""
        return cls(Saturation())

    @classmethod
    def from_terms(cls, terms: Terms) -> Postings:
        """Make the postings of one batch."""
        return cls.none().with_rows(0, terms)

    def with_rows(self, start: int, terms: Terms) -> Postings:
        """Return the first `start` rows with new ones appended.

        Raises ValueError if the saturation or the scale differs from that of the existing rows.
        """
        if start:
            self.check_fits(terms)
        scale = float(terms.scale[0]) if len(terms) else self.scale
        stop = start + len(terms)
        lengths = with_room(self.lengths if start else self.lengths[:0], start, stop)
        lengths[start:stop] = terms.lengths
        segments = [*(self.segments if start else ()), segment_of(start, terms)]
        while len(segments) >= TIER and level(segments[-TIER]) <= level(segments[-1]):
            segments[-TIER:] = [merge(segments[-TIER:])]
        return Postings(terms.saturation, scale, lengths, tuple(segments))

    def check_fits(self, terms: Terms) -> None:
        """Raise ValueError unless new terms have the same saturation and scale."""
        scales = {float(scale) for scale in np.unique(terms.scale)} or {self.scale}
        if terms.saturation != self.saturation or scales != {self.scale}:
            raise ValueError(
                f"terms: expected {self.saturation} and scale {self.scale}, as stored, got "
                f"{terms.saturation} and {sorted(scales)}; they come from another fit. Build the "
                "index again."
            )

    def select(self, rows: NDArray[np.int64]) -> Postings:
        """Return the postings of given rows, in ascending order, renumbered from 0."""
        positions = np.full(len(self.lengths), -1, dtype=np.int32)
        positions[rows] = np.arange(len(rows), dtype=np.int32)
        segments = [renumber(segment, positions) for segment in self.segments]
        return replace(
            self, lengths=self.lengths[rows], segments=(merge(segments),) if segments else ()
        )

    def similarities(self, queries: Terms, corpus: Corpus) -> FloatArray:
        """Compute the similarity of n queries and every row, ``scale scale' s``, shape (n, rows).

        With a `Saturation`, s is the BM25 score divided by the highest score that a passage could
        have for the query, including terms that no passage contains: from 0 to 1.
        """
        out = np.zeros((len(queries), corpus.rows), dtype=np.float32)
        passages, length = self._size(corpus)
        norms = self._norms(self.lengths[: corpus.rows], length)
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            asked = self._look_up(block, corpus, passages)
            for i, row in enumerate(out[start : start + _QUERIES]):
                mine = slice(block.starts[i], block.starts[i + 1])
                share = dict(zip(asked.term[mine].tolist(), asked.shares[mine], strict=True))
                pieces = [piece for piece in asked.pieces if piece.term in share]
                _sum_up(pieces, [share[piece.term] for piece in pieces], norms, row)
        return out

    def contributions(
        self, queries: Terms, rows: NDArray[np.int64], corpus: Corpus
    ) -> tuple[list[FloatArray], list[NDArray[np.float64]]]:
        """Compute the contribution of each term of n queries to similarities with given rows.

        Parameters
        ----------
        rows : int array, shape (n, k)
            Rows for each query.

        Returns
        -------
        added : list of n arrays, shape (k, terms of the query)
            In the order of the query's `keys`; their sums are `similarities`.
        idf : list of n arrays, shape (terms of the query,)
            Inverse document frequency of each term.
        """
        out, rare = list[FloatArray](), list[NDArray[np.float64]]()
        passages, length = self._size(corpus)
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            asked = self._look_up(block, corpus, passages)
            wanted, positions = np.unique(rows[start : start + _QUERIES], return_inverse=True)
            impacts = np.zeros((asked.distinct, len(wanted)), dtype=np.float32)
            small = wanted.astype(np.int32)  # so that `searchsorted` does not convert all rows
            for piece in asked.pieces:
                at = np.minimum(np.searchsorted(piece.rows, small), len(piece.rows) - 1)
                hit = piece.rows[at] == small
                impacts[piece.term, hit] = piece.weights[at[hit]]
            norms = self._norms(self.lengths[wanted], length)
            np.divide(impacts, impacts + norms, out=impacts, where=impacts > 0)
            for i, indices in enumerate(positions.reshape(len(block), -1)):
                mine = slice(block.starts[i], block.starts[i + 1])
                columns = impacts[np.ix_(asked.term[mine], indices)]
                out.append((columns * asked.shares[mine, None]).T)
                rare.append(asked.idf[mine])
        return out, rare

    def document_frequency(self, keys: NDArray[np.uint64], corpus: Corpus) -> NDArray[np.int64]:
        """Return the number of passages that contain each term."""
        distinct, positions = np.unique(keys, return_inverse=True)
        return self._find(distinct, corpus)[1][positions]

    def _look_up(self, queries: Terms, corpus: Corpus, passages: int) -> _QueryTerms:
        """Look up the terms of a few queries in a corpus; `passages`: its number of passages."""
        keys, term = np.unique(queries.keys, return_inverse=True)
        pieces, counts = self._find(keys, corpus)
        rare, counted = idf(counts, passages)[term], [np.zeros(0)]
        for i, scale in enumerate(queries.scale.tolist()):
            mine = slice(queries.starts[i], queries.starts[i + 1])
            counted.append(shares(queries.weights[mine], rare[mine], scale * self.scale))
        return _QueryTerms(pieces, len(keys), term, np.concatenate(counted, dtype="f4"), rare)

    def _find(
        self, keys: NDArray[np.uint64], corpus: Corpus
    ) -> tuple[list[_Piece], NDArray[np.int64]]:
        """Find the postings of distinct terms, and the number of passages that contain each."""
        pieces, counts, alive = list[_Piece](), np.zeros(len(keys), dtype=np.int64), corpus.alive
        for segment in self.segments:
            if not len(segment.keys):
                continue
            positions = np.minimum(np.searchsorted(segment.keys, keys), len(segment.keys) - 1)
            for i in np.flatnonzero(segment.keys[positions] == keys).tolist():
                span = slice(segment.starts[positions[i]], segment.starts[positions[i] + 1])
                rows = segment.rows[span]
                pieces.append(_Piece(i, rows, segment.weights[span]))
                counts[i] += len(rows) if alive is None else np.count_nonzero(alive.take(rows))
        return pieces, counts if corpus.frequencies is None else corpus.frequencies.counts_of(keys)

    def _norms(self, lengths: FloatArray, mean_length: float) -> FloatArray:
        """Return the BM25 damping of counts in passages of given lengths."""
        k1, b = self.saturation.k1, self.saturation.b
        norms: FloatArray = lengths * np.float32(k1 * b / max(mean_length, 1e-30))
        norms += np.float32(k1 * (1 - b))
        return norms

    def _size(self, corpus: Corpus) -> tuple[int, float]:
        """Return the number of passages and their mean length."""
        if corpus.frequencies is not None:
            return corpus.frequencies.passages, corpus.frequencies.mean_length
        lengths = self.lengths[: corpus.rows]
        if corpus.alive is not None:
            lengths = lengths[corpus.alive[: corpus.rows]]
        return len(lengths), float(lengths.sum(dtype=np.float64)) / max(1, len(lengths))

    def save(self, folder: Path, name: str, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Write the postings of given rows into files of a folder.

        Returns the rest of the state, for `load`.
        """
        kept = self.select(rows)
        segment = (
            kept.segments[0]
            if kept.segments
            else segment_of(0, Terms.from_keys([], self.saturation))
        )
        for part, array in segment._asdict().items():
            np.save(folder / f"{name}.{part}.npy", array, allow_pickle=False)
        np.save(folder / f"{name}.lengths.npy", kept.lengths, allow_pickle=False)
        saturation = [*astuple(self.saturation)]
        return {"name": name, "scale": self.scale, "saturation": saturation}

    @classmethod
    def load(cls, folder: Path, state: Mapping[str, Any], rows: int) -> Postings:
        """Open the postings of `rows` rows that `save` wrote; files are memory-mapped and checked.

        Raises IndexCorrupted, TypeError or ValueError if an array is invalid or inconsistent with
        the others.
        """
        name, scale = state["name"], float(state["scale"])
        saturation = Saturation(*state["saturation"])
        keys, starts, term_rows, weights, lengths = (
            read_array(folder / f"{name}.{part}.npy", dtypes, 1, mapped=True)
            for part, dtypes in (*zip(Segment._fields, _TYPES, strict=True), ("lengths", "f4"))
        )
        segment = Segment(keys, starts, term_rows, weights)
        check_segment(segment, rows)
        if len(lengths) != rows or not are_finite(lengths, least=0):
            raise ValueError(f"terms: expected lengths of {rows} passages.")
        if not np.isfinite(scale):
            raise ValueError(f"terms: expected a finite scale, got {scale}.")
        return cls(saturation, scale, lengths, (segment,))


def _sum_up(
    pieces: Sequence[_Piece],
    shares: Sequence[np.float32],
    norms: FloatArray,
    out: FloatArray,
) -> None:
    """Add up the weighted contributions of pieces in an array of zeros, shape (rows,).

    Rows are processed in stretches whose postings fit in a core's cache, which is faster than term
    by term. Each stretch is a product with a sparse matrix, whose columns are pieces.
    """
    from scipy.sparse import csc_array

    edges = np.append(np.arange(0, len(out), _STRETCH), len(out)).astype(np.int32)
    cuts = [np.searchsorted(piece.rows, edges).tolist() for piece in pieces]
    counted = np.array(shares, dtype=np.float32)
    for i, (first, last) in enumerate(pairwise(edges.tolist())):
        spans = [(p, slice(cut[i], cut[i + 1])) for p, cut in zip(pieces, cuts, strict=True)]
        ends = np.cumsum([0, *[some.stop - some.start for _, some in spans]], dtype=np.int32)
        if not ends[-1]:
            continue
        rows = np.concatenate([piece.rows[some] for piece, some in spans])
        rows -= np.int32(first)
        impacts = np.concatenate([p.weights[some] for p, some in spans], dtype=np.float32)
        damped = norms[first:last].take(rows, mode="wrap")  # "wrap" skips the bounds check
        damped += impacts
        impacts /= damped
        matrix = csc_array((impacts, rows, ends), shape=(last - first, len(spans)))
        out[first:last] = matrix @ counted
