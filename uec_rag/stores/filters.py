"""Filters of passages by metadata, in one form that all stores and frameworks share.

A filter is a mapping of metadata keys to the values they must have, or to operators:

    {"lang": "en", "year": {"$gte": 2020, "$lt": 2024}, "$or": [{"tags": {"$contains": "tax"}},
     {"source": {"$in": ["law", "court"]}}]}

All entries of a mapping must match. `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte` compare values;
`$in` and `$nin` test whether the value is in a list (which may stand for `$in`), `$contains`
whether a list has an item or a text has a part, and `$exists` whether there is a value. Of a value
that is a list, any item may match, or the whole: `$ne` and `$nin` exclude it then, as in MongoDB
and Qdrant. `$and` and `$or` (lists of filters) and
`$not` (a filter, or operators on a key) combine them; `$id` lists the ids of passages. A value that
is missing or None only matches `$ne`, `$nin`, `{"$exists": False}` and, if the key exists,
`{"$eq": None}`. Numbers are compared with numbers and texts with texts; a value of another
type does not match, and if all of a key are, a warning says so. True is not 1.

A callable(passage) -> bool is a filter, too, and operators compare what a dict holds, as in
`{"loc": {"page": {"$gte": 2}}}`. A date or datetime is compared with the dates of metadata, except
those in lists and dicts, as a moment, in UTC if it has no time zone: `$lte` and `$gt` of a date
mean the whole day, `$gte` and `$lt` its first moment. So is a text in ISO 8601, such as
"2024-01-31", which stays a text all the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from uec_rag.base.checks import check_stored_text, check_type
from uec_rag.base.records import cached_property
from uec_rag.base.text import in_nfc
from uec_rag.stores.base import EVERYONE, Everyone, Filter
from uec_rag.stores.comparisons import (
    MISSING,
    ORDERS,
    Compare,
    Operator,
    exact_name,
    holds,
    kinds_of,
    mismatch,
    value_at,
)
from uec_rag.stores.metadata import DEEPEST, EXACT, DateText, KeptText, normalise, normalise_value
from uec_rag.stores.passage import Passage, distinct

_T = TypeVar("_T")
_NEGATED = {"$ne": "$eq", "$nin": "$in"}
_OPERATORS = (*_NEGATED, *get_args(Operator))


@dataclass(frozen=True)
class HasId:
    """A condition that the passage has one of these ids."""

    ids: tuple[str, ...]

    @cached_property
    def known(self) -> frozenset[str]:
        """The ids as a set."""
        return frozenset(self.ids)


@dataclass(frozen=True)
class Join:
    """A condition that all of some conditions are true, at least one ("or"), or none ("not")."""

    kind: Literal["and", "or", "not"]
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Compare | HasId | Join | Callable[[Passage], bool]


def parse(filter: Filter) -> Condition:
    """Parse a filter.

    Raises TypeError if it is neither a mapping nor a callable, or the value of an operator has the
    wrong type; ValueError if an operator is unknown, a value cannot be stored (see
    `uec_rag.stores.metadata`), or the filter is nested too deeply.

    Examples
    --------
    >>> parse({"year": {"$gte": 2020}})
    Compare(keys=('year',), operator='$gte', value=2020, is_exact=False)
    """
    level: list[object] = [filter]
    for _ in range(DEEPEST):
        inner = [item for value in level for item in _items(value)]
        level = [*{id(item): item for item in inner}.values()]  # each once, even if it is recursive
    if level:
        raise ValueError(f"filter: expected at most {DEEPEST} levels of lists and dicts.")
    return _parse_clause(filter, is_exact=False)


def _items(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _parse_clause(filter: Filter, *, is_exact: bool) -> Condition:
    if callable(filter):
        return filter
    expected = "a mapping of metadata values or a callable(passage) -> bool"
    check_type(filter, Mapping, "filter", expected)
    return _join([_entry(key, value, is_exact=is_exact) for key, value in filter.items()])


def _join(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else Join("and", tuple(conditions))


def _entry(key: str, value: object, *, is_exact: bool) -> Condition:
    """Parse an entry of a filter; `is_exact`: whether it is a part of a tenant."""
    match key:
        case _ if key == _TENANT:
            return _parse_clause(cast(Filter, value), is_exact=True)
        case "$and" | "$or":
            items = _as_list(key, value)
            parts = tuple(_parse_clause(item, is_exact=is_exact) for item in items)
            return Join("and" if key == "$and" else "or", parts)
        case "$not":
            part = _parse_clause(cast(Filter, value), is_exact=is_exact)  # which checks it
            return Join("not", (part,))
        case "$id":
            ids = _as_list(key, value)
            if not all(isinstance(id_, str) for id_ in ids):
                raise TypeError(f"filter: $id expects a list of strings, got {value!r:.60}.")
            return HasId(tuple(check_stored_text(id_, f"filter: $id {id_!r:.60}") for id_ in ids))
    return _parse_value((key,), value, is_exact=is_exact)


def _parse_value(keys: tuple[str, ...], value: object, *, is_exact: bool) -> Condition:
    """Parse the condition on the value of a key."""
    key = keys[-1]
    if not isinstance(key, str) or key.startswith("$"):
        raise ValueError(
            f"filter: expected a metadata key, '$and', '$or', '$not' or '$id', got {key!r:.60}."
        )
    check_stored_text(key, f"filter: key {key!r:.60}")
    if not isinstance(value, Mapping) or not any(str(name).startswith("$") for name in value):
        if isinstance(value, Mapping) and _has_operators(value):
            inner = (((*keys, name), operand) for name, operand in value.items())
            return _join([_parse_value(*pair, is_exact=is_exact) for pair in inner])
        if isinstance(value, list | tuple | set | frozenset):
            return _parse_value(keys, {"$in": value}, is_exact=is_exact)
        operand = normalise_value(value, f"filter: {key!r:.60}")
        return _compare(keys, "$eq", operand, is_exact=is_exact)
    conditions: list[Condition] = []
    for name, operand in value.items():
        if name == "$not":
            conditions.append(Join("not", (_parse_value(keys, operand, is_exact=is_exact),)))
            continue
        if name not in _OPERATORS:
            raise ValueError(
                f"filter: {key!r:.60} has the unknown operator {name!r:.60}; expected one of "
                f"{[*_OPERATORS, '$not']}."
            )
        subject = f"filter: {name} of {key!r:.60}"
        if name in ("$in", "$nin"):
            limit: Any = tuple(normalise_value(item, subject) for item in _as_list(name, operand))
        else:
            limit = normalise_value(operand, subject)
        if name == "$exists" and not isinstance(operand, bool):
            raise TypeError(f"filter: $exists expects True or False, got {operand!r:.60}.")
        is_text = isinstance(limit, str) and not hasattr(operand, "__index__")
        if name in ORDERS and not (is_text or isinstance(limit, int | float)):
            raise TypeError(
                f"filter: {name} expects a number or a text, got {operand!r:.60}; of whole "
                "numbers, those from -2**53 to 2**53 are compared."
            )
        is_negated = name in _NEGATED or (name == "$exists" and not limit)
        limit = True if name == "$exists" else limit
        operator = cast(Operator, _NEGATED.get(name, name))
        condition = _compare(keys, operator, limit, is_exact=is_exact)
        conditions.append(Join("not", (condition,)) if is_negated else condition)
    return _join(conditions)


def _compare(keys: tuple[str, ...], operator: Operator, value: Any, *, is_exact: bool) -> Compare:  # noqa: ANN401
    """Return a comparison that finds a text with its accents apart, as on macOS, or joined.

    Every store knows "$in". One of a tenant is exact, of types that the stores keep.
    """
    if is_exact:
        is_kept = isinstance(value, KeptText) and (len(keys) > 1 or operator == "$contains")
        if is_kept or (not isinstance(value, str) and _has_kept(value, operator)):
            raise ValueError(
                f"tenant: {'.'.join(keys)!r:.60}: dates, UUIDs, paths and numbers beyond 2**53 are "
                "kept as texts in lists and dicts, so that no tenant can be told by them; write "
                "them as texts, in the metadata and in the tenant."
            )
        return Compare(keys, operator, value, is_exact=True)
    if operator not in ("$eq", "$in"):
        return Compare(keys, operator, value)
    operands = value if operator == "$in" else (value,)
    forms = tuple(form for operand in operands for form in _forms(operand))
    return Compare(keys, *((operator, value) if len(forms) == len(operands) else ("$in", forms)))


def _forms(value: object) -> Iterable[object]:
    if not isinstance(value, str) or isinstance(value, DateText) or value.isascii():
        return (value,)
    return dict.fromkeys([in_nfc(value), unicodedata.normalize("NFD", value), value])


def _has_kept(value: object, operator: Operator) -> bool:
    """Return whether a list or a dict has a value that is kept as a text in it."""
    if operator == "$in" and isinstance(value, tuple):
        return any(_has_kept(item, "$eq") for item in value if not isinstance(item, str))
    items = _items(value)
    return any(isinstance(item, KeptText) or _has_kept(item, "$eq") for item in items)


def _has_operators(value: object) -> bool:
    """Return whether a mapping has operators, at any depth of mappings."""
    return isinstance(value, Mapping) and any(
        str(name).startswith("$") or _has_operators(item) for name, item in value.items()
    )


def _as_list(name: str, value: object) -> Sequence[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(
        value, Sequence | set | frozenset
    ):
        raise TypeError(f"filter: {name} expects a list, got {value!r:.60}.")
    return list(value)


def check_size(condition: Condition, conditions: int, values: int, length: int) -> None:
    """Raise ValueError if a filter is larger than a server should run.

    Parameters
    ----------
    condition : Condition
    conditions : int
        Largest number of comparisons.
    values : int
        Largest total number of keys and values.
    length : int
        Largest number of characters in a key or a value.
    """
    parts = [part for part in leaves(condition) if not callable(part)]
    atoms = _atoms(
        [part.ids if isinstance(part, HasId) else [*part.keys, part.value] for part in parts]
    )
    longest = max((len(value) for value in atoms if isinstance(value, str)), default=0)
    for kind, limit, count in (
        ("conditions", conditions, len(parts)),
        ("values", values, len(atoms)),
        ("characters in a key or a value", length, longest),
    ):
        if count > limit:
            raise ValueError(f"filter: expected at most {limit:,} {kind}, got {count:,}.")


def _atoms(value: object) -> list[object]:
    """Return all keys and values in a value, at any depth; what is empty is one, too."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple) and value:
        return [atom for item in value for atom in _atoms(item)]
    return [value]


def leaves(condition: Condition) -> list[Compare | HasId | Callable[[Passage], bool]]:
    """Return the conditions that a condition joins, at any depth."""
    if isinstance(condition, Join):
        return [leaf for part in condition.conditions for leaf in leaves(part)]
    return [condition]


def key_of(condition: Condition) -> Hashable | None:
    """Return what a condition has in common with those that mean the same, to remember it by.

    None if a function is part of it: nothing tells it from another one that takes its address once
    it is freed.

    Examples
    --------
    >>> key_of(parse({"a": 1, "b": 2})) == key_of(parse({"b": 2, "a": 1}))
    True
    >>> key_of(parse({"a": 1})) == key_of(parse({"a": True}))
    False
    """
    match condition:
        case Compare(keys, operator, value):
            operands = value if operator == "$in" else (value,)
            operator = "$eq" if operator == "$in" and len(operands) == 1 else operator
            # A date is compared as a moment, its text as a text.
            return keys, operator, tuple(map(exact_name, operands)), condition.is_exact
        case HasId(ids):
            return "$id", ids
        case Join(kind, conditions):
            forms = {*map(key_of, conditions)}
            if None in forms:
                return None
            if kind == "not":
                return kind, frozenset(forms)
            parts = set[Hashable]()
            for form in forms:
                is_alike = isinstance(form, tuple) and form[0] == kind
                parts |= cast(tuple[str, frozenset[Hashable]], form)[1] if is_alike else {form}
            return next(iter(parts)) if len(parts) == 1 else (kind, frozenset(parts))
    return None


_TENANT = "$tenant"  # the key of the filter of a tenant, which is compared exactly


def check_tenant(tenant: object, *, required: bool = False) -> Filter | None:
    """Return the filter of a tenant; None for `EVERYONE`, if no tenant is required.

    ValueError if it is None, or selects everything, and TypeError if it is no filter: what is empty
    by mistake must not show the passages of all.

    Examples
    --------
    >>> check_tenant({"a": {"$nin": []}})
    Traceback (most recent call last):
    ValueError: tenant: expected a filter of one tenant's passages, got {'a': {'$nin': []}}, which \
selects all of them. Omit it to search all.
    """
    if tenant is EVERYONE and not required:
        return None
    if tenant is None or tenant is EVERYONE:
        advice = "Leave it out for the passages of all."
        if required:
            advice = "Pass one: the passages of all are closed (tenant_required)."
        given = "None" if tenant is None else "none"
        raise ValueError(
            f'tenant: expected a filter, such as {{"customer": 7}}, got {given}. {advice}'
        )
    if not callable(tenant):
        check_type(tenant, Mapping, "tenant", 'a filter, such as {"customer": 7}')
    filter = cast(Filter, owned(tenant))
    if selects_all(filter):
        raise ValueError(
            f"tenant: expected a filter of one tenant's passages, got {filter!r:.80}, which "
            "selects all of them. Omit it to search all."
        )
    if callable(filter):
        return {_TENANT: filter}
    return filter if filter.keys() == {_TENANT} else {_TENANT: filter}


def owned(conditions: object, depth: int = 0) -> Any:  # noqa: ANN401
    """Return a copy of a filter, at any depth, which the caller cannot change afterwards.

    Examples
    --------
    >>> names = ["Ann"]
    >>> copied = owned({"of": {"$in": names}})
    >>> names.append("Bo")
    >>> copied
    {'of': {'$in': ['Ann']}}
    """
    if callable(conditions) or depth > DEEPEST:  # which `parse` refuses
        return conditions
    if isinstance(conditions, Mapping):
        return {key: owned(value, depth + 1) for key, value in conditions.items()}
    for kind in (list, tuple, set):
        if isinstance(conditions, kind):
            return kind([owned(value, depth + 1) for value in conditions])
    return conditions


def is_of_tenant(filter: Filter | None) -> bool:
    """Return whether a filter is that of a tenant, or limits one further."""
    if not isinstance(filter, Mapping):
        return False
    return _TENANT in filter or any(map(is_of_tenant, filter.get("$and", ())))


def tenant_in(filter: Filter | None) -> Filter | None:
    """Return the part of a joined filter that is of a tenant."""
    if not isinstance(filter, Mapping):
        return None
    parts = filter["$and"] if [*filter] == ["$and"] else [filter]
    return all_of(*(p for p in parts if isinstance(p, Mapping) and [*p] == [_TENANT]))


def without_mark(tenant: Filter) -> Filter:
    """Return the filter of a tenant as it was passed to `check_tenant`."""
    return tenant if callable(tenant) else cast(Filter, tenant.get(_TENANT, tenant))


def check_given(tenant: object) -> object:
    """Return a tenant; ValueError if it is None, which is refused where one is passed."""
    return check_tenant(None) if tenant is None else tenant


def selects_all(filter: Filter) -> bool:
    """Return whether a filter selects everything, whatever the passages, as it is empty."""
    return _is_always(parse(filter), holds=True)


def _is_always(condition: Condition, *, holds: bool) -> bool:
    """Return whether a condition holds whatever the passage, or never does, as it is empty."""
    match condition:
        case Join(kind, conditions):
            parts = [_is_always(part, holds=holds != (kind == "not")) for part in conditions]
            return all(parts) if (kind != "or") == holds else any(parts)
        case Compare(_, "$in", ()) | HasId(()):
            return not holds
    return False


def ids_of(condition: Condition) -> list[str]:
    """Return the ids that a condition asks for besides other things; none if it asks for none."""
    parts = condition.conditions if isinstance(condition, Join) else (condition,)
    if isinstance(condition, Join) and condition.kind != "and":
        return []
    return next(([*part.ids] for part in parts if isinstance(part, HasId)), [])


def all_of(*filters: Filter | Everyone | None) -> Filter | None:
    """Join filters by "and", each once; None and `EVERYONE` select everything.

    Examples
    --------
    >>> all_of({"lang": "en"}, None, {"year": 2024}, {"lang": {"$eq": "en"}})
    {'$and': [{'lang': 'en'}, {'year': 2024}]}
    """
    parts = list[Filter]()
    for filter in filters:
        if filter is None or filter is EVERYONE:
            continue
        is_joined = isinstance(filter, Mapping) and [*filter] == ["$and"]
        parts += filter["$and"] if is_joined else [filter]  # type: ignore[index]
    if len(parts) > 1:
        by_form = dict[object, Filter]()
        for part in parts:
            by_form.setdefault(normal_form(part) or id(part), part)
        parts = [*by_form.values()]
    return {"$and": parts} if len(parts) > 1 else parts[0] if parts else None


def normal_form(filter: Filter) -> str:
    """Return a text that filters of one meaning share; "" if a function is part of it.

    A tenant and a filter of the same conditions have two. True is not 1.

    Examples
    --------
    >>> normal_form({"a": 1, "b": 2}) == normal_form({"b": {"$eq": 2}, "a": 1})
    True
    >>> normal_form({"a": 1}) == normal_form({"a": True})
    False
    """
    key = key_of(parse(filter))
    return "" if key is None else f"{is_of_tenant(filter):d}{_in_order(key)}"


def _in_order(key: object) -> str:
    if isinstance(key, frozenset):
        return f"{{{', '.join(sorted(map(_in_order, key)))}}}"
    if isinstance(key, tuple):
        return f"({', '.join(map(_in_order, key))})"
    return repr(int(key) if isinstance(key, float) and key.is_integer() else key)


def is_shared(condition: Condition, passage: Passage) -> bool:
    """Return whether the filter of another tenant, of the same keys, may select a passage, too.

    It may if one of several values is enough to be selected, and another one is not the tenant's:
    an item of a list, or the value of another key. A tenant of several values shares none of them.

    Examples
    --------
    >>> condition = parse({"of": "Ann"})
    >>> [is_shared(condition, Passage("a", "a", {"of": of})) for of in ("Ann", ["Ann", "Bo"])]
    [False, True]
    """
    compared = [part for part in leaves(condition) if isinstance(part, Compare)]
    if len(compared) < len(leaves(condition)):  # a function may look at any value
        for key, value in passage.metadata.items():
            items = value if isinstance(value, list | tuple) and len(value) > 1 else ()
            for item in items:
                alone = Passage(passage.id, passage.text, {**passage.metadata, key: [item]})
                if not matches(condition, alone):
                    return True
    values = (value_at(part.keys, passage.metadata) for part in compared)
    lists = [value for value in values if isinstance(value, list | tuple)]
    return any(len({*map(exact_name, items)}) > 1 for items in lists) or _is_others(
        condition, passage
    )


def _is_others(condition: Condition, passage: Passage) -> bool:
    """Return whether a key that is compared has a value, and none that the condition asks for."""
    if not isinstance(condition, Join) or condition.kind == "not":
        return False
    if condition.kind == "and":
        return any(_is_others(part, passage) for part in condition.conditions)
    held, others = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for part in condition.conditions:
        keys = {leaf.keys for leaf in leaves(part) if isinstance(leaf, Compare)}
        (held if matches(part, passage) else others).update(keys)
    return any(value_at(keys, passage.metadata) is not MISSING for keys in others - held)


_SHARED = ("$eq", "$gt", "$gte", "$lt", "$lte", "$in")  # operators that mean the same everywhere


def translate(
    filter: Filter,
    leaf: Callable[[str, str, Any], _T],
    join: Callable[[str, list[_T]], _T],
    *,
    ids: bool = False,
) -> _T | None:
    """Write what must hold for a filter to, as far as other stores can say it, in their terms.

    Parameters
    ----------
    filter : Filter
    leaf : callable(key, operator, value) -> T
        Writes a comparison: `$eq`, `$in` or, with a number, `$gt`, `$gte`, `$lt` or `$lte`; if
        `ids` is true, also `$in` of "$id".
    join : callable("$and" or "$or", list of T) -> T
        Joins two conditions or more.

    Returns
    -------
    T or None
        None if nothing can be said.

    Examples
    --------
    >>> filter = {"lang": "en", "tags": {"$contains": "tax"}, "year": {"$gt": 2020}}
    >>> translate(filter, lambda *asked: " ".join(map(str, asked)), lambda kind, parts: parts)
    ['lang $eq en', 'year $gt 2020']
    """

    def write(condition: Condition) -> _T | None:
        match condition:
            case Join("and" | "or" as kind, conditions):
                parts = [write(part) for part in conditions]
                terms = [part for part in parts if part is not None]
                if (kind == "or" and len(terms) < len(parts)) or not terms:
                    return None
                return terms[0] if len(terms) == 1 else join(f"${kind}", terms)
            case HasId(asked) if ids:
                return leaf("$id", "$in", [*asked])
            case Compare((key,), operator, value) if operator in _SHARED:
                values = [*value] if operator == "$in" else [value]
                kinds = (int, float) if operator in ORDERS else (str, int, float, bool)
                are_plain = (isinstance(o, kinds) and not isinstance(o, KeptText) for o in values)
                if values and all(are_plain):
                    return leaf(key, operator, values if operator == "$in" else value)
        return None

    return write(parse(filter))


def matches(condition: Condition, passage: Passage) -> bool:
    """Return whether a passage satisfies a condition: what a filter means.

    Examples
    --------
    >>> matches(parse({"year": {"$gte": 2020}}), Passage("a", "text", {"year": 2021}))
    True
    """
    match condition:
        case Compare():
            return holds(condition, passage.metadata)
        case HasId():
            return passage.id in condition.known
        case Join(kind, conditions):
            results = (matches(part, passage) for part in conditions)
            return all(results) if kind == "and" else any(results) != (kind == "not")
    return bool(condition(passage))


def matching(condition: Condition, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of another's store that match, each once; see `comparable`."""
    return distinct(
        passage
        for passage in passages
        if matches(condition, Passage(passage.id, passage.text, comparable(passage.metadata)))
    )


def comparable(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata of any types as a store of ours would have them, if it can."""
    if all(
        value is None or type(value) in (str, bool) or (type(value) is int and abs(value) <= EXACT)
        for value in metadata.values()
    ):
        return metadata
    with suppress(TypeError, ValueError):
        return normalise(metadata, "metadata")
    return metadata


def mismatches(condition: Condition, passages: Sequence[Passage]) -> list[str]:
    """Say which comparisons are with values of another kind than some passages have."""
    metadata = [comparable(passage.metadata) for passage in passages]
    notes = list[str]()
    for leaf in leaves(condition):
        if isinstance(leaf, Compare):
            values = (value_at(leaf.keys, fields) for fields in metadata)
            notes.append(mismatch(leaf, set[str]().union(*map(kinds_of, values))))
    return [note for note in notes if note]
