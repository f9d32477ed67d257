"""The values of options: read from what is typed, or refused before any work in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import typer

from uec_rag.base.checks import Share, check_share
from uec_rag.stores.places import EXPECTED, is_engine


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of integers from the least on, or to the most."""
    expected = f"of {least:,} or more" if most is None else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise _refused(f"an integer {expected}", text)
        return value

    return read


def share(expected: Share) -> Callable[[str], float]:
    """Return a reader of numbers between 0 and 1."""

    def read(text: str) -> float:
        try:
            return check_share(float(text), "", expected)
        except ValueError:
            raise _refused(expected, text) from None

    return read


def amount(text: str) -> float:
    """Read a number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise _refused("a number of 0 or more", text)
    return value


def path(text: str) -> Path:
    """Read the name of a file or folder; an empty one would stand for the current folder."""
    return Path(words(text))


def words(text: str) -> str:
    """Read a text that is not blank."""
    if not str(text).strip():
        raise _refused("a text that is not blank", text)
    return text


def place(text: str) -> str:
    """Read the address of an engine, without opening it."""
    if not is_engine(text):
        raise typer.BadParameter(EXPECTED)  # a password may be in it
    return text


def _refused(expected: str, text: str) -> typer.BadParameter:
    return typer.BadParameter(f"expected {expected}, got {str(text)!r}")
