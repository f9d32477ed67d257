"""What sums over a corpus are taken from: the largest similarities in full, a sample of the others.

The sum of a softmax over a corpus is in its largest terms and in a crowd of small ones, of which a
sample tells. Up to `EXACT_UP_TO` passages everything is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray

# Passes over a matrix of similarities (n, N) at the speed of its memory.
#
# Each reads the matrix a cache-sized tile at a time: at a million passages the temporaries of a
# plain expression cost more than the arithmetic. Python threads were measured to make it slower,
# as tiles take less time than handing over the interpreter.


_TILE = 2**16  # numbers at a time: a few such buffers fit a core's cache
_SAMPLE = 2**12  # row length from which `largest` looks at a sample first


def tiles(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles of a matrix.

    Examples
    --------
    >>> [(r.start, c.start) for r, c in tiles(2, 100_000)]
    [(0, 0), (0, 65536), (1, 0), (1, 65536)]
    """
    height = max(1, _TILE // max(1, columns))
    for row in range(0, rows, height):
        for column in range(0, columns, _TILE):
            yield slice(row, row + height), slice(column, column + _TILE)


def weighted_sum(
    matrices: list[FloatArray], weights: FloatArray, out: FloatArray | None = None
) -> FloatArray:
    """``sum_k weights_nk matrices_k``, shape (n, N).

    `matrices`: list of K arrays, shape (n, N). `weights`: array, shape (n, K). `out`, array, shape
    (n, N): where to write it; the first matrix may be it, which spares fresh memory.
    """
    out = np.empty_like(matrices[0]) if out is None else out
    for rows, columns in tiles(*out.shape):
        total = out[rows, columns]
        np.multiply(matrices[0][rows, columns], weights[rows, 0, None], out=total)
        for matrix, weight in zip(matrices[1:], weights.T[1:], strict=True):
            total += matrix[rows, columns] * weight[rows, None]
    return out


def largest(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Positions of the `count` largest of many values, the smallest of them first.

    `values`: array, shape (N,). `count`: at most N.

    Examples
    --------
    >>> largest(np.float32([3, 1, 4, 1, 5]), 2).tolist()
    [2, 4]
    """
    size = len(values)
    if size >= _SAMPLE and count * 64 <= size:
        # A sample tells a floor that a few hundred values are above.
        sample = values[::64]
        rank = len(sample) - max(8, count // 8)
        floor = np.partition(sample, rank)[rank]
        rows = np.flatnonzero(values >= floor)
        if count <= len(rows) <= size // 4:
            return rows[_partitioned(values[rows], count)]
        # Many may be alike, as most passages hold none of a query's words.
        above = np.flatnonzero(values > floor)
        if len(above) <= size // 4 and count <= len(rows):
            alike = np.flatnonzero(values == floor)[: max(0, count - len(above))]
            best = _partitioned(values[above], min(count, len(above)))
            return np.concatenate([alike, above[best]])
    return _partitioned(values, count)


def _partitioned(values: FloatArray, count: int) -> NDArray[np.intp]:
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    return np.argpartition(values, len(values) - count)[len(values) - count :]


NEAREST = 30
"""How many of the highest logits `near_normaliser` is of."""

EXACT_UP_TO = 2**15
"""Passages up to which the sums are exact."""

# Coefficients and confidences are then off by 0.003 to 0.006 (rms, benchmarks/digest.py).
_HEAD = 128  # largest values of a row, kept in full
_LEAST = 2**13  # others that stand for all others, at least, and
_SHARE = 8  # of how many others each of them stands for one


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: FloatArray = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights


@dataclass(frozen=True, eq=False)
class SoftmaxSums:
    """Of the softmax over the logits l of each row; shape (n,) each.

    Attributes
    ----------
    top : array
        Highest l.
    log_normaliser : array
        log sum exp(l).
    soft_normaliser : array
        log sum exp(l / 2).
    near_normaliser : array
        The same of the `NEAREST` highest l alone.
    mean_logit : array
        Mean of l under the softmax.
    """

    top: FloatArray
    log_normaliser: FloatArray
    soft_normaliser: FloatArray
    near_normaliser: FloatArray
    mean_logit: FloatArray

    def replacing(self, old: FloatArray, new: FloatArray) -> SoftmaxSums:
        """The sums where some of the logits are others, and none of these is lower.

        `old`, `new`: array, shape (n, m).

        Examples
        --------
        >>> logits = np.float32([[1, 0, -1, 2]])
        >>> sums = Digest.of(logits).softmax(1.0).replacing(logits[:, :2], np.float32([[3, 0]]))
        >>> again = Digest.of(np.float32([[3, 0, -1, 2]])).softmax(1.0)
        >>> bool(np.isclose(sums.mean_logit[0], again.mean_logit[0]))
        True
        """
        top = np.maximum(self.top, new.max(axis=1, initial=-np.inf)).astype(np.float64)
        gone, come = (np.exp(logits - top[:, None]) for logits in (old, new))
        mass = np.exp(self.log_normaliser - top)
        # What is left may be a little below 0: single precision, or a compressed store's rounding.
        left = np.maximum(mass - gone.sum(axis=1), 0)
        weighted = mass * self.mean_logit - (gone * old).sum(axis=1) + (come * new).sum(axis=1)
        total = left + come.sum(axis=1)
        soft = np.exp(self.soft_normaliser - top / 2) - np.sqrt(gone).sum(axis=1)
        soft = np.maximum(soft, 0) + np.sqrt(come).sum(axis=1)
        gone, come = (np.sqrt(-np.sort(-mass, axis=1)[:, :NEAREST]) for mass in (gone, come))
        near = np.exp(self.near_normaliser - top / 2) - gone.sum(axis=1)
        near = np.maximum(near, 0) + come.sum(axis=1)
        return SoftmaxSums(
            top=top.astype(np.float32),
            log_normaliser=(top + np.log(total)).astype(np.float32),
            soft_normaliser=(top / 2 + np.log(soft)).astype(np.float32),
            near_normaliser=(top / 2 + np.log(near)).astype(np.float32),
            mean_logit=(weighted / total).astype(np.float32),
        )


@dataclass(frozen=True, eq=False)
class Digest:
    """What is kept of n rows of N similarities.

    Attributes
    ----------
    head : array, shape (n, H)
        The largest values of each row, in no order; all of them where N is small.
    sample : array, shape (n, S)
        Values from all over the row.
    weight : array, shape (n, S)
        How many values of the row each of the sample stands for; 0 for those in the head.
    """

    head: FloatArray
    sample: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Digest a matrix of similarities.

        `values`, array, shape (n, N): N at least 1. Up to `EXACT_UP_TO` it is the head itself, not
        copied.

        Examples
        --------
        >>> digest = Digest.of(np.arange(100_000, dtype="f4")[None])
        >>> digest.head.shape, digest.head.max(), round(float(digest.weight.sum()))
        ((1, 128), np.float32(99999.0), 99872)
        """
        rows, size = values.shape
        if size <= EXACT_UP_TO:
            nothing = np.zeros((rows, 0), dtype=np.float32)
            return cls(values, nothing, nothing)
        best = _largest(values, _HEAD)
        columns = _columns(size)
        sample = np.take(values, columns, axis=1)
        # Those of the sample that are in the head are counted there. By place, not by value: of
        # passages that are all alike only some are in the head.
        place = np.minimum(np.searchsorted(columns, best), len(columns) - 1)
        inside = columns[place] == best
        each = (size - _HEAD) / (len(columns) - inside.sum(axis=1, keepdims=True))
        weight = np.broadcast_to(each.astype(np.float32), sample.shape).copy()
        weight[np.nonzero(inside)[0], place[inside]] = 0
        return cls(np.take_along_axis(values, best, axis=1), sample, weight)

    def softmax(self, slope: float) -> SoftmaxSums:
        """Sums of the softmax over ``slope * values`` of each row.

        `slope`: above 0.

        Examples
        --------
        >>> sums = Digest.of(np.zeros((1, 8), "f4")).softmax(20.0)
        >>> bool(np.isclose(sums.log_normaliser[0], np.log(8)))
        True
        """
        highest = self.head.max(axis=1)
        half_slope = np.float32(slope / 2)
        soft, mass, weighted = _masses(self.head, None, highest, half_slope)
        if self.sample.size:
            more = _masses(self.sample, self.weight, highest, half_slope)
            soft, mass, weighted = soft + more[0], mass + more[1], weighted + more[2]
        near = np.exp((self.leaders(NEAREST) - highest[:, None]) * half_slope).sum(axis=1)
        top = np.float32(slope) * highest
        return SoftmaxSums(
            top=top,
            log_normaliser=top + np.log(mass).astype(np.float32),
            soft_normaliser=top / 2 + np.log(soft).astype(np.float32),
            near_normaliser=top / 2 + np.log(near),
            mean_logit=top + (2 * weighted / mass).astype(np.float32),
        )

    def mean_and_deviation(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of each row, shape (n,) each."""
        size = self.head.shape[1] + self.weight.sum(axis=1)
        mean = (self.head.sum(axis=1) + np.vecdot(self.sample, self.weight)) / size
        square = np.zeros(len(mean))
        for rows, columns in tiles(*self.head.shape):
            centred = self.head[rows, columns] - mean[rows, None]
            square[rows] += np.vecdot(centred, centred)
        centred = self.sample - mean[:, None]
        centred *= centred
        square += np.vecdot(centred, self.weight)
        return mean, np.sqrt(square / size).astype(np.float32)

    def leaders(self, count: int) -> FloatArray:
        """Return the `count` largest values of each row, `_HEAD` at most, or all of fewer."""
        count = min(count, self._best.shape[1])
        return np.partition(self._best, -count, axis=1)[:, -count:]

    @cached_property
    def _best(self) -> FloatArray:
        """The `_HEAD` largest of each row, or all of fewer: found once for all who ask."""
        if self.head.shape[1] <= _HEAD:
            return self.head
        return np.take_along_axis(self.head, _largest(self.head, _HEAD), axis=1)


def _largest(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Columns of the largest values of each row, (n, count)."""
    out = np.empty((len(values), count), dtype=np.intp)
    for place, row in zip(out, values, strict=True):
        place[:] = largest(row, count)
    return out


def _masses(
    values: FloatArray, weight: FloatArray | None, highest: FloatArray, half_slope: np.float32
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sums of exp(x), exp(2x) and x exp(2x) with ``x = half_slope (values - highest)``, (n,)."""
    soft, mass, weighted = np.zeros((3, len(values)))
    for rows, columns in tiles(*values.shape):
        shifted = values[rows, columns] - highest[rows, None]
        shifted *= half_slope
        root = np.exp(shifted)
        if weight is None:
            soft[rows] += root.sum(axis=1)
            mass[rows] += np.vecdot(root, root)
            root *= root
        else:
            counts = weight[rows, columns]
            soft[rows] += np.vecdot(root, counts)
            root *= root
            root *= counts
            mass[rows] += root.sum(axis=1)
        weighted[rows] += np.vecdot(root, shifted)
    return soft, mass, weighted


@lru_cache(maxsize=8)
def _columns(size: int) -> NDArray[np.intp]:
    """Columns of a sample: one of each of many stretches, by chance, lest it falls in with them."""
    count = max(_LEAST, size // _SHARE)
    edges = np.linspace(0, size, count + 1).astype(np.intp)
    return np.random.default_rng(0).integers(edges[:-1], edges[1:])
