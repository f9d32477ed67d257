"""The writing of a text: its script, its accents, English by its function words, its notations.

Notations are numbers in digits, words or Roman numerals, hyphens, dates, times and units.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import regex

from uec_rag.base.records import remembered
from uec_rag.base.text import ENGLISH_WORDS, WORD, split_words, undecorated
from uec_rag.questions.calendar import SHORT_NAMES, find_short_names
from uec_rag.questions.languages import MONTHS


def _listed(name: str) -> list[str]:
    """Return the lines of a list beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()


FOREIGN = frozenset(" ".join(_listed("function_words.txt")).split()) - ENGLISH_WORDS
"""Function words of other languages in the Latin script; words of both lists count as English."""

_LATIN_WORD, _ACCENT = regex.compile(r"[\p{Latin}\p{Mn}]+"), regex.compile(r"\p{Mn}")
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"})

LATIN, NOT_ENGLISH = "Latin letters", "Latin letters, not English"

_MOST_PARTS = 16  # of a number with dots
_MOST_LETTERS = 2000  # characters of a text that are examined
_FEWEST_WORDS = 2  # foreign function words that identify a text as not English
_EAST_ASIAN = {"CJK": "Chinese or Japanese characters", "HIRAGANA": "Japanese characters"}
_EAST_ASIAN |= {"KATAKANA": _EAST_ASIAN["HIRAGANA"], "HANGUL": "Korean characters"}

_DIGIT, _LETTER = re.compile(r"\d"), regex.compile(r"\p{L}")
_BETWEEN = regex.compile(r"[^\p{L}\p{M}\p{N}]")
# A word that is also written as one, "Wi-Fi", and a number with separators, "2,000".
_COMPOUND = re.compile(r"(?<!\w)[^\W_]++(?:[-\u2010\u2011][^\W_]++)++")
_HYPHENED = re.compile(r"[-\u2010\u2011](?<=[^\W_].)[^\W_]")
# An expression that begins with a digit takes a third of the time of one that begins with what is
# not before it.
_NUMBER = re.compile(
    r"\d(?<![\w.,]\d)(?:\d?\d?(?:[.,'’\u00a0\u2009\u202f\u066c]\d{3})+|\d?(?:,\d\d)+,\d{3})"
    r"(?!\w|\.\d+\.)"
)
# Digits in groups, of a telephone or an order, or of an account, which begins with letters.
_GROUPED = re.compile(
    r"[A-Z\d](?<![\w.,].)(?:(?<!\d)[A-Z]\d\d(?: ?[A-Z\d]{4})+(?: [A-Z\d]{1,3})?"
    r"|(?<=\d)\d{0,8}(?:(?:\)[ /-]?|[ /.-])\(?\d{1,9}){1,9})(?![\w,])"
)
_HAS_DOTTED = re.compile(r"\d\.\d")
_DOTTED = re.compile(r"(?<![\w.])[vV]?(\d+(?:\.\d+)+)(?![\w.]*\d|\w)")  # "3.1.0", "v2.5"
_FOREIGN_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
_FEWEST_DIGITS, _MOST_DIGITS = 7, 34  # of a number in groups: a local telephone, an account
_THOUSANDS, _YEARS = re.compile(r"\d{1,3}(?: \d{3})+"), re.compile(r"[12]\d{3}[/-][12]\d{3}")
_MARK_OF_TIME = re.compile(r"(?<=\d)h(?=\d)")  # as `in_one_form` writes it
_ORDINAL = regex.compile(r"(?<=\d)(?:st|nd|rd|th|[.,:])\Z")

_UNIT = (
    r"(?:(?i:[kmgt]i?b|[kmg]bit|[kmg]?hz|[kmcd]m|[km]g|lbs?|oz|[mcd]l|k?wh?|mah|[mk]?v|k?cal|dpi|px"
    r"|psi|mph|km/h|[ap]m|hrs?|mins?|secs?|yrs?|inch|eur|usd|gbp|chf)|[mghlL])(?!\w)"
)
# "16GB", but neither "x16GB" nor "5G" or "5g", which are no weight; "5 p.m."
_QUANTITY = regex.compile(
    rf"(?<![\w.,])(?!\dg\b)\d++(?:[.,]\d++){{0,3}}+(?P<gap>)(?={_UNIT})"
    r"|\d(?P<half>\s?(?P<of>[ap])\.\s?m(?:\.|\b))",
    regex.IGNORECASE,
)
# A dot is in a time before "am", "Uhr" or "h", or behind "at" or between "from" and "to" if it is
# no price.
_CLOCK, _POINT = (
    rf"(?P<hour>{hour}|1\d|2[0-4]){mark}(?P<minute>[0-5]\d)"
    for hour, mark in ((r"0?\d", "(?::| ?h ?| uhr )"), ("0?[1-9]", r"\."))
)
_FIVES, _TO = r"\d{1,2}\.[0-5][05](?!\d)", r"\s(?:to|until|till|bis|alle)\s"
_PRICE = r"[\w%€$£]|[.,]\d|\s(?:[%€$£]|(?:euros?|eur|usd|chf|dollars?|pounds?|francs?)\b)"
_TIME = regex.compile(
    rf"(?<![\w:/,.])(?:{_CLOCK}(?:(?=[ap]m\b)|(?![\w:]|[.,]\d))"
    rf"|{_POINT}(?=\s?(?:[ap]\.?m\b|Uhr\b|h\b|hrs?\b|o['’]clock))"
    rf"|(?<=\b(?:from|von|dalle)\s)(?={_FIVES}){_POINT}(?={_TO}{_FIVES}(?!{_PRICE}))"
    rf"|(?<=\b(?:from|von|dalle)\s{_FIVES}{_TO})(?={_FIVES}){_POINT}(?!{_PRICE})"
    rf"|(?<=\b(?:at|um|alle|às)\s){_POINT}(?!{_PRICE}))",
    regex.IGNORECASE,
)
# What a text has that has a quantity or a time, since both cost more to look for.
_HAS_QUANTITY = re.compile(r"\d(?:[A-Za-z]|\s?[ap]\.)")
_HAS_TIME = re.compile(r"\d(?:[:.]| ?h ?| uhr )[0-5]\d", re.IGNORECASE)

# What is counted ("chapter"), and numbers by their words, behind it and before it.
*_NUMBERED, _COUNTS = _listed("numbers.txt")
COUNTED = frozenset(_COUNTS.split())
"""The words for what is numbered in a document, such as chapters, in small letters."""

_SECTIONS = COUNTED.union(map(str.capitalize, COUNTED))
_IN_WORDS, _BEFORE = (
    {
        word: str(number)
        for number, words in enumerate(_NUMBERED, 1)
        for word in words.partition("|")[column].split()
    }
    for column in (0, 2)
)
_ROMAN = {
    f"{tens}{units}": str(10 * ten + unit)
    for ten, tens in enumerate(("", "X", "XX", "XXX"))
    for unit, units in enumerate(("", *["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]))
    if ten or unit
}
_BEHIND = _BEFORE | {roman.lower(): number for roman, number in _ROMAN.items()} | _IN_WORDS
_ARTICLES = frozenset(
    _NUMBERED[0].partition("|")[0].split()
)  # "one", "un", which are pronouns, too
NUMERALS = rf"\p{{Nd}}|(?:{'|'.join(_IN_WORDS)})\b"
"""A pattern of how a number begins."""

_HAS_YEAR = re.compile(
    r"\d(?:(?<=[12])(?<!\d\d)\d{3}(?!\d)|([-/.])(?:\d\d?|[^\W\d_]{3,9})\1\d\d(?!\d))"
)
_CENTURIES = range(1900, 2100)


def writing_of(text: str) -> str | None:
    """Return the script of most letters of a text, and whether Latin text is not English.

    Returns None for a text without letters.

    Examples
    --------
    >>> [writing_of(text) for text in ("Who wrote it?", "Кто это написал?", "谁写的", "1984")]
    ['Latin letters', 'Cyrillic letters', 'Chinese or Japanese characters', None]
    >>> writing_of("Wer hat das Buch geschrieben, und wann?")
    'Latin letters, not English'
    """
    script = letters_in(text)
    if script != LATIN:
        return script
    words = undecorated(text[:_MOST_LETTERS]).lower().split()
    strange = sum(map(FOREIGN.__contains__, words))
    foreign = strange >= _FEWEST_WORDS and strange > sum(map(ENGLISH_WORDS.__contains__, words))
    return NOT_ENGLISH if foreign else LATIN


def letters_in(text: str) -> str | None:
    """Return the script of most letters of a text, in any language; None if it has none."""
    if text.isascii():  # a fast path, since every search calls this for its hits
        return LATIN if any(map(str.isalpha, text[:_MOST_LETTERS])) else None
    counts: Counter[str] = Counter()
    for letter, count in Counter(undecorated(text[:_MOST_LETTERS])).items():
        if letter.isalpha():
            counts[_script_of(letter)] += count
    return counts.most_common(1)[0][0] if counts else None


def letters_of(writing: str | None) -> str | None:
    """Return the script of a writing, without the language."""
    return LATIN if writing == NOT_ENGLISH else writing


def writings(texts: Iterable[str], share: float = 0.02) -> tuple[str, ...]:
    """Return the writings of texts, most frequent first, without those of a share below `share`."""
    counts = Counter(writing for text in texts if (writing := writing_of(text)) is not None)
    enough = share * counts.total()
    return tuple(name for name, count in counts.most_common() if count >= enough)


@cache
def _script_of(letter: str) -> str:
    word = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return _EAST_ASIAN.get(word, f"{word.capitalize()} letters")


def without_accents(word: str) -> str:
    """Return a word in the Latin script without accents; any other as it is.

    Examples
    --------
    >>> [without_accents(word) for word in ("café", "Zürich", "Tromsø", "йод")]
    ['cafe', 'Zurich', 'Tromso', 'йод']
    """
    if word.isascii() or not _LATIN_WORD.fullmatch(word):
        return word
    return str(_ACCENT.sub("", unicodedata.normalize("NFKD", word)).translate(_STROKES))


def numeral_of(word: str) -> str:
    """Return the digits of a number in digits, in words or in Roman numerals; "" for none.

    Examples
    --------
    >>> [numeral_of(word) for word in ("2,000", "4th", "9h30", "four", "third", "VI", "lamp")]
    ['2000', '4', '9:30', '4', '3', '6', '']
    """
    if word[:1].isdecimal():
        word = word if word.isascii() else with_ascii_digits(word)
        word = _MARK_OF_TIME.sub(":", word)
        return _BETWEEN.sub("", word) if _NUMBER.fullmatch(word) else _ORDINAL.sub("", word)
    if len(word) > 1 and word in _ROMAN:
        return _ROMAN[word]
    folded = word.lower()
    return "" if folded in _ARTICLES else _BEFORE.get(folded) or _IN_WORDS.get(folded, "")


def with_ascii_digits(text: str) -> str:
    """Return a text with the digits of any script as those of ASCII.

    Examples
    --------
    >>> with_ascii_digits("५०० or ๕๐๐")
    '500 or 500'
    """
    return str(_FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text))


def take_dotted(text: str) -> tuple[str, list[str]]:
    """Return a text without its numbers with dots, and these with each of their beginnings.

    Such are versions, sections, addresses and decimals. The beginnings have 16 parts at most, so
    that those of a long number do not take the square of its length.

    Examples
    --------
    >>> take_dotted("From v3.1.0 on.")
    ('From   on.', ['3', '3.1', '3.1.0'])
    """
    if not _HAS_DOTTED.search(text):
        return text, []
    beginnings = [
        ".".join(parts[:count])
        for number in _DOTTED.findall(text)
        for parts in [number.split(".")]
        for count in (*range(1, min(len(parts), _MOST_PARTS + 1)), len(parts))
    ]
    return (str(_DOTTED.sub(" ", text)), beginnings) if beginnings else (text, [])


@remembered(100_000)
def in_one_form(text: str) -> str:
    """Return a text with one form of each value that is written in several.

    Digits are those of ASCII, without separators; a unit is apart from its number, a time has an
    "h" or is a full hour; short names of days and months are the full ones.

    Examples
    --------
    >>> in_one_form("Mon to Fri from 09:30 to 5pm, on Sat from 10:00")
    'Monday to Friday from 9h30 to 5 pm, on Saturday from 10'
    >>> in_one_form("He sat there with 2,016GB at 9.30, not version 9.30")
    'He sat there with 2016 GB at 9h30, not version 9.30'
    """
    if not text.isascii():
        text = with_ascii_digits(text)
    pieces, at = list[str](), 0
    for start, end, form in find_values(text):
        if start >= at:
            pieces += text[at:start], form
            at = end
    text = "".join([*pieces, text[at:]])
    if not _DIGIT.search(text):
        return text
    return str(_NUMBER.sub(lambda number: _BETWEEN.sub("", number[0]), text))


def find_values(text: str) -> list[tuple[int, int, str]]:
    """Return from where to where a text has times, units and short dates, with their one form."""
    values = list[tuple[int, int, str]]()
    for match in _QUANTITY.finditer(text) if _HAS_QUANTITY.search(text) else ():
        half = match["of"]
        values.append(
            (*match.span("half" if half else "gap"), f" {half.lower()}m" if half else " ")
        )
    for match in _TIME.finditer(text) if _HAS_TIME.search(text) else ():
        hour, minute = int(match["hour"]), match["minute"]
        values.append((*match.span(), f"{hour}" if minute == "00" else f"{hour}h{minute}"))
    if not SHORT_NAMES.isdisjoint(split_words(text)):
        values += find_short_names(text)
    return sorted(values) if len(values) > 1 else values


def _numerals(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the numbers that words stand for, with them: of "chapter six", "Louis XIV"."""
    pairs = list[tuple[str, list[str]]]()
    if not _SECTIONS.isdisjoint(words):
        for head, tail in pairwise(words):
            if head in _SECTIONS and (number := _BEHIND.get(tail.lower())):
                pairs.append((number, [tail]))
            elif tail in _SECTIONS and (number := _BEFORE.get(head.lower())):
                pairs.append((number, [head]))
    if not _ROMAN.keys().isdisjoint(words):
        pairs += [(_ROMAN[word], [word]) for word in words[1:] if len(word) > 1 and word in _ROMAN]
    return pairs


def find_wholes(
    text: str, words: Sequence[str], dates: Sequence[regex.Match[str]]
) -> list[tuple[str, list[str]]]:
    """Return what several words of a text are as one, with these words.

    It is the number that words stand for, a word with hyphens, a number in groups, or a date.
    """
    wholes, prose = _numerals(words), _replace(text, dates, lambda _: " ")
    has_hyphens = _HYPHENED.search(prose)  # else nothing is found
    compounds = filter(_LETTER.search, _COMPOUND.findall(prose) if has_hyphens else ())
    wholes += [(_BETWEEN.sub("", word), WORD.findall(word)) for word in compounds]
    for number in _GROUPED.findall(prose) if _DIGIT.search(prose) else ():
        whole = _BETWEEN.sub("", number)
        is_long = _FEWEST_DIGITS <= len(whole) <= _MOST_DIGITS and not _YEARS.fullmatch(number)
        if is_long or _THOUSANDS.fullmatch(number):
            wholes.append((whole, WORD.findall(number)))
    for date in dates:
        days = _days(date)
        parts = WORD.findall(date[0]) if _is_kept(date) else []
        wholes += [(day, parts or [form for form in days if form != day] or [day]) for day in days]
    return wholes


def number_dates(text: str) -> str:
    """Write each date in eight digits, the first of those that it may be.

    Examples
    --------
    >>> number_dates("It opened on 3 April 2024.")
    'It opened on 20240403.'
    """
    return _replace(text, find_dates(text), lambda date: next(iter(_days(date)), date[0]))


def find_dates(text: str) -> list[regex.Match[str]]:
    """Find the dates with a year in a text."""
    return [*_date().finditer(text)] if _HAS_YEAR.search(text) else []


def keep_years(text: str, dates: Sequence[regex.Match[str]]) -> str:
    """Return a text with the year alone of each date, but for one that keeps its words."""
    return _replace(text, dates, lambda of: of[0] if _is_kept(of) else f"{of['year']} ")


def _is_kept(date: regex.Match[str]) -> bool:
    """Return whether a date keeps its words: it has a month's name, or may be a version."""
    return date["named"] is not None or len(date["year"]) == 2


def _replace(
    text: str, matches: Sequence[regex.Match[str]], write: Callable[[regex.Match[str]], str]
) -> str:
    """Replace what was found in a text, as the `sub` of its expression would."""
    parts, end = list[str](), 0
    for match in matches:
        parts += [text[end : match.start()], write(match)]
        end = match.end()
    return "".join([*parts, text[end:]])


def _days(date: regex.Match[str]) -> list[str]:
    """Return the days that a date may be, of which 3/4/2024 has two."""
    day, year = int(date["day"]), date["year"]
    if len(year) == 2:
        year = f"{20 if year < '70' else 19}{year}"
    if name := date["named"]:
        pairs = [(MONTHS[name.casefold()], day)]
    else:
        pairs = [(int(date["month"]), day)]
        if date["mark"] in ("/", "-"):
            pairs.append((day, int(date["month"])))
    return sorted({f"{year}{m:02}{d:02}" for m, d in pairs if 1 <= m <= 12 and 1 <= d <= 31})


@cache
def _date() -> regex.Pattern[str]:
    """Return the pattern of dates, which takes most of an import to compile, and is seldom used."""
    day, year, month = r"(?P<day>\d\d?)", r"(?P<year>[12]\d{3})", r"(?P<month>\d\d?)"
    any_year, name = r"(?P<year>[12]\d{3}|\d\d)", _named_month()
    return regex.compile(
        rf"(?<![\w.,/-])(?:{year}(?:-|/|\.|[年년]\s?){month}(?:-|/|\.|[月월]\s?){day}[日일]?"
        rf"|{day}(?P<mark>[-/.]){month}(?P=mark){any_year}"
        rf"|{day}(?P<mark>[-/]){name}(?P=mark){any_year}"
        rf"|{day}(?:st|nd|rd|th|º|\.)?\s(?:of\s|de\s)?{name}\.?,?\s(?:de\s)?{year}"
        rf"|{name}\.?\s{day}(?:st|nd|rd|th)?,?\s{year})(?=$|T\d|[^\w./-]|[.-](?!\d))",
        regex.IGNORECASE,
    )


@cache
def _day_of_year() -> regex.Pattern[str]:
    """Return the pattern of dates of a question that have no year."""
    day, name = r"(?P<day>\d\d?)", _named_month()
    return regex.compile(
        rf"(?<![\w.,/-])(?:{day}(?:st|nd|rd|th|º|\.)?[\s-](?:of\s|de\s)?{name}"
        rf"|{name}\.?\s{day}(?:st|nd|rd|th)?|{day}\.(?P<month>\d\d?)\.)(?![\w-]|,?\s?(?:de\s)?\d)",
        regex.IGNORECASE,
    )


def _named_month() -> str:
    return rf"(?P<named>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"


def replace_dates(text: str, write: Callable[[Sequence[str]], str | None]) -> str:
    """Replace each date by what `write` makes of the days that it may be, unless that is None.

    A day has eight digits. A date without a year may be of any one since 1900.
    """

    def replace(date: regex.Match[str]) -> str:
        if "year" in date.groupdict():
            days = _days(date)
        else:
            month = int(date["month"] or MONTHS[date["named"].casefold()])
            days = [f"{century}{month:02}{int(date['day']):02}" for century in _CENTURIES]
        return write(days) or str(date[0])

    text = str(_date().sub(replace, text)) if _HAS_YEAR.search(text) else text
    return str(_day_of_year().sub(replace, text)) if _DIGIT.search(text) else text
