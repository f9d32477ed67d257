"""Segments: the vectors and word counts of some passages, in arrays that never change.

Each encoder's queries are multiplied with that encoder's block of the means alone, which is fastest
if its rows are contiguous. In a file, the arrays are in the format of safetensors, and are mapped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite
from uec_rag.base.counts import MOST_ROWS, Counts
from uec_rag.base.errors import IndexCorrupted, as_corrupted
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.properties import cached_property

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
class Segment:
    """The vectors and word counts of up to `MOST_ROWS` passages.

    Attributes
    ----------
    offsets : uint32 array, shape (m,)
        The rows of the passages, ascending from 0, relative to the first.
    means : sequence of array, shape (m, d_k)
    scales : array, shape (m, r)
        The factors of the variances.
    words : sequence of Counts
        One for each sparse block.
    path : Path
        The file, for messages.
    """

    offsets: NDArray[np.uint32]
    means: Sequence[FloatArray]
    scales: FloatArray
    words: Sequence[Counts]
    path: Path = Path()

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian) -> Segment:
        """Make a segment of consecutive rows."""
        edges = np.cumsum([0, *gaussians.widths]).tolist()
        means = [
            np.ascontiguousarray(gaussians.mean[:, first:last]) for first, last in pairwise(edges)
        ]
        words = [Counts.from_terms(terms) for terms in gaussians.terms]
        offsets = np.arange(len(gaussians), dtype=np.uint32)
        return cls(offsets, means, np.array(gaussians.scales), words)

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
        words = [
            Counts.join([(part.words[k], keep) for part, keep in kept])
            for k in range(len(one.words))
        ]
        return int(rows[0]), cls((rows - rows[0]).astype(np.uint32), means, scales, words)

    def __len__(self) -> int:
        return len(self.offsets)

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
        for k, counts in enumerate(self.words):
            arrays |= {f"words.{k}.{name}": getattr(counts, name) for name in _COUNTS}
        # safetensors ignores strides, and would write a transposed array in the wrong order.
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], path: Path) -> Segment:
        """Make a segment of its arrays; IndexCorrupted, which names `path`, if they do not fit."""
        with as_corrupted(path):
            blocks = sum(name.startswith("mean.") for name in arrays)
            means = [arrays[f"mean.{k}"] for k in range(blocks)]
            words = [
                Counts(*(arrays[f"words.{k}.{name}"] for name in _COUNTS))
                for k in range(sum(name.endswith(".keys") for name in arrays))
            ]
            _check_arrays(arrays)
            return cls(arrays["rows"], means, arrays["scales"], words, path)


_COUNTS = ("keys", "starts", "rows", "counts", "lengths")
_KINDS = {
    "rows": ("u4", 1),
    "scales": ("f4", 2),
    "mean": ("f4", 2),
    "words.keys": ("u8", 1),
    "words.starts": ("i8", 1),
    "words.rows": ("u2", 1),
    "words.lengths": ("f4", 1),
}
"""The type and the number of dimensions of each array but the counts."""


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless arrays have the types and shapes of a segment's."""
    offsets = arrays["rows"]
    for name, array in arrays.items():
        kind = re.sub(r"\.\d+", "", name)
        dtype, dimensions = _KINDS.get(kind, (array.dtype, 1))
        each = kind in ("scales", "mean", "words.lengths")  # one for each passage
        if (
            (array.dtype, array.ndim) != (dtype, dimensions)
            or (each and len(array) != len(offsets))
            or (kind == "scales" and not are_finite(array, least=0))
        ):
            raise ValueError(f"{name}: {array.dtype} of shape {array.shape} is not of a segment")
    steps = np.diff(offsets.astype(np.int64))
    if not 0 < len(offsets) <= MOST_ROWS or offsets[0] or (steps <= 0).any():
        raise ValueError("rows: expected numbers that ascend from 0")


_TYPES = {
    "F32": "<f4",
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
