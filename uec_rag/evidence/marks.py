"""Marks of a text: all that may be a name or a part of one, each kind found once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from operator import itemgetter
from string import digits
from weakref import WeakValueDictionary

import regex

from uec_rag.base.records import cached_property, remembered
from uec_rag.base.text import FUNCTION_WORDS, SPACELESS, is_abbreviation
from uec_rag.encoders import lexical
from uec_rag.encoders.notations import in_one_form
from uec_rag.evidence.family import Token, tokens_of
from uec_rag.questions.languages import ENGLISH, MONTHS, split_phrases, tables

_ENDS = tuple(".!?:")
POSSESSIVE = regex.compile(r"['’]s\Z")
# A word, a number or a code, with what a sign makes of a letter; scripts without spaces part them.
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--{SPACELESS}]"
_TOKEN = regex.compile(rf"(?V1){_LETTER}++(?:[.'’-]{_LETTER}++)*+(?:\+\+|[#+](?!\w))?")
SIGNED = regex.compile(r"\p{L}++[#+]++")
CODE = regex.compile(  # which looks no further ahead than a code is long
    r"(?=[\p{L}-]{0,60}+\d)(?=[\d-]{0,60}+\p{L})(?!\d++(?:st|nd|rd|th|s|er|re|e|h)\Z)[\p{L}\d-]++"
)
_AROUND_CODE = regex.compile(r"[-_]|(?<=\d)s\Z|\A[vV](?=\d)")
VERSION = regex.compile(r"\d++(?:\.\d++)*")
_HAN_MONTH = regex.compile(r"(\d{1,2}|十?[一二三四五六七八九十])[月월](?!\d)")
_HAN_NUMBERS = "一二三四五六七八九十"
# Of who or what is from a country, by its endings and otherwise.
_ENDINGS = "ian", "ean", "an", "ish", "ese", "ic", "i", "n", "y"
_OF_COUNTRIES = frozenset(
    split_phrases(
        """
dane denmark, danish denmark, dutch netherlands, english england, finn finland, finnish finland,
french france, greek greece, irish ireland, pole poland, polish poland, scot scotland, scottish
scotland, spaniard spain, spaniard spanish, swiss switzerland, thai thailand, welsh wales"""
    )
)
FEWEST = 4
"""The letters of a name that another word may be a form of."""

_MOST_INITIALS = 6


class Marks:
    """All of a text that may be a name or a part of one, each kind found once."""

    def __init__(self, text: str) -> None:
        self.text, self._by_language = text, dict[str, tuple[Token, ...]]()

    @cached_property
    def tokens(self) -> list[regex.Match[str]]:
        """The words, numbers and codes, with where they are."""
        return [*_TOKEN.finditer(self.text)]

    @cached_property
    def words(self) -> list[str]:
        """The words, numbers and codes."""
        return [match[0] for match in self.tokens]

    def tokens_in(self, language: str) -> tuple[Token, ...]:
        """Return what `tokens_of` does, once for each language."""
        if (tokens := self._by_language.get(language)) is None:
            tokens = self._by_language[language] = tokens_of(self.text, language)
        return tokens

    @cached_property
    def parts(self) -> frozenset[str]:
        """The words and their parts among which `has_all_words` looks."""
        return lexical.parts_in(self.text)

    @cached_property
    def in_one_form(self) -> Marks:
        """The marks of the text with one form of each value."""
        return marks_of(in_one_form(self.text))

    @cached_property
    def capitalised(self) -> frozenset[str]:
        """The words with a capital."""
        return frozenset([POSSESSIVE.sub("", word) for word in self.words if word[0].isupper()])

    @cached_property
    def names(self) -> frozenset[str]:
        """The words that may be names, by their capitals; the first is no plural."""
        return frozenset(
            match[0]
            for match in self.tokens
            if match[0][0].isupper()
            and not self.text[: match.start()].rstrip().endswith((*_ENDS, *digits))
            and (
                match.start() or not (match[0][-1] == "s" or match[0].casefold() in FUNCTION_WORDS)
            )
        )

    @cached_property
    def codes(self) -> frozenset[str]:
        """The words, and each two in a row, without what parts them."""
        codes = [*map(plain_code, self.words)]
        return frozenset(codes) | {a + b for a, b in pairwise(codes)}

    @cached_property
    def signs(self) -> frozenset[str]:
        """The words with a sign, and the single letters, in small letters."""
        folded = map(str.casefold, self.words)
        return frozenset([word for word in folded if len(word) == 1 or SIGNED.fullmatch(word)])

    @cached_property
    def initials(self) -> dict[str, tuple[str, ...]]:
        """The initials of names of several words, with these."""
        runs, run = list[list[str]](), list[str]()
        for match in self.tokens:
            word = match[0]
            if word[0].isupper():
                run.append(word)
            elif word not in ("of", "and", "for", "the", "de", "der", "des", "für", "und"):
                runs.append(run)
                run = []
        rows = dict[str, tuple[str, ...]]()
        for names in [*runs, run]:
            for start in range(len(names)):
                for end in range(start + 2, min(len(names), start + _MOST_INITIALS) + 1):
                    part = names[start:end]
                    rows["".join([name[0] for name in part])] = tuple(part)
        return rows

    @cached_property
    def _compact(self) -> str:
        """Its letters and digits, in small letters."""
        return "".join(filter(str.isalnum, self.text.casefold()))

    def writes(self, name: str) -> bool:
        """Return whether the text has a name in another style, or as the initials of others.

        Examples
        --------
        >>> [Marks(text).writes("openStream") for text in ("open_stream()", "Open Streams")]
        [True, False]
        """
        if name in self.initials:
            return True
        stem = name[:-1] if name[-1] == "s" and is_abbreviation(name[:-1]) else name
        letters = [*filter(str.isalnum, stem.casefold())]
        if "".join(letters) not in self._compact or (len(letters) < FEWEST and stem == name):
            return False
        style = r"[\W_]?".join(map(regex.escape, letters))
        return regex.search(rf"(?<![^\W_]){style}(?![^\W_])", self.text, regex.I) is not None

    def counts(self, short: str, number: str) -> bool:
        """Return whether what a word is short for stands before a number: "Article 6" of "Art. 6".

        Examples
        --------
        >>> [Marks("See figures, in Figure 4.").counts("Fig", number) for number in "34"]
        [False, True]
        """
        return any(
            number == tail and abbreviates(short.casefold(), head.casefold())
            for head, tail in pairwise(self.words)
        )

    def uses(self, head: str, language: str) -> list[tuple[str, str, bool]]:
        """Return the numbers behind a word, what follows each, and whether it is a name."""
        return [
            (number[0], self.text[number.end() : number.end() + 40], before[0][0].isupper())
            for before, number in self._numbered
            if lexical.stem_of(before[0], language) == head
        ]

    @cached_property
    def _numbered(self) -> list[tuple[regex.Match[str], regex.Match[str]]]:
        """The numbers directly behind a word, with it."""
        return [
            (before, number)
            for before, number in pairwise(self.tokens)
            if number.start() - before.end() == 1 and VERSION.fullmatch(number[0])
        ]

    def calendar(self, language: str, kind: str) -> list[tuple[int, int, int]]:
        """Return the months or days that are named: the number of each from 0, and where it is."""
        places, numbers = list[tuple[int, int, int]](), calendar_of(kind)
        for match in self.tokens:
            word = match[0].casefold()
            number = numbers.get(word, numbers.get(word.removesuffix("s")))
            # "may", "march", "mars"
            is_name = language != ENGLISH or (match[0][0].isupper() and match.start() > 0)
            if number is not None and (is_name or kind == "days"):
                places.append((number, *match.span()))
        if kind == "months" and not self.text.isascii():
            for match in _HAN_MONTH.finditer(self.text):
                numeral = match[1]
                if not numeral.isdigit():
                    numeral = str(sum(_HAN_NUMBERS.index(sign) + 1 for sign in numeral))
                places.append((int(numeral) - 1, *match.span()))
        return sorted(places, key=itemgetter(1))


_shared = WeakValueDictionary[str, Marks]()


@remembered(20_000)
def marks_of(text: str) -> Marks:
    """Return the marks of a text, which all phrasings of a question share while one has them."""
    if (marks := _shared.get(text)) is None:
        marks = _shared[text] = Marks(text)
    return marks


def plain_code(code: str) -> str:
    """Return a code without what parts it, in the singular, and a version without its "v"."""
    return str(_AROUND_CODE.sub("", code)).casefold()


@cache
def calendar_of(kind: str) -> Mapping[str, int]:
    """Return the numbers of months or days from 0, by their full names in all languages."""
    if kind == "months":  # without short ones, which are other words, too
        full = {name: number for name, number in MONTHS.items() if len(name) > FEWEST - 1}
        return {name: number - 1 for name, number in full.items()} | {"may": 4, "mai": 4}
    names = dict[str, int]()
    for table in tables().values():
        days = split_phrases(table.get("calendar", {}).get("days", ""))
        names |= {forms.split()[0]: number for number, forms in enumerate(days)}
    return names


@cache
def calendar_words() -> frozenset[str]:
    """Return the full names of months and days in all languages, in small letters."""
    names = frozenset(calendar_of("months")) | frozenset(calendar_of("days"))
    return names | {f"{name}s" for name in names}


def abbreviates(short: str, word: str) -> bool:
    """Return whether a word begins with a short one, or this is a contraction of it."""
    return word.startswith(short) or short in contractions(word)


def contractions(word: str) -> set[str]:
    """Return the contractions of a word: its first and last letter, and one inside between them.

    Examples
    --------
    >>> sorted(contractions("saint"))
    ['sat', 'sit', 'snt', 'st']
    """
    inside = {""} if len(word) < FEWEST + 1 else {"", *word[1:-1]}
    pairs = (f"{word[0]}{letter}{word[-1]}" for letter in inside if len(word) >= FEWEST)
    return {short for short in pairs if short.isalpha()}


def is_form(word: str, name: str) -> bool:
    """Return whether a word is a form of a name, as who or what is from a country.

    Examples
    --------
    >>> [is_form(*pair) for pair in (("norwegian", "norway"), ("spain", "spanish"))]
    [True, True]
    >>> [is_form(*pair) for pair in (("nigeria", "niger"), ("australian", "austria"))]
    [False, False]
    """
    forms = [(word, name), (word.removesuffix("s"), name.removesuffix("s"))]
    if any(f"{a} {b}" in _OF_COUNTRIES or f"{b} {a}" in _OF_COUNTRIES for a, b in forms):
        return True
    name, word = sorted(forms[1], key=len)
    if word == name or word[:1] != name[:1]:
        return word == name
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= FEWEST:
            root = name.replace("way", "weg")
            if root.startswith(stem) or _consonants(stem) == _consonants(root):
                return True
    return False


def _consonants(word: str) -> str:
    return word[:1] + regex.sub("[aeiouy]", "", word[1:])
