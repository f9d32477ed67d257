"""Which of several statements alike a question means, where similarity cannot tell them apart.

"The Fir hotel allows dogs.", "The Elder hotel allows dogs.": to a question that excludes, compares
or names another value, each of such siblings is as near as any, and no encoder is uncertain. Here
their words and values are read. Hits without siblings, such as prose, stay as they are. The words
that exclude and compare are the `operators` of each language in languages.toml.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

import regex

from uec_rag.base.text import HAS_SPACELESS, skip_long_texts
from uec_rag.confidence.model import JUDGED
from uec_rag.questions.languages import ENGLISH, function_words, tables
from uec_rag.retrieval.statements import (
    ANY_VALUE,
    SYMBOLS,
    Statement,
    Token,
    measure_of,
    statements_of,
)

_FEWEST = 3  # siblings, and stems of one
_ALIKE, _NEAR = 0.5, 0.25  # shares of the stems of siblings, and of a sibling and an exception
_NAMED = 3  # words behind "other than"

_Line: TypeAlias = tuple[int, Statement]  # with the place of its hit
_Phrases: TypeAlias = Mapping[str, regex.Pattern[str]]
_Test: TypeAlias = Callable[[Any, Any], bool]

# How what fits compares with the value behind an operator, or before it.
_BEHIND: dict[str, _Test] = {
    **{"more": gt, "after": gt, "older": gt, "from": ge},
    **{"less": lt, "before": lt, "newer": lt, "to": le},
}
_BEFORE: dict[str, _Test] = {"or_more": ge, "or_less": le}
_NEGATED: dict[_Test, _Test] = {gt: le, lt: ge, ge: lt, le: gt}  # "no longer than"
_OF_TIMES = {"older": lt, "newer": gt}  # what is older has the lower year, date or version
_EXTREMES: dict[str, Callable[..., Any]] = {"highest": max, "lowest": min}
_OPERATORS = (*_BEHIND, *_BEFORE, *_EXTREMES, "not", "other", "every", "between")
_FURTHER = ("only", "condition", "procedure", "wh", "money")


@dataclass(frozen=True)
class Siblings:
    """Hits with statements alike, and those of them that a question means.

    Attributes
    ----------
    fits : tuple of int
        The places of the hits that fit, best first; empty if none does.
    family : tuple of int
        The places of the hits with siblings.
    lacking : str
        The value that the question names, which no hit has; "" if it names none.
    others : tuple of pairs of str and int
        The values that siblings have in its place, each with the place of its hit.
    """

    fits: tuple[int, ...]
    family: tuple[int, ...]
    lacking: str = ""
    others: tuple[tuple[str, int], ...] = ()

    def order(self, count: int) -> list[int]:
        """Return the places of all of `count` hits, those that fit first."""
        return [*self.fits, *(at for at in range(count) if at not in self.fits)]


@skip_long_texts(None)
def siblings(
    question: str, texts: Sequence[str], language: str = ENGLISH, *, lacks_words: bool = True
) -> Siblings | None:
    """Find the hits that fit a question among siblings; None if it does not tell them apart.

    If none fits, a sibling is no answer.

    Parameters
    ----------
    question : str
    texts : sequence of m str
        Different texts, best first.
    language : str
        The code of the question's.
    lacks_words : bool
        Whether the question has words that no text has.

    Examples
    --------
    >>> prices = ("bed", 420), ("lamp", 60), ("sofa", 640)
    >>> texts = [f"The {name} costs {price} euros." for name, price in prices]
    >>> siblings("What costs more than 420 euros?", texts).fits
    (2,)
    >>> siblings("What does the sofa cost?", texts) is None
    True
    """
    phrases = _phrases(language)
    operates = phrases is not None and phrases["any"].search(question) is not None
    if len(said_in := statements_of(question, language)) != 1:
        return None
    [said] = said_in
    if not (lacks_words or operates or _named_in_capitals(said, language)):
        return None
    lines = [(at, line) for at, text in enumerate(texts) for line in statements_of(text, language)]
    if not (family := _family(said, lines)):
        return None
    places, bounds = (*dict.fromkeys(at for at, _ in family),), []
    if operates and phrases is not None:
        bounds = _bounds(said, phrases, language)
        if (told := _fitting(said, bounds, lines, family, phrases)) is not None:
            return Siblings((*dict.fromkeys(told),), places)
    lacking, others = ("", ()) if bounds else _lacking(said, lines, family, language, phrases)
    return Siblings((), places, lacking, others) if lacking else None


@cache
def _phrases(language: str) -> _Phrases | None:
    """Return the expressions of a language's operators; None if it has no table of them."""
    if (table := tables()[language].get("operators")) is None:
        return None
    said = {kind: table[kind].split(",") for kind in (*_OPERATORS, *_FURTHER)}
    pairs = [pair.partition("{one}") for pair in said["between"]]
    said["between"] = [before for before, _, _ in pairs]
    said["joint"] = [rest.partition("{other}")[0] for _, _, rest in pairs]
    said["any"] = [one for kind in _OPERATORS for one in said[kind]]
    return {kind: _any_of([one.strip() for one in phrases]) for kind, phrases in said.items()}


def _any_of(phrases: Sequence[str]) -> regex.Pattern[str]:
    """Return the expression of phrases, the longest first: whole words where words have spaces."""
    spaced, joined = (
        "|".join(map(regex.escape, sorted(some, key=len, reverse=True))) or "(?!)"
        for some in (
            [one for one in phrases if not HAS_SPACELESS.search(one)],
            [one for one in phrases if HAS_SPACELESS.search(one)],
        )
    )
    return regex.compile(
        rf"(?<![\p{{L}}\p{{N}}])(?:{spaced})(?![\p{{L}}\p{{N}}])|{joined}", regex.I
    )


def _family(said: Statement, lines: Sequence[_Line]) -> list[_Line]:
    """Return the lines like one of the first hits, that which has most of the question's stems."""
    for place in dict.fromkeys(at for at, _ in lines if at < JUDGED):
        own = max((line for at, line in lines if at == place), key=lambda x: len(x.bag & said.bag))
        if len(own.bag) >= _FEWEST and own.bag & said.bag:
            alike = [(at, line) for at, line in lines if _shared(own, line, max) >= _ALIKE]
            if len({line.text for _, line in alike}) >= _FEWEST:
                return alike
    return []


def _shared(one: Statement, other: Statement, of: Callable[[int, int], int]) -> float:
    """Return the share of the stems that two statements share, `of` their numbers of stems."""
    return len(one.bag & other.bag) / max(of(len(one.bag), len(other.bag)), _FEWEST)


def _fitting(
    said: Statement,
    bounds: Sequence[tuple[_Test, Token]],
    lines: Sequence[_Line],
    family: Sequence[_Line],
    phrases: _Phrases,
) -> list[int] | None:
    """Return the places of what fits the operator of a question; None if it has none to read."""
    question = said.text
    counts = Counter(stem for _, line in family for stem in line.bag)
    if named := phrases["other"].search(question):
        left = _named(said, named.end(), counts, family)
        return [at for at, line in family if not left & line.bag] if left else None
    # A word that few of the siblings have says which of them is meant.
    spoken = {one.stem for one in said.tokens if not phrases["not"].fullmatch(one.text)}
    few = range(1, max(1, len(family) // 4) + 1)
    is_named = any(counts[stem] in few for stem in (said.bag & spoken) - {ANY_VALUE})
    # "How do I ... without ...?" asks for no sibling.
    if is_named or phrases["procedure"].match(question.lstrip("¿ ")):
        return None
    if bounds:
        return _within(bounds, family)
    is_every = phrases["every"].search(question) and not phrases["wh"].search(question)
    negated = phrases["not"].search(question)
    if is_every or (negated and not phrases["condition"].search(question[: negated.start()])):
        found = _exceptions(said, lines, family, phrases)
        if {at for at, _ in family} <= {*found}:  # where all say "not", none is an exception
            return None
        if not found and negated and (left := _named(said, negated.end(), counts, family)):
            return [at for at, line in family if not left & line.bag]
        # All siblings are handed over, if they are few.
        return found if found or family[-1][0] >= JUDGED else None
    for kind, best in _EXTREMES.items():
        named = phrases[kind].search(question)
        if named and not any(phrases[kind].search(line.text) for _, line in family):
            return _extreme(said, best, family, phrases)
    return None


def _named(
    said: Statement, start: int, counts: Mapping[str, int], family: Sequence[_Line]
) -> set[str]:
    """Return the stems behind a place in a question that at most half of the siblings have."""
    behind = [one.stem for one in said.tokens if one.start >= start]
    return {stem for stem in behind[:_NAMED] if 0 < counts[stem] <= len(family) / 2}


def _extreme(
    said: Statement, best: Callable[..., Any], family: Sequence[_Line], phrases: _Phrases
) -> list[int] | None:
    """Return the places of the highest or lowest value, if it is clear which of them are meant."""
    found = defaultdict[str, list[tuple[tuple[float, ...], int]]](list)
    for at, line in family:
        for one in line.tokens:
            if one.value:
                found[one.unit or one.kind].append((one.value, at))
    usual = {unit: pairs for unit, pairs in found.items() if len(pairs) > len(family) / 2}
    money = phrases["money"].search(said.text) is not None
    meant = [unit for unit in usual if (unit in SYMBOLS if money else unit in said.bag)]
    if len(meant or usual) != 1:
        return None
    [pairs] = [pairs for unit, pairs in usual.items() if not meant or unit in meant]
    extreme = best(value for value, _ in pairs)
    fits = [at for value, at in pairs if value == extreme]
    return fits if len(fits) < len(pairs) else None


def _bounds(said: Statement, phrases: _Phrases, language: str) -> list[tuple[_Test, Token]]:
    """Return the comparisons in a question, each with its value; empty if it does not compare."""
    values = [one for one in said.tokens if one.value]
    if len(values) > 1 and (between := phrases["between"].search(said.text)):
        one, other = values[:2]
        joint = said.text[one.start + len(one.text) : other.start]
        if between.end() <= one.start and phrases["joint"].search(joint):
            return [(ge, one._replace(unit=other.unit or one.unit)), (le, other)]
    tests = _BEHIND | _BEFORE
    found = [(kind, one) for kind in tests for one in phrases[kind].finditer(said.text)]
    for kind, phrase in found:
        others = {one.span() for _, one in found} - {phrase.span()}
        if any(begin <= phrase.start() < phrase.end() <= end for begin, end in others):
            continue  # "more than", in "no more than"
        behind = [one for one in said.tokens if one.start >= phrase.end()]
        before = [one for one in said.tokens if one.start < phrase.start()]
        near = behind[:2] if kind in _BEHIND else before[:-3:-1]  # at most one word between them
        value = next((one for one in near if one.value), None)
        if value := value or (_one_of_unit(behind, language) if kind in _BEHIND else None):
            is_time = value.kind in ("year", "date", "version")
            test = _OF_TIMES.get(kind, tests[kind]) if is_time else tests[kind]
            ends = [one.end() for one in phrases["not"].finditer(said.text, 0, phrase.start())]
            # "no longer than", "don't cost more than"
            negated = ends and len(said.text[ends[-1] : phrase.start()].split()) < 2
            return [(_NEGATED[test] if negated else test, value)]
    return []


def _one_of_unit(behind: Sequence[Token], language: str) -> Token | None:
    """Return one of the unit with which words begin, but for articles: "less than an hour"."""
    articles = function_words(language)
    named = next((one for one in behind if one.text.casefold() not in articles), None)
    unit, factor = measure_of(named.text) if named else ("", 0.0)
    return named._replace(kind="number", value=(factor,), unit=unit) if named and unit else None


def _within(bounds: Sequence[tuple[_Test, Token]], family: Sequence[_Line]) -> list[int] | None:
    """Return the places of siblings with a value within bounds; None if these are of no unit."""
    for measured in (_in_unit, _if_only):
        found = [
            (at, [*filter(None, (measured(one, bounds[0][1], line) for one in line.tokens))])
            for at, line in family
        ]
        if sum(bool(values) for _, values in found) >= _FEWEST:
            return [at for at, values in found if any(_is_within(one, bounds) for one in values)]
    return None


def _is_within(one: Token, bounds: Sequence[tuple[_Test, Token]]) -> bool:
    """Return whether a value is within bounds, as exactly as the less exact of the two is given."""
    pairs = [(test, min(len(one.value), len(bound.value)), bound) for test, bound in bounds]
    return all(test(one.value[:length], bound.value[:length]) for test, length, bound in pairs)


def _in_unit(one: Token, bound: Token, line: Statement) -> Token | None:
    """Return a value in the unit of a bound, maybe of its cell ("Price (euros): 6"); else None."""
    if not bound.unit:
        is_same = one.kind == bound.kind or {one.kind, bound.kind} == {"year", "date"}
        return one if one.value and is_same else None
    if one.unit or not one.value:
        return one if one.value and one.unit == bound.unit else None
    for other in line.tokens:
        unit, factor = measure_of(other.text)
        if other.cell == one.cell and bound.unit in (unit, other.stem):
            return one._replace(value=(one.value[0] * factor, *one.value[1:]))
    return None


def _if_only(one: Token, bound: Token, line: Statement) -> Token | None:
    """Return a value if it is the only one of a line, and a plain number as the bound is."""
    is_plain = bool(one.value) and {one.kind, bound.kind} <= {"number", "year"} and not one.unit
    return one if is_plain and sum(bool(other.value) for other in line.tokens) == 1 else None


def _exceptions(
    said: Statement, lines: Sequence[_Line], family: Sequence[_Line], phrases: _Phrases
) -> list[int]:
    """Return the places of lines that say "not" or "only" of what the siblings are about."""
    first = family[0][1]
    common = said.bag.intersection(*(line.bag for _, line in family))
    of_first = len(first.bag & said.bag)
    return [
        at
        for at, line in lines
        if _says_not(line, common, phrases)
        and (0 < of_first <= len(line.bag & said.bag) or _shared(line, first, min) >= _NEAR)
    ]


def _says_not(line: Statement, common: Collection[str], phrases: _Phrases) -> bool:
    """Return whether a line says "not", in a row of a table in a cell on the question."""
    negated = [one.start() for kind in ("not", "only") for one in phrases[kind].finditer(line.text)]
    if not line.tokens or not line.tokens[-1].cell or not common:
        return bool(negated)
    cells = [max((o.cell for o in line.tokens if o.start <= at), default=0) for at in negated]
    return any(one.cell in cells and one.stem in common for one in line.tokens)


def _lacking(
    said: Statement,
    lines: Sequence[_Line],
    family: Sequence[_Line],
    language: str,
    phrases: _Phrases | None,
) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return a value that a question names and no hit has, and what siblings have in its place.

    If another word of the question is in that place, nothing is lacking.
    """
    without, asked = function_words(language), {one.text.casefold() for one in said.tokens}
    name = _named_in_capitals(said, language)
    every = [one for _, line in lines for one in line.tokens]
    often = Counter(one.stem for _, line in family for one in {*line.tokens})
    usual = {stem for stem, count in often.items() if count > len(family) / 2} - {ANY_VALUE}
    for place, token in enumerate(said.tokens):
        before = said.tokens[place - 1].text if place else ""
        asks = phrases is not None and phrases["wh"].fullmatch(before)  # "which plant"
        says_little = token.text.casefold() in without and token.text != name
        if asks or says_little or not _may_lack(token, every):
            continue
        alike = [
            (other, at)
            for at, line in family
            for other in line.tokens
            if other.stem not in usual and _is_in_place(token, other, is_first=not place)
        ]
        beside = [one for one in alike if {*one[0].around} & {*token.around} - {""}]
        others = dict[str, tuple[tuple[float, ...], int]]()
        for other, at in beside if len({one.text for one, _ in beside}) > 1 else alike:
            others.setdefault(other.text, (other.value, at))
        if len(others) > 1 and asked.isdisjoint(map(str.casefold, others)):
            ranked = sorted(others.items(), key=lambda other: other[1][0])  # words stay as ranked
            return token.text, tuple((text, at) for text, (_, at) in ranked)
    return "", ()


def _named_in_capitals(said: Statement, language: str) -> str:
    """Return the only word of a question that says little, but is in capitals: "in May"; or ""."""
    without = function_words(language)
    words = [one.text for one in said.tokens[1:] if one.kind and len(one.text) > 1]
    found = [word for word in words if word[0].isupper() and word.casefold() in without]
    return found[0] if len(found) == 1 else ""


def _may_lack(token: Token, every: Sequence[Token]) -> bool:
    """Return whether no statement has a word or value, a number beside the same word."""
    if not token.value:
        is_part = not token.kind and HAS_SPACELESS.match(token.text)
        return not is_part and not any(_is_form(token, one) for one in every)
    if token.text.isalpha():  # "for two"
        return False
    same = [one for one in every if one.value[: len(token.value)] == token.value]
    if token.kind != "number":
        return not same
    return not any({*one.around} & {*token.around} - {""} for one in same)


def _is_form(token: Token, other: Token) -> bool:
    """Return whether a word is another one, or may be a form of it: "kosten", "kostet"."""
    one, same = token.text.casefold(), other.text.casefold()
    length = max(4, len(one) - 2, len(same) - 2)
    return token.stem == other.stem or (not token.kind and one[:length] == same[:length])


def _is_in_place(token: Token, other: Token, *, is_first: bool) -> bool:
    """Return whether a value of a statement is where a question has another one of its kind."""
    kind = "" if is_first and not token.value else token.kind
    if other.kind != kind:
        return False
    if kind:
        return kind != "number" or bool({*token.around} & {*other.around} - {""})
    # "The plan Falcon" is not among others, while "the equipment loan" may be any of them.
    (before, after), (own, behind) = token.around, other.around
    return before == own != "" and (after == behind or not (after and behind))
