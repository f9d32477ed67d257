"""Segments: the vectors and word counts of some passages, in arrays that never change.

Each encoder's queries are multiplied with that encoder's block of the means alone, which is fastest
if its rows are contiguous. An 8-bit copy of the means may be multiplied instead of them; the error
of such a product is bounded (see `Scan.error_bound`), so that a search that scores every passage
within the bound in float32 finds the same hits.

In a file, the arrays are in the format of safetensors, and are mapped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import simsimd
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite
from uec_rag.base.counts import MOST_ROWS, Counts
from uec_rag.base.errors import IndexCorrupted, as_corrupted
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.properties import cached_property

Dtype = Literal["float32", "int8"]

LARGEST_PRODUCT = 1e18
"""The largest product of a stored mean and a query's; its square does not overflow float32."""


def require_finite(numbers: Sequence[FloatArray], most: float = math.inf) -> None:
    """Check that stored numbers, or results computed from them, are finite.

    Opening an index reads as little of its means as possible, so damage is only detected here.

    IndexCorrupted if a number is NaN or infinite, or its absolute value exceeds `most`.
    """
    for some in numbers:
        if not are_finite(some, least=-most, most=most):
            raise IndexCorrupted(
                "store: a stored vector gives NaN or infinity: it is damaged, or longer than "
                "float32 can multiply. Run `uec-rag check`, and build the index again."
            )


def longest(mean: FloatArray) -> float:
    """Compute the largest norm of a row, shape (n, d); 0 if there is none."""
    return float(np.linalg.norm(mean, axis=1).max(initial=0.0))


Rows = slice | NDArray[np.int64]
"""A slice of rows, or their indices."""


@dataclass(frozen=True, eq=False)
class Scan:
    """The means of m rows as 8-bit integers.

    Attributes
    ----------
    blocks : sequence of int8 array, shape (m, d_k)
    scales : sequence of array, shape (m,)
        Divisor of each row, so that its largest number is 127.
    bounds : array, shape (K, 2)
        For each block, the largest norm of the difference between a row and its float32 mean, and
        the largest norm of a row.
    """

    blocks: Sequence[NDArray[np.int8]]
    scales: Sequence[FloatArray]
    bounds: NDArray[np.float64]

    @classmethod
    def from_means(cls, means: Sequence[FloatArray]) -> Scan:
        """Compress means."""
        blocks, scales, bounds = [], [], []
        for mean in means:
            block, scale = _compress(mean)
            rounded = block.astype(np.float32) * scale
            bounds.append([longest(some) * (1 + 1e-5) for some in (rounded - mean, rounded)])
            blocks.append(block)
            scales.append(scale[:, 0])
        return cls(blocks, scales, np.array(bounds, dtype=np.float64).reshape(-1, 2))

    def products(self, number: int, query: FloatArray, rows: Rows) -> FloatArray:
        """Multiply a block of queries with that of some rows, shape (n, m)."""
        whole, factor = _compress(query)
        # In one thread: with more, OpenMP would wait forever in a forked child.
        found = np.asarray(simsimd.cdist(whole, self.blocks[number][rows], "dot", dtype="int8"))
        with np.errstate(invalid="ignore", over="ignore"):  # of a damaged row
            product = found.astype(np.float32)
            product *= factor
            product *= self.scales[number][rows]
        return product


def error_bound(scans: Sequence[Scan], query: FloatArray) -> NDArray[np.float64]:
    """Bound the error of each query's products with scans, shape (n,).

    By Cauchy-Schwarz, it is at most the query's norm times the largest error of a row, plus the
    error of the query's own compression times the largest norm of a row, plus rounding.

    `query`: array, shape (n, d).
    """
    total, left = np.zeros(len(query)), 0
    if not scans:
        return total
    bounds = np.max([scan.bounds for scan in scans], axis=0)
    widths = [block.shape[1] for block in scans[0].blocks]
    for width, (error, most) in zip(widths, bounds.tolist(), strict=True):
        part = query[:, left : left + width].astype(np.float64)
        left += width
        length = np.linalg.norm(part, axis=1)
        off = np.abs(part).max(axis=1, initial=0.0) / 253 * np.sqrt(width)
        summing = width * 2.0**-22  # rounding of float32 sums, here and when hits are scored
        total += length * error + most * (off + summing * (length + off))
    return total


def _compress(values: FloatArray) -> tuple[NDArray[np.int8], FloatArray]:
    """Round rows to integers; return these and the scales, shape (n, 1)."""
    # `initial`, since the means have width 0 if there are only words.
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0) / np.float32(127)
    scale[scale == 0] = 1
    return np.clip(np.rint(values / scale), -127, 127).astype(np.int8), scale


@dataclass(frozen=True, eq=False)
class Segment:
    """The vectors and word counts of up to `MOST_ROWS` passages.

    Attributes
    ----------
    offsets : uint32 array, shape (m,)
        The rows of the passages, ascending from 0, relative to the first.
    means : sequence of array, shape (m, d_k)
    scales : array, shape (m, r)
        The factors of the variances.
    scan : Scan or None
    words : sequence of Counts
        One for each sparse block.
    path : Path
        The file, for messages.
    """

    offsets: NDArray[np.uint32]
    means: Sequence[FloatArray]
    scales: FloatArray
    scan: Scan | None
    words: Sequence[Counts]
    path: Path = Path()

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian, dtype: Dtype) -> Segment:
        """Make a segment of consecutive rows."""
        edges = np.cumsum([0, *gaussians.widths]).tolist()
        means = [
            np.ascontiguousarray(gaussians.mean[:, first:last]) for first, last in pairwise(edges)
        ]
        words = [Counts.from_terms(terms) for terms in gaussians.terms]
        scan = Scan.from_means(means) if dtype == "int8" else None
        offsets = np.arange(len(gaussians), dtype=np.uint32)
        return cls(offsets, means, np.array(gaussians.scales), scan, words)

    @classmethod
    def join(cls, parts: Sequence[tuple[int, Segment, NDArray[np.bool_]]]) -> tuple[int, Segment]:
        """Join segments, given their first rows and masks of the rows to keep, at least one.

        Returns the first row and the segment.
        """
        one, kept = parts[0][1], [(part, keep) for _, part, keep in parts]
        rows = np.concatenate([first + part.offsets[keep] for first, part, keep in parts])
        means = [
            np.concatenate([part.means[k][keep] for part, keep in kept])
            for k in range(len(one.means))
        ]
        scales = np.concatenate([part.scales[keep] for part, keep in kept])
        scan = None if one.scan is None else Scan.from_means(means)
        words = [
            Counts.join([(part.words[k], keep) for part, keep in kept])
            for k in range(len(one.words))
        ]
        return int(rows[0]), cls((rows - rows[0]).astype(np.uint32), means, scales, scan, words)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def dtype(self) -> Dtype:
        """The format of the numbers that a search scans."""
        return "float32" if self.scan is None else "int8"

    @cached_property
    def longest(self) -> float:
        """An upper bound of the norms of the means."""
        return math.sqrt(sum(longest(mean) ** 2 for mean in self.means)) * (1 + 1e-5)

    @property
    def widths(self) -> tuple[int, ...]:
        """The dimensions d_k of the blocks."""
        return tuple(mean.shape[1] for mean in self.means)

    def products(self, number: int, query: FloatArray, rows: Rows) -> FloatArray:
        """Multiply a block of queries with that of some rows, shape (n, m).

        This only uses BLAS, since no alternative is faster on all machines. Products with damaged
        rows are rejected by `require_finite`.
        """
        if self.scan is not None:
            return self.scan.products(number, query, rows)
        with np.errstate(invalid="ignore", over="ignore"):
            product: FloatArray = query @ self.means[number][rows].T
        return product

    @cached_property
    def checked_words(self) -> Sequence[Counts]:
        """The word counts, checked at the first use, since that reads all of them."""
        for counts in self.words:
            with as_corrupted(self.path):
                counts.check()
        return self.words

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, as they are written."""
        arrays: dict[str, NDArray[Any]] = {"rows": self.offsets, "scales": self.scales}
        arrays |= {f"mean.{k}": mean for k, mean in enumerate(self.means)}
        if self.scan is not None:
            arrays |= {f"scan.{k}": block for k, block in enumerate(self.scan.blocks)}
            arrays |= {f"scan_scales.{k}": scales for k, scales in enumerate(self.scan.scales)}
            arrays["scan_bounds"] = self.scan.bounds
        for k, counts in enumerate(self.words):
            arrays |= {f"words.{k}.{name}": getattr(counts, name) for name in _COUNTS}
        # safetensors ignores strides, and would write a transposed array in the wrong order.
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], path: Path) -> Segment:
        """Make a segment of its arrays; IndexCorrupted, which names `path`, if they do not fit."""
        with as_corrupted(path):
            blocks = range(sum(name.startswith("mean.") for name in arrays))
            means = [arrays[f"mean.{k}"] for k in blocks]
            scan = None
            if "scan_bounds" in arrays:
                of_scan = [[arrays[f"{name}.{k}"] for k in blocks] for name in _SCAN]
                scan = Scan(of_scan[0], of_scan[1], arrays["scan_bounds"])
            words = [
                Counts(*(arrays[f"words.{k}.{name}"] for name in _COUNTS))
                for k in range(sum(name.endswith(".keys") for name in arrays))
            ]
            _check_arrays(arrays, len(blocks))
            return cls(arrays["rows"], means, arrays["scales"], scan, words, path)


_SCAN, _COUNTS = ("scan", "scan_scales"), ("keys", "starts", "rows", "counts", "lengths")
_KINDS = {
    "rows": ("u4", 1),
    "scales": ("f4", 2),
    "mean": ("f4", 2),
    "scan": ("i1", 2),
    "scan_scales": ("f4", 1),
    "scan_bounds": ("f8", 2),
    "words.keys": ("u8", 1),
    "words.starts": ("i8", 1),
    "words.rows": ("u2", 1),
    "words.lengths": ("f4", 1),
}
"""The type and the number of dimensions of each array but the counts."""


def _check_arrays(arrays: Mapping[str, NDArray[Any]], blocks: int) -> None:
    """Raise ValueError unless arrays have the types and shapes of a segment's."""
    offsets = arrays["rows"]
    for name, array in arrays.items():
        kind = re.sub(r"\.\d+", "", name)
        dtype, dimensions = _KINDS.get(kind, (array.dtype, 1))
        each = kind in ("scales", "mean", *_SCAN, "words.lengths")  # one for each passage
        if (
            (array.dtype, array.ndim) != (dtype, dimensions)
            or (each and len(array) != len(offsets))
            or (kind == "scan" and array.shape != arrays[name.replace("scan", "mean")].shape)
            or (kind == "scan_bounds" and array.shape != (blocks, 2))
            or ("scale" in kind and not are_finite(array, least=0))
            or (kind == "scan_bounds" and not are_finite(array, least=0))
        ):
            raise ValueError(f"{name}: {array.dtype} of shape {array.shape} is not of a segment")
    steps = np.diff(offsets.astype(np.int64))
    if not 0 < len(offsets) <= MOST_ROWS or offsets[0] or (steps <= 0).any():
        raise ValueError("rows: expected numbers that ascend from 0")


_TYPES = {
    "F32": "<f4",
    "F64": "<f8",
    "I8": "|i1",
    "I64": "<i8",
    "U8": "|u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
}


def unpack(raw: NDArray[np.uint8], path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file of safetensors, which, unlike by `load` of theirs, share memory.

    Raises IndexCorrupted, which names `path`, if it is not such a file.
    """
    with as_corrupted(path):
        end = 8 + int.from_bytes(raw[:8].tobytes(), "little")
        header, body, arrays = json.loads(raw[8:end].tobytes()), raw[end:], {}
        for name, entry in header.items():
            content = body[slice(*entry["data_offsets"])].view(_TYPES[entry["dtype"]])
            arrays[name] = content.reshape(entry["shape"])
    return arrays
