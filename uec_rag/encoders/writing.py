"""In what a text is written: its script, its accents, and English by its function words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import regex

from uec_rag.base.text import ENGLISH, undecorated

_OTHERS = Path(__file__).with_name("function_words.txt").read_text(encoding="utf-8").split()

FOREIGN = frozenset(_OTHERS) - ENGLISH
"""Function words of other languages in the Latin script; words of both lists count as English."""

_LATIN_WORD, _ACCENT = regex.compile(r"[\p{Latin}\p{Mn}]+"), regex.compile(r"\p{Mn}")
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "æ": "ae", "œ": "oe"})

LATIN, NOT_ENGLISH = "Latin letters", "Latin letters, not English"

_MOST_LETTERS = 2000  # characters of a text that are examined
_FEWEST_WORDS = 2  # foreign function words that identify a text as not English
_EAST_ASIAN = {"CJK": "Chinese or Japanese characters", "HIRAGANA": "Japanese characters"}
_EAST_ASIAN |= {"KATAKANA": _EAST_ASIAN["HIRAGANA"], "HANGUL": "Korean characters"}


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
    most = letters_in(text)
    if most != LATIN:
        return most
    words = undecorated(text[:_MOST_LETTERS]).lower().split()
    strange = sum(map(FOREIGN.__contains__, words))
    foreign = strange >= _FEWEST_WORDS and strange > sum(map(ENGLISH.__contains__, words))
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


def writings(texts: Iterable[str], least: float = 0.02) -> tuple[str, ...]:
    """Return the writings of texts, most frequent first, without those of a share below `least`."""
    counts = Counter(writing for text in texts if (writing := writing_of(text)) is not None)
    enough = least * counts.total()
    return tuple(name for name, count in counts.most_common() if count >= enough)


@cache
def _script_of(letter: str) -> str:
    first = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return _EAST_ASIAN.get(first, f"{first.capitalize()} letters")


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
