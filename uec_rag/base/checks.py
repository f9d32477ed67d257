"""Checks of arguments and of the contents of files, before any work starts."""

from __future__ import annotations

import inspect
import json
import math
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from types import UnionType
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")
_AFTER_NOUN = re.compile(r" (?:\(|(?:from|in|never|not|of|on|that|to|with|without)\b)")

Share: TypeAlias = Literal["a number in (0, 1)", "a share in [0, 1)", "a number from 0 to 1"]
"""The descriptions of a number that `check_share` accepts."""

LARGEST = float(np.finfo(np.float32).max)
"""The largest finite float32."""


def check_texts(texts: Iterable[str], argument: str = "texts") -> list[str]:
    """Check that texts are non-blank strings, before any model runs.

    Parameters
    ----------
    texts
        A sequence of strings, which may be empty.
    argument
        Name of the argument, for messages.

    Returns
    -------
    list of str
        The same texts.

    Raises
    ------
    TypeError
        If texts is one string, or not a sequence, or an item is not a string.
    ValueError
        If a text is empty, only white space, or has a lone surrogate.

    Examples
    --------
    >>> check_texts(("a", "b"))
    ['a', 'b']
    """
    checked = as_strings(texts, argument)
    for index, text in enumerate(checked):
        check_text(text, f"{argument}[{index}]")
        check_unicode(text, f"{argument}[{index}]")
    return checked


def check_text(text: str, argument: str) -> str:
    """Return a text if it is a non-blank string; TypeError or ValueError if not."""
    check_type(text, str, argument, "a string")
    if not text or text.isspace():
        raise ValueError(f"{argument}: expected a text, got {text!r:.60}; leave it out.")
    return text


def as_list(values: Iterable[_T], argument: str) -> list[_T]:
    """Return values as a list; TypeError if they are one string, or not iterable.

    Examples
    --------
    >>> as_list("a", "texts")
    Traceback (most recent call last):
    TypeError: texts: expected a list of strings, got one string 'a'; for one, write [...].
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        text = f"one string {values!r:.60}; for one, write [...]."
        text = text if isinstance(values, str) else f"{values!r:.60}."
        raise TypeError(f"{argument}: expected a list of strings, got {text}")
    return list(values)


def as_strings(texts: Iterable[str], argument: str) -> list[str]:
    """Return texts as a list; TypeError if they are one string, or an item is not a string."""
    checked = as_list(texts, argument)
    for index, text in enumerate(checked):
        check_type(text, str, f"{argument}[{index}]", "a string")
    return checked


def check_unicode(text: str, subject: str) -> None:
    """Raise ValueError if a text has a lone surrogate, on which tokenizers and databases fail."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{subject} is not valid Unicode ({error.reason}, at character {error.start}); clean "
            "it with text.encode('utf-8', 'replace').decode()."
        ) from None


def check_stored_text(text: str, subject: str) -> str:
    """Return the text itself; ValueError if it is not valid Unicode, or contains NUL."""
    if not text.isascii():
        check_unicode(text, subject)
    if "\0" in text:
        raise ValueError(
            f"{subject} holds a NUL character, at {text.index(chr(0))}, which engines do not keep; "
            "clean it with value.replace('\\0', ' ')."
        )
    return str.__str__(text)  # of a subclass, too


def check_type(
    value: object, kind: type | UnionType, argument: str, expected: str, advice: str = ""
) -> None:
    """Raise TypeError unless a value is of a type, which the message names as `expected`.

    `advice`: the end of the message, such as what to pass instead.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{argument}: expected {expected}, got {type(value).__name__}{advice}.")


def check_k(k: int, argument: str = "k") -> int:
    """Return an integer of at least 1 as a Python int, which does not overflow.

    Raises TypeError or ValueError if it is not such an integer.

    Examples
    --------
    >>> check_k(np.int8(100)) + 100
    200
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"{argument}: expected an integer, got {k!r:.60}.")
    if k < 1:
        raise ValueError(f"{argument}: expected an integer >= 1, got {k}.")
    return int(k)


def check_documents(documents: Iterable[_T], kind: type, name: str, for_strings: str) -> list[_T]:
    """Return documents as a list; TypeError if they are one document, or an item is not one.

    `name`: the name of `kind` in messages. `for_strings`: the function that takes strings instead.
    """
    if isinstance(documents, kind):
        raise TypeError("documents: expected a list of Documents, got one; pass [document].")
    checked, advice = list(documents), f"; for strings there is {for_strings}"
    for position, document in enumerate(checked):
        check_type(document, kind, f"documents[{position}]", f"a {name}", advice)
    return checked


def check_share(value: float, argument: str, expected: Share) -> float:
    """Return a number between 0 and 1 as a float; TypeError or ValueError if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{argument}: expected {expected}, got {value!r:.60}.")
    inside = 0 <= value <= 1
    if not inside or (value == 0 and "(0" in expected) or (value == 1 and "1)" in expected):
        raise ValueError(f"{argument}: expected {expected}, got {value}.")
    return float(value)


def check_beta(beta: float) -> float:
    """Check the weight of the variance in the score; ValueError unless in the float32 range."""
    if not isinstance(beta, int | float | np.number) or not 0 <= beta <= LARGEST:
        raise ValueError(f"beta: expected a number >= 0, got {beta!r:.60}; a float32 must hold it.")
    return float(beta)


# Characters that a terminal interprets: C0 and C1 controls except line feed and tab, and the marks
# that change the direction of text; and lone surrogates, which stand for undecodable bytes of file
# names and cannot be encoded.
# Also marks that turn the order of letters, and signs of tags, which nobody sees.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)

# What ECMA-48 calls a control sequence (colours, moves) and a control string (titles, links).
_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
    "|\x1b[]PX^_][^\x07\x1b\x9c]*(?:\x07|\x9c|\x1b\\\\)"
    "|\x1b[ -/]*[0-~]"
)


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the most similar one; "" if none is.

    Examples
    --------
    >>> did_you_mean("bm52", ["bm25", "arctic-embed-s"]), did_you_mean("ann", ["bm25"])
    ("; did you mean 'bm25'?", '')
    """
    by_key = {option.casefold(): option for option in options}
    similar = get_close_matches(str(name).casefold(), by_key, n=1, cutoff=0.7)
    return f"; did you mean {by_key[similar[0]]!r}?" if similar else ""


def six_digits(value: Any) -> Any:  # noqa: ANN401
    """Round all numbers in lists and mappings to six significant digits, which JSON shows.

    Examples
    --------
    >>> six_digits({"score": 0.123456789, "ids": ["a"], "count": 12345678})
    {'score': 0.123457, 'ids': ['a'], 'count': 12345678}
    """
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: six_digits(item) for key, item in value.items()}
    return [*map(six_digits, value)] if isinstance(value, (list, tuple)) else value


def visible(text: str) -> str:
    r"""Escape control characters, so that none reaches a terminal.

    Examples
    --------
    >>> print(visible("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def visible_json(text: str) -> str:
    r"""Escape control characters in JSON, whose strings have no "\x".

    Examples
    --------
    >>> print(visible_json('"a\x9b2Jb"'))
    "a\u009b2Jb"
    """
    return _CONTROLS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Put a text on one line: white space becomes single spaces, control characters are escaped."""
    return visible(" ".join(text.split()))


def clean_line(text: str) -> str:
    r"""Put a text on one line, without control characters, terminal sequences and surrogates.

    For what is searched or offered to users; `one_line` keeps them, escaped.

    Examples
    --------
    >>> clean_line("a\x1b[2Jb\n \u202ec\ud800")
    'ab c'
    """
    return " ".join(_CONTROLS.sub("", " ".join(_SEQUENCES.sub("", text).split())).split())


def pluralize(number: int, noun: str) -> str:
    """Format a number with a noun phrase, with the plural "s" unless the number is 1.

    Examples
    --------
    >>> pluralize(1, "file"), pluralize(2000, "file of other kinds"), pluralize(2, "hidden sheet")
    ('1 file', '2,000 files of other kinds', '2 hidden sheets')
    """
    after = _AFTER_NOUN.search(noun)
    end = after.start() if after else len(noun)
    return f"{number:,} {noun[:end]}{'' if number == 1 else 's'}{noun[end:]}"


def quote(text: str) -> str:
    r"""Quote text for a language model as a JSON string on one line.

    The text cannot end its quotation, and so cannot be mistaken for the prompt around it.

    Examples
    --------
    >>> print(quote('He says "no".\n\nDecision: answer'))
    "He says \"no\".\n\nDecision: answer"
    """
    marked = visible_json(json.dumps(text, ensure_ascii=False))
    return marked.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def are_finite(numbers: NDArray[Any], *, floor: float = -math.inf, cap: float = math.inf) -> bool:
    """Return whether all numbers are finite, and between `floor` and `cap`."""
    if not numbers.size:
        return True
    low, high = float(numbers.min()), float(numbers.max())  # NaN if there is one
    return math.isfinite(low) and math.isfinite(high) and low >= floor and high <= cap


def are_ascending(numbers: NDArray[Any], starts: NDArray[np.int64] | None = None) -> bool:
    """Return whether numbers increase strictly within each segment.

    `numbers`: array, shape (n,). `starts`: indices at which segments start; by default, there is
    one.

    Examples
    --------
    >>> are_ascending(np.array([1, 5, 2, 3]), np.array([0, 2])), are_ascending(np.array([1, 1]))
    (True, False)
    """
    rises = numbers[1:] > numbers[:-1]
    if starts is not None:
        rises[starts[(starts > 0) & (starts < len(numbers))] - 1] = True
    return bool(rises.all())


class _Nowhere:
    def write(self, content: object) -> None:
        """Forget what is written."""


def check_pickles(part: object, name: str, instead: str) -> None:
    """Raise a TypeError that says what to do `instead` if a part of an object does not pickle.

    Cloudpickle (joblib, Ray, Dask) and dill, which pickle more, are left to say it themselves.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if {"cloudpickle", "dill"} & {*frame.f_globals.get("__name__", "").split(".")}:
            return
        frame = frame.f_back
    try:
        pickle.Pickler(cast(Any, _Nowhere())).dump(part)
    except Exception as error:
        raise TypeError(f"{name} does not pickle ({error}). {instead}") from error


def refuse_unknown(options: Mapping[str, Any], *calls: Callable[..., Any]) -> None:
    """Raise TypeError if none of some callables has an argument, with those that they have."""
    names = dict.fromkeys(chain.from_iterable(inspect.signature(call).parameters for call in calls))
    names.pop("kwargs", None)
    for name in options.keys() - names.keys():
        advice = did_you_mean(name, names) or f"; known are {', '.join(names)}."
        raise TypeError(f"{name}: expected no such argument, got {options[name]!r:.60}{advice}")


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401
    """Parse JSON; ValueError also if an object has a key twice, of which one would be dropped."""

    def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise ValueError("expected each key once in an object")
        return mapping

    return json.loads(text, object_pairs_hook=distinct)
