"""The similarities of queries to the passages of a view, of many at first within an error.

Many are scanned as bytes or as floats, whichever is faster here for as many queries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.runtime import MOST, ZERO, multiply_bytes
from uec_rag.base.similarity import largest

MANY = 2**15
"""The number of passages from which their vectors may be scanned as bytes."""

LEADING = 128
"""The number of each block's highest similarities that are exact from the start, see `leading`."""

_AT_ONCE = 4096  # rows that are compressed at a time
_LARGEST = 127  # of a row's numbers
_ROUNDING = 2.0**-23  # of each product and sum in float32, of both ways to compute a similarity

Scanned = tuple[FloatArray, NDArray[np.float64]]
"""The similarities of n queries to m passages, shape (n, m), and how far off they may be, (n,)."""


@dataclass(frozen=True, eq=False)
class Scan:
    """A block of stored means, also in bytes, to which similarities are computed within an error.

    Attributes
    ----------
    means : array, shape (m, d)
    rows : uint8 array, shape (m, d)
    scales : array, shape (m,)
        A mean is about ``scale (rows - 128)``.
    error, length : float
        The largest norm of the difference between a mean and that, and of that.
    """

    means: FloatArray
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
        return cls(means, rows, scales, *(most * (1 + 1e-5)).tolist())

    def by_bytes(self, queries: FloatArray) -> Scanned:
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
        own, left = _lengths(queries) * self.error, _lengths(rest - fine * second) * self.length
        return product, own + left + self._rounding(queries)

    def by_floats(self, queries: FloatArray) -> Scanned:
        """Multiply n queries with the means, within rounding, which depends on the BLAS and n."""
        return queries @ self.means.T, self._rounding(queries)

    def _rounding(self, queries: FloatArray) -> NDArray[np.float64]:
        longest = self.length + self.error
        return _lengths(queries) * np.float64(_ROUNDING * (self.means.shape[1] + 8) * longest)


def _lengths(vectors: FloatArray) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return lengths


Way = Callable[[Scan, FloatArray], Scanned]
_WAYS: tuple[Way, ...] = (Scan.by_bytes, Scan.by_floats)
_known: dict[Hashable, _Known] = {}


@dataclass(eq=False)
class _Known:
    """The times of scans of one kind: their number, and the least seconds a product each way."""

    scans: int = 0
    least: list[float] = field(default_factory=lambda: [0.0] * len(_WAYS))  # 0 is not tried yet


@contextmanager
def faster_way(queries: int, passages: int, widths: tuple[int, ...]) -> Iterator[Way]:
    """Yield how to scan blocks of these widths for n queries, and time what is done with it.

    What is faster depends on the processor, the BLAS and n, so this process finds it out, for about
    as many queries each: by a scan of both, and then, since these may have been disturbed, by one
    more of the slower at every power of 2. In both ways, the same is found.
    """
    known = _known.setdefault((queries.bit_length(), widths), _Known())
    known.scans += 1
    is_again = all(known.least) and not known.scans & (known.scans - 1)
    number = known.least.index((max if is_again else min)(known.least))
    start = perf_counter()
    yield _WAYS[number]
    taken = (perf_counter() - start) / (queries * passages)
    known.least[number] = min(known.least[number] or taken, taken)


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
    leading : list of K arrays, shape (n, `LEADING`)
        The highest similarities of each block, the highest first.
    """

    similarities: list[FloatArray]
    errors: NDArray[np.float64]
    compute: Callable[[int, int, NDArray[np.int64]], FloatArray]
    leading: list[FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        """Make the highest similarities exact.

        Let t be the lowest of the highest as computed, and E the error: so many are at least t - E.
        One that was computed below t - 2 E is less than t - E, and is not among them.
        """
        leading = [
            np.array([self._leading(block, row) for row in range(len(of_block))])
            for block, of_block in enumerate(self.similarities)
        ]
        object.__setattr__(self, "leading", leading)

    def _leading(self, block: int, row: int) -> FloatArray:
        """Return the highest similarities of a query, which become exact."""
        values, error = self.similarities[block][row], self.errors[row, block]
        near: NDArray[np.intp] = largest(values, min(LEADING, len(values)))
        if error and len(near):
            near = np.flatnonzero(values >= values[near[0]] - 2 * error)
            values[near] = self.compute(block, row, near)
        highest: FloatArray = -np.sort(-values[near])[:LEADING]
        return highest

    def refine(self, row: int, columns: NDArray[np.int64]) -> None:
        """Make the similarities of a query to some columns exact."""
        for block in np.flatnonzero(self.errors[row]).tolist():
            self.similarities[block][row, columns] = self.compute(block, row, columns)
