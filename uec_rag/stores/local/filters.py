"""Filters of a local index: one comparison is a statement of SQL, which others join as masks.

What SQL compares otherwise than Python, such as lists, is compared in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import warn
from uec_rag.stores import filters
from uec_rag.stores.base import DateText
from uec_rag.stores.filters import (
    ORDERS,
    And,
    Compare,
    Condition,
    HasId,
    Not,
    Or,
    Predicate,
)
from uec_rag.stores.local.database import (
    WAIT,
    Database,
    index_of_value,
    quote,
    value_of,
)
from uec_rag.stores.local.view import View

Mask: TypeAlias = NDArray[np.bool_]
Ask: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""A function that runs a statement of SQL, and returns its rows."""

Clause: TypeAlias = tuple[str, list[Any]]
"""SQL, and its parameters."""

_INDEXED = 2000  # passages from which on an index of the values pays off
_MOST_INDEXES = 64  # keys of metadata that have one; requests may have any number
_WARNED = 20  # unknown keys that are remembered, and named
# Keys that a path can name, since paths cannot escape; longer ones would fill SQLite's caches.
_PLAIN = re.compile(r"[^\"\\\x00-\x1f]{1,200}")


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


def _equal(path: str, options: Sequence[Any]) -> Clause:
    """Return the SQL of equality with one of some scalars."""
    where = "{} IN (SELECT value FROM json_each(?))"
    scalars = [option for option in options if option is not None]
    clauses, out = [where.format(value_of("metadata", path))], [json.dumps(scalars)]
    if moments := [option.key for option in options if isinstance(option, DateText)]:
        clauses.append(where.format(value_of("dates", path)))
        out.append(json.dumps(moments))
    if len(scalars) < len(options):
        clauses.append(f"{_kind(path)} = 'null'")
    return " OR ".join(clauses), out


def _ordered(path: str, operator: str, limit: Any) -> Clause:  # noqa: ANN401
    """Return the SQL of an order; numbers sort below texts in an index, and NULL is in none."""
    if isinstance(limit, DateText):
        sign, moment = limit.side(operator)
        return f"{value_of('dates', path)} {sign} ?", [moment]
    value, (sql, own) = value_of("metadata", path), _operand(limit)
    clause = f"{value} {ORDERS[operator]} {sql}"
    if isinstance(limit, str) == (operator in ("$lt", "$lte")):  # else none of the other kind
        clause += f" AND {value} {'>=' if isinstance(limit, str) else '<'} ''"
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
    if path is None or not all(isinstance(one, str | int | float | None) for one in options):
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
        self._known, self._warned = set[str](), set[str]()
        self._indexed = set[tuple[str, str]]()  # columns and paths

    def select(self, view: View, condition: Condition, ask: Ask) -> Mask:
        """Return which positions of a view satisfy a condition; unknown keys are warned of."""
        among = np.zeros(int(view.state.edges[-1]), dtype=bool)
        among[slice(None) if view.selected is None else view.selected] = True
        for key in sorted(filters.keys_of(condition) - self._known) if among.any() else ():
            self._look_for(key, ask)
        return _Selection(self, view, ask).mask(condition, among)

    def _look_for(self, key: str, ask: Ask) -> None:
        """Remember a key that a passage has; warn once if none has it."""
        has_key = "EXISTS (SELECT 1 FROM json_each(metadata) AS item WHERE item.key = ?)"
        if path := _path([key]):  # which is faster
            has_key = f"{_kind(path)} IS NOT NULL AND ? IS NOT NULL"
        if ask(f"SELECT 1 FROM passages WHERE {has_key} LIMIT 1", [key]):
            self._known.add(key)
        elif len(self._warned) < _WARNED and (shown := f"{key!r:.60}") not in self._warned:
            self._warned.add(shown)
            known = ask(
                "SELECT DISTINCT item.key FROM passages, json_each(passages.metadata) AS item "
                "ORDER BY 1 LIMIT ?",
                [_WARNED],
            )
            columns = [f"{column:.60}" for (column,) in known]
            warn(f"filter: no passage has the metadata key {shown}; known keys are {columns}.")

    def index(self, keys: Sequence[str], column: str, rows: int) -> None:
        """Make an index of the values under a path, if that pays off and nobody writes."""
        path, writing = _path(keys), self._database.writing
        if (
            rows < _INDEXED
            or path is None
            or (column, path) in self._indexed
            or keys[0] not in self._known
            or self._database.read_only
            or not writing.acquire(blocking=False)
        ):
            return
        try:
            self._indexed.add((column, path))
            with suppress(OSError):  # others write, or the disk is full: the rows are scanned
                self._make(*index_of_value(column, path))
        finally:
            writing.release()

    def _make(self, name: str, sql: str) -> None:
        with self._database.write() as connection:
            made = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'value\\_%' ESCAPE '\\'"
            if connection.in_transaction or connection.execute(made).fetchone()[0] >= _MOST_INDEXES:
                return
            connection.execute("PRAGMA busy_timeout = 200")
            try:
                connection.execute(sql.replace("INDEX", "INDEX IF NOT EXISTS", 1))
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * WAIT)}")


class _Selection:
    """The evaluation of a condition over a view."""

    def __init__(self, of: Filters, view: View, ask: Ask) -> None:
        self._filters, self._view, self._ask = of, view, ask

    def mask(self, condition: Condition, among: Mask) -> Mask:
        """Return which of some positions satisfy a condition."""
        match condition:
            case And(conditions):
                for one in sorted(conditions, key=_runs_python):  # last, over what is left
                    among = self.mask(one, among)
                return among
            case Or(conditions):
                found = np.zeros_like(among)
                for one in sorted(conditions, key=_runs_python):
                    found |= self.mask(one, among & ~found)
                return found
            case Not(negated):
                return among & ~self.mask(negated, among)
            case Compare(operator="$ne" | "$nin" as operator):
                opposite = replace(condition, operator="$eq" if operator == "$ne" else "$in")
                return self.mask(Not(opposite), among)
            case Compare(operator="$exists", value=False):
                return self.mask(Not(replace(condition, value=True)), among)
            case Compare():
                return self._compare(condition, among)
            case HasId(ids):
                having = "id IN (SELECT value FROM json_each(?))"
                return among & self._rows(having, [json.dumps(ids)])
            case Predicate():
                return self._by_python(condition, among)

    def _compare(self, condition: Compare, among: Mask) -> Mask:
        operator, value = condition.operator, condition.value
        clause = _clause(condition.keys, operator, value)
        if clause is None:
            return self._by_python(condition, among)
        if operator not in ("$exists", "$contains"):
            options = value if operator == "$in" else [value]
            is_date = any(isinstance(option, DateText) for option in options)
            for column in ("metadata", "dates")[: 1 + is_date]:
                self._filters.index(condition.keys, column, self._view.state.next_row)
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

    def _by_python(self, condition: Condition, among: Mask) -> Mask:
        kept, positions = np.zeros_like(among), np.flatnonzero(among)
        view = View(self._view.state, self._view.texts, positions)
        for position, passage in zip(positions.tolist(), view.passages(), strict=True):
            kept[position] = filters.matches(condition, passage)
        return kept


def _runs_python(condition: Condition) -> bool:
    return bool(filters.parts_of(condition, (Predicate,)))
