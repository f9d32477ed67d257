"""Filters of a local index: masks over its passages.

At the first filter on a key, what the passages have under it is read, and each different value is
kept once. Rows never change, so later filters read the new rows only. A comparison is made once for
each different value, as `uec_rag.stores.filters` defines it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import as_corrupted
from uec_rag.stores import filters
from uec_rag.stores.filters import And, Compare, Condition, HasId, Not, Or, Predicate
from uec_rag.stores.local.database import Database, restore_dates
from uec_rag.stores.local.view import View

Mask: TypeAlias = NDArray[np.bool_]
_MOST_COLUMNS = 64  # that are kept; requests may name any number of keys
_AT_ONCE = 10_000  # rows that are read at a time


@dataclass(frozen=True, eq=False)
class _Column:
    """The values that the passages of an index have under a key of their metadata.

    Attributes
    ----------
    values : list of dict
        The different values, each in metadata of its own; the first is that of no value.
    numbers : dict
        The position of each among them, by what tells it from others.
    floats : array
        The values that are numbers, and NaN for others.
    codes : int array, shape (rows,)
        The position of each row's value.
    """

    values: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    numbers: dict[object, int] = field(default_factory=dict)
    floats: NDArray[np.float64] = field(default_factory=lambda: np.full(1, np.nan))
    codes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def extend(self, key: str, rows: int, database: Database) -> _Column:
        """Return the column of the first `rows` rows of an index."""
        values, numbers, codes = [*self.values], dict(self.numbers), np.zeros(rows, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        sql = "SELECT row, metadata, dates FROM passages WHERE row >= ? AND row < ?"
        for start in range(len(self.codes), rows, _AT_ONCE):
            for row, metadata, dates in database.ask(sql, [start, min(rows, start + _AT_ONCE)]):
                read = msgspec.json.decode(metadata)
                if key not in read:
                    continue
                value, of_dates = read[key], msgspec.json.decode(dates) if dates else {}
                shown = str(value) if isinstance(value, list | dict) else value
                name = type(value), shown, str(of_dates.get(key))
                if name not in numbers:
                    numbers[name] = len(values)
                    values.append({key: value})
                    if key in of_dates:
                        restore_dates(values[-1], {key: of_dates[key]})
                codes[row] = numbers[name]
        floats = [
            one.get(key) if isinstance(one.get(key), int | float) else np.nan for one in values
        ]
        return _Column(values, numbers, np.array(floats, dtype=np.float64), codes)

    def fits(self, condition: Compare) -> Mask:
        """Return which values satisfy a comparison."""
        operator, asked = condition.operator, condition.value
        options = asked if operator == "$in" else (asked,)
        plain = not condition.within and all(
            type(one) in (str, int, float, bool) for one in options
        )
        texts = [one for one in options if isinstance(one, str)]
        if plain and operator in ("$eq", "$in"):  # quickly, as there may be a value for each row
            fits = np.isin(self.floats, [one for one in options if one not in texts])
            names = [(str, one, is_date) for one in texts for is_date in ("None", "True")]
            fits[[self.numbers[name] for name in names if name in self.numbers]] = True
            return fits
        if plain and operator in filters.ORDERS and not texts:
            found: Mask = filters.ORDERS[operator](self.floats, asked)
            return found
        return np.array([filters.holds(condition, value) for value in self.values], dtype=bool)


class Filters:
    """The filters of an index, with the columns of its metadata that were asked for.

    Parameters
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        self._database, self._columns = database, dict[str, _Column]()

    def select(self, view: View, condition: Condition) -> Mask:
        """Return which positions of a view satisfy a condition."""

        def mask(condition: Condition, among: Mask) -> Mask:
            """Return which of some positions satisfy a condition."""
            match condition:
                case And(conditions):
                    for one in sorted(conditions, key=_runs_python):  # last, over what is left
                        among = mask(one, among)
                    return among
                case Or(conditions):
                    found = np.zeros_like(among)
                    for one in sorted(conditions, key=_runs_python):
                        found |= mask(one, among & ~found)
                    return found
                case Not(negated):
                    return among & ~mask(negated, among)
                case HasId(ids):
                    found = np.zeros_like(among)
                    found[[*view.find(ids).values()]] = True
                    return among & found
                case Predicate(predicate):
                    kept, positions = np.zeros_like(among), np.flatnonzero(among)
                    passages = View(view.state, view.texts, positions).passages()
                    kept[positions] = [bool(predicate(passage)) for passage in passages]
                    return kept
            column = self._column(condition.keys[0], view.state.next_row)
            found = among & column.fits(condition)[column.codes[view.state.rows]]
            return found

        return mask(condition, view.mask)

    def _column(self, key: str, rows: int) -> _Column:
        """Return the column of a key, which is read as far as it is not known."""
        column = self._columns.get(key, _Column())
        if len(column.codes) < rows:  # several threads may read them: they read the same
            with as_corrupted(self._database.path):
                column = column.extend(key, rows, self._database)
            if not self._database.is_writing:  # else it may be undone
                for oldest in [*self._columns][_MOST_COLUMNS - 1 :]:
                    self._columns.pop(oldest, None)
                self._columns[key] = column
        return column


def _runs_python(condition: Condition) -> bool:
    return bool(filters.parts_of(condition, (Predicate,)))
