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
from itertools import chain, pairwise, product, repeat, zip_longest
from typing import Literal, NamedTuple

import regex

from uec_rag.base.logistic import EVEN, NEARLY
from uec_rag.base.records import remembered
from uec_rag.base.text import LONGEST_ASKED, is_statement
from uec_rag.encoders import notations
from uec_rag.encoders.lexical import stem_of
from uec_rag.encoders.notations import in_one_form
from uec_rag.questions.languages import ENGLISH, OR, any_of, function_words, joints, listed, matcher

NUMBER = "#"
"""The stem of any number."""

# What a line of a list begins with: "1)", "[a]", "#3".
_OF_LIST = regex.compile(r"[\W_]*\d*[\W_]*|[\W_]*\w++[)\]>\uff09\u3011]\s*")
_LONGEST_MARK = 12
_LONGEST_WORD = 100  # that is remembered
_WORD = regex.compile(
    r"(?<!\p{L})[vV]?\p{Nd}+(?:[.,:h]\p{Nd}+)*|\p{Han}"
    r"|(?!(?<=\p{L}['’])s\b)[[\p{L}\p{M}_]--[\p{Han}]][[\p{L}\p{M}\p{N}_]--[\p{Han}]]*",
    regex.VERSION1,
)
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\s'’-]")

_ASKING = frozenset(
    ["Is", "Are", "Was", "Were", "Do", "Does", "Did", "Has", "Have", "Should", "Would", "Could"]
)
_FEWEST, _FEWEST_OF_STATEMENTS = 3, 2  # members; where all that is read are statements
_ABBREVIATED = 3  # letters of an abbreviation
_BEFORE_NUMBER = r"(?=\W++(?:\p{L}++\W++)?+(?&number))"  # "after 6", "over the 6"
_SOME_WORDS = r"(?:\p{L}++\W++){1,3}?"  # "how many … are there"
_VOWELS = regex.compile("[aeiouy]")
_DOUBLED = regex.compile(r"(\p{L})\1+", regex.IGNORECASE)


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


@remembered(20_000)
def tokens_of(text: str, language: str) -> tuple[Token, ...]:
    """Split a text into its words and numbers; of a date, one number.

    Examples
    --------
    >>> [(token.stem, token.says) for token in tokens_of("It costs 12 euros", "en")]
    [('it', False), ('cost', True), ('#', True), ('euro', True)]
    """
    text = notations.number_dates(in_one_form(text))
    without, rows = function_words(language), list[tuple[str, str, str, bool, int]]()
    matches, is_title = [*_WORD.finditer(text)], is_in_title_case(text)
    for match in matches:
        word, start = match[0], match.start()
        if word[:1] in "vV" and word[1:2].isdecimal():
            word = word[1:]
        reader = _read if len(word) < _LONGEST_WORD else _read.__wrapped__
        number, stem = reader(word, language)
        begins = start < 2 or text[start - 2] in ".?!:"
        begins |= start < _LONGEST_MARK and _OF_LIST.fullmatch(text[:start]) is not None
        folded = word.casefold()
        # "in May", "IT", "size M", but not "Ms"
        # "exit I", but not "can I"
        is_pronoun = word == "I" and not (rows and rows[-1][3])
        is_name = word[:1].isupper() and not (begins or is_title or is_pronoun)
        is_name |= len(word) > 1 and word.isupper()
        rows.append((word, stem, number, bool(number) or folded not in without or is_name, start))
    telling = [stem if says else "" for _, stem, _, says, _ in rows]
    follows, before, behind = ([""] * len(rows) for _ in range(3))
    for at, (match, following) in enumerate(pairwise(matches)):
        if match.end() + 1 >= following.start():
            follows[at + 1], before[at + 1], behind[at] = rows[at][1], telling[at], telling[at + 1]
    neighbours = zip(follows, before, behind, strict=True)
    return tuple([Token(*row, *of_row) for row, of_row in zip(rows, neighbours, strict=True)])


@remembered(50_000)
def is_in_title_case(text: str) -> bool:
    """Return whether capitals say nothing of the words of a text, as in a title.

    All of its words have one, three at least, or an English verb that asks has one inside.

    Examples
    --------
    >>> is_in_title_case("What Is the Price of Shipping?"), is_in_title_case("Who is in The Who?")
    (True, False)
    """
    words = [word for word in text.split() if word[:1].isalpha()]
    has_verb = not _ASKING.isdisjoint(words[1:])
    is_alike = len(words) > _FEWEST and all(word[0].isupper() for word in words)
    return has_verb or is_alike


@lru_cache(2**12)
def _read(word: str, language: str) -> tuple[str, str]:
    """Return the number that a word is, or "", and its stem."""
    number = notations.numeral_of(word)
    return number, NUMBER if number else stem_of(word, language)


class Family(NamedTuple):
    """Hits alike that a question does not tell apart.

    Attributes
    ----------
    members : tuple of int
        Their places among the hits, in the order in which they are handed over.
    missing : tuple of str
        The words of the question that none of them has.
    operates : bool
        Whether the question excludes or compares, has a name beside part of another, or values that
        none of them has together.
    is_vague : bool
        Whether it does neither, nor names another thing in the place of those of the members.
    resembles : bool
        Whether the first alone has a word that a missing one may be a form of.
    """

    members: tuple[int, ...]
    missing: tuple[str, ...] = ()
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
    Family(members=(0, 1, 2), missing=('lamp',), operates=False, is_vague=False, resembles=False)
    >>> family_of("What costs more than 6 euros?", texts).operates
    True
    >>> family_of("What does the sofa cost?", texts), family_of("What costs 6 euros?", texts)
    (None, None)
    """
    # Long passages, as most are, have no family.
    if not texts or not is_statement(texts[0]) or len(question) > LONGEST_ASKED:
        return None
    question = in_one_form(question)  # as `tokens_of` does
    short = [text if is_statement(text) else "" for text in texts]
    lines = [*map(tokens_of, short, repeat(language))]
    bags = [frozenset([word.stem for word in line]) for line in lines]
    minimum = _FEWEST_OF_STATEMENTS if are_statements(texts) else _FEWEST
    sizes = [max(len(bags[0]), len(bag), _FEWEST) for bag in bags]
    alike = [len(bags[0] & bag) >= EVEN * of for bag, of in zip(bags, sizes, strict=True)]
    members = tuple([at for at, is_alike in enumerate(alike) if is_alike])
    if len(members) < minimum:
        return None
    # In "if it does not fit", nothing excludes.
    asks = matcher("conditions", language, "operators").split(question, 1)[0]
    operators = [*_operator("phrases", language).finditer(asks, overlapped=True)]
    whole = question  # of "which plant", the family may be some
    question = _operator("wh", language).sub(lambda of: " " * len(of[0]), question)
    counts = Counter([stem for at in members for stem in bags[at]])
    tokens = [word for at in members for word in lines[at]]
    words = tokens_of(question, language)
    spans = [match.span() for match in operators]
    rare = range(1, max(1, len(members) // 4) + 1)
    is_named, is_other, names_other, missing = False, False, False, list[Token]()
    for word in words:
        if word.number:
            if _is_bound(word, operators, tokens):
                continue
            is_there = any(_is_same(word, token) for token in tokens if token.number)
            is_named |= is_there
        elif word.says and not any(begin <= word.start < end for begin, end in spans):
            is_there = counts[word.stem] > 0
            replaces = counts[word.before] in (0, *rare) and _takes_a_place(word, words, tokens)
            is_named |= counts[word.stem] in rare
            is_other |= replaces
            names_other |= replaces and counts[word.stem] in rare
        else:
            continue
        if not is_there:
            missing.append(word)
            rivals = [token for token in tokens if word.follows == token.follows != ""]
            is_other |= bool(word.number) or sum(counts[rival.stem] in rare for rival in rivals) > 1
    kinds = {word.stem for word in tokens_of(whole, language)} if operators else set[str]()
    stating = [at for at in members if operators and _states(lines[at], words, spans, kinds)]
    operated = [at for at in members if operators and _has_operated(texts[at], words, operators)]
    is_named |= [0] in (stating[:1] if len(stating) in rare else [], operated)
    of_members = [bags[at] for at in members]
    is_apart = not (operators or _are_together(words, of_members, counts, question, language))
    if not (names_other or is_apart) and (is_named or not (missing or operators)):
        return None
    forms = [any(_may_be_form(word, lines[at]) for word in missing) for at in members]
    return Family(
        _in_order(words, {at: lines[at] for at in members}) if operators else members,
        tuple([word.text for word in missing]),
        operates=bool(operators) or names_other or is_apart,
        is_vague=not (operators or is_other or is_apart),
        resembles=forms[0] and not any(forms[1:]),
    )


def _are_together(
    words: Sequence[Token],
    bags: Sequence[frozenset[str]],
    counts: Mapping[str, int],
    question: str,
    language: str,
) -> bool:
    """Return whether one member has all the words of a question by which members differ.

    A red shirt in size M is not among a blue one in M and a red one in L. Of what an "or" joins, no
    member needs to have both.
    """
    telling = {word.stem for word in words if word.says and 0 < counts[word.stem] < len(bags)}
    return OR[language] in question or any(telling <= bag for bag in bags)


def are_statements(texts: Sequence[str]) -> bool:
    """Return whether nearly all of some texts are short, as those of a list of rules or prices.

    In manuals, a few of the texts that a question finds are.
    """
    short = sum(map(is_statement, texts))
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
    things = dict[int, tuple[Token, ...]]()
    for at, text in enumerate(texts):
        line = tokens_of(text, language) if is_statement(text) else ()
        if all(_are_of_two(line, thing, joints(language)) for thing in things.values()):
            things[at] = line
    return tuple(things) if len(things) > 1 else ()


def _are_of_two(fact: Sequence[Token], rival: Sequence[Token], joints: Collection[str]) -> bool:
    """Return whether two statements differ in what they are about and in what they say of it."""
    keys = [word.number or word.stem for word in fact], [word.number or word.stem for word in rival]
    agreement, names, differences, is_joined = 0, 0, 0, False
    for kind, begin, end, start, stop in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        places, rivals = (
            [at for at in range(*span) if line[at].says]
            for line, span in ((fact, (begin, end)), (rival, (start, stop)))
        )
        if kind == "equal":
            agreement += len(places)
            is_joined &= all(word.text.casefold() in joints for word in fact[begin:end])
        elif places and rivals:
            sides = (fact, places), (rival, rivals)
            is_value = all(any(line[at].number for at in side) for line, side in sides)
            if is_value or not is_joined:  # "a book on snow" is one thing
                names_it = _adds(fact, places[0], joints) and _adds(rival, rivals[0], joints)
                names, differences = names + (names_it and not is_value), differences + 1
            is_joined = not is_value
    size = max(sum(word.says for word in line) for line in (fact, rival))
    return names > 0 and differences > 1 and agreement >= EVEN * size


def _adds(line: Sequence[Token], at: int, joints: Collection[str]) -> bool:
    """Return whether a word is behind a preposition, a determiner or a comma."""
    before = line[at - 1] if at else line[at]
    return before.text.casefold() in joints or before.start + len(before.text) + 1 < line[at].start


def _states(
    line: Sequence[Token],
    words: Sequence[Token],
    spans: Sequence[tuple[int, int]],
    kinds: Collection[str],
) -> bool:
    """Return whether a line has all words of a question, its operators before the same ones.

    "The fir is the tallest tree." states which tree is the tallest, "The fir has the tallest top."
    does not. Numbers, and operators of function words alone ("not"), are never stated.

    `spans`: those of the operators in the question; `kinds`: the stems that may be behind one.
    """
    stems = {word.stem for word in words if word.says}
    operators = [[word for word in words if word.says and a <= word.start < b] for a, b in spans]
    if any(word.number for word in words) or not all(operators):
        return False
    stated = {(word.stem, word.behind) for word in line}
    return stems <= {stem for stem, _ in stated} and all(
        any(
            (word.stem, behind) in stated
            for behind in ("", *([word.behind] if word.behind else kinds))
        )
        for word in chain.from_iterable(operators)
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


def _in_order(words: Sequence[Token], lines: Mapping[int, Sequence[Token]]) -> tuple[int, ...]:
    """Return the members as they are handed over, so that few of them are enough to compare.

    First are those with the nearest numbers to one in the question, below and above it in turn; if
    it has none, the extremes. Which of them fits is not decided.
    """
    numbers = [token for token in words if token.number]
    stems = {stem for token in numbers for stem in (token.before, token.behind)}
    stems |= {token.stem for token in words if token.says}
    values = {at: _values(line, stems - {"", NUMBER}) for at, line in lines.items()}
    if not all(values.values()):
        return (*lines,)
    middle = sum(map(sum, values.values())) / sum(map(len, values.values()))
    target = _value(numbers[0].number) if numbers else middle
    sides: tuple[list[tuple[float, int]], list[tuple[float, int]]] = [], []
    for at, numerals in values.items():
        nearest = min(numerals, key=lambda value: abs(value - target))
        sides[nearest > target].append((abs(nearest - target), at))
    turns = zip_longest(*(sorted(side, reverse=not numbers) for side in sides))
    return tuple(place[1] for turn in turns for place in turn if place is not None)


def _values(line: Sequence[Token], words: Collection[str]) -> list[float]:
    """Return the numbers of a line beside one of some words, or else all that it has."""
    numbers = [token for token in line if token.number]
    measures = [token for token in numbers if not {token.before, token.behind}.isdisjoint(words)]
    return [_value(token.number) for token in measures or numbers]


def _value(number: str) -> float:
    """Return the value of a number, a time or the beginning of a version."""
    whole, _, tail = number.replace(":", ".").replace(",", ".").partition(".")
    return float(f"{whole}.{tail.partition('.')[0]}0")


def _is_bound(word: Token, phrases: Sequence[regex.Match[str]], line: Sequence[Token]) -> bool:
    """Return whether a number is behind "more than", which no member has before it."""
    if not any(phrase.end() <= word.start for phrase in phrases):
        return False
    return (word.number, word.follows) not in [(token.number, token.follows) for token in line]


def _is_same(token: Token, rival: Token) -> bool:
    """Return whether numbers are the same beside the same word: 12 kilos are not 12 euros."""
    if not f"{rival.number}.".startswith(f"{token.number}."):  # version 2 is 2.0, too
        return False
    units = ({word.before, word.behind} - {""} for word in (token, rival))
    is_beside = any(a.startswith(b) or b.startswith(a) for a, b in product(*units))  # "g", "grams"
    sides = (token.before, rival.before), (token.behind, rival.behind)  # "the second zone"
    return is_beside or not any(label and rival_label for label, rival_label in sides)


def _takes_a_place(word: Token, words: Sequence[Token], line: Sequence[Token]) -> bool:
    """Return whether the word before a name is not what members have before it: "Clara Moss"."""
    places = {token.before for token in line if token.stem == word.stem} - {""}
    stems = {token.stem for token in words}
    return bool(places) and places.isdisjoint(stems) and word.before not in ("", NUMBER)


def _may_be_form(token: Token, line: Sequence[Token]) -> bool:
    """Return whether a word may be another form of one in a line, by its letters.

    These are the initials of several ("HR"), the beginning of one, or all of its consonants:
    "gray" and "grey", but not "methanol" and "ethanol".
    """
    word, rivals = token.text.casefold(), [rival.text.casefold() for rival in line if rival.says]
    initials = "".join([rival[0] for rival in rivals])
    if token.number or not word.isalpha():
        return False
    if token.text.isupper() and len(word) > 1:
        return word in initials or any(_abbreviates(word, rival) for rival in rivals)
    return any(
        consonants(word) == consonants(rival)
        or _abbreviates(word, rival)
        or _abbreviates(rival, word)  # "southern"
        for rival in rivals
    )


def _abbreviates(short: str, long: str) -> bool:
    """Return whether a word begins with another, but for an ending."""
    return (
        len(short) >= _ABBREVIATED
        and len(long) - len(short) >= _ABBREVIATED - 1
        and long.startswith(short)
    )


@remembered(50_000)
def consonants(word: str) -> str:
    """Return the consonants of a word in Latin letters, each once; a short one is kept whole."""
    plain = notations.without_accents(word)
    return letters_once(_VOWELS.sub("", plain)) if len(plain) > _ABBREVIATED else word


@remembered(20_000)
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
    terms = any_of(listed(key, language, "operators")) or "(?!)"
    if key == "wh":
        return regex.compile(rf"(?:{terms})(?:\s+\p{{Latin}}*+(?![\p{{N}}'’]))?", regex.IGNORECASE)
    terms = terms.replace(r"\s+\#", _BEFORE_NUMBER).replace("…", _SOME_WORDS)
    # The number is defined once: forty times take 60 ms to compile.
    return regex.compile(
        rf"(?(DEFINE)(?P<number>{notations.NUMERALS}))(?:{terms})", regex.IGNORECASE
    )
