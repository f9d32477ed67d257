"""What a filter says, in one form that every store and framework shares.

A filter is a mapping of metadata keys to the values they must have, or to operators:

    {"lang": "en", "year": {"$gte": 2020, "$lt": 2024}, "$or": [{"tags": {"$contains": "tax"}},
     {"source": {"$in": ["law", "court"]}}]}

All of a mapping must hold. `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte` compare; `$in` and `$nin` ask
whether the value is in a list; `$contains` whether a list has an item, or a text a part; `$exists`
whether there is a value; `$and`, `$or` (lists of filters) and `$not` (a filter, or operators on a
key) join them; `$id` lists the ids of passages. A value that is missing or None is only matched by
`$ne`, `$nin`, `{"$exists": False}` and, where it is there, `{"$eq": None}`. A store in memory also
takes a callable(passage) -> bool, by itself or as `$where`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from uec_rag.stores.base import Filter, Passage
from uec_rag.stores.metadata import as_kept

Operator = Literal[
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists"
]


@dataclass(frozen=True)
class Compare:
    """A metadata value under an operator."""

    key: str
    operator: Operator
    value: Any


@dataclass(frozen=True)
class HasId:
    """The passage is one of these."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class Where:
    """A predicate, which only a store in memory can run."""

    predicate: Callable[[Passage], bool]


@dataclass(frozen=True)
class Every:
    """All conditions hold; with none of them always."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """At least one condition holds; with none of them never."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The condition does not hold."""

    condition: Condition


Condition: TypeAlias = Compare | HasId | Where | Every | Some | Not


def parse(filter: Filter) -> Condition:
    """Read a filter.

    Parameters
    ----------
    filter : mapping or callable

    Raises
    ------
    TypeError
        If it is neither, or an operator is given a value of another type.
    ValueError
        If an operator is unknown.

    Examples
    --------
    >>> parse({"year": {"$gte": 2020}})
    Compare(key='year', operator='$gte', value=2020)
    """
    if callable(filter):
        return Where(filter)
    if not isinstance(filter, Mapping):
        raise TypeError(
            "filter: expected a mapping of metadata values or a callable(passage) -> bool, "
            f"got {type(filter).__name__}."
        )
    return _joined([_entry(key, value) for key, value in filter.items()])


def _joined(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else Every(tuple(conditions))


def _entry(key: str, value: object) -> Condition:
    match key:
        case "$and":
            return Every(tuple(map(parse, _listed(key, value))))
        case "$or":
            return Some(tuple(map(parse, _listed(key, value))))
        case "$not":
            return Not(parse(cast(Filter, value)))  # which checks it
        case "$id":
            return HasId(tuple(_listed(key, value)))
        case "$where":
            if not callable(value):
                raise TypeError(
                    f"filter: $where expects a callable(passage) -> bool, got {value!r:.60}."
                )
            return Where(value)
    if not isinstance(key, str) or key.startswith("$"):
        raise ValueError(
            "filter: expected a metadata key, '$and', '$or', '$not', '$id' or '$where', "
            f"got {key!r}."
        )
    return _on(key, value)


def _on(key: str, value: object) -> Condition:
    """What is asked of the value of a key."""
    if not isinstance(value, Mapping) or not any(str(name).startswith("$") for name in value):
        return Compare(key, "$eq", as_kept(value))
    conditions: list[Condition] = []
    for name, operand in value.items():
        if name == "$not":
            conditions.append(Not(_on(key, operand)))
            continue
        if name not in get_args(Operator):
            raise ValueError(
                f"filter: {key!r} has the unknown operator {name!r}; expected one of "
                f"{[*get_args(Operator), '$not']}."
            )
        many = name in ("$in", "$nin")
        asked = tuple(map(as_kept, _listed(name, operand))) if many else as_kept(operand)
        if name == "$exists" and not isinstance(operand, bool):
            raise TypeError(f"filter: $exists expects True or False, got {operand!r:.60}.")
        if name in ("$gt", "$gte", "$lt", "$lte") and not isinstance(
            asked, str | int | float | list
        ):
            raise TypeError(f"filter: {name} expects a number or a text, got {operand!r:.60}.")
        conditions.append(Compare(key, name, asked))
    return _joined(conditions)


def _listed(name: str, value: object) -> Sequence[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(
        value, Sequence | set | frozenset
    ):
        raise TypeError(f"filter: {name} expects a list, got {value!r:.60}.")
    return list(value)


def keys_of(condition: Condition) -> set[str]:
    """Metadata keys that a condition names."""
    match condition:
        case Every(conditions) | Some(conditions):
            return set[str]().union(*map(keys_of, conditions))
        case Not(one):
            return keys_of(one)
        case Compare(key, _, _):
            return {key}
    return set()
