"""Metadata as a store keeps it: what JSON brings back as it was, copied from what users give."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

_DEEPEST = 64
_LONGEST = 4000  # digits of an integer; Python reads 4,300


def kept(metadata: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Copy metadata into strings, numbers, booleans, None, lists and dicts.

    Dates and times become ISO 8601 strings, NumPy's scalars Python's, tuples lists: what a search
    returns before saving is what it returns after loading.

    Parameters
    ----------
    metadata : mapping
    where : str
        What the caller calls it, for the message.

    Raises
    ------
    TypeError
        If a value or a key is of another type; the message names the path to it.
    ValueError
        If a string is not valid Unicode, a number too long, or the nesting too deep or endless.

    Examples
    --------
    >>> kept({"day": datetime.date(2026, 1, 31), "sizes": (np.float32(0.5), 2)}, "metadata")
    {'day': '2026-01-31', 'sizes': [0.5, 2]}
    >>> kept({"tags": [{"a", "b"}]}, "metadatas[0]")
    Traceback (most recent call last):
    TypeError: metadatas[0]['tags'][0]: expected a string, number, boolean, date, None, list or \
dict, which are what a saved index keeps, got set; convert it first.
    """
    copied: dict[str, Any] = _mapping(metadata, where, 0)
    return copied


def as_kept(value: object) -> Any:  # noqa: ANN401
    """Convert one value as `kept` does; the value itself where no metadata could hold it."""
    try:
        return _value(value, "", 0)
    except (TypeError, ValueError):
        return value


def copied(value: Any) -> Any:  # noqa: ANN401  # JSON's values
    """Copy what `kept` returned, or a part of it."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def _value(value: object, where: str, depth: int) -> Any:  # noqa: ANN401
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _string(value, where)
    if isinstance(value, int):
        return _integer(value, where)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Mapping):
        return _mapping(value, where, depth + 1)
    if isinstance(value, (list, tuple)):
        _check_depth(where, depth + 1)
        return [_value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise TypeError(
        f"{where}: expected a string, number, boolean, date, None, list or dict, which are what a "
        f"saved index keeps, got {type(value).__name__}; convert it first."
    )


def _mapping(metadata: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    _check_depth(where, depth)
    out = {}
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(
                f"{where}: expected strings as keys, got {key!r:.60} ({type(key).__name__})."
            )
        name = _string(key, f"{where}, a key")
        out[name] = _value(value, f"{where}[{name!r:.60}]", depth)
    return out


def _check_depth(where: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(
            f"{where[:60]}...: expected at most {_DEEPEST} levels of lists and dicts; it is nested "
            "deeper, or contains itself."
        )


def _string(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} is not valid Unicode ({error.reason}, at character {error.start}); clean it "
            "with value.encode('utf-8', 'replace').decode()."
        ) from None
    return str.__str__(text)  # of a subclass, too


def _integer(number: int, where: str) -> int:
    if number.bit_length() > _LONGEST * 3:
        raise ValueError(f"{where}: expected integers of at most {_LONGEST} digits, got a longer.")
    return int(number)
