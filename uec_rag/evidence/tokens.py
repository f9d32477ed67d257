"""The words and numbers of a statement or a question, with what each says."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import regex

from uec_rag.encoders import writing
from uec_rag.encoders.lexical import stem_of
from uec_rag.questions.languages import function_words

NUMBER = "#"
"""The stem of any number."""

_WORD = regex.compile(
    r"(?<!\p{L})[vV]?\p{Nd}+(?:[.,:]\p{Nd}+)*|\p{Han}"
    r"|(?!(?<=\p{L}['’])s\b)[[\p{L}\p{M}_]--[\p{Han}]][[\p{L}\p{M}\p{N}_]--[\p{Han}]]*",
    regex.VERSION1,
)
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\s'’-]")


class Token(NamedTuple):
    """A word or a number.

    `follows`: the stem before it; `before`, `behind`: those beside it that say something, or "".
    """

    text: str
    stem: str
    number: str
    says: bool
    start: int
    follows: str = ""
    before: str = ""
    behind: str = ""


@lru_cache(4096)
def tokens_of(text: str, language: str) -> tuple[Token, ...]:
    """Split a text into its words and numbers; of a date, one number.

    Examples
    --------
    >>> [(token.stem, token.says) for token in tokens_of("It costs 12 euros", "en")]
    [('it', False), ('cost', True), ('#', True), ('euro', True)]
    """
    text, without, tokens = writing.number_dates(text), function_words(language), list[Token]()
    matches = [*_WORD.finditer(text)]
    for match in matches:
        word, start = match[0], match.start()
        if word[:1] in "vV" and word[1:2].isdecimal():
            word = word[1:]
        number, stem = _read(word, language)
        begins = start < 2 or text[start - 2] in ".?!:"
        folded = word.casefold()
        # "in May", "IT", "size M", but not "Ms"
        is_letter = len(word) == 1 and word.isupper() and word != "I" and not begins
        is_name = len(word) > 1 and (word.isupper() or (word[0].isupper() and not begins))
        says = bool(number) or folded not in without or is_name or is_letter
        tokens.append(Token(word, stem, number, says, start))
    for at, (match, following) in enumerate(pairwise(matches)):
        if match.end() + 1 >= following.start():
            former, latter = tokens[at], tokens[at + 1]
            stems = [token.stem if token.says else "" for token in (former, latter)]
            tokens[at] = former._replace(behind=stems[1])
            tokens[at + 1] = latter._replace(before=stems[0], follows=former.stem)
    return tuple(tokens)


@lru_cache(2**15)
def _read(word: str, language: str) -> tuple[str, str]:
    """Return the number that a word is, or "", and its stem."""
    number = writing.numeral_of(word)
    return number, NUMBER if number else stem_of(word, language)
