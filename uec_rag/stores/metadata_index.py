"""Rows of a store in memory by their metadata."""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Hashable
from functools import reduce
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from uec_rag.stores.base import Passage
from uec_rag.stores.filters import Compare, Condition, Every, HasId, Not, Some, Where

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
        self._lock = threading.Lock()

    def select(
        self,
        condition: Condition,
        passages: _Rows,
        rows: Rows,
        row_of: Callable[[str], int | None],
    ) -> Rows:
        """Return those of the given rows, ascending, for which a condition holds.

        A key that no passage has is warned of, once.

        Raises
        ------
        TypeError
            If a value cannot be compared with what the condition has, as Python says it.
        """

        def chosen(condition: Condition, rows: Rows) -> Rows:
            match condition:
                case Every(conditions):
                    return reduce(lambda left, one: chosen(one, left), conditions, rows)
                case Some(conditions):
                    found = [chosen(one, rows) for one in conditions]
                    return np.unique(np.concatenate([rows[:0], *found]))
                case Not(one):
                    return np.setdiff1d(rows, chosen(one, rows), assume_unique=True)
                case HasId(ids):
                    known = [row for id_ in ids if (row := row_of(id_)) is not None]
                    return np.intersect1d(rows, np.array(known, dtype=np.int64))
                case Where(predicate):
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
