"""Frozen dataclasses that are saved as JSON, and checked when they are loaded."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar, cast

from uec_rag.base.errors import warn
from uec_rag.base.properties import cached_property

_T = TypeVar("_T")


class Outdated(ValueError):
    """Raised for parameters that another version of this package learned on other features."""


def current_or(default: _T, restore: Callable[[], _T], consequence: str) -> _T:
    """Return `restore()`; if it raises `Outdated`, warn of the consequence and return `default`."""
    try:
        return restore()
    except Outdated:
        warn(f"This was saved by a version of uec_rag that uses other features: {consequence}")
        return default


class Record:
    """The base of saved dataclasses of numbers, texts, tuples and other records.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Line(Record):
    ...     slope: float
    ...     offset: float = 0.0
    >>> Line(2.0).metadata()
    {'slope': 2.0, 'offset': 0.0}
    >>> Line.restore({"slope": 2.0})
    Line(slope=2.0, offset=0.0)
    >>> Line.restore({"slope": "steep"})
    Traceback (most recent call last):
    ValueError: Line: expected the fields of a saved Line, got {'slope': 'steep'} (wrong \
value type for field "slope" - should be "float" instead of value "steep" of type "str").
    """

    _restorers: ClassVar[dict[type, Callable[[Any], Any]]] = {}
    _saved_as: ClassVar[Mapping[str, str]] = {}
    """Fields that are saved under another name."""
    _learned_on: ClassVar[Mapping[str, object]] = {}
    """Constants to save with the fields: the version of the features that they were learned on."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Record._restorers[cls] = cls.restore

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the state; cached, since every search needs it."""
        return hashlib.sha256(json.dumps(self.metadata()).encode()).hexdigest()[:16]

    def metadata(self) -> dict[str, object]:
        """Return the state as a JSON object."""
        state = dict(self._learned_on)
        for field in fields(cast(Any, self)):
            value = getattr(self, field.name)
            if isinstance(value, Record):
                value = value.metadata()
            elif isinstance(value, tuple):
                value = list(value)
            state[self._saved_as.get(field.name, field.name)] = value
        return state

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing, unknown or invalid.

        NaN and infinity are invalid. Unknown keys are refused, since they may change the meaning of
        the others. Raises Outdated if it was learned on other features.
        """
        from dacite import Config, DaciteError, from_dict

        config = Config(strict=True, cast=[tuple], type_hooks=Record._restorers)
        names = {saved: name for name, saved in cls._saved_as.items()}
        try:
            state = {names.get(key, key): value for key, value in metadata.items()}
            version = {key: state.pop(key, None) for key in cls._learned_on}
            if version != cls._learned_on:
                raise Outdated(
                    f"{cls.__name__}: expected one learned on {cls._learned_on}, got {version}."
                )
            record = cast(Self, from_dict(cast(Any, cls), state, config))
            for field in fields(cast(Any, cls)):
                value = getattr(record, field.name)
                if not _finite(value):
                    raise ValueError("a number is not finite")
                # In Python, a bool is an int.
                if isinstance(value, bool) and "bool" not in str(field.type):
                    raise ValueError(f"{field.name} is {value}, expected a number")
            return record
        except Outdated:
            raise
        except (AttributeError, DaciteError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"{cls.__name__}: expected the fields of a saved {cls.__name__}, got "
                f"{dict(metadata)} ({error})."
            ) from error


def _finite(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_finite, value)) and not any(isinstance(number, bool) for number in value)
    return not isinstance(value, int | float) or math.isfinite(value)
