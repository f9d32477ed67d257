"""The stored means as 8-bit integers, to multiply with.

A product with compressed means is off by no more than a bound (see `Scan.bound`), so a search that
scores everything within the bound in float32 finds what one over the float32 means finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import simsimd
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.saved.files import read_array
from uec_rag.stores.memory.means import (
    Means,
    Rows,
    longest,
    pieces,
    row_slices,
    with_room,
)

Dtype = Literal["float32", "int8"]

_WIDENED = 2**21  # numbers that are compressed at a time
_FILE, _SCALES = "scan.{}.npy", "scan_scales.{}.npy"


@dataclass(frozen=True, eq=False)
class Scan:
    """Means of rows as 8-bit integers."""

    blocks: tuple[NDArray[np.int8], ...] = ()  # shapes (capacity, d_k)
    # shape (capacity,): What a row was divided by, so that its largest number is 127
    scales: tuple[FloatArray, ...] = ()
    # Length of the longest difference between a row of a block and its float32 mean
    errors: tuple[float, ...] = ()
    lengths: tuple[float, ...] = ()  # Length of the longest row of each block

    @property
    def widths(self) -> list[int]:
        """The dimensions d_k of the blocks."""
        return [block.shape[1] for block in self.blocks]

    def written(self, start: int, stop: int, means: Means) -> Scan:
        """Compress the rows from `start` to `stop` that `Means.written` has added."""
        blocks, scales, errors, lengths = [], [], [], []
        for k, block in enumerate(means.blocks):
            width = block.shape[1]
            old = self.blocks[k] if start else np.empty((0, width), np.int8)
            held = with_room(old, start, stop)
            blocks.append(held)
            scale = self.scales[k] if start else np.empty(0, np.float32)
            scales.append(with_room(scale, start, stop))
            error, length = (self.errors[k], self.lengths[k]) if start else (0.0, 0.0)
            for tile in row_slices(stop - start, _WIDENED // max(1, width)):
                rows = slice(start + tile.start, start + tile.stop)
                held[rows], scale = _compressed(block[rows])
                scales[k][rows] = scale[:, 0]
                rounded = held[rows].astype(np.float32) * scale
                length = max(length, longest(rounded) * (1 + 1e-5))
                error = max(error, longest(rounded - block[rows]) * (1 + 1e-5))
            errors.append(error)
            lengths.append(length)
        return Scan(tuple(blocks), tuple(scales), tuple(errors), tuple(lengths))

    def products(self, rows: Rows, queries: Sequence[FloatArray]) -> list[FloatArray]:
        """Multiply queries with consecutive parts of the means; see `Means.products`."""
        stored = [block[rows] for block in self.blocks]
        scales = [scale[rows] for scale in self.scales]
        out = []
        for parts in pieces(self.widths, queries):
            total = np.zeros((len(parts[0].query), len(stored[0])), dtype=np.float32)
            for part in parts if total.size else ():
                query, factor = _compressed(part.query)
                block = stored[part.block][:, part.columns]
                # By one thread: a child of a process whose OpenMP has made more waits for ever.
                found = np.asarray(simsimd.cdist(query, block, "dot", dtype="int8"))
                with np.errstate(invalid="ignore", over="ignore"):  # of a damaged row
                    total += found * factor * scales[part.block]
            out.append(total)
        return out

    def bound(self, query: FloatArray) -> NDArray[np.float64]:
        """Bound the error of each query's products, shape (n,), however they are cut into parts.

        By Cauchy-Schwarz: the query's length times the longest error of a row, the longest error
        of the query's own compression times the longest row, and what sums round.

        `query`: array, shape (n, d).
        """
        total, left = np.zeros(len(query)), 0
        for width, error, most in zip(self.widths, self.errors, self.lengths, strict=True):
            part = query[:, left : left + width].astype(np.float64)
            left += width
            length = np.linalg.norm(part, axis=1)
            off = np.abs(part).max(axis=1, initial=0.0) / 253 * np.sqrt(width)
            summing = width * 2.0**-22  # of float32 products, here and where hits are scored
            total += length * error + most * (off + summing * (length + off))
        return total

    def arrays(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the compressed rows of each block and their scales, by the names of the files."""
        for k, (block, scale) in enumerate(zip(self.blocks, self.scales, strict=True)):
            yield _FILE.format(k), block[rows]
            yield _SCALES.format(k), scale[rows]

    def settings(self) -> dict[str, object]:
        """Return the parameters of `load` beside the arrays."""
        return {"dtype": "int8", "errors": self.errors, "lengths": self.lengths}

    def beside(self, other: Scan) -> Scan:
        """Return these rows with bounds on errors and lengths that hold for the other's, too."""
        return replace(
            self,
            errors=tuple(map(max, self.errors, other.errors)) or other.errors,
            lengths=tuple(map(max, self.lengths, other.lengths)) or other.lengths,
        )

    @classmethod
    def load(cls, folder: Path, settings: Mapping[str, Any]) -> Scan | None:
        """Open what `save` wrote, its files mapped; None if the means are to be multiplied.

        That is also so for the 16-bit copies of version 0.1, which hold nothing of their own.
        """
        if settings.get("dtype") != "int8":
            return None
        count = len(settings["errors"])
        blocks = [
            read_array(folder / _FILE.format(k), np.int8, 2, mapped=True) for k in range(count)
        ]
        if any(block.size and block.min() < -127 for block in blocks):
            raise ValueError("scan: expected numbers from -127 to 127")
        scales = [
            read_array(folder / _SCALES.format(k), np.float32, 1, mapped=True) for k in range(count)
        ]
        return cls(
            tuple(blocks),
            tuple(scales),
            tuple(settings["errors"]),
            tuple(settings["lengths"]),
        )


def _compressed(values: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Round rows to integers; return these and the scales, shape (n, 1)."""
    # Words alone have means without a number.
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0) / np.float32(127)
    scale[scale == 0] = 1
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8), scale


def make_scan(dtype: str) -> Scan | None:
    """Return an empty scan, or None for float32, which NumPy multiplies itself.

    ValueError if the number format is unknown.
    """
    if dtype not in get_args(Dtype):
        raise ValueError(f"dtype: expected one of {list(get_args(Dtype))}, got {dtype!r}.")
    return None if dtype == "float32" else Scan()
