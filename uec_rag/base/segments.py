"""Postings of a batch of passages, by term, and how those of several batches become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.terms import Terms

TIER = 4
"""Segments of like size that become one."""

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


def segment_of(start: int, terms: Terms) -> Segment:
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


def level(segment: Segment) -> int:
    """Segments of one level differ in size by less than a factor of `TIER`."""
    return int(np.log(max(1, len(segment.rows))) / np.log(TIER))


def merged(segments: Sequence[Segment]) -> Segment:
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


def renumbered(segment: Segment, place: NDArray[np.int32]) -> Segment:
    """The postings whose rows have a place, under that number."""
    if not len(segment.rows):
        return segment
    rows = place[segment.rows]
    keep = rows >= 0
    sizes = np.add.reduceat(keep, segment.starts[:-1], dtype=np.int64)
    some = sizes > 0
    starts = np.concatenate([[0], np.cumsum(sizes[some])])
    return Segment(segment.keys[some], starts, rows[keep], segment.weights[keep])
