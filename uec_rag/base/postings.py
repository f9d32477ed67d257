"""Which passages hold a term, and how often: the terms of a corpus, turned to be searched by term.

What BM25 knows of a corpus, how many passages hold a term and how long they are on average, is
counted when a query asks, over the passages that are there at that moment: exact after every
addition and removal, with nothing to keep up to date. Rows never change; those of a new batch are a
segment of their own, and segments of like size become one, so that n batches cost n log n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.frequencies import Frequencies, rarity, shares
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.terms import Saturation, Terms

_TIER = 4  # segments of like size that become one
_QUERIES = 16  # whose terms are looked up together
_AT_ONCE = 2**22  # postings that are moved at a time


class Segment(NamedTuple):
    """Postings of consecutive rows.

    Attributes
    ----------
    keys : uint64 array, shape (v,)
        Distinct terms, ascending.
    starts : int array, shape (v + 1,)
        Where each term's postings begin.
    rows : int32 array, shape (p,)
        Ascending within a term.
    weights : array, shape (p,)
        In the narrowest type that holds them: a byte for counts.
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[Any]


class _Found(NamedTuple):
    """Postings of some terms: those of term i at ``starts[i]:starts[i + 1]``, rows ascending."""

    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    impacts: FloatArray
    rarity: NDArray[np.float64]  # of each term, shape (terms,)


class _Asked(NamedTuple):
    """What one query's terms say: how much each counts, and its postings' places in `found`."""

    shares: FloatArray
    spans: list[slice]
    found: _Found


@dataclass(frozen=True, eq=False)
class Corpus:
    """Which rows of postings are there, and what holds for all of them.

    Attributes
    ----------
    rows : int
        How many there have been.
    alive : array of bool, shape (capacity,), or None
        Which of them are still there; None: all.
    frequencies : Frequencies or None
        Of a larger corpus, where the rows are some of its passages.
    """

    rows: int
    alive: NDArray[np.bool_] | None = None
    frequencies: Frequencies | None = None


@dataclass(frozen=True, eq=False)
class Postings:
    """Terms of N passages.

    Attributes
    ----------
    saturation : Saturation or None
    scale : float
        Of every passage, see `Terms.scale`.
    lengths : array, shape (capacity,)
    segments : tuple of Segment

    Examples
    --------
    >>> held = Terms.of([[2, 4, 8], [2, 6, 6]], Saturation(k1=2.0))
    >>> postings = Postings.of(held)
    >>> postings.similarities(Terms.of([[6]], Saturation(k1=2.0)), Corpus(2))
    array([[0. , 0.5]], dtype=float32)
    """

    saturation: Saturation | None
    scale: float = 1.0
    lengths: FloatArray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    segments: tuple[Segment, ...] = ()

    @classmethod
    def none(cls) -> Postings:
        """Of no passages."""
        return cls(None)

    @classmethod
    def of(cls, terms: Terms) -> Postings:
        """The postings of one batch."""
        return cls.none().written(0, terms)

    def written(self, start: int, terms: Terms) -> Postings:
        """Put new rows behind the first `start`.

        Raises
        ------
        ValueError
            If they are weighed otherwise than those that are there.
        """
        if start:
            self.check_fits(terms)
        scale = float(terms.scale[0]) if len(terms) else self.scale
        stop = start + len(terms)
        lengths = self.lengths if start else self.lengths[:0]
        if stop > len(lengths):
            grown = np.empty(max(stop, 2 * start), dtype=np.float32)
            grown[:start] = lengths[:start]
            lengths = grown
        lengths[start:stop] = terms.lengths
        segments = [*(self.segments if start else ()), _segment(start, terms)]
        while len(segments) >= _TIER and _level(segments[-_TIER]) <= _level(segments[-1]):
            segments[-_TIER:] = [_merged(segments[-_TIER:])]
        return Postings(terms.saturation, scale, lengths, tuple(segments))

    def check_fits(self, terms: Terms) -> None:
        """Raise ValueError unless new terms are weighed as those that are there."""
        scales = {float(scale) for scale in np.unique(terms.scale)} or {self.scale}
        if terms.saturation != self.saturation or scales != {self.scale}:
            raise ValueError(
                f"terms: expected {self.saturation} and scale {self.scale}, as stored, got "
                f"{terms.saturation} and {sorted(scales)}; they come from another fit. Build the "
                "index again."
            )

    def chosen(self, rows: NDArray[np.int64]) -> Postings:
        """The postings of some rows, ascending, numbered anew."""
        place = np.full(len(self.lengths), -1, dtype=np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        segments = [_renumbered(segment, place) for segment in self.segments]
        return replace(
            self, lengths=self.lengths[rows], segments=(_merged(segments),) if segments else ()
        )

    def similarities(self, queries: Terms, corpus: Corpus) -> FloatArray:
        """Similarity of n queries and every row, ``scale * scale' * s``, shape (n, rows).

        Under a `Saturation` s is BM25's score over the most that a passage could get from the
        query's terms, those that no passage holds among them: from 0 to 1.

        Parameters
        ----------
        queries : Terms
        corpus : Corpus
        """
        from scipy.sparse import csc_array

        out = np.zeros((len(queries), corpus.rows), dtype=np.float32)
        for row, asked in zip(out, self._asked(queries, corpus), strict=True):
            ends = np.cumsum([0, *(span.stop - span.start for span in asked.spans)])
            if not ends[-1]:
                continue
            matrix = csc_array(
                (
                    np.concatenate([asked.found.impacts[span] for span in asked.spans]),
                    np.concatenate([asked.found.rows[span] for span in asked.spans]),
                    ends,
                ),
                shape=(corpus.rows, len(asked.spans)),
            )
            row[:] = matrix @ asked.shares
        return out

    def contributions(
        self, queries: Terms, rows: NDArray[np.int64], corpus: Corpus
    ) -> list[FloatArray]:
        """What each of a query's terms adds to its similarity with some rows.

        Parameters
        ----------
        queries : Terms
        rows : int array, shape (n, k)
            Of each query.
        corpus : Corpus

        Returns
        -------
        list of n arrays, shape (k, terms of the query)
            In the order of the query's `keys`; their sums are `similarities`.
        """
        out = []
        for wanted, asked in zip(rows, self._asked(queries, corpus), strict=True):
            columns = np.zeros((len(asked.spans), len(wanted)), dtype=np.float32)
            for column, span, share in zip(columns, asked.spans, asked.shares, strict=True):
                held = asked.found.rows[span]
                if not len(held):
                    continue
                place = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
                hit = held[place] == wanted
                column[hit] = share * asked.found.impacts[span][place[hit]]
            out.append(columns.T)
        return out

    def _asked(self, queries: Terms, corpus: Corpus) -> Iterator[_Asked]:
        """Each query's terms, looked up for several queries at a time."""
        count, total = self._size(corpus)
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            keys, places = np.unique(block.keys, return_inverse=True)
            found = self._look_up(keys, corpus, count, total / max(1, count))
            for i in range(len(block)):
                mine = slice(block.starts[i], block.starts[i + 1])
                place = places[mine]
                rare = None if self.saturation is None else found.rarity[place]
                counted = shares(block.weights[mine], rare, float(block.scale[i]) * self.scale)
                spans = [slice(found.starts[p], found.starts[p + 1]) for p in place.tolist()]
                yield _Asked(counted.astype(np.float32), spans, found)

    def _size(self, corpus: Corpus) -> tuple[int, float]:
        """How many passages there are, and the sum of their lengths."""
        if corpus.frequencies is not None:
            return corpus.frequencies.passages, corpus.frequencies.length
        lengths = self.lengths[: corpus.rows]
        if corpus.alive is not None:
            lengths = lengths[corpus.alive[: corpus.rows]]
        return len(lengths), float(lengths.sum(dtype=np.float64))

    def _look_up(
        self, keys: NDArray[np.uint64], corpus: Corpus, count: int, mean_length: float
    ) -> _Found:
        """The postings of some terms, distinct and ascending, and how rare each is."""
        rows: list[list[NDArray[np.int32]]] = [[] for _ in keys]
        weights: list[list[NDArray[Any]]] = [[] for _ in keys]
        for segment in self.segments:
            if not len(segment.keys):
                continue
            place = np.minimum(np.searchsorted(segment.keys, keys), len(segment.keys) - 1)
            for i in np.flatnonzero(segment.keys[place] == keys).tolist():
                span = slice(segment.starts[place[i]], segment.starts[place[i] + 1])
                rows[i].append(segment.rows[span])
                weights[i].append(segment.weights[span])
        held = np.array([sum(map(len, of_one)) for of_one in rows], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(held)])
        none = [np.zeros(0, dtype=np.int32)]
        all_rows = np.concatenate([*none, *(part for of_one in rows for part in of_one)])
        impacts = np.concatenate(
            [*none, *(part for of_one in weights for part in of_one)], dtype=np.float32
        )
        if self.saturation is None:
            return _Found(starts, all_rows, impacts, np.ones(len(keys)))
        k1, b = self.saturation.k1, self.saturation.b
        norm = self.lengths[all_rows]
        norm *= np.float32(k1 * b / max(mean_length, 1e-30))
        norm += np.float32(k1 * (1 - b))
        norm += impacts
        impacts /= norm
        if corpus.frequencies is not None:
            held = corpus.frequencies.held(keys)
        elif corpus.alive is not None:
            there = np.concatenate([[0], np.cumsum(corpus.alive[all_rows])])
            held = there[starts[1:]] - there[starts[:-1]]
        return _Found(starts, all_rows, impacts, rarity(held, count))

    def save(self, folder: Path, name: str, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Write the postings of some rows into a folder, as files of a name.

        Returns
        -------
        dict
            What `load` needs beside the files.
        """
        kept = self.chosen(rows)
        segment = kept.segments[0] if kept.segments else _segment(0, Terms.of([], None))
        for part, array in segment._asdict().items():
            np.save(folder / f"{name}.{part}.npy", array, allow_pickle=False)
        np.save(folder / f"{name}.lengths.npy", kept.lengths, allow_pickle=False)
        saturation = self.saturation
        return {
            "name": name,
            "scale": self.scale,
            "saturation": None if saturation is None else [saturation.k1, saturation.b],
        }

    @classmethod
    def load(cls, folder: Path, state: Mapping[str, Any]) -> Postings:
        """Open what `save` wrote; its files are mapped, not read."""
        name, saturation = state["name"], state["saturation"]
        arrays = [
            np.load(folder / f"{name}.{part}.npy", mmap_mode="r", allow_pickle=False)
            for part in Segment._fields
        ]
        lengths = np.load(folder / f"{name}.lengths.npy", mmap_mode="r", allow_pickle=False)
        return cls(
            None if saturation is None else Saturation(*saturation),
            state["scale"],
            lengths,
            (Segment(*arrays),),
        )


def _segment(start: int, terms: Terms) -> Segment:
    """The postings of a batch whose first row is `start`."""
    # Stable: rows stay ascending within a term.
    order = np.argsort(terms.keys, kind="stable")
    return _of_sorted(
        terms.keys[order], (terms.rows[order] + start).astype(np.int32), terms.weights[order]
    )


def _of_sorted(keys: NDArray[np.uint64], rows: NDArray[np.int32], weights: NDArray[Any]) -> Segment:
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)])
    return Segment(
        keys[first],
        np.concatenate([first, [len(keys)]]).astype(np.int64),
        rows,
        _narrow(weights),
    )


def _narrow(weights: NDArray[Any]) -> NDArray[Any]:
    """Counts in as few bytes as hold them; other numbers as they are."""
    if weights.dtype.kind == "f" and (weights == np.floor(weights)).all():
        return weights.astype(np.min_scalar_type(int(weights.max(initial=0))))
    return weights


def _level(segment: Segment) -> int:
    """Segments of one level differ in size by less than a factor of `_TIER`."""
    return int(np.log(max(1, len(segment.rows))) / np.log(_TIER))


def _merged(segments: Sequence[Segment]) -> Segment:
    """One segment of several, whose rows follow one another."""
    if len(segments) == 1:
        return segments[0]
    keys = np.unique(np.concatenate([segment.keys for segment in segments]))
    places = [np.searchsorted(keys, segment.keys) for segment in segments]
    sizes = np.zeros(len(keys), dtype=np.int64)
    for segment, place in zip(segments, places, strict=True):
        sizes[place] += np.diff(segment.starts)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.empty(starts[-1], dtype=np.int32)
    weights = np.empty(starts[-1], dtype=np.result_type(*(s.weights for s in segments)))
    free = starts[:-1].copy()
    for segment, place in zip(segments, places, strict=True):
        moved = free[place] - segment.starts[:-1]
        free[place] += np.diff(segment.starts)
        for some in _runs_of_terms(segment):
            span = slice(segment.starts[some.start], segment.starts[some.stop])
            here = np.diff(segment.starts[some.start : some.stop + 1])
            to = np.repeat(moved[some], here) + np.arange(span.start, span.stop)
            rows[to], weights[to] = segment.rows[span], segment.weights[span]
    return Segment(keys, starts, rows, weights)


def _runs_of_terms(segment: Segment) -> Iterator[slice]:
    """Slices of the terms with about `_AT_ONCE` postings each, to bound the memory."""
    count = len(segment.keys)
    cuts = np.searchsorted(segment.starts, np.arange(0, len(segment.rows), _AT_ONCE))
    edges = np.unique(np.concatenate([[0], cuts, [count]]))
    return (slice(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _renumbered(segment: Segment, place: NDArray[np.int32]) -> Segment:
    """The postings whose rows have a place, under that number."""
    if not len(segment.rows):
        return segment
    rows = place[segment.rows]
    keep = rows >= 0
    sizes = np.add.reduceat(keep, segment.starts[:-1], dtype=np.int64)
    some = sizes > 0
    starts = np.concatenate([[0], np.cumsum(sizes[some])])
    return Segment(segment.keys[some], starts, rows[keep], segment.weights[keep])
