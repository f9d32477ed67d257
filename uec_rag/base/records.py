"""Frozen dataclasses that are saved as JSON, and checked when they are loaded."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self, cast

import msgspec

from uec_rag.base.unlocked import cached_property

# msgspec 0.22 crashes if two threads convert to a type for the first time together.
_converting = threading.Lock()


def _unlock() -> None:
    """Make the lock anew in a forked child, where no thread is left that would release it."""
    global _converting
    _converting = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_unlock)


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
    ValueError: Line: expected the fields of a saved Line, got {'slope': 'steep'} (Expected \
`float`, got `str` - at `$.slope`).
    """

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the state; cached, since every search needs it."""
        return hashlib.sha256(json.dumps(self.metadata()).encode()).hexdigest()[:16]

    def metadata(self) -> dict[str, Any]:
        """Return the state as a JSON object; NaN and infinity become None."""
        written = msgspec.json.encode(self, enc_hook=lambda scalar: scalar.item())  # of NumPy
        return cast(dict[str, Any], msgspec.json.decode(written))

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing, unknown or invalid.

        NaN and infinity are invalid. Unknown keys are refused, since they may change the meaning of
        the others.
        """
        try:
            with _converting:
                record = msgspec.convert(metadata, cls)
            if unknown := metadata.keys() - {field.name for field in fields(cast(Any, cls))}:
                raise ValueError(f"no field {min(unknown)!r}, unless a newer uec-rag made it")
            json.dumps(metadata, allow_nan=False)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ValueError(
                f"{cls.__name__}: expected the fields of a saved {cls.__name__}, got "
                f"{metadata!r:.2000} ({error})."
            ) from error
        return record
