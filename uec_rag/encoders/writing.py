"""In what a text is written: its script; of Latin letters whether small words are English."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache

from uec_rag.encoders.function_words import ENGLISH, FOREIGN

LATIN, NOT_ENGLISH = "Latin letters", "Latin letters, not English"

_MOST_LETTERS = 2000  # of a text
_FEWEST_WORDS = 2  # function words that tell a language
_EAST_ASIAN = {"CJK": "Chinese or Japanese characters", "HIRAGANA": "Japanese characters"}
_EAST_ASIAN |= {"KATAKANA": _EAST_ASIAN["HIRAGANA"], "HANGUL": "Korean characters"}


def writing_of(text: str) -> str | None:
    """What most letters of a text are; None where it has none.

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
    words = text[:_MOST_LETTERS].lower().split()
    strange = sum(word in FOREIGN for word in words)
    foreign = strange >= _FEWEST_WORDS and strange > sum(word in ENGLISH for word in words)
    return NOT_ENGLISH if foreign else LATIN


def letters_in(text: str) -> str | None:
    """What most letters of a text are, whatever the language; None where it has none."""
    if text.isascii():  # at once, as it is asked of hits in every search
        return LATIN if any(map(str.isalpha, text[:_MOST_LETTERS])) else None
    counts: Counter[str] = Counter()
    for letter, count in Counter(text[:_MOST_LETTERS]).items():
        if letter.isalpha():
            counts[_script(letter)] += count
    return counts.most_common(1)[0][0] if counts else None


def letters_of(writing: str | None) -> str | None:
    """The letters alone, whatever the language."""
    return LATIN if writing == NOT_ENGLISH else writing


def writings(texts: Iterable[str], least: float = 0.02) -> tuple[str, ...]:
    """In what texts are written, the most frequent first; what fewer than a share are in is left.

    Parameters
    ----------
    texts : iterable of str
    least : float
        Share of the texts.
    """
    counts = Counter(found for text in texts if (found := writing_of(text)) is not None)
    enough = least * counts.total()
    return tuple(name for name, count in counts.most_common() if count >= enough)


@cache
def _script(letter: str) -> str:
    first = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return _EAST_ASIAN.get(first, f"{first.capitalize()} letters")
