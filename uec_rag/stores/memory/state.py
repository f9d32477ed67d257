"""The state of a store in memory at one moment, and how the next is made.

It consists of vectors and passages by row, and of an index of the passages by metadata. Saved
passages are read lazily.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from heapq import nsmallest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted, corruption, warn
from uec_rag.base.forks import free_after_fork
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.postings import Frequencies, Postings
from uec_rag.base.properties import cached_property
from uec_rag.base.saved.files import open_regular, read_array
from uec_rag.stores import filters
from uec_rag.stores.base import Filter, Passage, check_passage, copy_passage
from uec_rag.stores.memory.vectors import Means, QuantisedMeans, require_finite

_REMEMBERED, _LONG = 4096, 4096  # size of the cache, and bytes of a passage too long for it

# A single encoder, since json.dumps would create one for every line.
_to_json = json.JSONEncoder(ensure_ascii=False).encode


class PassageLog:
    """Passages by row. Rows are only ever added, so readers of the first n rows can share it.

    `folder`: a folder in which `write` saved passages, which are parsed on first use. `ids`: their
    ids. IndexCorrupted if the files are missing or do not belong together.

    Examples
    --------
    >>> log = PassageLog()
    >>> log.extend([Passage("a", "text")])
    >>> len(log), log[0].id
    (1, 'a')
    """

    def __init__(self, folder: Path | None = None, ids: Sequence[str] = ()) -> None:
        self._added: list[Passage] = []
        self._offsets: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._file: mmap.mmap | None = None
        self._ids = ids
        if folder is not None:
            self._offsets = read_array(folder / "offsets.npy", np.int64, 1)
            with open_regular(folder / "passages.jsonl") as file:
                size = os.fstat(file.fileno()).st_size
                ends = self._offsets[[0, -1]].tolist() if len(self._offsets) else []
                if ends != [0, size] or (np.diff(self._offsets) <= 0).any():
                    raise corruption(
                        folder / "offsets.npy",
                        "does not say where the lines of "
                        f"{str(folder / 'passages.jsonl')!r} begin; save the index again.",
                    )
                if size:
                    self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # Neither refers to the log, so the file is closed with the last log that uses it.
        self._read = partial(_read_passage, self._file, self._offsets, self._ids)
        self._recall = lru_cache(_REMEMBERED)(self._read)

    def __len__(self) -> int:
        return len(self._offsets) - 1 + len(self._added)

    def __getitem__(self, row: int) -> Passage:
        return copy_passage(self.stored(row))

    def stored(self, row: int) -> Passage:
        """Return a shared passage, which must not be changed."""
        on_disk = len(self._offsets) - 1
        if row >= on_disk:
            return self._added[row - on_disk]
        is_long = self._offsets[row + 1] - self._offsets[row] > _LONG
        return (self._read if is_long else self._recall)(row)

    def write(self, rows: NDArray[np.int64], folder: Path) -> list[str]:
        """Write rows, in ascending order, as ``passages.jsonl`` and ``offsets.npy``.

        Lines of the file are copied without parsing. Returns the ids of the rows. TypeError if
        metadata cannot be written as JSON.
        """
        on_disk = len(self._offsets) - 1
        saved, new = np.split(rows, [np.searchsorted(rows, on_disk)])
        added = [self._added[row - on_disk] for row in new.tolist()]
        with (folder / "passages.jsonl").open("wb") as out:
            for run in np.split(saved, np.flatnonzero(np.diff(saved) != 1) + 1):
                if len(run):
                    assert self._file is not None
                    start, stop = self._offsets[run[0]], self._offsets[run[-1] + 1]
                    out.write(memoryview(self._file)[start:stop])
            lengths = [out.write(line_of(passage)) for passage in added]
        sizes = np.concatenate([[0], np.diff(self._offsets)[saved], lengths])
        np.save(folder / "offsets.npy", np.cumsum(sizes).astype(np.int64), allow_pickle=False)
        return [*(self._ids[row] for row in saved.tolist()), *(passage.id for passage in added)]

    def extend(self, passages: Sequence[Passage]) -> None:
        """Add rows."""
        self._added.extend(passages)

    def first(self, rows: int) -> PassageLog:
        """Return a log of the first rows that can be extended independently."""
        log = PassageLog()
        on_disk = min(rows, len(self._offsets) - 1)
        log._file, log._offsets = self._file, self._offsets[: on_disk + 1]
        log._ids, log._read, log._recall = self._ids, self._read, self._recall
        log._added = self._added[: rows - on_disk]
        return log


def _read_passage(
    file: mmap.mmap | None, offsets: NDArray[np.int64], ids: Sequence[str], row: int
) -> Passage:
    """Read and check a passage from the file."""
    assert file is not None
    line = file[offsets[row] : offsets[row + 1]]
    try:
        record = json.loads(line)
        about = record.pop("about", None)
        passage = check_passage(Passage(**record), about)  # refuses what no addition takes
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IndexCorrupted(
            f"path: passages.jsonl of the index does not hold a passage in line {row + 1} "
            f"({error}); load the index with verify=True, or save it again."
        ) from error
    if passage.id != ids[row]:
        raise IndexCorrupted(
            f"path: passages.jsonl of the index holds {passage.id!r} where store.json says "
            f"{ids[row]!r}; save the index again."
        )
    return passage


def line_of(passage: Passage) -> bytes:
    """Convert a passage to a line of JSON.

    TypeError if its metadata cannot be written as JSON.
    """
    try:
        return _to_json(passage.record).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"metadata: passage {passage.id!r} cannot be saved as JSON ({error}); "
            "keep strings, numbers, lists and dicts."
        ) from error


Rows: TypeAlias = NDArray[np.int64]

_WARNED = 20  # unknown keys that are remembered, and named; requests may have any number


class _Column:
    """The values of one metadata key, as codes of the distinct values and a code per row.

    One thread may write while others read the arrays that `arrays` returned to them.
    """

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._values: list[Any] = []  # by code
        self._texts: list[tuple[int, str]] = []
        self._items: dict[Hashable, list[int]] = {}  # codes of the lists and dicts that have it
        self._rows, self._row_codes = array("q"), array("q")
        self._arrays = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._orders: dict[bool, tuple[int, list[Any], Rows]] = {}  # of texts, and of numbers

    def append(self, row: int, value: Any) -> None:  # noqa: ANN401  # JSON's values
        """Add the value of a row that comes after all others."""
        code = self._codes.setdefault(_frozen(value), len(self._values))
        if code == len(self._values):
            self._values.append(value)
            if isinstance(value, str):
                self._texts.append((code, value))
            for item in {*map(_frozen, value)} if isinstance(value, list | dict) else ():
                self._items.setdefault(item, []).append(code)
        self._rows.append(row)
        self._row_codes.append(code)

    def arrays(self) -> tuple[Rows, Rows]:
        """Return the rows that have the key, ascending, and their codes."""
        if len(self._arrays[0]) < len(self._rows):
            self._arrays = np.array(self._rows), np.array(self._row_codes)
        return self._arrays

    def rows_with(self, operator: str, asked: Any, arrays: tuple[Rows, Rows]) -> Rows:  # noqa: ANN401
        """Find the rows whose value satisfies an operator other than `$ne` and `$nin`."""
        rows, codes = arrays
        matching = np.asarray(self._match(operator, asked), dtype=np.int64)
        wanted = np.zeros(len(self._values), dtype=bool)  # at least one for each of the codes
        wanted[matching] = True
        return rows[wanted[codes]]

    def _match(self, operator: str, asked: Any) -> Rows | list[int]:  # noqa: ANN401
        """Find the codes of the values that satisfy an operator."""
        match operator:
            case "$eq" | "$in":
                wanted = asked if operator == "$in" else (asked,)
                return [
                    self._codes[value] for value in map(_frozen, wanted) if value in self._codes
                ]
            case "$exists":
                return [code for code, value in enumerate(self._values) if value is not None]
            case "$contains":
                texts = self._texts if isinstance(asked, str) else []
                codes = [code for code, text in texts if asked in text]
                return [*codes, *self._items.get(_frozen(asked), ())]
        return self._order(operator, asked)

    def _order(self, operator: str, limit: str | float) -> Rows:
        """Find the codes of the values, texts or numbers like the limit, on one side of it."""
        is_text, count = isinstance(limit, str), len(self._values)
        kind = str if is_text else bool | int | float
        order = self._orders.get(is_text)
        if order is None or order[0] != count:
            own = [code for code in range(count) if isinstance(self._values[code], kind)]
            own.sort(key=self._values.__getitem__)
            values = [self._values[code] for code in own]
            order = self._orders[is_text] = count, values, np.array(own, dtype=np.int64)
        _, values, codes = order
        position = (bisect_right if operator in ("$gt", "$lte") else bisect_left)(values, limit)
        return codes[position:] if operator in ("$gt", "$gte") else codes[:position]


class MetadataIndex:
    """An index of rows by metadata value, built on first use and extended as rows are added.

    Rows never change, so each is only read once.

    Examples
    --------
    >>> from uec_rag.stores.filters import parse
    >>> passages = [Passage("1", "a", {"lang": "en"}), Passage("2", "b", {"lang": "de"})]
    >>> MetadataIndex().select(parse({"lang": "de"}), passages, np.arange(2), {}.get).tolist()
    [1]
    """

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._seen = 0
        self._warned: set[str] = set()
        self._lock = free_after_fork(threading.Lock(), inner=True)

    def select(
        self,
        condition: filters.Condition,
        passages: PassageLog | Sequence[Passage],
        rows: Rows,
        row_of: Callable[[str], int | None],
    ) -> Rows:
        """Return those of the given rows that satisfy a condition, in ascending order.

        Warns once about each key that no passage has.
        """
        stop = int(rows[-1]) + 1 if len(rows) else 0
        columns = self._columns_of(sorted(filters.keys_of(condition)), passages, stop)

        def chosen(condition: filters.Condition, rows: Rows) -> Rows:
            match condition:
                case filters.And(conditions):
                    return reduce(lambda left, one: chosen(one, left), conditions, rows)
                case filters.Or(conditions):
                    return rows[_mark((chosen(part, rows) for part in conditions), stop)[rows]]
                case filters.Not(one):
                    return rows[~_mark([chosen(one, rows)], stop)[rows]]
                case filters.HasId(ids):
                    known = [row for id_ in ids if (row := row_of(id_)) is not None]
                    return rows[_mark([known], stop)[rows]]
                case filters.Predicate(predicate):
                    keep = (bool(predicate(passages[row])) for row in rows.tolist())
                    return np.asarray(rows[np.fromiter(keep, dtype=bool, count=len(rows))])
                case filters.Compare(key, "$ne" | "$nin" as operator, value):
                    opposite: filters.Operator = "$eq" if operator == "$ne" else "$in"
                    return chosen(filters.Not(filters.Compare(key, opposite, value)), rows)
                case filters.Compare(key, "$exists", False):
                    return chosen(filters.Not(filters.Compare(key, "$exists", True)), rows)
                case filters.Compare(key, operator, value):
                    if key not in columns:
                        return rows[:0]
                    column, arrays = columns[key]
                    return rows[_mark([column.rows_with(operator, value, arrays)], stop)[rows]]

        return chosen(condition, rows)

    def _columns_of(
        self, keys: Sequence[str], passages: PassageLog | Sequence[Passage], stop: int
    ) -> dict[str, tuple[_Column, tuple[Rows, Rows]]]:
        """Return the columns of known keys with their arrays, which cover at least `stop` rows."""
        if not keys or not stop:
            return {}
        with self._lock:
            for row in range(self._seen, stop):
                for key, value in passages[row].metadata.items():
                    self._columns.setdefault(key, _Column()).append(row, value)
                self._seen = row + 1
            for key in keys:
                if key not in self._columns:
                    self._warn(key)
            there = [key for key in keys if key in self._columns]
            return {key: (column := self._columns[key], column.arrays()) for key in there}

    def _warn(self, key: str) -> None:
        if len(self._warned) >= _WARNED or (shown := f"{key!r:.60}") in self._warned:
            return
        self._warned.add(shown)
        columns = [f"{column:.60}" for column in nsmallest(_WARNED, self._columns)]
        warn(f"filter: no passage has the metadata key {shown}; known keys are {columns}.")


def _mark(some: Iterable[Rows | list[int]], stop: int) -> NDArray[np.bool_]:
    """Mark the rows of some arrays that are below `stop`."""
    mask = np.zeros(stop, dtype=bool)
    for each in some:
        rows = np.asarray(each, dtype=np.int64)
        mask[rows[rows < stop]] = True
    return mask


def _frozen(value: Any) -> Hashable:  # noqa: ANN401
    """Convert a value to a hashable one such that equal values stay equal."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):  # marked by an item that no list contains
        return dict, frozenset((key, _frozen(item)) for key, item in value.items())
    try:
        hash(value)
    except TypeError:  # a type that metadata cannot have, so that no value is equal
        return object()
    return value  # type: ignore[no-any-return]


_COMPACT_ABOVE = 0.5  # share of deleted rows at which the rest is copied together


@dataclass(frozen=True, eq=False)
class State:
    """A consistent state of the store. Writers build the next one; readers keep theirs.

    Buffers may be longer than `rows`, and are shared by states: a writer only fills rows that no
    earlier state reads. Rows never change; replacing a passage adds a row.
    """

    rows: int = 0
    means: Means = field(default_factory=Means)
    scales: FloatArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    profile: FloatArray | None = None
    fingerprint: str | None = None  # fingerprint of the ensemble of the Gaussians
    longest: float = 0.0  # upper bound of the norms of the means
    passages: PassageLog = field(default_factory=PassageLog)
    alive: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    row_of: dict[str, int] = field(default_factory=dict)
    earlier: dict[int, int] = field(default_factory=dict)  # row -> previous row of the same id
    selected: NDArray[np.int64] | None = None  # None: all rows
    index: MetadataIndex = field(default_factory=MetadataIndex)
    scan: QuantisedMeans | None = None  # 8-bit copy of the means, to be multiplied instead of them
    postings: tuple[Postings, ...] = ()  # one for each sparse block
    frequencies: tuple[Frequencies, ...] = ()  # those of a larger corpus that the rows are part of

    @property
    def count(self) -> int:
        """The number of selected rows."""
        return self.rows if self.selected is None else len(self.selected)

    def postings_with(self, blocks: Sequence[Terms]) -> tuple[Postings, ...]:
        """Return the postings of each sparse block with those of new rows added.

        ValueError if the weights of the terms differ from those of the stored ones.
        """
        postings = self.postings or [Postings.none() for _ in blocks]
        return tuple(
            one.with_rows(self.rows, terms) for one, terms in zip(postings, blocks, strict=True)
        )

    def selected_rows(self) -> NDArray[np.int64]:
        """Return the selected rows, ascending."""
        return np.arange(self.rows) if self.selected is None else self.selected

    def row(self, id_: str) -> int | None:
        """Return the row of an id; None if it is unknown."""
        row = self.row_of.get(id_)
        # Both dicts are shared with later states, whose rows are skipped.
        while row is not None and row >= self.rows:
            row = self.earlier.get(row)
        return row if row is not None and self.alive[row] else None

    def gaussians(self, rows: NDArray[np.int64]) -> Gaussian:
        """Return the Gaussians of some rows."""
        [mean], scales = require_finite([self.means.rows(rows)]), self.scales[rows]
        return Gaussian.from_factors(mean, scales, self.profile, widths=self.means.widths)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` selected rows at regular steps; cached."""
        if count not in self._samples:
            step = max(1, self.count // count)
            self._samples[count] = self.gaussians(self.selected_rows()[::step])
        return self._samples[count]

    @cached_property
    def _samples(self) -> dict[int, Gaussian]:
        return {}


def filter_state(state: State, filter: Filter) -> State:
    """Return the state with only the rows that match a filter."""
    condition = filters.parse(filter)  # rejects an invalid one even if the store is empty
    rows = state.index.select(condition, state.passages, state.selected_rows(), state.row)
    return replace(state, selected=rows)


def without_leftovers(state: State) -> State:
    """Drop the rows that an interrupted `add` left in the shared buffers."""
    row_of = {id_: row for id_ in state.row_of if (row := state.row(id_)) is not None}
    return replace(state, passages=state.passages.first(state.rows), row_of=row_of, earlier={})


def with_fingerprint(state: State, fingerprint: str) -> State:
    """Record the ensemble of the Gaussians; FingerprintMismatch if it is another one."""
    if not state.count or state.fingerprint in (None, fingerprint):
        return replace(state, fingerprint=fingerprint)
    raise FingerprintMismatch(
        f"store: it holds vectors of another ensemble ({str(state.fingerprint)[:12]!r}, this one "
        f"is {fingerprint[:12]!r}): other models, revisions or posterior. Use that ensemble or "
        "build the index again."
    )


def check_fits(state: State, gaussians: Gaussian) -> None:
    """Raise ValueError unless Gaussians have the stored dimension and posterior."""
    if not state.rows:
        return
    if gaussians.dimension != state.means.dimension:
        raise ValueError(
            f"gaussians: expected dimension {state.means.dimension}, as stored, "
            f"got {gaussians.dimension}."
        )
    if len(gaussians.terms) != len(state.postings):
        raise ValueError(
            f"gaussians: expected {len(state.postings)} blocks of terms, as stored, got "
            f"{len(gaussians.terms)}."
        )
    for postings, block in zip(state.postings, gaussians.terms, strict=True):
        postings.check_fits(block)
    own, stored = gaussians.profile, state.profile
    if own is not stored and (own is None or stored is None or not np.array_equal(own, stored)):
        raise ValueError(
            "gaussians: their variance has another profile than the stored ones; they come "
            "from another posterior. Build the index again."
        )


def compact(state: State) -> State:
    """Return the state itself, or a copy without deleted rows if most rows are deleted."""
    if state.count >= state.rows * (1 - _COMPACT_ABOVE):
        return state
    selected = state.selected_rows()
    passages = PassageLog()
    passages.extend([state.passages[row] for row in selected.tolist()])
    means = state.means.select(selected)
    return State(
        rows=len(selected),
        means=means,
        scales=state.scales[selected],
        profile=state.profile,
        fingerprint=state.fingerprint,
        longest=state.longest,
        passages=passages,
        scan=None if state.scan is None else state.scan.with_rows(0, len(selected), means),
        alive=np.ones(len(selected), dtype=bool),
        row_of={passages[row].id: row for row in range(len(selected))},
        postings=tuple(postings.select(selected) for postings in state.postings),
    )
