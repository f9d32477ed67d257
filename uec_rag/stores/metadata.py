"""Metadata of passages: what JSON brings back as it was, and dates.

What one engine would change, miss or refuse is refused here, for all of them and for what a filter
asks: infinity, which JSON lacks, and NUL characters, which databases may cut. Whole numbers beyond
2**53, which engines compare as floats, become text.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from uec_rag.base.checks import check_stored_text
from uec_rag.base.records import cached_property

DEEPEST = 64
"""The maximum nesting of metadata and filters, far below Python's recursion limit."""
EXACT = 2**53
"""A float represents all integers up to this."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:|\Z)")
_MICROSECOND, _DAY = datetime.timedelta(microseconds=1), datetime.timedelta(days=1)


class KeptText(str):
    """The text as which a value of another type is kept, such as a UUID or a large number.

    Filters take it for a text. A tenant is of one type: `kind` tells it from that text.
    """

    kind = "text"

    @classmethod
    def of(cls, kind: str, value: object) -> KeptText:
        """Return the text of a value of a kind."""
        if kind == DateText.kind:
            return DateText(value)
        text = cls(value)
        text.kind = kind
        return text


class DateText(KeptText):
    """The ISO 8601 text of a date, or of a date and a time, which filters compare as a moment.

    Examples
    --------
    >>> DateText("1970-01-02").span
    (86400000000, 172800000000)
    """

    kind = "date"

    @cached_property
    def span(self) -> tuple[int, int]:
        """Its first microsecond since 1970 in UTC, and the first one after it, or after its day."""
        moment = datetime.datetime.fromisoformat(self)
        start = (moment.replace(tzinfo=moment.tzinfo or datetime.UTC) - _EPOCH) // _MICROSECOND
        return start, start + (_DAY // _MICROSECOND if len(self) == len("2024-01-31") else 1)


def as_date(value: object) -> DateText | None:
    """Return a date, or a text in ISO 8601, as a date; None if it is neither.

    Examples
    --------
    >>> as_date("2024-01-31"), as_date("20240131"), as_date("2024-01-xx")
    ('2024-01-31', None, None)
    """
    if isinstance(value, DateText):
        return value
    if not isinstance(value, str) or not _ISO.match(value):
        return None
    date = DateText(value)
    try:
        _ = date.span
    except (ValueError, OverflowError):
        return None
    return date


def kinds_of_texts(metadata: Mapping[str, Any]) -> list[str | list[str]]:
    """Return the keys of metadata whose values are dates, and those of other kinds with these."""
    kept = ((key, value.kind) for key, value in metadata.items() if isinstance(value, KeptText))
    return [key if kind == DateText.kind else [key, kind] for key, kind in kept]


def restore_kinds(
    metadata: dict[str, Any], kinds: Sequence[str | list[str]], key: str | None = None
) -> None:
    """Make the texts of values of another type `KeptText` again, or that of one key."""
    pairs = ((item, DateText.kind) if isinstance(item, str) else item for item in kinds)
    metadata |= {
        name: KeptText.of(kind, metadata[name]) for name, kind in pairs if key in (None, name)
    }


def normalise(metadata: Mapping[Any, Any], subject: str) -> dict[str, Any]:
    """Copy metadata, converting values to strings, numbers, booleans, None, lists and dicts.

    Dates and times become ISO 8601 strings, which filters by a date compare as moments
    (`DateText`). Paths, UUIDs and whole numbers beyond 2**53, such as ids of 64 bits, become
    strings, NumPy scalars and Decimals numbers, NaN and NaT None, and tuples become lists, so that
    a search returns the same metadata before saving and after loading.

    Parameters
    ----------
    metadata : mapping
    subject : str
        Name of the argument, for error messages.

    Raises
    ------
    TypeError
        If a value or a key has another type; the message has the path to it.
    ValueError
        If a string is not valid Unicode or contains NUL, if a number is infinite, or if the
        nesting is too deep or circular.

    Examples
    --------
    >>> normalise({"day": datetime.date(2026, 1, 31), "sizes": (np.float32(0.5), 2)}, "metadata")
    {'day': '2026-01-31', 'sizes': [0.5, 2]}
    >>> normalise({"tags": [{"a", "b"}]}, "metadatas[0]")
    Traceback (most recent call last):
    TypeError: metadatas[0]['tags'][0]: expected a string, number, boolean, date, None, list or \
dict, which are what a saved index keeps, got set; convert it first.
    """
    values: dict[str, Any] = _value(metadata, subject, 0)
    return values


def normalise_value(value: object, subject: str) -> Any:  # noqa: ANN401
    """Convert one value as `normalise` does, with its errors; ValueError if it is NaN."""
    if type(value) is str:  # the most frequent by far
        return check_stored_text(value, subject)
    if isinstance(value, float | np.floating | decimal.Decimal) and math.isnan(value):
        raise ValueError(f"{subject}: expected a finite number, got {value}; ask for None.")
    return _value(value, subject, 0)


def _plain(value: object) -> object:
    """Convert a value of another library, a path, a date or NaN to what JSON knows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, decimal.Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if whole else float(value)
    if isinstance(value, float | datetime.date) and value != value:  # NaN, and the NaT of pandas
        return None
    if isinstance(value, PurePath | uuid.UUID):
        return KeptText.of("path" if isinstance(value, PurePath) else "uuid", value)
    if isinstance(value, datetime.date):  # a datetime is a date
        return DateText(value.isoformat())
    return KeptText.of("time", value.isoformat()) if isinstance(value, datetime.time) else value


def _value(value: object, subject: str, depth: int) -> Any:  # noqa: ANN401
    value = _plain(value)
    if value is None or isinstance(value, bool | DateText):
        return value
    if isinstance(value, KeptText):
        return KeptText.of(value.kind, check_stored_text(value, subject))
    if isinstance(value, str):
        return check_stored_text(value, subject)
    if isinstance(value, int):
        number = int(value)  # engines would round a large one
        return number if abs(number) <= EXACT else KeptText.of("number", number)
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{subject}: expected a finite number, got {value}; leave it out.")
        return float(value)
    if depth > DEEPEST:
        raise ValueError(
            f"{subject[:60]}...: expected at most {DEEPEST} levels of lists and dicts; it is "
            "nested deeper, or contains itself."
        )
    if isinstance(value, (list, tuple)):
        return [_value(item, f"{subject}[{i}]", depth + 1) for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{subject}: expected a string, number, boolean, date, None, list or dict, which are "
            f"what a saved index keeps, got {type(value).__name__}; convert it first."
        )
    out = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(
                f"{subject}: expected strings as keys, got {key!r:.60} ({type(key).__name__})."
            )
        name = check_stored_text(key, f"{subject}, a key")
        # The path is written where it may be needed, since to write it takes longer than to check.
        is_kept = type(item) is str and item.isascii() and "\0" not in item
        out[name] = item if is_kept else _value(item, f"{subject}[{name!r:.60}]", depth + 1)
    return out
