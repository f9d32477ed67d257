"""Checks on what users give, before any work starts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that a float32 holds."""


def check_texts(texts: Iterable[str], argument: str = "texts") -> list[str]:
    """Check that texts are non-blank strings, before any model runs.

    Parameters
    ----------
    texts
        Any sequence of strings; empty is fine.
    argument
        What the caller calls it, for the message.

    Returns
    -------
    list of str
        The same texts.

    Raises
    ------
    TypeError
        If texts is one string, or not a sequence, or holds something that is not a string.
    ValueError
        If a text is empty, only white space, or holds half a surrogate pair.

    Examples
    --------
    >>> check_texts(("a", "b"))
    ['a', 'b']
    >>> check_texts("a")
    Traceback (most recent call last):
    TypeError: texts must be a list of strings, got one string 'a'; write ['a'] for a single text
    """
    if isinstance(texts, str):
        short = texts if len(texts) <= 40 else texts[:37] + "..."
        raise TypeError(
            f"{argument} must be a list of strings, got one string {short!r}; "
            f"write [{short!r}] for a single text"
        )
    try:
        checked = list(texts)
    except TypeError:
        raise TypeError(
            f"{argument} must be a list of strings, got {type(texts).__name__}"
        ) from None
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(
                f"{argument}[{index}] must be a string, got {type(text).__name__}: {text!r:.60}"
            )
        if not text or text.isspace():
            raise ValueError(f"{argument}[{index}] is empty or only white space; remove it first")
        try:
            text.encode()
        except UnicodeEncodeError as error:  # tokenizers and databases fail on it later
            raise ValueError(
                f"{argument}[{index}] is not valid Unicode ({error.reason}, at character "
                f"{error.start}); clean it with text.encode('utf-8', 'replace').decode()"
            ) from None
    return checked


def check_k(k: int, argument: str = "k") -> None:
    """Raise unless k is an integer of at least 1."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"{argument}: expected an integer, got {k!r}.")
    if k < 1:
        raise ValueError(f"{argument}: expected an integer >= 1, got {k}.")


def listed(ids: Iterable[str], name: str) -> list[str]:
    """Return ids as a list; TypeError if they are one string, or not iterable."""
    if isinstance(ids, str):
        raise TypeError(f"{name}: expected a list of strings, got one string {ids!r}.")
    if not isinstance(ids, Iterable):
        raise TypeError(f"{name}: expected a list of strings, got {ids!r:.60}.")
    return list(ids)


def check_unanswerable(share: float) -> float:
    """Check the share of questions that a corpus does not answer; ValueError outside [0, 1)."""
    if not 0 <= share < 1:
        raise ValueError(f"unanswerable: expected a share in [0, 1), got {share}.")
    return float(share)


def check_beta(beta: float) -> float:
    """Check how strongly variance lowers a score; ValueError unless a float32 holds it."""
    if not isinstance(beta, int | float | np.number) or not 0 <= beta <= LARGEST:
        raise ValueError(f"beta: expected a number >= 0, got {beta!r:.60}; a float32 must hold it.")
    return float(beta)
