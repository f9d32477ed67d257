"""The passages of a store in memory, by row and by metadata; those on disk are read lazily."""

from __future__ import annotations

import json
import mmap
import operator
import os
import re
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import IndexCorrupted
from uec_rag.base.forks import free_after_fork
from uec_rag.base.saved.files import open_regular, read_array
from uec_rag.stores.base import DEEPEST, Passage, copied, keepable
from uec_rag.stores.filters import And, Compare, Condition, HasId, Not, Or, Predicate

# One encoder for all: json.dumps makes a new one for every line.
_to_json = json.JSONEncoder(ensure_ascii=False).encode

# In a line that may hold what `add` would have refused: NaN, numbers that are too large, NUL and
# half surrogate pairs. To look at all lines closely would take longer than to parse them.
_ODD = re.compile(rb"NaN|Infinity|\d{16}|[eE]\+?\d{3}|\\u")


class PassageLog:
    """Passages by row. Rows only ever get added, so a reader of the first n rows may share it.

    `folder`: where `write` left passages; they are parsed when asked for, so opening costs nothing.
    `ids`: of those. IndexCorrupted if the files are missing or do not belong together.

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
                    raise IndexCorrupted(
                        f"path: {str(folder / 'offsets.npy')!r} does not say where the lines of "
                        f"{str(folder / 'passages.jsonl')!r} begin; save the index again."
                    )
                if size:
                    self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1 + len(self._added)

    def __getitem__(self, row: int) -> Passage:
        on_disk = len(self._offsets) - 1
        if row >= on_disk:
            held = self._added[row - on_disk]
            return Passage(held.id, held.text, copied(held.metadata))
        assert self._file is not None
        line = self._file[self._offsets[row] : self._offsets[row + 1]]
        try:
            passage = Passage(**json.loads(line))
            if not isinstance(passage.text, str) or not isinstance(passage.metadata, dict):
                raise TypeError("a text and metadata are expected")
            if _ODD.search(line) or line.count(b"[") + line.count(b"{") > DEEPEST:
                passage = keepable(passage)  # refuses what no addition takes
        except (ValueError, TypeError, RecursionError) as error:
            raise IndexCorrupted(
                f"path: passages.jsonl of the index does not hold a passage in line {row + 1} "
                f"({error}); load the index with verify=True, or save it again."
            ) from error
        if passage.id != self._ids[row]:
            raise IndexCorrupted(
                f"path: passages.jsonl of the index holds {passage.id!r} where store.json says "
                f"{self._ids[row]!r}; save the index again."
            )
        return passage

    def write(self, rows: NDArray[np.int64], folder: Path) -> list[str]:
        """Write rows, ascending, as ``passages.jsonl`` and ``offsets.npy``; returns their ids.

        Those of the file are copied as they lie there, not parsed. TypeError if metadata cannot be
        written as JSON.
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
        """Return a log of the first rows that grows on its own."""
        log = PassageLog()
        on_disk = min(rows, len(self._offsets) - 1)
        log._file, log._offsets = self._file, self._offsets[: on_disk + 1]
        log._ids = self._ids
        log._added = self._added[: rows - on_disk]
        return log


def line_of(passage: Passage) -> bytes:
    """A passage as a line of JSON.

    TypeError if its metadata cannot be written as JSON.
    """
    try:
        return _to_json(vars(passage)).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"metadata: passage {passage.id!r} cannot be saved as JSON ({error}); "
            "keep strings, numbers, lists and dicts."
        ) from error


Rows: TypeAlias = NDArray[np.int64]

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$contains": lambda value, part: part in value,
}
_OPPOSITE = {"$ne": "$eq", "$nin": "$in"}


class _Rows(Protocol):
    def __getitem__(self, row: int) -> Passage: ...


class MetadataIndex:
    """Rows by metadata value, built for the keys that are asked for, extended as rows are added.

    Rows never change, so what was looked at once is not looked at again.

    Examples
    --------
    >>> from uec_rag.stores.filters import parse
    >>> passages = [Passage("1", "a", {"lang": "en"}), Passage("2", "b", {"lang": "de"})]
    >>> MetadataIndex().select(parse({"lang": "de"}), passages, np.arange(2), {}.get).tolist()
    [1]
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._seen = 0
        self._values: dict[str, dict[Hashable, list[int]]] = {}
        self._unhashable: dict[str, list[tuple[int, Any]]] = {}
        self._covered: dict[str, int] = {}
        self._warned: set[str] = set()
        self._lock = free_after_fork(threading.Lock(), inner=True)

    def select(
        self,
        condition: Condition,
        passages: _Rows,
        rows: Rows,
        row_of: Callable[[str], int | None],
    ) -> Rows:
        """Return those of the given rows, ascending, for which a condition holds.

        A key that no passage has is warned of, once.

        TypeError if a value cannot be compared with what the condition has, as Python says it.
        """

        def chosen(condition: Condition, rows: Rows) -> Rows:
            match condition:
                case And(conditions):
                    return reduce(lambda left, one: chosen(one, left), conditions, rows)
                case Or(conditions):
                    found = [chosen(one, rows) for one in conditions]
                    return np.unique(np.concatenate([rows[:0], *found]))
                case Not(one):
                    return np.setdiff1d(rows, chosen(one, rows), assume_unique=True)
                case HasId(ids):
                    known = [row for id_ in ids if (row := row_of(id_)) is not None]
                    return np.intersect1d(rows, np.array(known, dtype=np.int64))
                case Predicate(predicate):
                    keep = (bool(predicate(passages[row])) for row in rows.tolist())
                    return np.asarray(rows[np.fromiter(keep, dtype=bool, count=len(rows))])
                case Compare():
                    return self._compared(condition, passages, rows)

        return chosen(condition, rows)

    def _compared(self, condition: Compare, passages: _Rows, rows: Rows) -> Rows:
        if not len(rows):
            return rows
        key, name, value = condition.key, condition.operator, condition.value
        with self._lock:
            self._extend(key, passages, int(rows[-1]) + 1)
            positive = _OPPOSITE.get(name, name)
            if name == "$exists":
                found = self._where(key, rows, lambda held: True)
            elif positive in ("$eq", "$in"):
                values = value if positive == "$in" else (value,)
                found = [having for one in values for having in self._equal(key, rows, one)]
            else:
                test = _TESTS[name]
                found = self._where(key, rows, lambda held: bool(test(held, value)))
            matching = np.intersect1d(rows, np.concatenate([rows[:0], *map(_array, found)]))
        against = name in _OPPOSITE or (name == "$exists" and not value)
        return np.setdiff1d(rows, matching, assume_unique=True) if against else matching

    def _equal(self, key: str, rows: Rows, value: object) -> list[list[int]]:
        """Lists of rows that have a value."""
        odd = self._odd(key, rows, lambda held: bool(held == value))
        return [self._values[key].get(value, []), *odd] if _is_hashable(value) else odd

    def _where(self, key: str, rows: Rows, test: Callable[[Any], bool]) -> list[list[int]]:
        """Lists of rows that have a value, other than None, which passes a test."""
        found = []
        for held, having in self._values[key].items():
            try:
                if held is not None and test(held):
                    found.append(having)
            except TypeError:
                # Also of rows that are gone: those do not matter.
                if np.isin(having, rows).any():
                    raise
        return found + self._odd(key, rows, test)

    def _odd(self, key: str, rows: Rows, test: Callable[[Any], bool]) -> list[list[int]]:
        """Those of the rows whose value is not hashable and passes a test."""
        all_odd = self._unhashable[key]
        there = np.isin([row for row, _ in all_odd], rows)
        return [[row] for (row, held), at in zip(all_odd, there, strict=True) if at and test(held)]

    def _extend(self, key: str, passages: _Rows, stop: int) -> None:
        for row in range(self._seen, stop):
            self._keys.update(passages[row].metadata)
        self._seen = max(self._seen, stop)
        if key not in self._keys and key not in self._warned:
            self._warned.add(key)
            warnings.warn(
                f"filter: no passage has the metadata key {key!r}; known keys are "
                f"{sorted(map(str, self._keys))[:20]}.",
                UserWarning,
                stacklevel=2,
            )
        values = self._values.setdefault(key, {})
        unhashable = self._unhashable.setdefault(key, [])
        for row in range(self._covered.get(key, 0), stop):
            metadata = passages[row].metadata
            if key not in metadata:
                continue
            value = metadata[key]
            if _is_hashable(value):
                values.setdefault(value, []).append(row)
            else:
                unhashable.append((row, value))
        self._covered[key] = max(self._covered.get(key, 0), stop)


def _array(rows: list[int]) -> Rows:
    return np.array(rows, dtype=np.int64)


def _is_hashable(value: object) -> TypeGuard[Hashable]:
    """Also of a tuple, which is hashable by type but not if it holds a list."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
