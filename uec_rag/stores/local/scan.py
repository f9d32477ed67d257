"""The similarities of queries to the passages of a view, of many at first within an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.properties import cached_property
from uec_rag.base.runtime import MOST, ZERO, multiply_bytes
from uec_rag.base.similarity import largest

MANY = 2**15
"""The number of passages from which their vectors are scanned as bytes."""

LEADING = 128
"""The number of each block's highest similarities that are exact from the start, see `leading`."""

_AT_ONCE = 4096  # rows that are compressed at a time
_LARGEST = 127  # of a row's numbers
_ROUNDING = 2.0**-23  # of each product and sum in float32, of both ways to compute a similarity


@dataclass(frozen=True, eq=False)
class Scan:
    """A block of stored means in bytes, to which `similarities` are computed within an error.

    Attributes
    ----------
    rows : uint8 array, shape (m, d)
    scales : array, shape (m,)
        A row is about ``scale (rows - 128)``.
    error, length : float
        The largest norm of the difference between a row and that, and of that.
    """

    rows: NDArray[np.uint8]
    scales: FloatArray
    error: float
    length: float

    @classmethod
    def from_means(cls, means: FloatArray) -> Scan:
        """Compress a block of means, which must be finite."""
        rows, scales = np.empty(means.shape, np.uint8), np.empty(len(means), np.float32)
        most = np.zeros(2)
        for start in range(0, len(means), _AT_ONCE):
            at = slice(start, start + _AT_ONCE)
            some, scale = _rounded(means[at], _LARGEST)
            rows[at], scales[at] = some + np.float32(ZERO), scale[:, 0]
            # In units of the scale, in which no square overflows.
            norms = [np.linalg.norm(each, axis=1) for each in (some - means[at] / scale, some)]
            most = np.maximum(most, (np.array(norms, np.float64) * scale[:, 0]).max(axis=1))
        return cls(rows, scales, *(most * (1 + 1e-5)).tolist())

    def similarities(self, queries: FloatArray) -> tuple[FloatArray, NDArray[np.float64]]:
        r"""Multiply n queries with the rows, within an error; shapes (n, m) and (n,).

        A query is ``q = q' + r``, where q' is the sum of two vectors of integers, each with its
        scale: one would double the error. A row is ``c = c' + e``. By Cauchy-Schwarz,
        ``|q.c - q'.c'| = |q.e + r.c'| <= |q| |e| + |r| |c'|``, to which rounding adds little.
        """
        coarse, first = _rounded(queries, MOST)
        rest = queries - coarse * first
        fine, second = _rounded(rest, MOST)
        whole = np.concatenate([coarse, fine]).astype(np.int8)
        found = multiply_bytes(self.rows, np.ascontiguousarray(whole.T)).T.astype(np.float32)
        product = found[: len(queries)] * first
        product += found[len(queries) :] * second
        product *= self.scales
        length, left = (
            np.linalg.norm(some.astype(np.float64), axis=1)
            for some in (queries, rest - fine * second)
        )
        rounding = _ROUNDING * (self.rows.shape[1] + 8) * length * (self.length + self.error)
        return product, length * self.error + left * self.length + rounding


def _rounded(values: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Round rows to multiples of a scale, `most` at most; return these and scales (n, 1)."""
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0) / np.float32(most)
    scale[scale == 0] = 1
    rounded: FloatArray = np.rint(values / scale)
    return np.clip(rounded, -most, most, out=rounded), scale


@dataclass(frozen=True, eq=False)
class Compared:
    """The similarities of n queries to every column of a view.

    Attributes
    ----------
    similarities : list of K arrays, shape (n, N)
        Of each block. Exact are the `LEADING` highest of a query, and those that were refined.
    errors : array, shape (n, K)
        The largest error of the others; 0 if all are exact.
    compute : callable
        Computes similarities exactly, given a block, a query and columns.
    """

    similarities: list[FloatArray]
    errors: NDArray[np.float64]
    compute: Callable[[int, int, NDArray[np.int64]], FloatArray]

    def __post_init__(self) -> None:
        """Make the highest similarities exact.

        Let t be the lowest of the highest as computed, and E the error: so many are at least t - E.
        One that was computed below t - 2 E is less than t - E, and is not among them.
        """
        for row, block in zip(*map(np.ndarray.tolist, np.nonzero(self.errors)), strict=True):
            values = self.similarities[block][row]
            least = values[largest(values, min(LEADING, len(values)))[0]]
            near = np.flatnonzero(values >= least - 2 * self.errors[row, block])
            values[near] = self.compute(block, row, near)

    @cached_property
    def leading(self) -> list[FloatArray]:
        """The highest similarities of each block, the highest first, shape (n, `LEADING`)."""
        return [
            np.array([-np.sort(-row[largest(row, min(LEADING, len(row)))]) for row in of_block])
            for of_block in self.similarities
        ]

    def refine(self, row: int, columns: NDArray[np.int64]) -> None:
        """Make the similarities of a query to some columns exact."""
        for block in np.flatnonzero(self.errors[row]).tolist():
            self.similarities[block][row, columns] = self.compute(block, row, columns)
