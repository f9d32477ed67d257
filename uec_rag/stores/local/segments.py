"""The segments of an index: vectors and word counts of some passages, in memory or in files.

A segment is arrays that never change. Each encoder's queries are multiplied with that encoder's
block of the means alone, which is fastest if its rows are contiguous. In a file, the arrays are in
the format of safetensors, and are mapped.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import are_finite
from uec_rag.base.counts import MOST_ROWS, Counts, LookedUp
from uec_rag.base.errors import IndexCorrupted, as_corrupted, corruption
from uec_rag.base.files import open_regular, to_disk
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import cached_property
from uec_rag.base.runtime import MOST, ZERO, multiply_bytes
from uec_rag.base.similarity import largest
from uec_rag.encoders.base import Encoded
from uec_rag.stores.encodings import Schema

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
        bounds = np.zeros(2)
        for start in range(0, len(means), _AT_ONCE):
            at = slice(start, start + _AT_ONCE)
            steps, scale = _rounded(means[at], _LARGEST)
            rows[at], scales[at] = steps + np.float32(ZERO), scale[:, 0]
            # In units of the scale, in which no square overflows.
            norms = [np.linalg.norm(part, axis=1) for part in (steps - means[at] / scale, steps)]
            bounds = np.maximum(bounds, (np.array(norms, np.float64) * scale[:, 0]).max(axis=1))
        return cls(means, rows, scales, *(bounds * (1 + 1e-5)).tolist())

    @classmethod
    def join(cls, means: FloatArray, parts: Sequence[tuple[Scan, NDArray[np.bool_]]]) -> Scan:
        """Join scans below each other, of each the rows that its mask keeps: those of `means`."""
        rows = np.concatenate([scan.rows[keep] for scan, keep in parts])
        scales = np.concatenate([scan.scales[keep] for scan, keep in parts])
        bounds = [max(getattr(scan, name) for scan, _ in parts) for name in ("error", "length")]
        return cls(means, rows, scales, *bounds)

    def by_bytes(self, queries: FloatArray) -> Scanned:
        r"""Multiply n queries with the rows, within an error; shapes (n, m) and (n,).

        A query is ``q = q' + r``, where q' is the sum of two vectors of integers, each with its
        scale: one would double the error. A row is ``c = c' + e``. By Cauchy-Schwarz,
        ``|q.c - q'.c'| = |q.e + r.c'| <= |q| |e| + |r| |c'|``, to which rounding adds little.
        """
        coarse, scale = _rounded(queries, MOST)
        tail = queries - coarse * scale
        fine, step = _rounded(tail, MOST)
        whole = np.concatenate([coarse, fine]).astype(np.int8)
        products = multiply_bytes(self.rows, np.ascontiguousarray(whole.T)).T.astype(np.float32)
        product = products[: len(queries)] * scale
        product += products[len(queries) :] * step
        product *= self.scales
        error, slack = _lengths(queries) * self.error, _lengths(tail - fine * step) * self.length
        return product, error + slack + self._rounding(queries)

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
_scan_times: dict[Hashable, _Times] = {}


@dataclass(eq=False)
class _Times:
    """The times of scans of one kind: their number, and the least seconds a product each way."""

    scans: int = 0
    seconds: list[float] = field(default_factory=lambda: [0.0] * len(_WAYS))  # 0 is not tried yet


@contextmanager
def faster_way(queries: int, passages: int, widths: tuple[int, ...]) -> Iterator[Way]:
    """Yield how to scan blocks of these widths for n queries, and time what is done with it.

    In both ways, the same is found; see `_faster`.
    """
    with _faster(("scan", queries.bit_length(), widths), queries * passages) as number:
        yield _WAYS[number]


@contextmanager
def _faster(kind: Hashable, count: int) -> Iterator[int]:
    """Yield the number of the faster of two ways, and time what is done in it.

    What is faster depends on the processor, the BLAS and the number of queries, so this process
    finds it out for each kind of work: by one of both ways, and then, since these may have been
    disturbed, by one more of the slower at every power of 2.

    `count`: of the items of this work.
    """
    times = _scan_times.setdefault(kind, _Times())
    times.scans += 1
    is_again = all(times.seconds) and not times.scans & (times.scans - 1)
    number = times.seconds.index((max if is_again else min)(times.seconds))
    start = perf_counter()
    yield number
    seconds = (perf_counter() - start) / count
    times.seconds[number] = min(times.seconds[number] or seconds, seconds)


MANY_MEANS = 2048
"""The number of vectors from which it is worth looking which way to multiply them is faster."""

_FEW_QUERIES = 32  # up to which they may be multiplied one by one


def multiply(queries: FloatArray, means: FloatArray) -> FloatArray:
    """Multiply n queries with m means, shape (n, m): as a matrix, or few of them one by one.

    A product of a few rows takes some libraries longer than as many products of one.
    """
    count = len(queries)
    if count > _FEW_QUERIES:
        return queries @ means.T
    with _faster(("rows", count.bit_length(), means.shape[1]), count * len(means)) as number:
        if number == 0:
            return queries @ means.T
        products = np.empty((count, len(means)), dtype=np.float32)
        for query, row in zip(queries, products, strict=True):
            np.matmul(means, query, out=row)
        return products


def _rounded(values: FloatArray, limit: int) -> tuple[FloatArray, FloatArray]:
    """Round rows to multiples of a scale, `limit` at most; return these and scales (n, 1)."""
    scale = np.abs(values).max(axis=1, keepdims=True, initial=0.0) / np.float32(limit)
    scale[scale == 0] = 1
    rounded: FloatArray = np.rint(values / scale)
    return np.clip(rounded, -limit, limit, out=rounded), scale


@dataclass(eq=False)
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
    looked_up : sequence of LookedUp
        The terms of the queries, for each sparse block.
    leading : list of K arrays, shape (n, `LEADING`)
        The highest similarities of each block, the highest first.
    """

    similarities: list[FloatArray]
    errors: NDArray[np.float64]
    compute: Callable[[int, int, NDArray[np.int64]], FloatArray]
    looked_up: Sequence[LookedUp] = ()
    leading: list[FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        """Make the highest similarities exact.

        Let t be the lowest of the highest as computed, and E the error: so many are at least t - E.
        One that was computed below t - 2 E is less than t - E, and is not among them.
        """
        self.leading = []
        pairs = zip(self.similarities, self.errors.T, strict=True)
        for block, (of_block, errors) in enumerate(pairs):
            leading = list[FloatArray]()
            for row, (values, error) in enumerate(zip(of_block, errors, strict=True)):
                candidates = largest(values, min(LEADING, len(values)))
                if error and len(candidates):
                    candidates = np.flatnonzero(values >= values[candidates[0]] - 2 * error)
                    values[candidates] = self.compute(block, row, candidates)
                leading.append(-np.sort(-values[candidates])[:LEADING])
            self.leading.append(np.array(leading))

    def refine(self, row: int, columns: NDArray[np.int64]) -> None:
        """Make the similarities of a query to some columns exact."""
        for block in np.flatnonzero(self.errors[row]).tolist():
            self.similarities[block][row, columns] = self.compute(block, row, columns)


SEGMENTS = "segments"
"""The name of the folder of the segments in that of an index."""

_RUN, _FACTOR = 8, 4  # segments of a size that are merged, and the factor between two sizes
_DEAD = 0.5  # share of deleted passages above which a segment is written again
_NAME = re.compile(r"[0-9a-f]{32}")
_SUFFIX = ".safetensors"
_COUNTS = ("keys", "starts", "rows", "counts", "lengths")
_KINDS = {
    "rows": ("u4", 1),
    "texts": ("u8", 1),
    "vectors": ("f4", 2),
    "features": ("f4", 2),
    "words.keys": ("u8", 1),
    "words.starts": ("i8", 1),
    "words.rows": ("u2", 1),
    "words.lengths": ("f4", 1),
}
"""The type and the number of dimensions of each array but the counts."""
LARGEST_PRODUCT = 1e18
"""The largest product of a stored mean and a query's; its square does not overflow float32."""


def require_finite(numbers: Sequence[FloatArray], limit: float = math.inf) -> None:
    """Check that stored numbers, or results computed from them, are finite.

    Opening an index reads as little of its means as possible, so damage is only detected here.

    IndexCorrupted if a number is NaN or infinite, or its absolute value exceeds `limit`.
    """
    for block in numbers:
        if not are_finite(block, floor=-limit, cap=limit):
            raise IndexCorrupted(
                "store: a stored vector gives NaN or infinity: it is damaged, or longer than "
                "float32 can multiply. Run `uec-rag check`, and build the index again."
            )


@dataclass(frozen=True, eq=False)
class Segment:
    """The vectors and word counts of up to `MOST_ROWS` passages.

    Attributes
    ----------
    offsets : uint32 array, shape (m,)
        The rows of the passages, ascending from 0, relative to the first.
    texts : uint64 array, shape (m,)
        Equal numbers for passages with equal texts, see `text_keys`.
    vectors : sequence of Encoded
        What each encoder made of the passages, but for words.
    words : sequence of Counts
        One for each encoder that counts words.
    path : Path
        The file, for messages.
    """

    offsets: NDArray[np.uint32]
    texts: NDArray[np.uint64]
    vectors: Sequence[Encoded]
    words: Sequence[Counts]
    path: Path = Path()

    @classmethod
    def from_encodings(cls, encodings: Sequence[Encoded], texts: NDArray[np.uint64]) -> Segment:
        """Make a segment of consecutive rows, with the numbers of their texts."""
        vectors = [*map(_copy, encodings)]
        words = [Counts.from_terms(terms) for part in encodings for terms in part.blocks]
        return cls(np.arange(len(texts), dtype=np.uint32), texts, vectors, words)

    @classmethod
    def cut(
        cls, encodings: Sequence[Encoded], texts: NDArray[np.uint64]
    ) -> Iterator[tuple[int, Segment]]:
        """Make segments of any number of consecutive rows, each with the number of its first."""
        for start in range(0, len(texts), MOST_ROWS):
            rows = slice(start, start + MOST_ROWS)
            yield start, cls.from_encodings([part[rows] for part in encodings], texts[rows])

    @classmethod
    def join(cls, parts: Sequence[tuple[int, Segment, NDArray[np.bool_]]]) -> tuple[int, Segment]:
        """Join segments, given their first rows and masks of the rows to keep, at least one.

        Returns the first row and the segment, of which as much is known as of all of these.
        """
        head, pairs = parts[0][1], [(part, keep) for _, part, keep in parts]
        rows = np.concatenate([start + part.offsets[keep] for start, part, keep in parts])
        texts = np.concatenate([part.texts[keep] for part, keep in pairs])
        vectors = [
            Encoded.join([part.vectors[k][keep] for part, keep in pairs])
            for k in range(len(head.vectors))
        ]
        words = [
            Counts.join([(part.words[k], keep) for part, keep in pairs])
            for k in range(len(head.words))
        ]
        offsets = (rows - rows[0]).astype(np.uint32)
        segment = cls(offsets, texts, vectors, words)
        if all("scans" in part.__dict__ for part, _ in pairs):
            scans = zip(*(part.scans for part, _ in pairs), strict=True)
            keeps = [keep for _, keep in pairs]
            segment.__dict__["scans"] = [
                Scan.join(block.embedding, [*zip(of_block, keeps, strict=True)])
                for block, of_block in zip(vectors, scans, strict=True)
            ]
        return int(rows[0]), segment

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def longest(self) -> float:
        """An upper bound of the norms of all vectors of a passage side by side."""
        norms = [np.linalg.norm(b.embedding, axis=1).max(initial=0.0) for b in self.vectors]
        return float(np.linalg.norm(np.array(norms, dtype=np.float64))) * (1 + 1e-5)

    @cached_property
    def scans(self) -> list[Scan]:
        """The vectors in bytes, made at the first search of many passages, which reads them all.

        They are not in the file, so that opening an index reads nothing of them.
        """
        means = [block.embedding for block in self.vectors]
        require_finite(means, LARGEST_PRODUCT)
        return [*map(Scan.from_means, means)]

    @cached_property
    def checked_words(self) -> Sequence[Counts]:
        """The word counts, checked at the first use, since that reads all of them."""
        for counts in self.words:
            with as_corrupted(self.path):
                counts.check()
        return self.words

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, as they are written."""
        arrays: dict[str, NDArray[Any]] = {"rows": self.offsets, "texts": self.texts}
        for k, block in enumerate(self.vectors):
            arrays[f"vectors.{k}"] = block.embedding
            if block.features is not block.embedding:
                arrays[f"features.{k}"] = block.features
        for k, counts in enumerate(self.words):
            arrays |= {f"words.{k}.{name}": getattr(counts, name) for name in _COUNTS}
        # safetensors ignores strides, and would write a transposed array in the wrong order.
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def read(cls, raw: NDArray[np.uint8], path: Path) -> Segment:
        """Make a segment of the content of its file, with which it shares memory.

        IndexCorrupted, which names `path`, if it is not that of a segment.
        """
        with as_corrupted(path):
            arrays = _unpack(raw)
            _check_arrays(arrays)
            count = sum(name.startswith("vectors.") for name in arrays)
            vectors = [arrays[f"vectors.{k}"] for k in range(count)]
            blocks = [
                Encoded(block, arrays.get(f"features.{k}", block))
                for k, block in enumerate(vectors)
            ]
            words = [
                Counts(*(arrays[f"words.{k}.{name}"] for name in _COUNTS))
                for k in range(sum(name.endswith(".keys") for name in arrays))
            ]
            return cls(arrays["rows"], arrays["texts"], blocks, words, path)


def _copy(part: Encoded) -> Encoded:
    """Return an encoding with arrays of its own, whose rows are contiguous."""
    vectors = np.array(part.embedding, dtype=np.float32, order="C")
    is_same = part.features is part.embedding
    return Encoded(vectors, vectors if is_same else np.array(part.features, np.float32, order="C"))


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless arrays have the types and shapes of a segment's."""
    offsets = arrays["rows"]
    for name, array in arrays.items():
        kind = re.sub(r"\.\d+", "", name)
        dtype, dimensions = _KINDS.get(kind, (array.dtype, 1))
        is_row = kind in ("texts", "vectors", "features", "words.lengths")  # one for each passage
        if (array.dtype, array.ndim) != (dtype, dimensions) or (
            is_row and len(array) != len(offsets)
        ):
            raise ValueError(f"{name}: {array.dtype} of shape {array.shape} is not of a segment")
    steps = np.diff(offsets.astype(np.int64))
    if not 0 < len(offsets) <= MOST_ROWS or offsets[0] or (steps <= 0).any():
        raise ValueError("rows: expected numbers that ascend from 0")


def _packed(arrays: Mapping[str, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """Yield the content of a file of safetensors, of which `safetensors.save` makes a copy."""
    header, start = dict[str, Any](), 0
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))  # aligned
    for name, array in ordered:
        kind = f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        places = [start, start := start + array.nbytes]
        header[name] = {"dtype": kind, "shape": [*array.shape], "data_offsets": places}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in ordered:
        if array.size:  # an empty one has no bytes to view
            yield np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data.cast("B")


def _unpack(raw: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """Return the arrays of safetensors, which, unlike those that `load` returns, share memory."""
    end = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    header, body, arrays = json.loads(raw[8:end].tobytes()), raw[end:], {}
    for name, entry in header.items():
        kind, bits = entry["dtype"][0].lower(), int(entry["dtype"][1:])
        content = body[slice(*entry["data_offsets"])].view(f"<{kind}{bits // 8}")
        arrays[name] = content.reshape(entry["shape"])
    return arrays


@dataclass(frozen=True, eq=False)
class Part:
    """A segment in a state: its first row, and the mask of its passages that have a column there.

    Attributes
    ----------
    name : str
        Of its file, by which it is known.
    alive : array of bool, shape (m,), or None
        None if none was removed.
    """

    first_row: int
    name: str
    segment: Segment
    alive: NDArray[np.bool_] | None = None

    @property
    def last(self) -> int:
        """Its last row."""
        return self.first_row + int(self.segment.offsets[-1])

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the passages that have a column."""
        offsets = self.segment.offsets
        if self.alive is not None:
            offsets = offsets.compress(self.alive)  # three times as fast as by an index
        return self.first_row + offsets.astype(np.int64)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The mask of the passages that have a column."""
        return np.ones(len(self.segment), dtype=bool) if self.alive is None else self.alive

    @cached_property
    def count(self) -> int:
        """The number of passages that have a column."""
        return len(self.segment) if self.alive is None else int(np.count_nonzero(self.alive))


class SegmentFolder:
    """The segments of an index, in files of its folder or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / SEGMENTS
        self._segments: dict[str, Segment] = {}  # all in memory, or those that are open

    def path(self, name: str) -> Path:
        """Return the file of a segment."""
        return (self.folder or Path(":memory:")) / (name + _SUFFIX)

    def write(self, segment: Segment) -> tuple[str, str]:
        """Keep a segment; return its name and hash."""
        name = secrets.token_hex(16)
        if self.folder is None:
            self._segments[name] = segment
            return name, ""
        self.folder.mkdir(exist_ok=True)
        digest = hashlib.sha256()
        with self.path(name).open("wb") as file:
            for block in _packed(segment.arrays()):
                file.write(block)
                digest.update(block)
        to_disk(self.path(name))
        to_disk(self.folder)
        if scans := segment.__dict__.get("scans"):  # of the rows that are searched
            on_disk = self.open(name)
            pairs = zip(scans, on_disk.vectors, strict=True)
            on_disk.__dict__["scans"] = [replace(scan, means=on.embedding) for scan, on in pairs]
        return name, digest.hexdigest()

    def open(self, name: str) -> Segment:
        """Return a segment; IndexCorrupted if it is missing or damaged."""
        if name not in self._segments:
            path = self.path(name)
            if not _NAME.fullmatch(name):
                raise corruption(path.parent, f"cannot hold a segment named {name!r:.60}.")
            with as_corrupted(path):
                with open_regular(path) as file:
                    # Copy-on-write, since torch does not accept read-only arrays.
                    content = np.memmap(file, np.uint8, "c")
                # As a plain array, whose slices are four times as fast.
                self._segments[name] = Segment.read(np.asarray(content), path)
        return self._segments[name]

    def forget(self, files: Iterable[str]) -> None:
        """Let go of open files that are not named any more."""
        for name in self._segments.keys() - {*files}:
            self._segments.pop(name, None)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files that nothing names any more."""
        for name in names:
            self._segments.pop(name, None)
            if self.folder is not None:
                with suppress(OSError):  # it may be open elsewhere, on Windows
                    self.path(name).unlink(missing_ok=True)

    def sweep(self, names: set[str]) -> None:
        """Remove the files that a killed writer left; the caller has the turn to write."""
        if self.folder is not None and self.folder.is_dir():
            self.remove({file.stem for file in self.folder.glob(f"*{_SUFFIX}")} - names)


def bury(part: Part, dead: NDArray[np.int64]) -> Part:
    """Return a part without some rows, of which others may be none of its own."""
    rows = dead[(dead >= part.first_row) & (dead <= part.last)] - part.first_row
    if not len(rows):
        return part
    alive = part.kept.copy()
    offsets = part.segment.offsets
    at = np.minimum(np.searchsorted(offsets, rows.astype(np.uint32)), len(offsets) - 1)
    alive[at[offsets[at] == rows]] = False
    return replace(part, alive=alive)


def check_alike(parts: Sequence[Part], schema: Schema) -> None:
    """Raise ValueError unless segments fit what they share."""
    for segment in (part.segment for part in parts):
        layout = Schema.of(segment.vectors), len(segment.words)
        if layout != (schema, schema.words):
            raise ValueError(f"a segment has {layout}, expected {schema}")


def to_merge(parts: Sequence[Part]) -> Sequence[Part]:
    """Return neighbouring segments to join, if there are some."""
    for part in parts:
        if part.count < len(part.segment) * (1 - _DEAD):
            return [part]
    run = list(parts[-_RUN:])
    if len(run) < _RUN or max(_level(part.count) for part in run) > _level(run[-1].count):
        return []  # the last is smaller than others, and waits for more of its size
    while sum(part.count for part in run) > MOST_ROWS:
        run = run[1:]
    is_full = 2 * sum(part.count for part in run) > MOST_ROWS
    return run if len(run) == _RUN or (is_full and len(run) > 1) else []


def _level(size: int) -> int:
    """Return the level of a segment; sizes of one level differ by less than a factor."""
    return int(math.log(max(1, size), _FACTOR))
