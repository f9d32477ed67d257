"""Thanks, greetings and closing remarks, which ask nothing."""

from __future__ import annotations

from functools import cache

import regex

from uec_rag.base.text import skip_long_texts
from uec_rag.questions.languages import languages, tables

WORD_OR_CLITIC = regex.compile(r"[\p{L}\p{M}\p{N}_'’]+")
_LONGEST_PHRASE = 6  # words of a courtesy


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
    said, counts = _courtesies(language), range(_LONGEST_PHRASE, 0, -1)
    while taken := next((count for count in counts if words[:count] in said), 0):
        words = words[taken:]
    while taken := next((count for count in counts if words[-count:] in said), 0):
        words = words[:-taken]
    return words


@cache
def _courtesies(language: str) -> frozenset[tuple[str, ...]]:
    codes = [language] if language else languages()
    said = (one for code in codes for one in tables()[code]["replies"]["courtesies"].split(","))
    return frozenset(tuple(WORD_OR_CLITIC.findall(one)) for one in said)
