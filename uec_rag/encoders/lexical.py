"""BM25 as a member of an ensemble, with the statistics of the corpus that is searched."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
import regex
import Stemmer
from numpy.typing import NDArray

from uec_rag.base.counts import K1, B
from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.base.text import (
    ADDRESS,
    ENGLISH,
    FUNCTION_WORDS,
    HAS_SPACELESS,
    SPACELESS,
    is_abbreviation,
    singular_and_plural,
)
from uec_rag.encoders.base import Encoded, Role, TermEncoder, prepare_texts
from uec_rag.encoders.writing import FOREIGN, without_accents

_STEMMED = Path(__file__).with_name("stemmed.txt")


FRAGMENT_WEIGHT = 0.25
"""The weight of a part of a word; a whole word has 1."""

# Chosen by nDCG@10 on fourteen collections in five languages: .733 for stems; .739 with prefixes of
# four letters at this weight (worse on none); .755 with all n-grams of four letters, too, which
# costs English up to .015 and four times as many terms, so only texts that gain most have them.
_PREFIX = 4
_NGRAM = 4

IDENTIFIER_WEIGHT = 0.5
"""The weight of an identifier of several words, "bz2.compress", beside that of its words."""

FUNCTION_WEIGHT = 0.25
"""The weight of a function word of a query, as a share of that of other words.

In manuals "how" is often rarer than "install", and would weigh more.
"""

_PART_BITS, _IDENTIFIER_BITS = 1, 3  # the lowest two bits of keys; those of words are 0
_IN_IDENTIFIER = {".", "/"}
_CACHED_WORDS = 2**16  # words in the cache at a time, of 400 bytes each
_CACHED_LABELS = 2**14  # words of queries in the cache at a time
_of_thread = threading.local()  # its stemmers
_LONGEST = 128  # characters of a word; longer ones are data, without a stem or parts

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+")
_ASCII_WORD, _DIGIT = re.compile(r"\w+", re.ASCII), re.compile(r"\d")
# Options of commands: -n, --dry-run. A pattern that begins with a literal costs next to nothing.
_OPTION = re.compile(r"-(?:(?<![\w-]-)|(?<=[\u3040-\u9fff]-))-?[A-Za-z][A-Za-z0-9_-]*(?<!-)")
_IDENTIFIER = re.compile(r"\b(?<![./])[A-Za-z_]\w*+(?:[./]\w++)+", re.ASCII)
# A word that is also written as one, "Wi-Fi", and a number with separators, "2,000".
_COMPOUND = re.compile(r"(?<!\w)[^\W_]++(?:[-\u2010\u2011][^\W_]++)++")
_HYPHENS = frozenset("-\u2010\u2011")
_NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,3}(?:[.,'’\u00a0\u2009\u202f]\d{3})+|\d{1,2}(?:,\d\d)+,\d{3})(?!\w)"
)
# Digits in groups, of a telephone or an order, or of an account, which begins with letters.
_GROUPED = re.compile(
    r"(?<![\w.,])(?:[A-Z]{2}\d\d(?: ?[A-Z\d]{4})+(?: [A-Z\d]{1,3})?"
    r"|\d{1,9}(?:(?:\)[ /-]?|[ /.-])\(?\d{1,9}){1,9})(?![\w,])"
)
_FEWEST_DIGITS, _MOST_DIGITS = 7, 34  # of a number in groups: a local telephone, an account
_THOUSANDS, _YEARS = re.compile(r"\d{1,3}(?: \d{3})+"), re.compile(r"[12]\d{3}[/-][12]\d{3}")
_MONTHS = {
    name: number
    for number, names in enumerate(
        Path(__file__).with_name("months.txt").read_text(encoding="utf-8").splitlines(), 1
    )
    for name in names.split()
}
_HAS_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)|\d([-/.])(?:\d\d?|[^\W\d_]{3,9})\1\d\d(?!\d)")
*_COUNTED, _COUNTS = (
    Path(__file__).with_name("numbers.txt").read_text(encoding="utf-8").splitlines()
)
# What is counted ("chapter"), and what may be behind it and before it: numbers by their words.
_SECTIONS = frozenset(_COUNTS.split()).union(map(str.capitalize, _COUNTS.split()))
_BEFORE = {
    word: str(number)
    for number, words in enumerate(_COUNTED, 1)
    for word in words.partition("|")[2].split()
}
_ROMAN = {
    f"{tens}{ones}": str(10 * ten + one)
    for ten, tens in enumerate(("", "X", "XX", "XXX"))
    for one, ones in enumerate(("", *["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]))
    if ten or one
}
_BEHIND = _BEFORE | {roman.lower(): number for roman, number in _ROMAN.items()}
_IN_WORDS = {
    word: str(number)
    for number, words in enumerate(_COUNTED, 1)
    for word in words.partition("|")[0].split()
}
_BEHIND |= _IN_WORDS
_ARTICLES = frozenset(_COUNTED[0].partition("|")[0].split())  # "one", "un", which are pronouns, too
NUMERALS = rf"\p{{Nd}}|(?:{'|'.join(_IN_WORDS)})\b"
"""A pattern of how a number begins."""

_ORDINAL = regex.compile(r"(?<=\d)(?:st|nd|rd|th|[.,:])\Z")
_CENTURIES = range(1900, 2100)
_LETTER = regex.compile(r"\p{L}")
_BETWEEN = regex.compile(r"[^\p{L}\p{M}\p{N}]")
_STRETCH = regex.compile(rf"{SPACELESS}+|(?:(?!{SPACELESS}).)+")
_PART = regex.compile(r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+|[\p{L}\p{M}]+")
_POINTS = regex.compile(r"[\u0640\u064b-\u0652\u0670]")  # Arabic diacritics, often omitted
_OF_LANGUAGES = {
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "pt": "portuguese",
}
# Scripts that determine the stemmer, at least that of a related language; Latin does not.
_SCRIPTS = {
    "Arabic": "arabic",
    "Armenian": "armenian",
    "Cyrillic": "russian",
    "Devanagari": "hindi",
    "Greek": "greek",
    "Tamil": "tamil",
}


def terms_of(text: str) -> list[str]:
    """Return the terms of a text: stems, prefixes and letter n-grams of its words.

    Parts of words begin with ``~``. So does an identifier of several words, such as "bz2.compress"
    or "HTTP/3", which follows them as a whole. Texts whose function words are mostly of another
    language than English have letter n-grams.

    Examples
    --------
    >>> terms_of("Parsing HTTPServer errors")
    ['pars', 'httpserver', '~http', 'http', 'server', '~serv', 'error', '~erro']
    """
    words = split_words(text)
    ngrams = is_foreign(text, words)
    return [*(term for word in words for term in _terms(word, ngrams)), *_identifiers(text)]


def keys_of(text: str) -> NDArray[np.uint64]:
    """Return the keys of the terms of a text, with repetitions."""
    words = split_words(text)
    return _keys_of_text(text, words, is_foreign(text, words))


def _keys_of_text(text: str, words: Sequence[str], ngrams: bool) -> NDArray[np.uint64]:
    keys: list[int] = []
    for word in words:
        keys += (_keys_of if len(word) <= _LONGEST else _keys_of.__wrapped__)(word, ngrams)
    return np.array([*keys, *map(key_of, _identifiers(text))], dtype=np.uint64)


def words_by_key(words: Iterable[str]) -> dict[int, str]:
    """Map the keys of a text's whole words to the words as written."""
    labels: dict[int, str] = {}
    for word in words:
        labels |= (_labels_of if len(word) <= _LONGEST else _labels_of.__wrapped__)(word)
    return labels


def is_foreign(text: str, words: Sequence[str]) -> bool:
    """Return whether the words of a text, but of its addresses, are not of English."""
    if "@" in text or "/" in text:
        # An expression over the whole text would take as long as all else.
        parts = (part for part in text.split() if "/" in part or "@" in part or "www." in part)
        if any(map(ADDRESS.search, parts)):
            words = split_words(ADDRESS.sub(" ", text))
    lowered = [*map(str.lower, words)]
    return sum(map(FOREIGN.__contains__, lowered)) > sum(map(ENGLISH.__contains__, lowered))


@lru_cache(_CACHED_WORDS)
def _keys_of(word: str, ngrams: bool) -> tuple[int, ...]:
    return tuple(map(key_of, _terms(word, ngrams)))


_LETTERS = {"Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "Greek": "αβγδεζηθικλμνξοπρστυφχψω"}


@lru_cache(_CACHED_LABELS)
def near_words(word: str) -> tuple[list[str], NDArray[np.uint64], NDArray[np.float32]]:
    """Return the words at an edit distance of 1, with their keys and how likely each edit is.

    An edit adds, swaps, removes or replaces a letter that is not the first. How likely is a log.

    Examples
    --------
    >>> words, _, _ = near_words("lamq")
    >>> len(words), words[0], "lamp" in words
    (182, 'leamq', True)
    """
    text = word.casefold()
    scripts = (letters for name, letters in _LETTERS.items() if _script(name).search(text))
    letters = next(scripts, "etaoinsrhldcumfpgwybvkxjqz")  # the most frequent first
    inner, made = range(1, len(text)), dict[str, float]()
    # Learned by `benchmarks.quality.spelling`.
    for likely, edits in (
        (2.7, (text[:at] + one + text[at:] for one in letters for at in (*inner, len(text)))),
        (3.0, (text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :] for at in inner)),
        (0.0, (text[:at] + text[at + 1 :] for at in inner)),
        (0.0, (text[:at] + one + text[at + 1 :] for at in inner for one in letters)),
    ):
        for near in edits:
            made.setdefault(near, likely)
    made.pop(text, None)
    keys = [next(iter(_keys_of.__wrapped__(near, False))) for near in made]
    return [*made], np.array(keys, dtype=np.uint64), np.array([*made.values()], dtype=np.float32)


def stem_of(word: str, language: str = "en") -> str:
    """Return the stem by which a word is counted; in a language in Latin letters, its own stem."""
    stem, plain = next(_forms(word.casefold(), False)), without_accents(word.casefold())
    if (own := _OF_LANGUAGES.get(language)) is None or not plain.isascii():
        return stem
    return without_accents(_stemmer(own).stemWord(word.casefold()))


def numeral_of(word: str) -> str:
    """Return the digits of a number in digits, in words or in Roman numerals; "" for none.

    Examples
    --------
    >>> [numeral_of(word) for word in ("2,000", "2nd", "four", "third", "VI", "lamp")]
    ['2000', '2', '4', '3', '6', '']
    """
    if word[:1].isdecimal():
        return _BETWEEN.sub("", word) if _NUMBER.fullmatch(word) else _ORDINAL.sub("", word)
    if len(word) > 1 and word in _ROMAN:
        return _ROMAN[word]
    folded = word.lower()
    return "" if folded in _ARTICLES else _BEFORE.get(folded) or _IN_WORDS.get(folded, "")


def _identifiers(text: str) -> list[str]:
    return [f"~{name.casefold()}" for name in _IDENTIFIER.findall(text)]


@lru_cache(_CACHED_LABELS)
def _labels_of(word: str) -> dict[int, str]:
    labels: dict[int, str] = {}
    for term in _terms(word, False):
        if not term.startswith("~"):
            labels[key_of(term)] = term if labels or HAS_SPACELESS.search(word) else word
    return labels


def _terms(word: str, ngrams: bool) -> Iterator[str]:
    spaceless = not word.isascii() and HAS_SPACELESS.search(word)
    if word.startswith("-"):  # letter case matters in an option
        yield word
    elif len(word) > _LONGEST and not spaceless:
        yield word.casefold()
    else:
        if is_abbreviation(word) and word.casefold() in FUNCTION_WORDS:
            yield word
        yield from _forms(word.casefold().strip("_") or word, ngrams)
        is_plain = word.isascii() and word.isalpha() and word[1:].islower()  # it is one part
        parts = [] if spaceless or is_plain else _PART.findall(word)
        for part in parts if len(parts) > 1 else ():
            yield from _forms(part.casefold(), ngrams)


def _forms(word: str, ngrams: bool) -> Iterator[str]:
    if not word.isascii() and HAS_SPACELESS.search(word):
        for stretch in _STRETCH.findall(word):
            if not HAS_SPACELESS.match(stretch):
                yield from _forms(stretch, ngrams)
            elif len(stretch) == 1:
                yield stretch
            else:
                yield from (stretch[i : i + 2] for i in range(len(stretch) - 1))
        return
    language = "english"
    if not word.isascii():
        written = (to for of, to in _SCRIPTS.items() if _script(of).search(word))
        language = next(written, language)
    plain = without_accents(word) if language == "english" else word
    stem = without_accents(_stemmer(language).stemWord(plain))
    yield stem
    if len(stem) > _PREFIX:
        yield f"~{stem[:_PREFIX]}"
    if ngrams or not word.isascii():
        edged = f"_{word}_"
        yield from (f"~{edged[i : i + _NGRAM]}" for i in range(max(1, len(edged) - _NGRAM + 1)))


def _stemmer(language: str) -> Stemmer.Stemmer:
    """Return this thread's stemmer of a language, since none is thread-safe; keys are cached."""
    own = _of_thread.__dict__
    if language not in own:
        own[language] = Stemmer.Stemmer(language, 0)
    return own[language]


def split_words(text: str) -> list[str]:
    """Split a text into words as written: sequences of letters, digits and underscores.

    Separators in numbers are left out. Options of commands follow as words of their own, since "-n"
    is not any "n", and so do words with hyphens, as one, and dates: "20240312" for each day that
    one may be, in place of its digits. In a text in capitals, function words are in lower case.

    Examples
    --------
    >>> split_words("os.path, naïve_case"), split_words("ls -n"), split_words("Wi-Fi, 2,000")
    (['os', 'path', 'naïve_case'], ['ls', 'n', '-n'], ['Wi', 'Fi', '2000', 'WiFi'])
    >>> split_words("3/4/2024"), split_words("3 April 2024")
    (['2024', '20240304', '20240403'], ['3', 'April', '2024', '20240403'])
    """
    has_digits = _DIGIT.search(text)
    plain = _NUMBER.sub(lambda number: _BETWEEN.sub("", number[0]), text) if has_digits else text
    normal = plain if plain.isascii() else _POINTS.sub("", unicodedata.normalize("NFKC", plain))
    dates = _find_dates(normal)
    spelled = _replace(normal, dates, lambda of: of[0] if _is_kept(of) else f"{of['year']} ")
    words: list[str] = (_ASCII_WORD if spelled.isascii() else _WORD).findall(spelled)
    words += [whole for whole, _ in (*_numerals(words), *_compounds(normal, dates))]
    if len(normal) > 1 and normal.isupper():
        words = [word.lower() if word.lower() in FUNCTION_WORDS else word for word in words]
    return words + _OPTION.findall(spelled)


def compounds(text: str) -> list[tuple[str, list[str]]]:
    """Return the words with hyphens, and dates, each as one word, with its parts.

    Those of a date are the other days that it may be, and its words.

    Examples
    --------
    >>> compounds("Wi-Fi 2019-2020")
    [('WiFi', ['Wi', 'Fi'])]
    """
    return [*_numerals(_WORD.findall(text)), *_compounds(text, _find_dates(text))]


def _numerals(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the numbers that words stand for, with them: of "chapter six", "Louis XIV"."""
    found = list[tuple[str, list[str]]]()
    if not _SECTIONS.isdisjoint(words):
        for one, other in pairwise(words):
            if one in _SECTIONS and (number := _BEHIND.get(other.lower())):
                found.append((number, [other]))
            elif other in _SECTIONS and (number := _BEFORE.get(one.lower())):
                found.append((number, [one]))
    if not _ROMAN.keys().isdisjoint(words):
        found += [(_ROMAN[word], [word]) for word in words[1:] if len(word) > 1 and word in _ROMAN]
    return found


def _compounds(text: str, dates: Sequence[regex.Match[str]]) -> list[tuple[str, list[str]]]:
    rest = _replace(text, dates, lambda _: " ")
    has_hyphens = not _HYPHENS.isdisjoint(rest)  # else nothing is found
    found = filter(_LETTER.search, _COMPOUND.findall(rest) if has_hyphens else ())
    wholes = [(_BETWEEN.sub("", word), _WORD.findall(word)) for word in found]
    for number in _GROUPED.findall(rest) if _DIGIT.search(rest) else ():
        whole = _BETWEEN.sub("", number)
        is_long = _FEWEST_DIGITS <= len(whole) <= _MOST_DIGITS and not _YEARS.fullmatch(number)
        if is_long or _THOUSANDS.fullmatch(number):
            wholes.append((whole, _WORD.findall(number)))
    for date in dates:
        days = _days(date)
        own = _WORD.findall(date[0]) if _is_kept(date) else []
        wholes += [(day, own or [other for other in days if other != day] or [day]) for day in days]
    return wholes


def number_dates(text: str) -> str:
    """Write each date in eight digits, the first of those that it may be.

    Examples
    --------
    >>> number_dates("It opened on 3 April 2024.")
    'It opened on 20240403.'
    """
    return _replace(text, _find_dates(text), lambda date: next(iter(_days(date)), date[0]))


def _find_dates(text: str) -> list[regex.Match[str]]:
    return [*_date().finditer(text)] if _HAS_YEAR.search(text) else []


def _is_kept(date: regex.Match[str]) -> bool:
    """Return whether a date keeps its words: it has a month's name, or may be a version."""
    return date["named"] is not None or len(date["year"]) == 2


def _replace(
    text: str, found: Sequence[regex.Match[str]], written: Callable[[regex.Match[str]], str]
) -> str:
    """Replace what was found in a text, as the `sub` of its expression would."""
    parts, last = list[str](), 0
    for one in found:
        parts += [text[last : one.start()], written(one)]
        last = one.end()
    return "".join([*parts, text[last:]])


def _days(date: regex.Match[str]) -> list[str]:
    """Return the days that a date may be, of which 3/4/2024 has two."""
    day, year = int(date["day"]), date["year"]
    if len(year) == 2:
        year = f"{20 if year < '70' else 19}{year}"
    if name := date["named"]:
        pairs = [(_MONTHS[name.casefold()], day)]
    else:
        pairs = [(int(date["month"]), day)]
        if date["mark"] in ("/", "-"):
            pairs.append((day, int(date["month"])))
    return sorted({f"{year}{m:02}{d:02}" for m, d in pairs if 1 <= m <= 12 and 1 <= d <= 31})


@cache
def _date() -> regex.Pattern[str]:
    """Return the pattern of dates, which takes most of an import to compile, and is seldom used."""
    day, year, month = r"(?P<day>\d\d?)", r"(?P<year>[12]\d{3})", r"(?P<month>\d\d?)"
    any_year, named = r"(?P<year>[12]\d{3}|\d\d)", _named_month()
    return regex.compile(
        rf"(?<![\w.,/-])(?:{year}(?:-|/|\.|[年년]\s?){month}(?:-|/|\.|[月월]\s?){day}[日일]?"
        rf"|{day}(?P<mark>[-/.]){month}(?P=mark){any_year}"
        rf"|{day}(?P<mark>[-/]){named}(?P=mark){any_year}"
        rf"|{day}(?:st|nd|rd|th|º|\.)?\s(?:of\s|de\s)?{named}\.?,?\s(?:de\s)?{year}"
        rf"|{named}\.?\s{day}(?:st|nd|rd|th)?,?\s{year})(?=$|T\d|[^\w./-]|[.-](?!\d))",
        regex.IGNORECASE,
    )


@cache
def _day_of_year() -> regex.Pattern[str]:
    """Return the pattern of dates of a question that have no year."""
    day, named = r"(?P<day>\d\d?)", _named_month()
    return regex.compile(
        rf"(?<![\w.,/-])(?:{day}(?:st|nd|rd|th|º|\.)?[\s-](?:of\s|de\s)?{named}"
        rf"|{named}\.?\s{day}(?:st|nd|rd|th)?|{day}\.(?P<month>\d\d?)\.)(?![\w-]|,?\s?(?:de\s)?\d)",
        regex.IGNORECASE,
    )


def _named_month() -> str:
    return rf"(?P<named>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"


def spell_dates(text: str, known: Callable[[Sequence[str]], Sequence[str]]) -> str:
    """Spell out each date of which one day is known, as the texts write it; see `compounds`.

    `known` chooses the terms that texts have. A date without a year has that of the one day known.

    Examples
    --------
    >>> there = {"20240403", "april"}
    >>> spell_dates("On 3/4/2024?", lambda terms: [term for term in terms if term in there])
    'On 3 April 2024?'
    >>> spell_dates("On April 3?", lambda terms: [term for term in terms if term == "20240403"])
    'On 2024-04-03?'
    """

    def spelled(date: regex.Match[str]) -> str:
        if "year" in date.groupdict():
            days = _days(date)
        else:
            month = int(date["month"] or _MONTHS[date["named"].casefold()])
            days = [f"{one}{month:02}{int(date['day']):02}" for one in _CENTURIES]
        if len(meant := known(days)) != 1:
            return str(date[0])
        year, of_year, day = meant[0][:4], meant[0][4:6], meant[0][6:]
        names = [name for name, number in _MONTHS.items() if number == int(of_year)]
        written = known([*map(stem_of, names)])
        if not written:
            return f"{year}-{of_year}-{day}"
        name = next(one for one in names if stem_of(one) in written)
        return f"{int(day)} {name.capitalize()} {year}"

    text = str(_date().sub(spelled, text)) if _HAS_YEAR.search(text) else text
    return str(_day_of_year().sub(spelled, text)) if _DIGIT.search(text) else text


@lru_cache(512)  # a hit is asked for several names, and found again
def _parts_in(text: str) -> frozenset[str]:
    """Return the words of a text and their parts, in lower case and without accents."""
    every = {part.casefold() for word in split_words(text) for part in (word, *_PART.findall(word))}
    return frozenset([word if word.isascii() else without_accents(word) for word in every])


def has_words(text: str, words: Collection[str]) -> bool:
    """Return whether a text has all of some words, in the singular or plural, also as parts.

    Accents do not count.

    Examples
    --------
    >>> has_words("Reacting to ReactNode", ["React"]), has_words("Reacting to it", ["React"])
    (True, False)
    """
    folded = map(str.casefold, words)
    plain = [word if word.isascii() else without_accents(word) for word in folded]
    return not plain or not any(map(_parts_in(text).isdisjoint, singular_and_plural(plain)))


def key_of(term: str) -> int:
    """Hash a term to a 64-bit integer, whose lowest two bits tell `weights_of` what it is.

    The probability of any collision among a million terms is 1 in 10 million.
    """
    digest = int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little") & ~3
    if not term.startswith("~"):
        return digest
    return digest | (_PART_BITS if _IN_IDENTIFIER.isdisjoint(term) else _IDENTIFIER_BITS)


def weights_of(keys: NDArray[np.uint64], foreign: NDArray[np.bool_]) -> FloatArray:
    """Return the weight of each term in a query: less for all but words, and for function words.

    `foreign`: for each term, whether its query is in another language than English.
    """
    english, others = _stems_of(ENGLISH), _stems_of(FOREIGN)
    pairs = zip(keys.tolist(), foreign.tolist(), strict=True)
    function = np.array([key in english or (far and key in others) for key, far in pairs], bool)
    of_kind = np.array([1, FRAGMENT_WEIGHT, 1, IDENTIFIER_WEIGHT], dtype=np.float32)
    weights: FloatArray = of_kind[keys & np.uint64(3)]
    return np.where(function, np.float32(FUNCTION_WEIGHT) * weights, weights)


@cache
def _stems_of(words: frozenset[str]) -> frozenset[int]:
    """Return the keys of the stems of words, and of the prefixes of these."""
    return frozenset(key for word in words for key in _keys_of(word, False))


@cache
def _script(name: str) -> regex.Pattern[str]:
    return regex.compile(rf"\p{{{name}}}")


NAME = "bm25"
LONGEST_QUERY = 50_000
"""The number of characters of a query that are searched: thousands of words."""

# Covers all rules of the tokenizer: a saved index whose words were split differently is refused.
_PROBE = (
    "Wi-Fi 2,000 Connections HTTPServer.parse_args v2 -N --dry-run naïve Straßen Die Kündigung der "
    "Verträge ist nicht Ошибки соединения المدرسة الكبيرة λόγους हिन्दी 北京大学で ภาษาไทย"
)

# Of those that a fit does not depend on: dates, abbreviations, addresses.
_NOTATIONS = (
    "IT on 3/4/2024, 12 March 2024 and 2024-05-06: https://www.example.com.br/a, may@b.com. 5.3.24 "
    "7-Apr-24 +44 20 5550 188, DE89 3704 0044 0532 0130 00, 12 500, 1,25,000, Chapter IV, Henry VI"
)


@cache
def _revision() -> str:
    # Beginnings and, in the next line, endings that are put together, for each rule and exception
    # of the stemmers, of which versions differ by a few words in ten thousand.
    lines = _STEMMED.read_text(encoding="utf-8").splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    words = [one + end for ones, ends in pairs for one in ones.split() for end in ends.split()]
    stems = [next(_forms(word, False)) for word in words] + terms_of(_NOTATIONS)
    rules = [K1, B, None, terms_of(_PROBE)]  # None: no language is named
    made, counted = (hashlib.sha256(json.dumps(of).encode()).hexdigest() for of in (rules, stems))
    return made[:RULES] + counted[:RULES]


RULES = 32
"""The characters of a revision that a fit depends on; saved word counts depend on all of them."""


class Lexical(TermEncoder):
    """BM25 as an encoder that represents a text by its terms instead of a vector.

    The similarity of a query and a passage is the BM25 score, divided by the highest score that any
    passage could have for the query, unknown words included: from 0 to 1. Document frequencies and
    passage lengths are those of the index at search time. There is no stop list, but function words
    of a query have a quarter of the weight of others. Passages are indexed in full; a query is
    truncated to 50,000 characters. A passage without words is found by the other members only,
    and refused if there are none.

    Examples
    --------
    >>> encoded = Lexical().encode(["Error in parse_args"], "query")
    >>> encoded.embedding.shape, sorted(encoded.terms.labels[0].values())
    ((1, 0), ['Error', 'arg', 'in', 'pars', 'parse_args'])
    """

    name = spec = NAME

    @property
    def revision(self) -> str:
        """The hash (hex) of the rules, `RULES` characters, and of the stems of many words."""
        return _revision()

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Count the terms of queries or passages; a text may have none.

        Raises
        ------
        TypeError, ValueError
            If texts or role are invalid.
        """
        checked = prepare_texts(texts, role)
        if role == "query":
            checked = [text[:LONGEST_QUERY] for text in checked]
        keys, labels, foreign = [], [], []
        for text in checked:
            words = split_words(text)
            foreign.append(is_foreign(text, words))
            keys.append(_keys_of_text(text, words, foreign[-1]))
            if role == "query":
                labels.append(words_by_key(words))
        terms = Terms.from_keys(keys, labels if role == "query" else None)
        if role == "query":
            terms = terms.weigh_terms(weights_of(terms.keys, np.array(foreign, bool)[terms.rows]))
        nothing = np.zeros((len(checked), 0), dtype=np.float32)
        return Encoded(nothing, nothing, terms)
