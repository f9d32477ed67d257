"""The statements of a passage: its lines, with the values in their words.

A line of prose is a statement, and so are a row of a table ("Plan: Basic, Price: 6") and an item of
a list. Units, number words and versions are the `operators` in languages.toml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import regex

from uec_rag.encoders import lexical
from uec_rag.questions.languages import ENGLISH, function_words, tables

_LONGEST, _MOST_LINES = 400, 40  # characters of a statement; statements of a passage
_TOKEN = regex.compile(
    r"[$€£%]|\p{Han}|(?:(?<![\p{L}\p{N}])[-−])?[vV]?\p{Nd}+(?:[.,:'’]\p{Nd}+)*"
    r"|[[\p{L}\p{M}_]--[\p{Han}]][[\p{L}\p{M}\p{N}_]--[\p{Han}]]*",
    regex.VERSION1,
)
_BULLET = regex.compile(r"\A\s*+(?:[-*+•|>#]++\s*+|\(?\p{N}{1,3}[.)]\s++)+")
_ROW = regex.compile(
    r"\A\s*+(?:[-*+•]|\(?\p{N}{1,3}[.)])\s|\||:\s(?=[^:]*+:\s)[^:]*[,;]\s"  # "Plan: Plus, Year: 2"
)
_CELL = regex.compile(r"\||[,;]\s++(?=[^,;:|]{1,60}:\s)")
_GROUPED = regex.compile(r"(?P<whole>\d{1,3}(?:[.,'’]\d{3})+)(?:[.,](?P<rest>\d\d?))?")
_MARK = regex.compile(r"[.,:'’]")
_HALVES = {"am": 0.0, "pm": 12.0}
_CLOCKS = ("uhr", "o", "点")  # "18 Uhr", "8 o'clock"

SYMBOLS = ("$", "€", "£")
"""The units that are currencies."""

ANY_VALUE = "#"
"""The placeholder for the stem of any value."""


class Token(NamedTuple):
    """A word, or a value: a number, a date, a time or a version.

    Attributes
    ----------
    text, stem : str
    kind : {"number", "year", "date", "time", "version", "code", "name", ""}
    value : tuple of float
        Values of one kind and unit compare as such; empty for a word.
    unit : str
    cell : int
        The number of the cell of a row that it is in.
    around : tuple of two str
        The stems beside it; "" for one that says little, and at the end of a clause.
    start : int
        Its place in the statement.
    """

    text: str
    stem: str
    kind: str
    value: tuple[float, ...]
    unit: str
    cell: int
    around: tuple[str, str]
    start: int


class Statement(NamedTuple):
    """A line of a text; `bag`: the stems that say something, with `ANY_VALUE` for values."""

    text: str
    tokens: tuple[Token, ...]
    bag: frozenset[str]


@lru_cache(4096)
def statements_of(text: str, language: str = ENGLISH) -> tuple[Statement, ...]:
    r"""Return the statements of a text that are short enough to have siblings.

    Examples
    --------
    >>> [basic, _] = statements_of("- The Basic plan costs $6.\n- The Plus plan costs 9 dollars.")
    >>> [(token.kind, token.value, token.unit) for token in basic.tokens if token.value]
    [('number', (6.0,), '$')]
    """
    lines = [line for line in text.splitlines()[:_MOST_LINES] if line.strip()]
    rows = [line for line in lines if _ROW.search(line)]
    said = rows if len(rows) > 1 else [" ".join(lines)]
    plain = (_BULLET.sub("", line).strip() for line in said)
    return tuple(_statement(line, language) for line in plain if 0 < len(line) <= _LONGEST)


def measure_of(word: str) -> tuple[str, float]:
    """Return the unit that a unit is measured in, and how many of it; "" for another word."""
    return _measures().get(word.casefold(), ("", 1.0))


@cache
def _measures() -> dict[str, tuple[str, float]]:
    found, rows = dict[str, tuple[str, float]](), tables()[ENGLISH]["operators"]["units"]
    for first, factor, word in ((row.split()[1], *of) for row in rows for of in _factors(row)):
        found[word] = (first, factor)
    return found


def _factors(row: str) -> Iterator[tuple[float, str]]:
    """Yield the words of a row with the last number before each."""
    factor = 1.0
    for word in row.split():
        if word[0] in ".0123456789":
            factor = float(word)
        else:
            yield factor, word


@cache
def _words(language: str) -> tuple[dict[str, float], dict[str, float], frozenset[str]]:
    """Return the words for numbers, and for what these are multiplied by and what has versions."""
    english = tables()[ENGLISH]["operators"]
    own = tables()[language].get("operators", english)
    first, tens = own["numbers"].strip().splitlines()
    numbers = {word: float(n) for n, word in enumerate(first.split())}
    numbers |= {word: n for n, word in _factors(tens)}
    scales = {word: factor for factor, word in _factors(english["scales"])}
    return numbers, scales, frozenset(english["versions"].split())


def _statement(line: str, language: str) -> Statement:
    text, without = lexical.number_dates(line), function_words(language)
    cuts = [cut.start() for cut in _CELL.finditer(text)]
    found = [*_TOKEN.finditer(text)]
    plain = [one[0].casefold() for one in found]
    # "Plan: Basic" names what is behind the colon, as "the plan Basic" does.
    gaps = [text[a.end() : b.start()].strip(" :\t") for a, b in pairwise(found)]
    read = [_value(plain, at, gaps, language) for at in range(len(plain))]
    stems = [
        ANY_VALUE if value else measure_of(word)[0] or lexical.stem_of(word)
        for word, (_, value, _) in zip(plain, read, strict=True)
    ]
    beside = [
        "" if word in without and not value[1] else stem
        for word, value, stem in zip(plain, read, stems, strict=True)
    ]
    tokens = list[Token]()
    for at, (one, (kind, value, unit)) in enumerate(zip(found, read, strict=True)):
        before = beside[at - 1] if at and not gaps[at - 1] else ""
        after = beside[at + 1] if at + 1 < len(found) and not gaps[at] else ""
        cell = sum(cut < one.start() for cut in cuts)
        if not value:
            kind = _kind(one[0], language)
        place = one.start()
        tokens.append(Token(one[0], stems[at], kind, value, unit, cell, (before, after), place))
    return Statement(text, tuple(tokens), frozenset(beside) - {""})


def _kind(word: str, language: str) -> str:
    """Tell whether a word is a code or, in English, a name; "" if neither."""
    if any(map(str.isdigit, word)) or (word.isupper() and len(word) < 5):
        return "code"
    return "name" if word[0].isupper() and language == ENGLISH else ""


def _value(
    words: Sequence[str], at: int, gaps: Sequence[str], language: str
) -> tuple[str, tuple[float, ...], str]:
    """Return kind, value and unit of a token; the value of a word is empty."""
    word, (numbers, scales, versions) = words[at], _words(language)
    value: tuple[float, ...]
    if word in numbers and word not in function_words(language):
        kind, value = "number", (numbers[word],)
    else:
        versioned = word[0] == "v" or (at > 0 and words[at - 1] in versions)
        kind, value = _read_digits(word.removeprefix("v"), versioned)
    following = [words[n] if n < len(words) else "" for n in (at + 1, at + 2)]
    if at < len(gaps) and gaps[at] not in ("", "."):
        following = ["", ""]
    if kind in ("time", "number", "year") and following[0] in _HALVES:
        hours, minutes = (*value, 0.0)[:2]
        kind, value = "time", (hours % 12 + _HALVES[following[0]], minutes)
    elif kind == "number" and following[0] in _CLOCKS:
        kind, value = "time", (*value, 0.0)
    if kind not in ("number", "year"):
        return kind, value, ""
    factor = scales.get(following[0], 0.0)
    next_to = following[1] if factor else following[0]
    before = measure_of(words[at - 1]) if at and not gaps[at - 1] else ("", 1.0)
    unit, of_unit = before if before[0] in SYMBOLS else measure_of(next_to)
    if not unit and next_to and next_to not in function_words(language):
        unit = lexical.stem_of(next_to)
    return kind, (value[0] * (factor or 1.0) * of_unit,), unit


def _read_digits(word: str, versioned: bool) -> tuple[str, tuple[float, ...]]:
    """Return the kind and value of digits; an empty value if these are none."""
    if word.startswith(("-", "−")):
        kind, value = _read_digits(word[1:], versioned)
        return kind, tuple(-part for part in value)
    if not word[:1].isdecimal():
        return "", ()
    parts = _MARK.split(word)
    if len(word) == 8 and len(parts) == 1 and word[:2] in ("19", "20"):
        return "date", (float(word[:4]), float(word[4:6]), float(word[6:]))
    if ":" in word:
        return "time", (float(parts[0]), float(parts[1]))
    grouped = _GROUPED.fullmatch(word)
    if len(parts) > 1 and not grouped and (versioned or len(parts) > 2):
        return "version", tuple(map(float, parts))
    if grouped:
        parts = [_MARK.sub("", grouped["whole"]), grouped["rest"] or "0"]
    is_year = len(word) == 4 and len(parts) == 1 and word < "2200"
    return "year" if is_year else "number", (float(".".join(parts)),)
