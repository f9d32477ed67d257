"""Metadata as keywords, so that an engine filters by it exactly as a store in memory does.

Engines differ in what equality means for lists, for whole numbers and fractions, for what is not
there. A fact ("year is 2021", "one of tags is tax") as one keyword means the same in all of them,
and one index serves every key.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

Kind = Literal["key", "there", "is", "has", "list"]
"""That there is a key; a value other than None; this value; this item; that it is a list."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def fact(kind: Kind, key: str, value: object = None) -> str:
    """One fact as a keyword.

    Examples
    --------
    >>> fact("is", "year", 2021) == fact("is", "year", 2021.0)
    True
    >>> fact("is", "shift", 0) == fact("is", "shift", -0.0)
    True
    """
    text = json.dumps([kind, key, _canonical(value)], sort_keys=True)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def facts_of(metadata: Mapping[str, Any]) -> list[str]:
    """All facts of a passage's metadata."""
    facts = []
    for key, value in metadata.items():
        facts += [fact("key", key), fact("is", key, value)]
        if value is not None:
            facts.append(fact("there", key))
        if isinstance(value, list | tuple | set | frozenset | Mapping):
            facts.append(fact("list", key))
            facts += {fact("has", key, item) for item in value}
    return facts


def numbers_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of a passage's metadata, by `field`, for comparisons."""
    return {
        field(key): float(value)
        for key, value in metadata.items()
        if isinstance(value, bool | int | float) and math.isfinite(value)
    }


def field(key: str) -> str:
    """A metadata key as a name that any engine's paths allow."""
    if _PLAIN.fullmatch(key):
        return key
    return "-" + hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def _canonical(value: object) -> object:
    """The same for values that are equal in Python."""
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and int(float(value)) != value:
            return value
        return float(value) + 0.0  # -0.0 becomes 0.0
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if value is None or isinstance(value, str):
        return value
    return [type(value).__name__, str(value)]
