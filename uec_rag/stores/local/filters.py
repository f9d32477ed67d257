"""Filters of a local index: one comparison is a statement of SQL, which others join as masks.

What SQL compares otherwise than Python, such as lists, is compared in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import warn
from uec_rag.stores import filters
from uec_rag.stores.base import DateText, Passage
from uec_rag.stores.filters import And, Compare, Condition, HasId, Nested, Not, Or, Predicate
from uec_rag.stores.local.database import (
    WAIT,
    Database,
    index_of_value,
    kind_errors,
    quote,
    value_of,
)
from uec_rag.stores.local.view import View

Mask: TypeAlias = NDArray[np.bool_]
Clause: TypeAlias = tuple[str, list[Any]]
"""SQL, and its parameters."""

_INDEXED = 2000  # passages from which on an index of the values pays off
_MOST_INDEXES = 64  # keys of metadata that have one; requests may have any number
_WARNED = 20  # unknown keys that are remembered, and named
# Keys that a path can name, since paths cannot escape; longer ones would fill SQLite's caches.
_PLAIN = re.compile(r"[^\"\\\x00-\x1f]{1,200}")
_ORDERS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def _path(keys: Sequence[str]) -> str | None:
    """Return the path of JSON to what is under some keys; None if it cannot be written."""
    return "$" + "".join(f'."{key}"' for key in keys) if all(map(_PLAIN.fullmatch, keys)) else None


def _kind(path: str) -> str:
    """Return the SQL of the type of JSON at a path; NULL if there is nothing."""
    return f"json_type(metadata, {quote(path)})"


def _operand(value: Any) -> Clause:  # noqa: ANN401
    """Return the SQL of a scalar that is compared; a float is read as those of metadata are."""
    if isinstance(value, float):
        return "json_extract(?, '$')", [json.dumps(value)]
    return "?", [str(value) if isinstance(value, str) else int(value)]


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _equal(path: str, options: Sequence[Any]) -> Clause:
    """Return the SQL of equality with one of some scalars."""
    scalars = [option for option in options if option is not None]
    moments = [option.key for option in scalars if isinstance(option, DateText)]
    value, clauses, out = value_of("metadata", path), list[str](), list[Any]()
    if len(scalars) == 1:
        sql, own = _operand(scalars[0])
        clauses.append(f"{value} = {sql}")
        out += own
    elif scalars:
        clauses.append(f"{value} IN (SELECT value FROM json_each(?))")
        out.append(json.dumps(scalars))
    if len(scalars) < len(options):
        clauses.append(f"{_kind(path)} = 'null'")
    if moments:
        clauses.append(f"{value_of('dates', path)} IN (SELECT value FROM json_each(?))")
        out.append(json.dumps(moments))
    return " OR ".join(clauses) or "0", out


def _ordered(path: str, operator: str, limit: Any) -> Clause:  # noqa: ANN401
    """Return the SQL of an order; numbers sort below texts in an index, and NULL is in none."""
    if isinstance(limit, DateText):
        moment = limit.first if operator in ("$gte", "$lt") else limit.after
        sign = ">=" if operator in ("$gt", "$gte") else "<"
        return f"{value_of('dates', path)} {sign} ?", [moment]
    value, (sql, own) = value_of("metadata", path), _operand(limit)
    clause = f"{value} {_ORDERS[operator]} {sql}"
    if isinstance(limit, str) and operator in ("$lt", "$lte"):
        return f"{clause} AND {value} >= ''", own
    if not isinstance(limit, str) and operator in ("$gt", "$gte"):
        return f"{clause} AND {value} < ''", own
    return clause, own


def _containing(path: str, asked: Any) -> Clause:  # noqa: ANN401
    """Return the SQL of a list with an item, or of a text with a part."""
    inside = f"EXISTS (SELECT 1 FROM json_each(metadata, {quote(path)}) AS item WHERE "
    if asked is None:
        return f"{_kind(path)} = 'array' AND {inside}item.type = 'null')", []
    sql, own = _operand(asked)
    clause = f"({_kind(path)} = 'array' AND {inside}item.atom = {sql}))"
    if not isinstance(asked, str):
        return clause, own
    value = value_of("metadata", path)
    return f"{clause} OR (typeof({value}) = 'text' AND instr({value}, ?) > 0)", [*own, *own]


def _clause(keys: Sequence[str], operator: str, asked: Any) -> Clause | None:  # noqa: ANN401
    """Return the SQL of a comparison other than `$ne` and `$nin`; None if Python has to compare."""
    path = _path(keys)
    options = asked if operator == "$in" else [asked]
    if path is None or not all(map(_is_scalar, options)):
        return None
    match operator:
        case "$eq" | "$in":
            return _equal(path, options)
        case "$exists":
            return f"{_kind(path)} <> 'null'", []
        case "$contains":
            return _containing(path, asked)
    return _ordered(path, operator, asked)


class Filters:
    """The filters of an index, which remember the keys of its metadata.

    Parameters
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[str] = set()
        # The hash of an unknown key, and the row up to which it was looked for.
        self._searched: dict[int, int] = {}
        self._warned: set[str] = set()
        self._indexed = set[tuple[str, str]]()  # columns and paths

    def select(
        self, view: View, condition: Condition, ask: Callable[[str, Sequence[Any]], list[Any]]
    ) -> Mask:
        """Return which positions of a view satisfy a condition; unknown keys are warned of.

        `ask`: runs a statement of SQL, and returns its rows.
        """
        state = view.state
        for key in sorted(filters.keys_of(condition)):
            self._look_for(key, state.next_row, ask)
        among = np.zeros(int(state.edges[-1]), dtype=bool)
        among[slice(None) if view.selected is None else view.selected] = True
        return _Selection(self, view, ask).mask(condition, among, ())

    def _look_for(
        self, key: str, next_row: int, ask: Callable[[str, Sequence[Any]], list[Any]]
    ) -> None:
        """Look for a key in the rows in which it was not looked for; warn once if none has it."""
        start = self._searched.get(hash(key), 0)
        if key in self._known or start >= next_row:
            return
        has_key = "EXISTS (SELECT 1 FROM json_each(metadata) AS item WHERE item.key = ?)"
        if path := _path([key]):  # which is faster
            has_key = f"{_kind(path)} IS NOT NULL AND ? IS NOT NULL"
        found = f"SELECT 1 FROM passages WHERE row >= ? AND row < ? AND {has_key} LIMIT 1"
        if ask(found, [start, next_row, key]):
            self._known.add(key)
            return
        if len(self._searched) > _MOST_INDEXES:  # requests may have any number
            self._searched.clear()
        self._searched[hash(key)] = next_row
        if len(self._warned) >= _WARNED or (shown := f"{key!r:.60}") in self._warned:
            return
        self._warned.add(shown)
        known = ask(
            "SELECT DISTINCT item.key FROM passages, json_each(passages.metadata) AS item "
            "ORDER BY 1 LIMIT ?",
            [_WARNED],
        )
        columns = [f"{column:.60}" for (column,) in known]
        warn(f"filter: no passage has the metadata key {shown}; known keys are {columns}.")

    def index(self, keys: Sequence[str], column: str, next_row: int) -> None:
        """Make an index of the values under a path, if that pays off and nobody writes."""
        path = _path(keys)
        if (
            next_row < _INDEXED
            or path is None
            or (column, path) in self._indexed
            or len(self._indexed) >= _MOST_INDEXES
            or keys[0] not in self._known
            or self._database.read_only
        ):
            return
        if not self._database.writing.acquire(blocking=False):
            return
        try:
            self._indexed.add((column, path))
            with suppress(OSError):  # others write, or the disk is full: the rows are scanned
                self._make(*index_of_value(column, path))
        finally:
            self._database.writing.release()

    def _make(self, name: str, sql: str) -> None:
        with self._database.write() as connection:
            if connection.in_transaction:
                return
            there = "SELECT name FROM sqlite_master WHERE name LIKE 'value\\_%' ESCAPE '\\'"
            names = [found for (found,) in connection.execute(there)]
            if name in names or len(names) >= _MOST_INDEXES:
                return
            connection.execute("PRAGMA busy_timeout = 200")
            try:
                with kind_errors(self._database.path):
                    # Another process may have made it meanwhile.
                    connection.execute(sql.replace("INDEX", "INDEX IF NOT EXISTS", 1))
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * WAIT)}")


class _Selection:
    """The evaluation of a condition over a view."""

    def __init__(
        self, of: Filters, view: View, ask: Callable[[str, Sequence[Any]], list[Any]]
    ) -> None:
        self._filters, self._view, self._ask = of, view, ask

    def mask(self, condition: Condition, among: Mask, keys: tuple[str, ...]) -> Mask:
        """Return which of some positions satisfy a condition on what is under a path of keys."""
        match condition:
            case And(conditions):
                for one in sorted(conditions, key=_has_predicate):  # Python last, over what is left
                    among = self.mask(one, among, keys)
                return among
            case Or(conditions):
                found = np.zeros_like(among)
                for one in sorted(conditions, key=_has_predicate):
                    found |= self.mask(one, among & ~found, keys)
                return found
            case Not(negated):
                return among & ~self.mask(negated, among, keys)
            case Nested(key, inner):
                return self.mask(inner, among, (*keys, key))
            case Compare(key, "$ne" | "$nin" as operator, value):
                opposite: filters.Operator = "$eq" if operator == "$ne" else "$in"
                return self.mask(Not(Compare(key, opposite, value)), among, keys)
            case Compare(key, "$exists", False):
                return self.mask(Not(Compare(key, "$exists", True)), among, keys)
            case Compare(key, operator, value):
                return self._compare((*keys, key), operator, value, among)
            case HasId(ids):
                return among & self._rows("id IN (SELECT value FROM json_each(?))", [_json(ids)])
            case Predicate(predicate):
                return self._by_python(lambda passage: bool(predicate(passage)), among)

    def _compare(self, keys: tuple[str, ...], operator: str, value: Any, among: Mask) -> Mask:  # noqa: ANN401
        clause = _clause(keys, operator, value)
        if clause is None:
            condition: Condition = Compare(keys[-1], operator, value)  # type: ignore[arg-type]
            for key in reversed(keys[:-1]):
                condition = Nested(key, condition)
            return self._by_python(lambda passage: filters.matches(condition, passage), among)
        if operator not in ("$exists", "$contains"):
            options = value if operator == "$in" else [value]
            is_date = any(isinstance(option, DateText) for option in options)
            for column in ("metadata", "dates") if is_date else ("metadata",):
                self._filters.index(keys, column, self._view.state.next_row)
        return among & self._rows(*clause)

    def _rows(self, where: str, parameters: Sequence[Any]) -> Mask:
        """Return the positions whose rows satisfy SQL."""
        # One text instead of a tuple for each row, which takes half as long.
        [(found,)] = self._ask(f"SELECT group_concat(row) FROM passages WHERE {where}", parameters)
        mask = np.zeros(int(self._view.state.edges[-1]), dtype=bool)
        if found:
            rows = np.fromstring(found, dtype=np.int64, sep=",")
            mask[self._view.state.positions(rows)] = True
        return mask

    def _by_python(self, predicate: Callable[[Passage], bool], among: Mask) -> Mask:
        kept, positions = np.zeros_like(among), np.flatnonzero(among)
        view = View(self._view.state, self._view.texts, positions)
        for position, passage in zip(positions.tolist(), view.passages(), strict=True):
            kept[position] = predicate(passage)
        return kept


def _json(values: Sequence[str]) -> str:
    return json.dumps([*values], ensure_ascii=False)


def _has_predicate(condition: Condition) -> bool:
    match condition:
        case And(conditions) | Or(conditions):
            return any(map(_has_predicate, conditions))
        case Not(negated) | Nested(_, negated):
            return _has_predicate(negated)
    return isinstance(condition, Predicate)
