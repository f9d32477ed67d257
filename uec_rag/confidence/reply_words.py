"""The words of a reply to a clarifying question, in the languages besides English.

They are the tables `replies` of languages.toml: phrases by kind, separated by commas.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import regex

from uec_rag.confidence.languages import tables

Kind: TypeAlias = Literal[
    "place", "last", "all", "none", "not", "unsure", "yes", "thanks", "or", "polite", ""
]
"""Meanings of a phrase; "" if it has none, such as a title."""

_KINDS: tuple[Kind, ...] = (
    *("last", "all", "none", "not", "unsure"),
    *("yes", "thanks", "or", "polite"),
)
_UNSPACED = {"zh", "ja", "ko"}  # with words, or endings, that no space separates
_COMMAS = regex.compile(r"[,，、،;]")
_SEPARATOR = regex.compile(r",\s+")  # in the tables, where "、" is a phrase
_IN_WORD = r"[\p{L}\p{M}\p{N}_]"
_SAYS = regex.compile(rf"{_IN_WORD}|\p{{Co}}")  # a word, or what stands for a title


class Token(NamedTuple):
    """A phrase of a reply: its kind, the number of a place from 1, and its text."""

    kind: Kind
    place: int
    text: str


class Vocabulary(NamedTuple):
    """The phrases of a language, and the pattern that finds the longest of them."""

    phrases: Mapping[str, tuple[Kind, int]]
    pattern: regex.Pattern[str]


@cache
def languages_of_replies() -> tuple[str, ...]:
    """List the codes of the languages that have a table of replies."""
    return tuple(code for code, table in tables().items() if "replies" in table)


@cache
def vocabulary(language: str) -> Vocabulary:
    """Read the phrases of a language, casefolded and without spaces if it has none."""
    table = tables()[language]["replies"]
    phrases: dict[str, tuple[Kind, int]] = {
        str(number): ("place", number) for number in range(1, 10)
    }
    for position, listed in enumerate(table["places"], 1):
        phrases |= dict.fromkeys(_phrases(listed), ("place", position))
    for kind in _KINDS:
        for phrase in _phrases(table[kind]):
            phrases.setdefault(phrase, (kind, 0))
    longest_first = sorted(phrases, key=len, reverse=True)
    if language in _UNSPACED:
        # Korean writers differ in where they put spaces.
        joined = "|".join(r"\s*".join(map(regex.escape, phrase)) for phrase in longest_first)
        pattern = rf"(?<!\p{{N}}(?=\p{{N}}))(?:{joined})(?<!\p{{N}}(?=\p{{N}}))"
    else:
        joined = "|".join(r",?\s+".join(map(regex.escape, p.split())) for p in longest_first)
        pattern = rf"(?<!{_IN_WORD})(?:{joined})(?!{_IN_WORD})"
    return Vocabulary(phrases, regex.compile(pattern))


def _phrases(listed: str) -> list[str]:
    return [" ".join(phrase.casefold().split()) for phrase in _SEPARATOR.split(listed)]


def tokens_of(reply: str, language: str) -> list[Token]:
    """Split a casefolded reply into the phrases of a language and what is between them.

    Examples
    --------
    >>> [(token.kind, token.place) for token in tokens_of("das zweite, bitte", "de")]
    [('polite', 0), ('place', 2), ('or', 0), ('polite', 0)]
    """
    phrases, pattern = vocabulary(language)
    tokens, end = list[Token](), 0

    def between(text: str) -> None:
        for number, part in enumerate(_COMMAS.split(text)):
            if number:
                tokens.append(Token("or", 0, ","))
            if _SAYS.search(part):
                tokens.append(Token("", 0, part.strip()))

    for match in pattern.finditer(reply):
        between(reply[end : match.start()])
        text, end = match[0], match.end()
        words = text.replace(",", " ").split()
        key = ("" if language in _UNSPACED else " ").join(words)
        tokens.append(Token(*phrases[key], text))
    between(reply[end:])
    return tokens
