"""Names of a question that no passage has, so that the nearest passage is about another.

A word is not a name: what is absent in everyday words may stand there in others. A name is a proper
noun, a part of a person's, a code, a number directly behind what it numbers ("Python 2"), a month
or a day where the hit has another, or what a sign makes another thing ("C#").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import regex

from uec_rag.base.counts import idf
from uec_rag.base.text import HAS_SPACELESS, is_abbreviation
from uec_rag.confidence.model import READ
from uec_rag.encoders import lexical
from uec_rag.encoders.notations import (
    COUNTED,
    LATIN,
    NOT_ENGLISH,
    find_dates,
    find_values,
    in_one_form,
    letters_in,
    number_dates,
    writing_of,
)
from uec_rag.evidence.family import tokens_of
from uec_rag.evidence.marks import (
    CODE,
    FEWEST,
    POSSESSIVE,
    SIGNED,
    VERSION,
    calendar_words,
    contractions,
    is_form,
    marks_of,
    plain_code,
)
from uec_rag.evidence.words import QuestionWords, names_in
from uec_rag.questions.languages import (
    ENGLISH,
    function_words,
    joints,
    matcher,
    tables,
)
from uec_rag.questions.phrasing import Phrasing

# What stands between spaces, without the marks around it.
_CHUNK = regex.compile(r"[\p{L}\p{N}\p{M}_](?:\S*[\p{L}\p{N}\p{M}_+#])?+")
_TO = r"\s?(?:-|–|to|until|till|through|bis|à|au|a|al|até|hasta|по|至|到|から)\s?"
_AND = r"\s?(?:,|/|&|and|or|und|oder|et|ou|y|e|o|и|和|或)\s?"
_LATER = regex.compile(
    r"\s?(?:\+|(?:or|and|oder|und|et|ou|y|o)\s"
    r"(?:later|newer|above|up|higher|neuer|höher|plus|superior))"
)
_RANGE = regex.compile(_TO)
_UP_TO = regex.compile(rf"{_TO}(?P<high>{VERSION.pattern})")
_ITEMS = regex.compile(rf"(?:{_AND}+(?P<item>{VERSION.pattern}))+")
_YEAR = regex.compile(
    r"(?<!\w)(in|im|en|em|nel|of|for|für|pour|para|в)\s((?:1[5-9]|20)\d\d)(?![\w.,-]*\d)"
)
Span: TypeAlias = tuple[int, int]
"""From where to where in a text."""

_LONGEST_LABEL = 200  # characters of metadata that may name the product
_MOST_LOOKED_UP = 20  # names of a question that are looked for in other forms


def absentees(words: QuestionWords, names: Sequence[str], *, is_counted: bool) -> tuple[str, ...]:
    """Return what a question has that no passage at all has: names, and what none of a family has.

    It is as the question writes it, see `as_written`. `names`: see `unheard_names`; not told if
    words are counted among candidates alone. `is_counted`: whether to tell what a family lacks.
    """
    phrasing, names = words.phrasing, names if words.are_all else ()
    if not is_counted or words.family is None or not is_known_language(phrasing):
        return tuple(names)
    name_words = {word for name in names for word in lexical.written_words(name)}
    absent = {
        word
        for word in strangers_of(words)
        if word in words.family.missing
        and word not in name_words
        and not any(lexical.has_all_words(hit.parts, [word]) for hit in words.marks_with_source)
    }
    if absent:
        absent -= _equivalents(words).union(*(bag for bag, _ in words.bags))
    return tuple(dict.fromkeys([*names, *as_written(words.clause, absent)]))


def unheard_names(words: QuestionWords) -> tuple[str, ...]:
    """Return the names of a question that no passage has, as it writes them.

    They stand in the part of it that asks (`QuestionWords.clause`): who has an iPhone may change
    any password. A number with the unit of one in the first hit is none: that a pass costs 25 euros
    is what somebody heard.
    """
    phrasing = words.phrasing
    if not (words.hits and words.content and words.are_counted):
        return ()
    if not is_known_language(phrasing):
        return ()
    is_follow_up = phrasing.turns or phrasing.role == "carried"
    totals = matcher("every", phrasing.language, "names")
    if is_follow_up and totals.search(words.hits[0].text):
        return ()  # what it goes on to is among all
    clause, strangers = words.clause, strangers_of(words)
    names, end, spans = list[str](), 0, list[Span]()
    for find in (_proper_nouns, _codes, _numbered, _of_calendar, _signed):
        spans += find(words, clause, strangers)
    for start, stop in sorted({*spans}):
        if start >= end:
            names.append(POSSESSIVE.sub("", clause[start:stop]))
            end = stop
    return tuple(dict.fromkeys(names))


def is_known_language(phrasing: Phrasing) -> bool:
    """Return whether a language has a table; else it counts as English, with "Vad" as a name."""
    return phrasing.language != ENGLISH or writing_of(phrasing.text) != NOT_ENGLISH


def strangers_of(words: QuestionWords) -> frozenset[str]:
    """Return the content words that no passage has."""
    if not words.are_counted:
        return frozenset()
    limit = idf(np.zeros(1, dtype=np.int64), words.size)[0] - 1e-6
    return frozenset(word for word, rarity in words.content.items() if rarity >= limit)


def as_written(question: str, words: Collection[str]) -> tuple[str, ...]:
    """Return what a question has of some of its words, each once, in its order.

    Words are parts of what people write: of a date, of a name with a hyphen or an apostrophe.

    Examples
    --------
    >>> as_written("Did O'Brien leave on 5 March 2025?", {"Brien", "O", "20250305"})
    ("O'Brien", '5 March 2025')
    >>> as_written("Is Anna's Wi-Fi (E05) on?", {"Anna", "WiFi", "E05", "05"})
    ('Anna', 'Wi-Fi', 'E05')
    """
    clean, spans = question, list[tuple[int, str]]()
    forms = [(date.span(), date[0]) for date in find_dates(question)]
    forms += [((start, end), form) for start, end, form in find_values(question) if form.strip()]
    for (start, end), form in forms:
        if not {*lexical.written_words(form)}.isdisjoint(words):
            spans.append((start, question[start:end]))
        clean = clean[:start] + " " * (end - start) + clean[end:]
    for chunk in _CHUNK.finditer(clean):
        if HAS_SPACELESS.search(chunk[0]):
            places = ((chunk[0].find(word), word) for word in words)
            spans += [(chunk.start() + at, word) for at, word in places if at >= 0]
        elif not {*lexical.written_words(chunk[0])}.isdisjoint(words):
            spans.append((chunk.start(), POSSESSIVE.sub("", chunk[0])))
    return tuple(dict.fromkeys(text for _, text in sorted(spans, key=itemgetter(0))))


def _equivalents(words: QuestionWords) -> set[str]:
    """Return the words of a question that the first hit has otherwise.

    They are numbers in words, numbers before a word that is behind another number, and words of
    which one is the other's abbreviation by the first and the last letter, "St" of "Saint".
    """
    language = words.phrasing.language
    tokens = words.marks[0].tokens_in(language)
    numbers = {token.number for token in tokens} - {""}
    units = {token.behind for token in tokens if token.number} - {""}
    texts = {token.text.casefold() for token in tokens if token.says}
    short = {contraction for text in texts for contraction in contractions(text)}
    equivalents = set[str]()
    for token in tokens_of(words.phrasing.text, language):
        folded = token.text.casefold()
        if (
            (token.number and (token.number in numbers or token.behind in units))
            or folded in short
            or not texts.isdisjoint(contractions(folded))
        ):
            equivalents.add(token.text)
    return equivalents


def _proper_nouns(words: QuestionWords, text: str, strangers: frozenset[str]) -> Iterator[Span]:
    """Find the proper nouns of a text that no passage has."""
    language, question = words.phrasing.language, words.phrasing.text
    strangers = frozenset(word for word in strangers if not any(map(str.isdigit, word)))
    if not strangers or question.isupper():
        return
    script = letters_in(question)
    # In German, any noun has a capital.
    has_capitals = language != "de" and script == LATIN
    names = names_in(in_one_form(question), words.content, english=has_capitals) | words.capitals
    if language == "de":
        names |= {*_nouns_in_place(words, text)}
    if script not in (LATIN, None):
        names |= {word for word in strangers if letters_in(word) == LATIN}
    absent = {*strangers & names}.difference(*(bag for bag, _ in words.bags))
    for word in sorted(absent, key=text.find)[:_MOST_LOOKED_UP]:
        if _has_name(words, text, word):
            absent.remove(word)
    if absent:
        absent -= _equivalents(words)
    there = words.marks[0].capitalised
    for match in marks_of(text).tokens if absent else ():
        parts = [part for part in match[0].split("-") if len(part) >= FEWEST]
        is_kind = "-" in match[0] and not there.isdisjoint(parts)  # of what is there
        if not is_kind and not absent.isdisjoint([match[0], *lexical.written_words(match[0])]):
            yield match.span()


def _has_name(words: QuestionWords, text: str, name: str) -> bool:
    """Return whether a name is no stranger: in another form, a unit, the asker's, the product's."""
    language = words.phrasing.language
    before = text[: text.find(name)].split()[-2:]
    if any(map(matcher("own", language, "names").fullmatch, before)):
        return True
    if matcher("titles", language, "names").fullmatch(name) or name.casefold() in calendar_words():
        return True
    if is_abbreviation(name) and before and before[-1][-1].isdigit():
        return True  # a unit
    initials = [letters for letters, of in marks_of(text).initials.items() if name in of]
    if is_abbreviation(name) and not words.marks[0].names - marks_of(text).capitalised:
        return True  # a word, as "TV" is, where no name may stand in its place
    for hit, marks, whole in zip(words.hits, words.marks, words.marks_with_source, strict=False):
        values = [value for value in hit.metadata.values() if isinstance(value, str)]
        labels = " ".join(value for value in values if len(value) < _LONGEST_LABEL)
        if any(lexical.has_all_words(there, [name]) for there in (whole.parts, labels)):
            return True
        if not marks.capitalised.isdisjoint(initials) or marks.writes(name):
            return True
        if any(is_form(name.casefold(), rival.casefold()) for rival in marks.capitalised):
            return True
    return False


def _nouns_in_place(words: QuestionWords, text: str) -> Iterator[str]:
    """Find the German nouns that stand where the first hit has another: "nach Spanien".

    Behind an article or an adjective, any noun does.
    """
    language = words.phrasing.language
    determiners = frozenset(tables()[language]["follow_up"]["determiners"].split())
    tokens, query = words.marks[0].in_one_form.words, marks_of(text).words
    titles, there = matcher("titles", language, "names"), {*map(str.casefold, tokens)}
    behind = {a.casefold() for a, b in pairwise(tokens) if b[:1].isupper() and b not in query}
    subject = {b.casefold() for _, b in pairwise(tokens[:3])} if tokens[:1] != query[1:2] else set()
    for at, (before, word) in enumerate(pairwise(query)):
        if not word[0].isupper() or word.casefold() in there:
            continue
        is_title = bool(titles.fullmatch(before)) or (
            at > 0 and bool(titles.fullmatch(query[at - 1])) and before[0].isupper()
        )
        folded = before.casefold()
        takes_place = folded not in determiners and folded in behind and _is_link(before, language)
        takes_place |= at == 0 and folded in subject and folded in function_words(language)
        if is_title or takes_place:
            yield word


def _is_link(word: str, language: str) -> bool:
    """Return whether a word is a preposition, or a name that another stands beside."""
    return word[0].isupper() or word in joints(language)


def _codes(words: QuestionWords, text: str, strangers: frozenset[str]) -> Iterator[Span]:
    """Find the codes of a text, "X-300", that no passage has, however it parts them."""
    if not any(any(map(str.isdigit, word)) for word in strangers):
        return
    hits = [marks.codes for marks in words.marks_with_source]
    for match in marks_of(text).tokens:
        code, parts = plain_code(match[0]), lexical.written_words(match[0])
        is_value = bool(find_values(match[0]) or find_dates(match[0]))
        is_code = bool(CODE.fullmatch(match[0])) and not is_value
        is_code |= match[0].count(".") > 1 and bool(VERSION.fullmatch(match[0]))
        if is_code and not strangers.isdisjoint(parts) and not any(code in of for of in hits):
            yield match.span()


def _numbered(words: QuestionWords, text: str, strangers: frozenset[str]) -> Iterator[Span]:
    """Find the numbers directly behind what they number, "ward 9", that no passage has there.

    A number before the unit of one in the first hit is an amount.
    """
    if not any(map(str.isdigit, text)) or number_dates(text) != text or in_one_form(text) != text:
        return
    language = words.phrasing.language
    small = function_words(language) | calendar_words()
    of_first = [token for token in words.marks[0].tokens_in(language) if token.number]
    tokens, count = marks_of(text).tokens, 0
    for at, (head, number) in enumerate(pairwise(tokens)):
        is_joined = number.start() - head.end() == 1 and VERSION.fullmatch(number[0])
        if not is_joined or head[0].casefold() in small or any(map(str.isdigit, head[0])):
            continue
        if count == _MOST_LOOKED_UP:
            return
        stem, count = lexical.stem_of(head[0], language), count + 1
        units = {token.behind for token in of_first if token.follows != stem}
        following = [lexical.stem_of(token[0], language) for token in tokens[at + 2 : at + 3]]
        texts = (marks.in_one_form for marks in words.marks)
        uses = [use for marks in texts for use in marks.uses(stem, language)]
        if not units.isdisjoint(following) or any(_covers(use, number[0]) for use in uses):
            continue
        is_name = head.start() > 0 and any(map(str.isupper, head[0]))
        before = tokens[at - 1][0].casefold() if at else ""
        is_noun = is_name or before in function_words(language) or any(use[2] for use in uses)
        is_stranger = number[0] in strangers and (is_name or head[0].casefold() in COUNTED)
        if (uses and is_noun) or is_stranger:
            yield (head.start() if is_name else number.start()), number.end()


def _covers(use: tuple[str, str, bool], number: str) -> bool:
    """Return whether a number in a text, with what follows it, is or includes another."""
    low, tail, _ = use
    if _is_part(low, number) or (_LATER.match(tail) and _order(low) <= _order(number)):
        return True
    if match := _UP_TO.match(tail):
        return _order(low) <= _order(number) <= _order(match["high"])
    items = _ITEMS.match(tail)
    return items is not None and any(_is_part(item, number) for item in items.captures("item"))


def _is_part(number: str, rival: str) -> bool:
    """Return whether one of two numbers begins with the other: 3.11 is of 3."""
    parts = zip(number.split("."), rival.split("."), strict=False)
    return all(a == b for a, b in parts)


def _order(number: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in number.split("."))


def _of_calendar(words: QuestionWords, text: str, strangers: frozenset[str]) -> Iterator[Span]:
    """Find the months, years and days of which the first hit has another, and no hit has it."""
    del strangers  # June is no stranger if another passage is about June
    language, passage = words.phrasing.language, words.marks[0].in_one_form
    for kind in ("months", "days"):
        dates = marks_of(text).calendar(language, kind)
        there = passage.calendar(language, kind) if dates else ()
        if not there or matcher("every", language, "names").search(passage.text):
            continue
        texts = (marks.in_one_form for marks in words.marks)
        numbers = {number for of in texts for number, *_ in of.calendar(language, kind)}
        for (low, _, end), (high, start, _) in pairwise(there):
            if _RANGE.fullmatch(passage.text, end, start):
                size = 12 if kind == "months" else 7
                numbers |= {(low + step) % size for step in range((high - low) % size)}
        yield from ((start, end) for number, start, end in dates if number not in numbers)
    for match in _YEAR.finditer(text):
        rivals = {year for word, year in _YEAR.findall(passage.text) if word == match[1]}
        if rivals and not any(match[2] in hit.text for hit in words.hits[:READ]):
            yield match.span(2)


def _signed(words: QuestionWords, text: str, strangers: frozenset[str]) -> Iterator[Span]:
    """Find what a sign makes another thing, "C#", or the lack of one, that no hit has."""
    del strangers  # words have no signs
    signs, letters = set[str](), set[str]()
    for match in marks_of(text).tokens:
        word = match[0].casefold()
        is_letter = len(word) == 1 and match[0].isupper() and match.start() > 0 and word != "i"
        if not (is_letter or SIGNED.fullmatch(word)):
            continue  # as nearly all, so that no hit is read
        signs = signs or {sign for marks in words.marks for sign in marks.signs}
        letters = letters or {sign.rstrip("+#") for sign in signs}
        if word not in signs and (word in letters or not is_letter):
            yield match.span()
