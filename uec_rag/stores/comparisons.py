"""Comparisons of the values under a key: what each operator means, of one value and of many.

`holds` says it of one passage's metadata, `Values` of all the different values that an index has
under a key: by their names, their items or their numbers where that is faster, and else by `holds`.
"""

from __future__ import annotations

import operator as op
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.records import cached_property
from uec_rag.stores.metadata import DateText, KeptText, as_date

Operator = Literal["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$contains", "$exists"]
Mask: TypeAlias = NDArray[np.bool_]
_Positions: TypeAlias = dict[Hashable, int | list[int]]

ORDERS = {"$gt": op.gt, "$gte": op.ge, "$lt": op.lt, "$lte": op.le}
"""The operators that compare an order."""

_EQUALITIES = ("$eq", "$in", "$contains")
_NONE: object = object()  # in place of a value
MISSING = object()
"""A placeholder for the value of a key that metadata lack."""


@dataclass(frozen=True)
class Compare:
    """A condition that compares a metadata value with an operator.

    `keys`: the key, after those of the dicts that hold it. `is_exact`: whether it is a part of a
    tenant, which equals itself alone: a value of the same type, of the same characters.
    """

    keys: tuple[str, ...]
    operator: Operator
    value: Any
    is_exact: bool = False

    @cached_property
    def names(self) -> frozenset[Hashable]:
        """The names of what `$eq` and `$in` ask for: equal values have one of them in common."""
        values = self.value if self.operator == "$in" else (self.value,)
        return frozenset(map(name_of, values)) | {
            (DateText, getattr(value, "span", value)) for value in values if isinstance(value, str)
        }


def holds(condition: Compare, metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata satisfies a comparison."""
    value = value_at(condition.keys, metadata)
    operator, operand = condition.operator, condition.value
    if condition.is_exact and operator in _EQUALITIES:
        return _holds_exactly(operator, operand, value)
    match operator:
        case "$eq" | "$in":
            return not condition.names.isdisjoint(names_of(value))
        case "$exists":
            return value is not MISSING and value is not None
        case "$contains":
            if isinstance(value, str):
                return isinstance(operand, str) and operand in value
            return isinstance(value, list) and name_of(operand) in map(name_of, value)
    items = value if isinstance(value, list) else (value,)
    return any(_is_on_side(item, operator, operand) for item in items)


def _holds_exactly(operator: Operator, operand: Any, value: object) -> bool:  # noqa: ANN401
    """Return whether a value, or an item of a list, is the same as an operand, of the same type."""
    if operator == "$contains" and isinstance(value, str):
        return isinstance(operand, str) and operand in value
    operands = operand if operator == "$in" else (operand,)
    items: list[object] = [*value] if isinstance(value, list) else []
    if operator != "$contains":
        items.append(value)
    return not {*map(exact_name, operands)}.isdisjoint(map(exact_name, items))


def value_at(keys: Sequence[str], metadata: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return the value under a key in dicts in metadata, `MISSING` if there is none."""
    value: Any = metadata
    for name in keys:
        value = value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def kinds_of(value: object) -> set[str]:
    """Return which kinds of values a value, or one of its items, may equal; none of a missing one.

    Examples
    --------
    >>> sorted(kinds_of([1, "a"])), kinds_of(True), kinds_of(None)
    (['lists', 'numbers', 'texts'], {'booleans'}, set())
    """
    match value:
        case bool():
            return {"booleans"}
        case int() | float():
            return {"numbers"}
        case str():
            return {"texts"}
        case list() | tuple():
            return {"lists"}.union(*map(kinds_of, value))
        case Mapping():
            return {"dicts"}
    return set()


def mismatch(condition: Compare, kinds: Set[str]) -> str:
    """Say that a comparison is with values of another kind than a key has; "" if it is not.

    `kinds`: those of the key's values, see `kinds_of`.
    """
    if condition.operator == "$exists" or not kinds:
        return ""
    operands = condition.value if condition.operator == "$in" else (condition.value,)
    # A list is compared as a whole, or with one of the items.
    asked = {"lists" if isinstance(o, list) else kind for o in operands for kind in kinds_of(o)}
    name, there = f"{'.'.join(condition.keys)!r:.60}", ", ".join(sorted(kinds))
    if condition.operator == "$contains" and kinds.isdisjoint({"lists", "texts"}):
        return f"filter: {name} is compared by $contains, which needs lists or texts, not {there}."
    if not asked or not asked.isdisjoint(kinds):
        return ""
    return (
        f"filter: {name} is compared with {', '.join(sorted(asked))}, but its values are {there}, "
        "so that none is equal, larger or smaller. Write the value as the metadata do: 2024 is not "
        "'2024', and True is not 'true'."
    )


def exact_name(value: object) -> Hashable:
    """Return what a value has in common with those of its type that equal it.

    Examples
    --------
    >>> exact_name("7") == exact_name(KeptText.of("number", 7)), exact_name(1) == exact_name(1.0)
    (False, True)
    """
    return (value.kind, str(value)) if isinstance(value, KeptText) else name_of(value)


def name_of(value: object) -> Hashable:
    """Return what a value has in common with those that equal it; 1 is 1.0, and True is not 1."""
    if isinstance(value, bool):
        return (bool, value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return (list, *map(name_of, value))
    if isinstance(value, Mapping):
        return (dict, frozenset((key, name_of(item)) for key, item in value.items()))
    return object()  # which nothing equals, nor the number of what was freed


def names_of(value: object) -> tuple[Hashable, ...]:
    """Return the names by which `Compare.names` finds a stored value: also those of its items.

    A date, or its text, is found by a date of the same moment, and by a text that is equal.
    """
    if isinstance(value, list | tuple):
        return (name_of(value), *{*map(name_of, value)})
    if isinstance(value, DateText):
        return (DateText, value.span), (DateText, str(value))
    if (date := as_date(value)) is not None:
        return value, (DateText, date.span)
    return (name_of(value),)


def _is_on_side(value: object, operator: Operator, limit: str | float) -> bool:
    """Return whether a value is on one side of a limit of the same kind."""
    operand: Any = value
    if isinstance(limit, DateText):
        if (date := as_date(value)) is None:
            return False
        moment = limit.span[operator in ("$gt", "$lte")]
        return (date.span[0] >= moment) == (operator in ("$gt", "$gte"))
    kinds = bool, str, int | float  # a bool is an int, too
    kind = next((kind for kind in kinds if isinstance(limit, kind)), object)
    if not isinstance(value, kind) or isinstance(value, bool) != isinstance(limit, bool):
        return False
    return bool(ORDERS[operator](operand, limit))


@dataclass(frozen=True, eq=False)
class Values:
    """The different values under a key, each of which a comparison is made with once.

    Attributes
    ----------
    values : list
        The first stands for none.
    """

    values: list[Any] = field(default_factory=lambda: [_NONE])

    @cached_property
    def _index(self) -> _Positions:
        """The positions of the values with a name, see `names_of`."""
        return _positions(map(names_of, self.values))

    @cached_property
    def _items(self) -> _Positions:
        """The positions of the lists with an item."""
        lists = (value if isinstance(value, list) else () for value in self.values)
        return _positions({*map(name_of, items)} for items in lists)

    @cached_property
    def _lists(self) -> list[tuple[int, list[Any]]]:
        """The values that are lists, with their positions."""
        return [(at, value) for at, value in enumerate(self.values) if isinstance(value, list)]

    @cached_property
    def kinds(self) -> set[str]:
        """The kinds of the values, see `kinds_of`."""
        return set[str]().union(*map(kinds_of, self.values[1:]))

    @cached_property
    def _texts(self) -> list[tuple[int, str]]:
        """The values that are texts, with their positions."""
        return [(at, value) for at, value in enumerate(self.values) if isinstance(value, str)]

    @cached_property
    def _floats(self) -> NDArray[np.float64]:
        """The values that are numbers, and NaN for others."""
        return np.array(
            [np.nan if type(x) not in (int, float) else x for x in self.values], np.float64
        )

    def fits(self, condition: Compare) -> Mask:
        """Return which of the values satisfy a condition on the key."""
        mask = np.zeros(len(self.values), dtype=bool)
        match condition:
            case Compare((key,), "$eq" | "$in" | "$contains") if condition.is_exact:
                places = np.flatnonzero(self.fits(replace(condition, is_exact=False)))
                mask[places] = [holds(condition, {key: self.values[at]}) for at in places.tolist()]
                mask[0] = False
            case Compare((_,), "$eq" | "$in"):
                for name in condition.names:
                    mask[self._index.get(name, [])] = True
            case Compare((_,), "$contains", asked):
                mask[self._items.get(name_of(asked), [])] = True
                if isinstance(asked, str):
                    mask[[at for at, text in self._texts if asked in text]] = True
            case Compare((_,), operator, int() | float() as asked) if (
                operator in ORDERS and not isinstance(asked, bool)
            ):
                mask = ORDERS[operator](self._floats, asked)
                for at, value in self._lists:
                    mask[at] = holds(condition, {condition.keys[0]: value})
            case _:
                values = self.values[1:]
                mask[0] = holds(condition, {})
                mask[1:] = [holds(condition, {condition.keys[0]: value}) for value in values]
        return mask


def _positions(names: Iterable[Iterable[Hashable]]) -> _Positions:
    """Return where each name is; that of one place as a number, since a list of one takes more."""
    positions: _Positions = {}
    for position, group in enumerate(names):
        for name in group:
            places = positions.setdefault(name, position)
            if isinstance(places, list):
                places.append(position)
            elif places != position:
                positions[name] = [places, position]
    return positions
