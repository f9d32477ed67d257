"""The words and numbers of a statement or a question, with what each says."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import regex

from uec_rag.encoders import writing
from uec_rag.encoders.lexical import stem_of
from uec_rag.questions.languages import OR, function_words, joints, listed

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
    text, without, tokens = writing.number_dates(text), _empty_words(language), list[Token]()
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
        is_aside = folded in asides(language) and not is_letter
        says = bool(number) or folded not in without or ((is_name or is_letter) and not is_aside)
        tokens.append(Token(word, stem, number, says, start))
    for at, (match, following) in enumerate(pairwise(matches)):
        if match.end() + 1 >= following.start():
            former, latter = tokens[at], tokens[at + 1]
            stems = [token.stem if token.says else "" for token in (former, latter)]
            tokens[at] = former._replace(behind=stems[1])
            tokens[at + 1] = latter._replace(before=stems[0], follows=former.stem)
    return tuple(tokens)


@lru_cache(4096)
def alternatives(question: str, language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems on both sides of the last "or" of a question; none without one.

    They reach to a preposition, a determiner or a mark.

    Examples
    --------
    >>> [sorted(stems) for stems in alternatives("Is the bus or the red tram faster?", "en")]
    [['bus'], ['faster', 'red', 'tram']]
    """
    head, joint, _ = question.rpartition(OR[language])
    begin, end = len(head), len(head) + len(joint)
    before, behind = list[str](), list[str]()
    tokens, apart = tokens_of(question, language), joints(language)
    for token in reversed([token for token in tokens if joint and token.start < begin]):
        end_of_token = token.start + len(token.text)
        if token.text.casefold() in apart or _MARK.search(question, end_of_token, begin):
            break
        before.append(token.stem)
        begin = token.start
    for token in [token for token in tokens if joint and token.start >= end]:
        is_joint = token.text.casefold() in apart
        if behind and (is_joint or _MARK.search(question, end, token.start)):
            break
        end = token.start
        behind += [] if is_joint else [token.stem]
    return frozenset(before), frozenset(behind)


@lru_cache(2**15)
def _read(word: str, language: str) -> tuple[str, str]:
    """Return the number that a word is, or "", and its stem."""
    number = writing.numeral_of(word)
    return number, NUMBER if number else stem_of(word, language)


@cache
def _empty_words(language: str) -> frozenset[str]:
    """Return the words that name nothing: function words, and asides such as "currently"."""
    return function_words(language) | asides(language)


@cache
def asides(language: str) -> frozenset[str]:
    """Return the words that say nothing of what is asked: "currently", "Ms"."""
    return frozenset(listed("asides", language, "operators"))
