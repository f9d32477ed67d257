"""Families: hits alike, of which a question does not say which it means.

"The Fir hotel allows dogs.", "The Elder hotel allows dogs.": to a question that excludes, compares
or names another value, each of a family is as near as any, and no encoder is uncertain. Which of
them answers is not decided here: they are handed over together, as uncertain. The phrases that
exclude and compare are the `operators` of each language in languages.toml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import chain, repeat, zip_longest
from typing import Literal, NamedTuple

import regex

from uec_rag.base.text import LONGEST_ASKED, LONGEST_STATEMENT
from uec_rag.confidence.model import EVEN, NEARLY
from uec_rag.encoders import writing
from uec_rag.questions.languages import ENGLISH, any_of, joints, listed, matcher, small_words
from uec_rag.retrieval.tokens import NUMBER, Token, tokens_of

_FEWEST, _FEWEST_OF_STATEMENTS = 3, 2  # members; where all that is read are statements
_ABBREVIATED = 3  # letters of an abbreviation
_BEFORE_NUMBER = r"(?=\W++(?:\p{L}++\W++)?+(?&number))"  # "after 6", "over the 6"
_SOME_WORDS = r"(?:\p{L}++\W++){1,3}?"  # "how many … are there"
_VOWELS = regex.compile("[aeiouy]")
_DOUBLED = regex.compile(r"(\p{L})\1+", regex.IGNORECASE)


class Family(NamedTuple):
    """Hits alike that a question does not tell apart.

    Attributes
    ----------
    members : tuple of int
        Their places among the hits, in the order in which they are handed over.
    lacking : tuple of str
        The words of the question that none of them has.
    operates : bool
        Whether the question excludes or compares, or has a name beside part of another.
    is_vague : bool
        Whether it does neither, nor names another thing in the place of those of the members.
    resembles : bool
        Whether the first alone has a word that a lacking one may be a form of.
    """

    members: tuple[int, ...]
    lacking: tuple[str, ...] = ()
    operates: bool = False
    is_vague: bool = True
    resembles: bool = False


def family_of(question: str, texts: Sequence[str], language: str = ENGLISH) -> Family | None:
    """Find the family of the first text; None if there is none or the question names a member.

    A question names one if it has a word that at most a quarter of the family has, or such a number
    beside the same word: 12 kilos are not 12 euros. A number behind "more than" is a bound. If it
    names none, it means one by an operator, or has words that none of them has.

    Parameters
    ----------
    question : str
    texts : sequence of m str
        Different texts, best first.
    language : str
        The code of the question's.

    Examples
    --------
    >>> prices = ("bed", 42), ("sofa", 6), ("pen", 1)
    >>> texts = [f"The {name} costs {price} euros." for name, price in prices]
    >>> family_of("What does the lamp cost?", texts)
    Family(members=(0, 1, 2), lacking=('lamp',), operates=False, is_vague=False, resembles=False)
    >>> family_of("What costs more than 6 euros?", texts).operates
    True
    >>> family_of("What does the sofa cost?", texts), family_of("What costs 6 euros?", texts)
    (None, None)
    """
    # Long passages, as most are, have no family.
    if not texts or len(texts[0]) > LONGEST_STATEMENT or len(question) > LONGEST_ASKED:
        return None
    short = [text if len(text) <= LONGEST_STATEMENT else "" for text in texts]
    lines = [*map(tokens_of, short, repeat(language))]
    bags = [frozenset([word.stem for word in line]) for line in lines]
    fewest = _FEWEST_OF_STATEMENTS if are_statements(texts) else _FEWEST
    most = [max(len(bags[0]), len(bag), _FEWEST) for bag in bags]
    alike = [len(bags[0] & bag) >= EVEN * of for bag, of in zip(bags, most, strict=True)]
    members = tuple([at for at, is_alike in enumerate(alike) if is_alike])
    if len(members) < fewest:
        return None
    # In "if it does not fit", nothing excludes.
    asks = matcher("conditions", language, "operators").split(question, 1)[0]
    operators = [*_operator("phrases", language).finditer(asks, overlapped=True)]
    whole = question  # of "which plant", the family may be some
    question = _operator("wh", language).sub(lambda of: " " * len(of[0]), question)
    counts = Counter([stem for at in members for stem in bags[at]])
    every = [word for at in members for word in lines[at]]
    words = tokens_of(question, language)
    spans = [match.span() for match in operators]
    few = range(1, max(1, len(members) // 4) + 1)
    is_named, is_other, names_other, lacking = False, False, False, list[Token]()
    for word in words:
        if word.number:
            if _is_bound(word, operators, every):
                continue
            is_there = any(_is_same(word, other) for other in every if other.number)
            is_named |= is_there
        elif word.says and not any(begin <= word.start < end for begin, end in spans):
            is_there = counts[word.stem] > 0
            replaces = counts[word.before] in (0, *few) and _takes_a_place(word, words, every)
            is_named |= counts[word.stem] in few
            is_other |= replaces
            names_other |= replaces and counts[word.stem] in few
        else:
            continue
        if not is_there:
            lacking.append(word)
            beside = [other for other in every if word.follows == other.follows != ""]
            is_other |= bool(word.number) or len([o for o in beside if counts[o.stem] in few]) > 1
    kinds = {word.stem for word in tokens_of(whole, language)} if operators else set[str]()
    stating = [at for at in members if operators and _states(lines[at], words, spans, kinds)]
    operated = [at for at in members if operators and _has_operated(texts[at], words, operators)]
    is_named |= [0] in (stating[:1] if len(stating) in few else [], operated)
    is_apart = not (operators or _are_together(words, [bags[at] for at in members], counts))
    if not (names_other or is_apart) and (is_named or not (lacking or operators)):
        return None
    forms = [any(_may_be_form(word, lines[at]) for word in lacking) for at in members]
    return Family(
        _in_order(words, {at: lines[at] for at in members}) if operators else members,
        tuple([word.text for word in lacking]),
        operates=bool(operators) or names_other,
        is_vague=not (operators or is_other or is_apart),
        resembles=forms[0] and not any(forms[1:]),
    )


def _are_together(
    words: Sequence[Token], bags: Sequence[frozenset[str]], counts: Mapping[str, int]
) -> bool:
    """Return whether one member has all the words of a question by which members differ.

    A red shirt in size M is not among a blue one in M and a red one in L.
    """
    telling = {word.stem for word in words if word.says and 0 < counts[word.stem] < len(bags)}
    return len(telling) < 2 or any(telling <= bag for bag in bags)


def are_statements(texts: Sequence[str]) -> bool:
    """Return whether nearly all of some texts are short, as those of a list of rules or prices.

    In manuals, a few of the texts that a question finds are.
    """
    short = sum(len(text) <= LONGEST_STATEMENT for text in texts)
    return short >= NEARLY * len(texts)


def namesakes_of(texts: Sequence[str], language: str = ENGLISH) -> tuple[int, ...]:
    """Find the things of one name that texts are about, by their places; () if there is only one.

    Half of their words are the same in the same order. They differ in several places, of which one
    is no number: those that differ in a value alone contradict each other.

    Parameters
    ----------
    texts : sequence of m str
        Different texts with the same words of the question, best first.
    language : str
        The code of the question's.

    Examples
    --------
    >>> namesakes_of(["Bath in Maine has 8,000 homes.", "Bath in Ohio has 90 homes."])
    (0, 1)
    >>> namesakes_of(["Bath has 8,000 homes.", "Bath has 90 homes."])
    ()
    """
    chosen = dict[int, tuple[Token, ...]]()
    for at, text in enumerate(texts):
        line = tokens_of(text, language) if len(text) <= LONGEST_STATEMENT else ()
        if all(_are_of_two(line, other, joints(language)) for other in chosen.values()):
            chosen[at] = line
    return tuple(chosen) if len(chosen) > 1 else ()


def cases_of(question: str, texts: Sequence[str], language: str = ENGLISH) -> tuple[int, ...]:
    """Find the cases of what a question asks that texts are about, by their places; () if one.

    A word of the question stands behind another word in each, "chess club" and "film club", "Ada
    Okafor" and "Ben Okafor"; or half of their words are the same, but another small word is before
    one of these, "inside the city" and "outside the city".

    Parameters
    ----------
    question : str
    texts : sequence of m str
        Different texts with all words of the question, best first.
    language : str
        The code of the question's.

    Examples
    --------
    >>> cases_of("Where does the club meet?", ["The chess club meets.", "The film club meets."])
    (0, 1)
    >>> cases_of("What is a bed?", ["With tea a bed is 9 euros.", "Without, a bed is 7 euros."])
    (0, 1)
    """
    if _operator("phrases", language).search(question):  # "which does not"
        return ()
    asked = {token.stem for token in tokens_of(question, language) if token.says}
    small, said = small_words(language), {*question.casefold().split()}
    chosen = dict[int, tuple[dict[str, set[str]], set[str], set[str]]]()
    for at, text in enumerate(texts):
        line = tokens_of(text, language) if len(text) <= LONGEST_STATEMENT else ()
        before = dict[str, set[str]]()
        for token in line:
            if token.stem in asked - {NUMBER} and token.before not in {"", NUMBER, *asked}:
                before.setdefault(token.stem, set()).add(token.before)
        stems = {token.stem for token in line if token.says}
        case = (before, stems, {token.text.casefold() for token in line} & small - said)
        if all(_is_other_case(case, other) for other in chosen.values()):
            chosen[at] = case
    return tuple(chosen) if len(chosen) > 1 and 0 in chosen else ()


def _is_other_case(
    one: tuple[dict[str, set[str]], set[str], set[str]],
    other: tuple[dict[str, set[str]], set[str], set[str]],
) -> bool:
    """Return whether two texts are about two cases, by what is before words, stems, small words."""
    (before, stems, small), (others, their_stems, theirs) = one, other
    for word in before.keys() & others.keys():
        if before[word].isdisjoint(their_stems) and others[word].isdisjoint(stems):
            return True
    same = len(stems & their_stems) >= EVEN * max(len(stems), len(their_stems))
    return same and bool(small - theirs) and bool(theirs - small)


def _are_of_two(one: Sequence[Token], other: Sequence[Token], joints: Collection[str]) -> bool:
    """Return whether two statements differ in what they are about and in what they say of it."""
    keys = [word.number or word.stem for word in one], [word.number or word.stem for word in other]
    same, names, others, is_joined = 0, 0, 0, False
    for kind, begin, end, start, stop in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        left, right = (
            [at for at in range(*span) if line[at].says]
            for line, span in ((one, (begin, end)), (other, (start, stop)))
        )
        if kind == "equal":
            same += len(left)
            is_joined &= all(word.text.casefold() in joints for word in one[begin:end])
        elif left and right:
            is_value = any(one[at].number for at in left) and any(other[at].number for at in right)
            if is_value or not is_joined:  # "a book on snow" is one thing
                names_it = _adds(one, left[0], joints) and _adds(other, right[0], joints)
                names, others = names + (names_it and not is_value), others + 1
            is_joined = not is_value
    most = max(sum(word.says for word in line) for line in (one, other))
    return names > 0 and others > 1 and same >= EVEN * most


def _adds(line: Sequence[Token], at: int, joints: Collection[str]) -> bool:
    """Return whether a word is behind a preposition, a determiner or a comma."""
    before = line[at - 1] if at else line[at]
    return before.text.casefold() in joints or before.start + len(before.text) + 1 < line[at].start


def _states(
    line: Sequence[Token],
    said: Sequence[Token],
    spans: Sequence[tuple[int, int]],
    kinds: Collection[str],
) -> bool:
    """Return whether a line has all words of a question, its operators before the same ones.

    "The fir is the tallest tree." states which tree is the tallest, "The fir has the tallest top."
    does not. Numbers, and operators of function words alone ("not"), are never stated.

    `spans`: those of the operators in the question; `kinds`: the stems that may be behind one.
    """
    asked = {one.stem for one in said if one.says}
    operators = [[one for one in said if one.says and a <= one.start < b] for a, b in spans]
    if any(one.number for one in said) or not all(operators):
        return False
    stated = {(one.stem, one.behind) for one in line}
    return asked <= {stem for stem, _ in stated} and all(
        any(
            (one.stem, behind) in stated
            for behind in ("", *([one.behind] if one.behind else kinds))
        )
        for one in chain.from_iterable(operators)
    )


def _has_operated(text: str, words: Sequence[Token], operators: Sequence[regex.Match[str]]) -> bool:
    """Return whether a text has a question's operators before the same words: "without a bed"."""
    if any(word.number for word in words):  # "the second tallest"
        return False
    for match in operators:
        behind = next((word.text for word in words if word.start >= match.end() and word.says), "")
        phrase = rf"\b{regex.escape(match[0].strip())}\s+(?:\w+\s+)?{regex.escape(behind)}"
        if not behind or not regex.search(phrase, text, regex.IGNORECASE):
            return False
    return True


def _in_order(said: Sequence[Token], lines: Mapping[int, Sequence[Token]]) -> tuple[int, ...]:
    """Return the members as they are handed over, so that few of them are enough to compare.

    First are those with the nearest numbers to one in the question, below and above it in turn; if
    it has none, the extremes. Which of them fits is not decided.
    """
    asked = [one for one in said if one.number]
    words = {stem for one in asked for stem in (one.before, one.behind)}
    words |= {one.stem for one in said if one.says}
    values = {at: _values(line, words - {"", NUMBER}) for at, line in lines.items()}
    if not all(values.values()):
        return (*lines,)
    middle = sum(map(sum, values.values())) / sum(map(len, values.values()))
    target = _value(asked[0].number) if asked else middle
    sides: tuple[list[tuple[float, int]], list[tuple[float, int]]] = [], []
    for at, own in values.items():
        nearest = min(own, key=lambda value: abs(value - target))
        sides[nearest > target].append((abs(nearest - target), at))
    turns = zip_longest(*(sorted(side, reverse=not asked) for side in sides))
    return tuple(one[1] for turn in turns for one in turn if one is not None)


def _values(line: Sequence[Token], words: Collection[str]) -> list[float]:
    """Return the numbers of a line beside one of some words, or else all that it has."""
    numbers = [one for one in line if one.number]
    beside = [one for one in numbers if not {one.before, one.behind}.isdisjoint(words)]
    return [_value(one.number) for one in beside or numbers]


def _value(number: str) -> float:
    """Return the value of a number, a time or the beginning of a version."""
    whole, _, rest = number.replace(":", ".").replace(",", ".").partition(".")
    return float(f"{whole}.{rest.partition('.')[0]}0")


def _is_bound(one: Token, phrases: Sequence[regex.Match[str]], every: Sequence[Token]) -> bool:
    """Return whether a number is behind "more than", which no member has before it."""
    if not any(phrase.end() <= one.start for phrase in phrases):
        return False
    return (one.number, one.follows) not in [(other.number, other.follows) for other in every]


def _is_same(one: Token, other: Token) -> bool:
    """Return whether numbers are the same beside the same word: 12 kilos are not 12 euros."""
    if not f"{other.number}.".startswith(f"{one.number}."):  # version 2 is 2.0, too
        return False
    asked, stated = ({word.before, word.behind} - {""} for word in (one, other))
    beside = any(a.startswith(b) or b.startswith(a) for a in asked for b in stated)  # "g", "grams"
    sides = (one.before, other.before), (one.behind, other.behind)  # "the second zone"
    return beside or not any(own and theirs for own, theirs in sides)


def _takes_a_place(one: Token, said: Sequence[Token], every: Sequence[Token]) -> bool:
    """Return whether the word before a name is not what members have before it: "Clara Moss"."""
    places = {other.before for other in every if other.stem == one.stem} - {""}
    asked = {other.stem for other in said}
    return bool(places) and places.isdisjoint(asked) and one.before not in ("", NUMBER)


def _may_be_form(one: Token, line: Sequence[Token]) -> bool:
    """Return whether a word may be another form of one in a line, by its letters.

    These are the initials of several ("HR"), the beginning of one, or all of its consonants:
    "gray" and "grey", but not "methanol" and "ethanol".
    """
    word, others = one.text.casefold(), [other.text.casefold() for other in line if other.says]
    initials = "".join([other[0] for other in others])
    if one.number or not word.isalpha():
        return False
    if one.text.isupper() and len(word) > 1:
        return word in initials or any(_abbreviates(word, other) for other in others)
    return any(
        consonants(word) == consonants(other)
        or _abbreviates(word, other)
        or _abbreviates(other, word)  # "southern"
        for other in others
    )


def _abbreviates(short: str, long: str) -> bool:
    """Return whether a word begins with another, but for an ending."""
    return (
        len(short) >= _ABBREVIATED
        and len(long) - len(short) >= _ABBREVIATED - 1
        and long.startswith(short)
    )


@lru_cache(4096)
def consonants(word: str) -> str:
    """Return the consonants of a word in Latin letters, each once; a short one is kept whole."""
    plain = writing.without_accents(word)
    return letters_once(_VOWELS.sub("", plain)) if len(plain) > _ABBREVIATED else word


@lru_cache(512)
def letters_once(text: str) -> str:
    """Return a text with each letter of a double one once, as names are often mistyped.

    Examples
    --------
    >>> letters_once("Seattle"), letters_once("AAchen in 1100")
    ('Seatle', 'Achen in 1100')
    """
    return str(_DOUBLED.sub(r"\1", text))


@cache
def _operator(key: Literal["phrases", "wh"], language: str) -> regex.Pattern[str]:
    """Return the expression of what excludes or compares, or asks with the noun behind it."""
    either = any_of(listed(key, language, "operators")) or "(?!)"
    if key == "wh":
        return regex.compile(rf"(?:{either})(?:\s+\p{{Latin}}*+(?![\p{{N}}'’]))?", regex.IGNORECASE)
    either = either.replace(r"\s+\#", _BEFORE_NUMBER).replace("…", _SOME_WORDS)
    # The number is defined once: forty times take 60 ms to compile.
    return regex.compile(
        rf"(?(DEFINE)(?P<number>{writing.NUMERALS}))(?:{either})", regex.IGNORECASE
    )
