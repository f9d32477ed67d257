"""Passages that state nothing: headings, questions, pointers, placeholders and empty fields.

"Deposits: see chapter 7.", "Wi-Fi password: ****", "How do I return a parcel?": each has the words
of a question, and no answer. What is left of such a segment without the question's words is no
statement. The phrases that point elsewhere or put off are the `pointers` of each language in
languages.toml; fields, gaps and references are told by their form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import regex

from uec_rag.base.text import LONGEST_ASKED, LONGEST_STATEMENT, SENTENCE_END
from uec_rag.encoders.lexical import stem_of
from uec_rag.encoders.writing import COUNTED
from uec_rag.questions.languages import ENGLISH, any_of, listed, matcher
from uec_rag.retrieval.tokens import NUMBER, Token, tokens_of

_LABEL_WORDS, _OBJECT_WORDS, _LEFT_WORDS = 8, 4, 2  # at most: of a label, pointed to, and beside
_ASKS, _ENDS = tuple("?？؟"), tuple(".!。！;:：,")
_BULLET = regex.compile(r"\A\s*(?:[-*•–]|\d{1,3}[.)])\s+")  # of an item, which has "- " later
_FIELD = regex.compile(r"[^:：]{1,60}[:：]\s*")  # "Telephone:"
_LEADERS = regex.compile(  # before a page
    r"(?<![.…\s])(?=[.\s]*?(?:\.{3}|…|\. \. ))[.…\s]++\d{1,4}\Z"
)
_DOTS = regex.compile(r"(?<![.\s])\s*+\.{4,}+\s*+(?=\w)")  # between a label and its value
_GAP = regex.compile(
    r"(?<!\w)(?:_{3,}|\*{3,}|…{2,})(?!\w)|\.{4,}|[?]{3,}"
    r"|\[[^\[\]\d]{3,60}\](?!\()|<[\p{L} _-]{3,40}>|\{\{[^{}]*\}\}"
    r"|(?<![\w-])(?:X{2,}|N/A|n/a|TB[ACD]|tb[acd]|t\.b\.[acd]\.|TODO|FIXME)(?![\w-])"
)
_REFERENCE = regex.compile(
    rf"(?<=\w\W{{1,3}})(?<noun>{any_of(sorted(COUNTED))})\s+(?:\d[\w.]*|[A-Z]\b|[IVX]+\b)"
    r"|(?<=\w\W{1,3})§+\s*\d[\d.]*|第\s*\d+\s*[章节節页頁条條]",
    regex.IGNORECASE,
)
_MANUAL_PAGE = regex.compile(r"(?<=\w)\(\d\w*\)")  # "tar(1)"


class _Segment(NamedTuple):
    """A sentence, a line or a field of a passage, below its label."""

    text: str
    label: str


@lru_cache(4096)
def states_nothing(question: str, text: str, language: str = ENGLISH) -> bool:
    """Return whether a passage has words of a question only where it states nothing.

    Parameters
    ----------
    question, text : str
    language : str
        The code of the question's.

    Examples
    --------
    >>> question, more = "How much is the deposit?", "Rent is due monthly."
    >>> states_nothing(question, f"Deposits: see chapter 7. {more}")
    True
    >>> states_nothing(question, f"The deposit is 40 euros, see chapter 7. {more}")
    False
    """
    if len(text) > LONGEST_STATEMENT or len(question) > LONGEST_ASKED:
        return False
    words = _operands(question, language)
    segments = _segments(text)
    stated, unstated = set[str](), set[str]()
    for at, segment in enumerate(segments):
        stems = _stems(segment.text, language) & words
        is_empty = _is_empty(segments, at, question, words, language)
        # Of a question behind a title, the title is that of what follows, too.
        label = "" if segment.text.endswith(_ASKS) else segment.label
        (unstated if is_empty else stated).update(stems | (_stems(label, language) & words))
    return bool(unstated - stated)


@lru_cache(512)  # a question meets twelve texts
def _operands(question: str, language: str) -> frozenset[str]:
    """Return the stems of what a question asks about, without the words that ask."""
    remainder = matcher("wh", language, "operators").sub(" ", question)
    return frozenset([token.stem for token in tokens_of(remainder, language) if token.says])


def _stems(text: str, language: str) -> set[str]:
    return {token.stem for token in tokens_of(text, language)} if text else set()


def _segments(text: str) -> list[_Segment]:
    """Split a passage into sentences and lines; labels and questions go with what follows."""
    lines = [line for line in text.splitlines() if line.strip(" \t#")]
    parts = list[str]()
    for row in lines:
        line = row if _LEADERS.search(row) else _DOTS.sub(": ", row)
        bullet = _BULLET.match(line)
        head, *tail = SENTENCE_END.split(line[bullet.end() :] if bullet else line)
        parts += [f"- {head}" if bullet else head.strip(" \t#"), *filter(None, tail)]
    segments, label = list[_Segment](), ""
    for part, behind in zip(parts, [*parts[1:], ""], strict=True):
        is_question = part.endswith(_ASKS) and not behind.endswith(_ASKS)
        if behind and (is_question or (_is_label(part) and not _is_label(behind))):
            label = part
        else:
            segments.append(_Segment(part, label))
    return segments


def _is_label(line: str) -> bool:
    is_open = not line.endswith((*_ENDS, *_ASKS)) and not _BULLET.match(line)
    return is_open and len(line.split()) <= _LABEL_WORDS and ": " not in line


def _is_empty(
    segments: Sequence[_Segment], at: int, question: str, words: frozenset[str], language: str
) -> bool:
    """Return whether a segment states nothing, beside the words of a question."""
    text = segments[at].text
    if text.endswith(_ASKS) or _LEADERS.search(text):
        return True
    if _FIELD.fullmatch(text):  # of a list, it is the lead-in
        follows = segments[at + 1].text if at + 1 < len(segments) else "-:"
        return ":" in follows and not _BULLET.match(follows)
    gaps = _GAP.sub(" ", text)
    if gaps != text:
        tokens = _left(gaps, words, language)
        return len(tokens) <= _LEFT_WORDS + 1 and not any(token.number for token in tokens)
    if matcher("pending", language, "pointers").search(text):
        remainder = matcher("pending", language, "pointers").sub(" ", text)
        return len(_left(remainder, words, language)) <= _LEFT_WORDS
    asks_where = matcher("where", language, "pointers").search(question)
    if not asks_where and _points(text, question, words, language):
        return True
    return _is_heading(segments, at, question, words, language)


def _left(text: str, words: frozenset[str], language: str) -> list[Token]:
    """Return what a text says beside the words of a question."""
    return [t for t in tokens_of(text, language) if t.says and t.stem not in words - {NUMBER}]


def _points(text: str, question: str, words: frozenset[str], language: str) -> bool:
    """Return whether a segment sends to another place: "See page 4", "set out in Annex B"."""
    without = str(_REFERENCE.sub(" ", _MANUAL_PAGE.sub("", text)))
    nouns = {stem_of(match["noun"] or "", language) for match in _REFERENCE.finditer(text)}
    is_asked = _REFERENCE.search(question) or not nouns.isdisjoint(words)
    if len(without) < len(text) and not is_asked:
        tokens = _left(matcher("sees", language, "pointers").sub(" ", without), words, language)
        if len(tokens) <= _LEFT_WORDS and not any(token.number for token in tokens):
            return True
    for sends in _sending(language).finditer(without):
        before, behind = without[: sends.start()], without[sends.end() :]
        tokens, pointed = _left(before, words, language), _left(behind, words, language)
        if len(tokens) <= _LEFT_WORDS and len(pointed) <= _OBJECT_WORDS:
            return not any(token.number for token in (*tokens, *pointed))
    return False


@cache
def _sending(language: str) -> regex.Pattern[str]:
    """Return the expression of an imperative that sends elsewhere, where a clause begins."""
    verbs, before = (any_of(listed(key, language, "pointers")) for key in ("sees", "about"))
    clause = rf"(?:\A|[:;,.(–—-]\s*|(?:\A|[:;]\s*)(?:{before or '(?!)'})\s[^.:;]{{1,60}}?,?\s)"
    return regex.compile(rf"(?<={clause})(?:{verbs or '(?!)'})", regex.IGNORECASE)


def _is_heading(
    segments: Sequence[_Segment], at: int, question: str, words: frozenset[str], language: str
) -> bool:
    """Return whether a segment is a heading alone, or one of a list, of what a question asks."""
    text = segments[at].text
    is_first = at == 0 and len(segments) > 1 and not segments[at].label
    if is_first or text.endswith(_ENDS) or not _is_label(_BULLET.sub("", text)):
        return False
    if not matcher("wh", language, "operators").search(question):
        return False
    behind = segments[at + 1].text if at + 1 < len(segments) else ""
    tokens = _left(_BULLET.sub("", text), words, language)
    return not tokens and (not behind or _is_label(_BULLET.sub("", behind)))
