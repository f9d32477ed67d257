"""Filters as PostgreSQL runs them, on the columns of `uec_rag.stores.pgvector`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

from psycopg import sql

from uec_rag.stores.facts import fact, field
from uec_rag.stores.filters import Compare, Condition, Every, HasId, Not, Some, Where
from uec_rag.stores.point_ids import point_id

_ORDERS: dict[str, LiteralString] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


class Clause(NamedTuple):
    """A condition in SQL, which is never NULL, and what fills its gaps."""

    text: sql.SQL | sql.Composed
    values: list[object]


def clause(condition: Condition | None) -> Clause:
    """Translate a condition.

    Raises
    ------
    ValueError
        If PostgreSQL cannot run it: a callable, or an order of what are no numbers.
    """
    match condition:
        case None:
            return Clause(sql.SQL("TRUE"), [])
        case Every(conditions):
            return _joined(" AND ", "TRUE", conditions)
        case Some(conditions):
            return _joined(" OR ", "FALSE", conditions)
        case Not(one):
            inner = clause(one)
            return Clause(sql.SQL("NOT ({})").format(inner.text), inner.values)
        case HasId(ids):
            return Clause(sql.SQL("point = ANY(%s::uuid[])"), [[*map(point_id, ids)]])
        case Where():
            raise ValueError(
                "filter: a callable runs in Python and PostgreSQL does not; use operators "
                "(uec_rag.stores.filters) or a MemoryStore."
            )
        case Compare():
            return _compared(condition)


def known(key: str) -> Clause:
    """Which passages have a metadata key."""
    return _facts(fact("key", key))


def _joined(word: LiteralString, nothing: LiteralString, conditions: Sequence[Condition]) -> Clause:
    if not conditions:
        return Clause(sql.SQL(nothing), [])
    parts = [clause(one) for one in conditions]
    whole = sql.SQL(word).join(sql.SQL("({})").format(part.text) for part in parts)
    return Clause(whole, [value for part in parts for value in part.values])


def _compared(condition: Compare) -> Clause:
    key, value = condition.key, condition.value
    match condition.operator:
        case "$eq":
            return _facts(fact("is", key, value))
        case "$in":
            return _facts(*(fact("is", key, one) for one in value))
        case "$ne":
            return clause(Not(Compare(key, "$eq", value)))
        case "$nin":
            return clause(Not(Compare(key, "$in", value)))
        case "$exists":
            there = _facts(fact("there", key))
            return there if value else Clause(sql.SQL("NOT ({})").format(there.text), there.values)
        case "$contains":
            has = _facts(fact("has", key, value))
            if not isinstance(value, str):
                return has
            text = sql.SQL(
                "({} OR COALESCE(json_typeof(metadata->%s) = 'string' "
                "AND strpos(metadata->>%s, %s) > 0, FALSE))"
            ).format(has.text)
            return Clause(text, [*has.values, key, key, value])
    if not isinstance(value, int | float):
        raise ValueError(
            f"filter: PostgreSQL orders numbers only here, got {condition.operator} {value!r:.60} "
            f"for {key!r}; keep a number (a timestamp, say) beside it."
        )
    order = sql.SQL(_ORDERS[condition.operator])
    number = sql.SQL("COALESCE((numbers->>%s)::float8 {} %s::float8, FALSE)").format(order)
    return Clause(number, [field(key), float(value)])


def _facts(*facts: str) -> Clause:
    return Clause(sql.SQL("facts && %s::text[]"), [list(facts)])
