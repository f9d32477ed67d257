"""Which rows of a store a metadata filter lets through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from uec_rag.stores.base import Filter, Passage

Rows: TypeAlias = NDArray[np.int64]


class _Rows(Protocol):
    def __getitem__(self, row: int) -> Passage: ...


class MetadataIndex:
    """Rows by metadata value, built for the keys that are asked for, extended as rows are added.

    Rows never change, so what was looked at once is not looked at again.

    Examples
    --------
    >>> passages = [Passage("1", "a", {"lang": "en"}), Passage("2", "b", {"lang": "de"})]
    >>> MetadataIndex().select({"lang": "de"}, passages, np.arange(2)).tolist()
    [1]
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._seen = 0
        self._values: dict[str, dict[Hashable, list[int]]] = {}
        self._unhashable: dict[str, list[tuple[int, Any]]] = {}
        self._covered: dict[str, int] = {}
        self._lock = threading.Lock()

    def select(self, filter: Filter, passages: _Rows, rows: Rows) -> Rows:
        """Return those of the given rows, ascending, that a filter lets through.

        Raises
        ------
        TypeError
            If the filter is neither a mapping nor callable.
        KeyError
            If a mapping names a metadata key that no passage has.
        """
        if callable(filter):
            return _by_predicate(filter, passages, rows)
        if not isinstance(filter, Mapping):
            raise TypeError(
                "filter: expected a mapping of metadata values or a callable(passage) -> bool, "
                f"got {type(filter).__name__}."
            )
        stop = int(rows[-1]) + 1 if len(rows) else 0
        for key, value in filter.items() if stop else ():
            rows = np.intersect1d(rows, self._rows(key, value, passages, stop))
        return rows

    def _rows(self, key: str, value: object, passages: _Rows, stop: int) -> Rows:
        with self._lock:
            self._extend(key, passages, stop)
            found: list[int] = []
            if _is_hashable(value):
                found = self._values[key].get(value, [])
            odd = [row for row, other in self._unhashable[key] if other == value]
            return np.array([*found, *odd], dtype=np.int64)

    def _extend(self, key: str, passages: _Rows, stop: int) -> None:
        for row in range(self._seen, stop):
            self._keys.update(passages[row].metadata)
        self._seen = max(self._seen, stop)
        if key not in self._keys:
            raise KeyError(
                f"filter: no passage has the metadata key {key!r}; known keys are "
                f"{sorted(self._keys)[:20]}."
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


def _is_hashable(value: object) -> TypeGuard[Hashable]:
    """Also of a tuple, which is hashable by type but not if it holds a list."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _by_predicate(predicate: Callable[[Passage], bool], passages: _Rows, rows: Rows) -> Rows:
    keep = (bool(predicate(passages[row])) for row in rows.tolist())
    chosen: Rows = rows[np.fromiter(keep, dtype=bool, count=len(rows))]
    return chosen
