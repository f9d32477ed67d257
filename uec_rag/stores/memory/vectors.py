"""The stored means, as float32 and as 8-bit integers, block by block.

Each encoder's queries are multiplied with that encoder's block alone, which is fastest if its rows
are contiguous.

The error of a product with 8-bit integers is bounded (see `QuantisedMeans.error_bound`), so that a
search that scores every passage within the bound in float32 finds the same hits as one over the
float32 means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import simsimd
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite
from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import with_room
from uec_rag.base.saved.files import read_array

LARGEST_PRODUCT = 1e18
"""The largest product of a stored mean and a query's; its square does not overflow float32."""


def require_finite(numbers: list[FloatArray], most: float = math.inf) -> list[FloatArray]:
    """Return stored numbers, or results computed from them, after checking that they are finite.

    Opening an index reads as little of its means as possible, so damage is only detected here.

    IndexCorrupted if a number is NaN or infinite, or its absolute value exceeds `most`.
    """
    for some in numbers:
        if not are_finite(some, least=-most, most=most):
            raise IndexCorrupted(
                "store: a stored vector gives NaN or infinity: it is damaged, or longer than "
                "float32 can multiply. Load the index with verify=True, or build it again."
            )
    return numbers


def row_slices(count: int, size: int) -> Iterator[slice]:
    """Cut `count` rows into slices of at least 4096 rows each.

    Examples
    --------
    >>> list(row_slices(5000, 100))
    [slice(0, 4096, None), slice(4096, 5000, None)]
    """
    step = max(4096, size)
    return (slice(start, min(count, start + step)) for start in range(0, count, step))


Rows = slice | NDArray[np.int64]
"""A slice of rows, or their indices."""


class Piece(NamedTuple):
    """A part of n queries, shape (n, width), and the columns of a stored block to multiply with."""

    block: int
    columns: slice
    query: FloatArray


@dataclass(frozen=True, eq=False)
class Means:
    """The means of rows, block by block.

    Examples
    --------
    >>> means = Means().with_rows(0, np.eye(3, dtype="f4"), widths=(2, 1))
    >>> [block.shape for block in means.blocks]
    [(3, 2), (3, 1)]
    >>> means.products(slice(3), [np.ones((1, 3), "f4")])[0]
    array([[1., 1., 1.]], dtype=float32)
    """

    # shapes (capacity, d_k): C-contiguous; they may be longer than what is used
    blocks: tuple[FloatArray, ...] = (np.zeros((0, 0), dtype=np.float32),)

    @property
    def widths(self) -> tuple[int, ...]:
        """The dimensions d_k of the blocks."""
        return tuple(block.shape[1] for block in self.blocks)

    @property
    def dimension(self) -> int:
        """The sum of the widths."""
        return sum(self.widths)

    def rows(self, rows: Rows) -> FloatArray:
        """Return the means of some rows, shape (m, d); a slice of a single block is not copied."""
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        return np.concatenate([block[rows] for block in self.blocks], axis=1)

    def select(self, rows: Rows) -> Means:
        """Return the means of some rows; a slice is not copied."""
        return Means(tuple(block[rows] for block in self.blocks))

    def with_rows(self, start: int, mean: FloatArray, widths: Sequence[int]) -> Means:
        """Return the first `start` rows with new ones appended.

        Buffers that are long enough are shared, others are copied to longer ones.

        `start`: if 0, new blocks are made. `mean`: array, shape (m, d). `widths`: the widths of new
        blocks.
        """
        stop = start + len(mean)
        if start:
            old: Sequence[FloatArray] = self.blocks
        else:
            old = [np.empty((0, width), dtype=np.float32) for width in widths]
        blocks, left = [], 0
        for block in old:
            room = with_room(block, start, stop)
            room[start:stop] = mean[:, left : left + block.shape[1]]
            blocks.append(room)
            left += block.shape[1]
        return Means(tuple(blocks))

    def products(self, rows: Rows, queries: Sequence[FloatArray]) -> list[FloatArray]:
        """Multiply queries with consecutive parts of the means, which need not match the blocks.

        This only uses BLAS, since no alternative is faster on all machines. Products with damaged
        rows are rejected by `require_finite`.

        `queries`: list of array, shapes (n, width), whose widths add up to the dimension. Returns a
        list of arrays of shape (n, len(rows)).
        """
        out, stored = [], [block[rows] for block in self.blocks]
        widths = [block.shape[1] for block in stored]
        with np.errstate(invalid="ignore", over="ignore"):
            for query, parts in zip(queries, pieces(widths, queries), strict=True):
                if not parts:  # there are only words, or nothing is stored yet
                    out.append(np.zeros((len(query), len(stored[0])), dtype=np.float32))
                    continue
                first, *others = parts
                total = first.query @ stored[first.block][:, first.columns].T
                for piece in others:
                    total += piece.query @ stored[piece.block][:, piece.columns].T
                out.append(total)
        return out


def pieces(widths: Sequence[int], queries: Sequence[FloatArray]) -> list[list[Piece]]:
    """Pair each part of the queries with the stored blocks of these widths.

    Examples
    --------
    >>> [[first, second]] = pieces([1, 2], [np.ones((1, 3), "f4")])
    >>> second.block, second.columns, second.query.shape
    (1, slice(0, 2, None), (1, 2))
    """
    out, start = [], 0
    for query in queries:
        stop, left, parts = start + query.shape[1], 0, []
        for number, width in enumerate(widths):
            low, high = max(start, left), min(stop, left + width)
            if low < high:
                columns = slice(low - left, high - left)
                parts.append(Piece(number, columns, query[:, low - start : high - start]))
            left += width
        out.append(parts)
        start = stop
    return out


def longest(mean: FloatArray) -> float:
    """Compute the largest norm of a row, shape (n, d); 0 if there is none."""
    return float(np.linalg.norm(mean, axis=1).max(initial=0.0))


Dtype = Literal["float32", "int8"]

_AT_ONCE = 2**21  # numbers that are compressed at a time
_FILE, _SCALES = "scan.{}.npy", "scan_scales.{}.npy"


@dataclass(frozen=True, eq=False)
class QuantisedMeans:
    """Means of rows as 8-bit integers."""

    blocks: tuple[NDArray[np.int8], ...] = ()  # shapes (capacity, d_k)
    # shape (capacity,): divisor of each row, so that its largest number is 127
    scales: tuple[FloatArray, ...] = ()
    # for each block, the largest norm of the difference between a row and its float32 mean
    errors: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()  # largest norm of a row of each block

    @property
    def widths(self) -> list[int]:
        """The dimensions d_k of the blocks."""
        return [block.shape[1] for block in self.blocks]

    def with_rows(self, start: int, stop: int, means: Means) -> QuantisedMeans:
        """Compress the rows from `start` to `stop`, which `Means.with_rows` added."""
        blocks, scales, errors, lengths = [], [], [], []
        for k, block in enumerate(means.blocks):
            width = block.shape[1]
            old = self.blocks[k] if start else np.empty((0, width), np.int8)
            held = with_room(old, start, stop)
            blocks.append(held)
            scale = self.scales[k] if start else np.empty(0, np.float32)
            scales.append(with_room(scale, start, stop))
            error, length = (self.errors[k], self.lengths[k]) if start else (0.0, 0.0)
            for tile in row_slices(stop - start, _AT_ONCE // max(1, width)):
                rows = slice(start + tile.start, start + tile.stop)
                held[rows], scale = _compress(block[rows])
                scales[k][rows] = scale[:, 0]
                rounded = held[rows].astype(np.float32) * scale
                length = max(length, longest(rounded) * (1 + 1e-5))
                error = max(error, longest(rounded - block[rows]) * (1 + 1e-5))
            errors.append(error)
            lengths.append(length)
        return QuantisedMeans(tuple(blocks), tuple(scales), tuple(errors), tuple(lengths))

    def products(self, rows: Rows, queries: Sequence[FloatArray]) -> list[FloatArray]:
        """Multiply queries with consecutive parts of the means; see `Means.products`."""
        stored = [block[rows] for block in self.blocks]
        scales = [scale[rows] for scale in self.scales]
        out, count = [], len(stored[0]) if stored else 0
        for whole, parts in zip(queries, pieces(self.widths, queries), strict=True):
            total = np.zeros((len(whole), count), dtype=np.float32)
            for part in parts if total.size else ():
                query, factor = _compress(part.query)
                block = stored[part.block][:, part.columns]
                # In one thread: with more, OpenMP would wait forever in a forked child.
                found = np.asarray(simsimd.cdist(query, block, "dot", dtype="int8"))
                with np.errstate(invalid="ignore", over="ignore"):  # of a damaged row
                    total += found * factor * scales[part.block]
            out.append(total)
        return out

    def error_bound(self, query: FloatArray) -> NDArray[np.float64]:
        """Bound the error of each query's products, shape (n,), for any division into parts.

        By Cauchy-Schwarz, it is at most the query's norm times the largest error of a row, plus the
        error of the query's own compression times the largest norm of a row, plus rounding.

        `query`: array, shape (n, d).
        """
        total, left = np.zeros(len(query)), 0
        for width, error, most in zip(self.widths, self.errors, self.lengths, strict=True):
            part = query[:, left : left + width].astype(np.float64)
            left += width
            length = np.linalg.norm(part, axis=1)
            off = np.abs(part).max(axis=1, initial=0.0) / 253 * np.sqrt(width)
            summing = width * 2.0**-22  # rounding of float32 sums, here and when hits are scored
            total += length * error + most * (off + summing * (length + off))
        return total

    def arrays(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the compressed rows and scales of each block, with the names of their files."""
        for k, (block, scale) in enumerate(zip(self.blocks, self.scales, strict=True)):
            yield _FILE.format(k), block[rows]
            yield _SCALES.format(k), scale[rows]

    def settings(self) -> dict[str, object]:
        """Return the parameters of `load` other than the arrays."""
        return {"dtype": "int8", "errors": self.errors, "lengths": self.lengths}

    def merge_bounds(self, other: QuantisedMeans) -> QuantisedMeans:
        """Return these rows with bounds of errors and lengths that also hold for the other's."""
        return replace(
            self,
            errors=tuple(map(max, self.errors, other.errors)) or other.errors,
            lengths=tuple(map(max, self.lengths, other.lengths)) or other.lengths,
        )

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> QuantisedMeans | None:
        """Open the memory-mapped files of `arrays`; None if the means have no 8-bit copy.

        16-bit copies of version 0.1 are ignored, since they add nothing to the means.
        """
        if settings.get("dtype") != "int8":
            return None
        read, count = partial(read_array, mapped=True), len(settings["errors"])
        blocks = [read(folder / _FILE.format(k), np.int8, 2) for k in range(count)]
        if any(block.size and block.min() < -127 for block in blocks):
            raise ValueError("scan: expected numbers from -127 to 127")
        scales = [read(folder / _SCALES.format(k), np.float32, 1) for k in range(count)]
        return cls(
            tuple(blocks), tuple(scales), tuple(settings["errors"]), tuple(settings["lengths"])
        )


def _compress(values: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Round rows to integers; return these and the scales, shape (n, 1)."""
    # `initial`, since the means have width 0 if there are only words.
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0) / np.float32(127)
    scale[scale == 0] = 1
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8), scale


def make_scan(dtype: str) -> QuantisedMeans | None:
    """Return an empty scan, or None for float32, which NumPy multiplies itself.

    ValueError if the number format is unknown.
    """
    if dtype not in get_args(Dtype):
        raise ValueError(f"dtype: expected one of {list(get_args(Dtype))}, got {dtype!r}.")
    return None if dtype == "float32" else QuantisedMeans()
