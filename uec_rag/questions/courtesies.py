"""Thanks, greetings and closing remarks, which ask nothing."""

from __future__ import annotations

from functools import cache

import regex

from uec_rag.base.text import skip_long_texts
from uec_rag.questions.languages import languages, tables

WORD_OR_CLITIC = regex.compile(r"[\p{L}\p{M}\p{N}_'’]+")


@skip_long_texts(False)
def is_courtesy(text: str, language: str = "") -> bool:
    """Return whether a text is thanks, a greeting, a closing remark, or several of these.

    `language`: its code; "" for any.

    Examples
    --------
    >>> is_courtesy("OK, thanks, that helped!"), is_courtesy("谢谢"), is_courtesy("Say thanks?")
    (True, True, False)
    """
    words = tuple(WORD_OR_CLITIC.findall(text.casefold()))
    return bool(words) and not without_courtesies(words, language)


def without_courtesies(words: tuple[str, ...], language: str = "") -> tuple[str, ...]:
    """Return words in lower case without the courtesies around them: "2" of "2, please"."""
    return without_phrases(words, phrases("courtesies", language))


def without_phrases(words: tuple[str, ...], said: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return words in lower case without the phrases around them."""
    return without_last(take_phrases(words, said)[1], said)


def without_last(words: tuple[str, ...], said: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return words in lower case without the phrases behind them."""
    _, turned = take_phrases(words[::-1], _turned(said))
    return turned[::-1]


@cache
def _turned(phrases: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    return frozenset(one[::-1] for one in phrases)


def take_phrases(
    words: tuple[str, ...], known: frozenset[tuple[str, ...]]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the phrases with which words begin, the longest first, and the words behind them."""
    taken, counts = list[tuple[str, ...]](), range(_longest(known), 0, -1)
    while count := next((count for count in counts if words[:count] in known), 0):
        taken, words = [*taken, words[:count]], words[count:]
    return taken, words


@cache
def _longest(phrases: frozenset[tuple[str, ...]]) -> int:
    return max(map(len, phrases), default=0)


@cache
def phrases(key: str, language: str = "", table: str = "replies") -> frozenset[tuple[str, ...]]:
    """Return the phrases of a language under a key of a table, as words; "" for all languages."""
    tables_ = (tables()[code].get(table, {}) for code in ([language] if language else languages()))
    said = (one for of_code in tables_ for one in of_code.get(key, "").casefold().split(","))
    return frozenset(filter(None, (tuple(WORD_OR_CLITIC.findall(one)) for one in said)))
