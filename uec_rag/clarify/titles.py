"""Titles of readings whose passages have none: words by which a user tells them apart.

A label is the phrase around the first words that the other passages lack, whole names and all
("Dr. Ada Okafor", "Ward 3", "fee in May"), in the same place of each passage. Where there is no
such place, the passages are told by a heading within each, by the name of its file, by a value of
its metadata, or by how it begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import regex

from uec_rag.base.text import HAS_SPACELESS, QUESTION_KEYS, SPACELESS, is_statement, without_markup
from uec_rag.questions.languages import ENGLISH, MONTHS, function_words, joints, small_words

_LOOKED_AT = 40  # words of a passage
_MOST_WORDS = 7  # of a label
_MOST_BEFORE = 2  # words that a number or the like is told with
_TOKEN = regex.compile(
    r"(?:(?<![\p{L}'’])\p{L}{1,2}['’])?(?P<word>[\p{L}\p{M}\p{N}_]+"
    r"(?:[.,:/+-][\p{L}\p{M}\p{N}_]+)*+)"
)
_LEAD = regex.compile(r"(?:[^\s:.;!?]+\s){0,9}?[^\s:.;!?]+(?=\s*:\s)")
_ASIDE = regex.compile(r"\s*\([^()]*\)")
_HEADING = regex.compile(r"^#{1,6}[ \t]+(\S[^\n]*)", regex.MULTILINE)
_ADDRESSES = regex.compile(r"\p{Lu}\p{L}{0,3}")  # "Dr." before a name
_VALUE = regex.compile(r"\p{L}{3,}")  # what a value of metadata has that somebody chooses by
_SYMBOL = regex.compile(r"\s?[%€$£¥°]")


_FIRST_SPACELESS = "\u0e00"


class _Word(NamedTuple):
    """A word of a passage.

    `key`: its small letters without an elided article; `kind`: "l" for a function word, "j" for
    one that joins others to a phrase, "s" for a small word that cases differ in, "n" for a number
    or a month, "c" for a word in capitals, "o" for any other; `gap`: what stands before it.
    """

    text: str
    key: str
    kind: str
    gap: str


class _Span(NamedTuple):
    """A run of words that not all passages have; `behind`: the last before that all have."""

    behind: str
    begin: int
    end: int


def labels_of(
    texts: Sequence[str],
    question: Collection[str],
    language: str = ENGLISH,
    files: Sequence[str] = (),
    metadatas: Sequence[Mapping[str, object]] = (),
) -> list[str]:
    """Return labels by which several passages are told apart, all of one kind.

    Parameters
    ----------
    texts : sequence of c str
    question : collection of str
        The words of the question, which all passages may have.
    language : str
        The code of the question's.
    files : sequence of c str, optional
        What the file of each is called.
    metadatas : sequence of c mappings, optional

    Examples
    --------
    >>> labels_of(["The loan of a laptop lasts long.", "The loan of a camera lasts a day."], [])
    ['laptop', 'camera']
    >>> labels_of(["Dr. Ada Okafor heads the clinic.", "Dr. Ben Okafor works in surgery."], [])
    ['Dr. Ada Okafor', 'Dr. Ben Okafor']
    >>> labels_of(["The fee in May is 4 euros.", "The fee in June is 5 euros."], ["fee"])
    ['fee in May', 'fee in June']
    >>> labels_of(["It lasts 2 days.", "It lasts 3 days."], [])
    ['“It lasts 2 days.”', '“It lasts 3 days.”']
    """
    if len(texts) < 2:
        return [*files] if all(files) and files else _quotes(texts)
    ways = [_headings(texts), _files(files), _values(metadatas)]
    if all(map(is_statement, texts)):
        ways = [_leads(texts), _phrases(texts, question, language), *ways]
    return next((labels for labels in ways if _are_distinct(labels, len(texts))), _quotes(texts))


def _are_distinct(labels: Sequence[str], count: int) -> bool:
    folded = {label.casefold() for label in labels}
    return len(labels) == len(folded) == count and all(map(_VALUE_OR_CODE.search, labels))


_VALUE_OR_CODE = regex.compile(rf"\p{{L}}{{2}}|{SPACELESS}|\A\P{{L}}*\p{{L}}.*\p{{N}}|\p{{L}}-")


def _leads(texts: Sequence[str]) -> list[str]:
    """Return what stands before the first colon of each: "Error E01", "Pasta dough"."""
    leads = [_LEAD.match(_ASIDE.sub("", text)) for text in texts]
    return [lead[0] for lead in leads if lead is not None]


def _headings(texts: Sequence[str]) -> list[str]:
    """Return the first heading in Markdown within each."""
    matches = [_HEADING.search(text) for text in texts]
    return [without_markup(match[1]) for match in matches if match is not None]


def _files(names: Sequence[str]) -> list[str]:
    """Return the names of files, unless they differ in numbers alone."""
    plain = {"".join(filter(str.isalpha, name)) for name in names}
    return [*names] if len(plain) == len(names) else []


def _values(metadatas: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the values of the first key of metadata whose values are words that differ."""
    for key in metadatas[0] if metadatas else ():
        if key in QUESTION_KEYS:
            continue
        values = [str(of.get(key) or "") for of in metadatas]
        is_told = all(
            _VALUE.search(text) and len(text) <= 60 and "/" not in text for text in values
        )
        if is_told and not any(map(_has_code, values)) and _are_distinct(values, len(values)):
            return values
    return []


def _has_code(value: str) -> bool:
    """Return whether a value is a hash, an id, a date or a type, which nobody says."""
    return any(sum(map(str.isdecimal, word)) > 3 for word in value.split()) or "@" in value


def _quotes(texts: Sequence[str]) -> list[str]:
    """Return how passages begin, in quotes; those that begin alike, from where they differ."""
    lines = [text.split() for text in texts]
    offset = 0
    if len(lines) > 1 and len({" ".join(line)[:_QUOTED] for line in lines}) < len(lines):
        columns = zip(*lines, strict=False)
        offset = next((at for at, words in enumerate(columns) if len({*words}) > 1), 0)
    return [f"“{_cut(line[offset:] or line, '…' if offset else '')}”" for line in lines]


_QUOTED = 54  # characters of a passage in quotes


def _cut(words: Sequence[str], before: str) -> str:
    text = " ".join(words)
    if len(text) <= _QUOTED:
        return before + text
    if not HAS_SPACELESS.match(text[_QUOTED]):
        head = text[: _QUOTED + 1].rpartition(" ")[0] or text[:_QUOTED]
    else:
        head = text[:_QUOTED]
    return f"{before}{head.rstrip(' ,;:')}…"


def _phrases(texts: Sequence[str], question: Collection[str], language: str) -> list[str]:
    """Return the phrases in the first place where all passages have one; [] if there is none."""
    terms = {word.casefold() for word in question}
    lines = [_words_of(text, language) for text in texts]
    shared = set.intersection(*({word.key for word in line} for line in lines)) | terms
    spans = [_spans(line, shared) for line in lines]
    places = [*dict.fromkeys(span.behind for span in spans[0])]
    lists = list[list[str]]()
    for place in places:
        labels = [_label_at(line, of, place) for line, of in zip(lines, spans, strict=True)]
        if all(labels) and _are_of_a_kind(labels, language):
            if len({label.casefold() for label in labels}) == len(labels):
                return labels
            lists.append(labels)
    for pair in combinations(lists, 2):
        labels = [", ".join(dict.fromkeys(parts)) for parts in zip(*pair, strict=True)]
        if len({label.casefold() for label in labels}) == len(labels):
            return labels
    return []


def _are_of_a_kind(labels: Sequence[str], language: str) -> bool:
    """Return whether none is a small phrase or a lone word in small letters, or all are."""
    begins = {label.split()[0].casefold() in small_words(language) for label in labels}
    lone = {" " not in label and label[0].islower() for label in labels}
    return len(begins) == len(lone) == 1


def _words_of(text: str, language: str) -> list[_Word]:
    """Split the beginning of a passage into its words."""
    without, joining, small = function_words(language), joints(language), small_words(language)
    words, end = list[_Word](), 0
    for match in _TOKEN.finditer(text):
        key, begins = match["word"].casefold(), match["word"][:1].isupper()
        is_first = not words or text[end : match.start()].strip() not in ("", "-", "'", "’")
        if key in small:
            kind = "s"
        elif key in joining:
            kind = "j"
        elif key in without and (is_first or not begins):
            kind = "l"
        elif key[0].isdecimal() or key in MONTHS or (len(key) == 1 and key < _FIRST_SPACELESS):
            kind = "n"
        else:
            kind = "c" if begins else "o"
        gap = text[end : match.start("word")]
        words.append(_Word(match["word"], key, kind, gap))
        end = match.end()
        if len(words) == _LOOKED_AT:
            break
    return words


def _spans(line: Sequence[_Word], shared: Collection[str]) -> list[_Span]:
    """List the runs of words that not all passages have, with what joins them."""
    spans, behind, at = list[_Span](), "", 0
    while at < len(line):
        word = line[at]
        if word.kind in "lj" or word.key in shared:
            if word.kind not in "lj":
                behind = word.key
            at += 1
            continue
        end = at + 1
        while end < len(line):
            stop = end
            while stop < len(line) and stop < end + 2 and line[stop].kind == "j":
                stop += 1
            whole = line[end : stop + 1]
            if stop == len(line) or any(not _is_space(token.gap) for token in whole):
                break
            if line[stop].kind in "ljs" or line[stop].key in shared:
                break
            end = stop + 1
        spans.append(_Span(behind, at, end))
        at = end
    return spans


def _is_space(gap: str) -> bool:
    return not gap.strip("- \u00a0")


def _label_at(line: Sequence[_Word], spans: Sequence[_Span], place: str) -> str:
    """Return the label of the first span in a place; "" if nobody could choose by it."""
    span = next((run for run in spans if run.behind == place), None)
    if span is None:
        return ""
    begin, end = _whole_name(line, span.begin, span.end)
    if line[span.begin].kind == "s":
        end = max(end, min(_end_of_phrase(line, span.begin), len(line)))
    elif all(word.kind == "n" for word in line[begin:end]):
        begin = _before_number(line, begin, end)
    words = line[begin:end]
    is_address = len(words) == 1 and line[end : end + 1] and line[end].gap == ". "
    is_address = is_address and _ADDRESSES.fullmatch(words[0].text) is not None
    if is_address or len(words) > _MOST_WORDS or all(word.kind in "nljs" for word in words):
        return ""
    return "".join([words[0].text, *(word.gap + word.text for word in words[1:])])


def _whole_name(line: Sequence[_Word], begin: int, end: int) -> tuple[int, int]:
    """Return the span with what else of a name stands around it: "Dr. Ada Okafor", "Brevo 300"."""
    is_name = any(word.kind in "cn" for word in line[begin:end])
    while is_name and begin > 0 and line[begin - 1].kind == "c":
        gap = line[begin].gap
        if not (_is_space(gap) or (gap == ". " and _ADDRESSES.fullmatch(line[begin - 1].text))):
            break
        begin -= 1
    while is_name and end < len(line) and line[end].kind in "cn":
        before, word = line[end - 1], line[end]
        is_joined = _is_space(word.gap) and (word.kind == "c" or before.kind == "c")
        is_addressed = word.gap == ". " and _ADDRESSES.fullmatch(before.text) is not None
        if not is_joined and not is_addressed:
            break
        end += 1
    return begin, end


def _before_number(line: Sequence[_Word], begin: int, end: int) -> int:
    """Return where a phrase with a number or a month begins: "class trip of 8a"; or `begin`.

    A number before a unit is a value, which is what is asked, unless the passage begins with it.
    """
    is_value = end < len(line) and (
        (line[end].kind == "o" and _is_space(line[end].gap)) or _SYMBOL.match(line[end].gap)
    )
    if begin and line[begin].gap == ": " and line[begin - 1].kind in "co":  # "Year: 2024"
        return begin - 1
    if is_value or not _is_space(line[begin].gap):
        return begin
    at = begin
    while at > 0 and line[at - 1].kind == "j" and begin - at < 2 and _is_space(line[at].gap):
        at -= 1
    start = at
    while start > 0 and at - start < _MOST_BEFORE and line[start - 1].kind in "co":
        if not _is_space(line[start].gap):
            break
        start -= 1
    return start if start < at else begin


def _end_of_phrase(line: Sequence[_Word], begin: int) -> int:
    """Return where the phrase behind a small word ends: "inside the city"."""
    end = begin + 1
    while end < len(line) and _is_space(line[end].gap) and line[end].kind == "j":
        end += 1
    while end < len(line) and _is_space(line[end].gap) and line[end].kind in "ocn":
        end += 1
        if end - begin > _MOST_BEFORE + 1:
            break
    return end
