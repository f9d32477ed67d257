"""Rewrites of a question that are about something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from itertools import product

import regex

from uec_rag.base.text import FUNCTION_WORDS, SPACELESS, is_statement
from uec_rag.encoders.lexical import stem_of

_ALIKE, _SHARED = 0.4, 3  # the share and the number of words that two statements alike share
_TITLE = 8  # words
# A number with its parts ("3.12", also in "v3.12"), a character of Chinese, or a word.
_TOKEN = regex.compile(rf"\p{{N}}+(?:\.\p{{N}}+)*|{SPACELESS}|(?:(?!{SPACELESS})[\p{{L}}\p{{M}}])+")


def changes_subject(question: str, rewrite: str, texts: Iterable[str]) -> bool:
    """Return whether a rewrite asks about another thing than a question, by texts that have both.

    This is the case if a number was replaced by another one, or a name by one that stands in its
    place in a title, or in a short text alike. Words that are in other contexts tell nothing: a
    rewrite has others.

    Parameters
    ----------
    question : str
        With the turns before it, one per line.
    rewrite : str
    texts : iterable of str
        What was found for both.

    Examples
    --------
    >>> texts = ["The loan of a lamp lasts a week.", "The loan of a tent lasts two days."]
    >>> asked = "How long can I borrow the lamp?"
    >>> [changes_subject(asked, f"How long is a {what}?", texts) for what in ("loan", "tent loan")]
    [False, True]
    """
    words = {*_tokens(rewrite)} - FUNCTION_WORDS
    dropped = {*_tokens(question.rpartition("\n")[2])} - FUNCTION_WORDS - words
    gains = words.difference(_tokens(question))
    bodies = [*dict.fromkeys(texts)] if dropped and gains else []
    dropped &= {token for text in bodies for token in _tokens(text)}
    if any(word[0].isdigit() for word in dropped) and any(word[0].isdigit() for word in gains):
        return True
    statements = [_tokens(text) for text in bodies if is_statement(text)]
    titles = [_tokens(text.strip().partition("\n")[0]) for text in bodies]
    for lines, are_alike in ((statements, _are_alike), (titles, _are_titles)):
        ours = [line for line in lines if not dropped.isdisjoint(line)]
        rivals = [line for line in lines if dropped.isdisjoint(line) and not gains.isdisjoint(line)]
        if any(are_alike(line, rival, dropped, gains) for line, rival in product(ours, rivals)):
            return True
    return False


def _tokens(text: str) -> list[str]:
    return [stem_of(word) if len(word) > 1 else word for word in _TOKEN.findall(text.casefold())]


def _are_alike(
    line: Sequence[str], rival: Sequence[str], names: AbstractSet[str], gains: AbstractSet[str]
) -> bool:
    """Return whether two texts are alike, and a name of one stands where the other has one."""
    match = SequenceMatcher(None, line, rival, autojunk=False)
    shared = sum(block.size for block in match.get_matching_blocks())
    if shared < max(_SHARED, _ALIKE * (len(line) + len(rival)) / 2):
        return False
    arrivals = gains - {*line}
    return any(
        not names.isdisjoint(line[start:end]) and not arrivals.isdisjoint(rival[begin:stop])
        for kind, start, end, begin, stop in match.get_opcodes()
        if kind == "replace"
    )


def _are_titles(
    line: Sequence[str], rival: Sequence[str], names: AbstractSet[str], gains: AbstractSet[str]
) -> bool:
    """Return whether two titles differ in names alone."""
    words, rivals = {*line} - FUNCTION_WORDS, {*rival} - FUNCTION_WORDS
    is_short = max(len(words), len(rivals)) <= _TITLE
    return is_short and words - rivals <= names and rivals - words <= gains
