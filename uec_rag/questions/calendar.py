"""Days and months by their short names, where these are meant: "Sat" is Saturday, but he sat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import regex

from uec_rag.base.text import LONGEST_ASKED, WORD
from uec_rag.questions.languages import (
    ENGLISH,
    language_of,
    languages_of_words,
    listed,
    split_phrases,
    tables,
)

_NEAR, _APART = 12, 3  # characters and words that are looked at beside a short name
_SMALL = 2  # letters of names that no comma joins without a capital
_MARKS = frozenset("-–—/&+|,")
_JOINT = regex.compile(r"\.?\s?([-–—/&+|,]|\p{L}+)\s?(\p{L}+\s)?")


def _words(key: str) -> str:
    """Return an expression of the words under a key in the tables of all languages."""
    return f"(?:{'|'.join(map(regex.escape, listed(key, table='calendar')))})"


_NUMBER = regex.compile(rf"\.?\s?[,:|]?\s?(?:{_words('before_hours')}\s)?\d", regex.IGNORECASE)
_PART_OF_DAY = regex.compile(rf"\s{_words('parts_of_day')}s?\b", regex.IGNORECASE)
_BEFORE_ITEM = tuple(",;|(\n")  # of a list that has other days
_FIELD, _FIELD_END = regex.compile(r"[:|]\s?\Z"), regex.compile(r"\s?(?:[|,;\n]|\Z)")
_HOURS = regex.compile(
    rf"{_NUMBER.pattern}\d?(?:[:.h]\d\d)?\s?(?:[-–—/]|{_words('joins_hours')}\b)", regex.IGNORECASE
)
_DAY_OF_MONTH = regex.compile(r"\d(?:st|nd|rd|th|\.|º)?\s?(?:of |de )?\Z")
_ENDS, _OPENS = tuple(".!?:\n"), " \t\"'“„«(*_>"  # of a sentence; what one begins with
_GLUED = tuple("/@.#-")  # before a part of an address
_END = regex.compile(r"\s*(?:[?.!,;)]|\Z)")


class _Calendar(NamedTuple):
    """The days and months of a language, and what stands around their short names.

    Attributes
    ----------
    full : mapping of str to str
        The full names by their short ones, in small letters.
    names : sets of str
        All names of months, and of days.
    sure, inside : sets of str
        The short names that are no other words, at all or with a capital inside a sentence.
    before_day, before_month, before_end : sets of str
        The words before a short name with a capital, and before a day that ends a clause.
    joints : set of str
        The words and marks between two names.
    """

    full: Mapping[str, str]
    names: tuple[frozenset[str], frozenset[str]]
    sure: frozenset[str]
    inside: frozenset[str]
    before_day: frozenset[str]
    before_month: frozenset[str]
    before_end: frozenset[str]
    joints: frozenset[str]

    @classmethod
    def from_table(cls, table: Mapping[str, str]) -> _Calendar:
        days, months = ([*map(str.split, split_phrases(table[key]))] for key in ("days", "months"))
        full = {short: names[0] for names in [*days, *months] for short in names[1:]}
        of_days, of_months = (frozenset(chain.from_iterable(names)) for names in (days, months))
        keys = ("sure", "inside", "before_day", "before_month", "before_end", "joints")
        sets = {key: frozenset(table.get(key, "").split()) for key in keys}
        sets["joints"] |= _MARKS
        return cls(full, (of_months, of_days), **sets)

    def joins(self, text: str, tokens: Sequence[regex.Match[str]], at: int) -> bool:
        """Return whether a short name stands beside another name of the calendar."""
        word = tokens[at][0]
        alike, has_capital = self.names[word.casefold() in self.names[1]], word[0].isupper()
        for place in range(max(at - _APART, 0), min(at + _APART + 1, len(tokens))):
            neighbor = tokens[place][0]
            if place == at or neighbor.casefold() not in alike:
                continue
            start, end = min(at, place), max(at, place)
            joint = _JOINT.fullmatch(text, tokens[start].end(), tokens[end].start())
            if (
                joint
                and joint[1].casefold() in self.joints
                and (joint[2] or "").strip().casefold() in ("", *self.before_day)
                and has_capital == neighbor[0].isupper()
            ):
                return has_capital or len(word) > _SMALL or joint[1] != ","
        return False

    def reads(self, text: str, tokens: Sequence[regex.Match[str]], at: int) -> bool:
        """Return whether a short name in a text is meant as one."""
        word, (start, end) = tokens[at][0], tokens[at].span()
        folded, has_capital = word.casefold(), word[0].isupper()
        is_day, is_plain = folded in self.names[1], folded in self.sure or folded in self.inside
        behind = tokens[at + 1][0] if at + 1 < len(tokens) and text[end : end + 1] == " " else ""
        is_dated = is_day and behind[:1].isupper() and behind.casefold() in self.names[0]
        if is_dated or self.joins(text, tokens, at):
            return True
        former = text[max(start - _NEAR, 0) : start].rstrip(_OPENS)
        begins = not former or former.endswith(_ENDS)
        if has_capital or is_plain:
            number = (_HOURS if is_day and begins else _NUMBER).match(text, end)
            if number or (not is_day and _DAY_OF_MONTH.search(text, max(start - _NEAR, 0), start)):
                return True
        if is_day and _PART_OF_DAY.match(text, end):
            return True
        is_value = _FIELD.search(text, max(start - _NEAR, 0), start) is not None
        if has_capital and is_value and _FIELD_END.match(text, end):
            return True
        if len(word) > 1 and word.isupper():
            return False
        before = tokens[at - 1][0].casefold() if at else ""
        if folded in self.sure and (former.endswith(_GLUED) or text.startswith("-", end)):
            return False
        if folded in self.sure or has_capital:
            words = self.before_day if is_day else self.before_month
            is_preposed = before in words and not behind[:1].isupper()  # "on Sun Tzu"
            return folded in self.sure or (not begins and (is_plain or is_preposed))
        return is_day and before in self.before_end and _END.match(text, end) is not None


_CALENDARS = {
    code: _Calendar.from_table(table["calendar"])
    for code, table in tables().items()
    if "calendar" in table
}
_NAMES = frozenset(chain.from_iterable(chain(*of.names) for of in _CALENDARS.values()))
# Short names that stand alone in small letters, too.
_ALONE = frozenset(
    name
    for of in _CALENDARS.values()
    for name in (*of.sure, *of.inside, *(of.names[1] if of.before_end else ()))
)
_SHORT = frozenset(chain.from_iterable(of.full for of in _CALENDARS.values()))
SHORT_NAMES = frozenset(
    form for name in _SHORT for form in (name, name.capitalize(), name.upper())
).difference(languages_of_words())
"""The short names of days and months in all languages, in small letters and with capitals.

Without function words, "so" and "do", which are meant only if joined with one of these.
"""


def find_short_names(text: str) -> list[tuple[int, int, str]]:
    """Find the short names of days and months, and return where they are, with the full ones.

    They are those of the text's language, and of any in which two are joined.

    Examples
    --------
    >>> find_short_names("He sat there on Sat."), find_short_names("Sa-So")
    ([(16, 19, 'Saturday')], [(0, 2, 'Samstag'), (3, 5, 'Sonntag')])
    """
    tokens = [*WORD.finditer(text)]
    words = [token[0] for token in tokens]
    rows = list[tuple[int, list[str]]]()
    for at, word in enumerate(words):
        short = word.casefold()
        if short not in _SHORT:
            continue
        around = words[max(at - _APART, 0) : at] + words[at + 1 : at + 1 + _APART]
        if word in _ALONE or word[0].isupper() or not _NAMES.isdisjoint(map(str.casefold, around)):
            codes = [
                code
                for code, of in _CALENDARS.items()
                if short in of.full and of.reads(text, tokens, at)
            ]
            rows.append((at, codes))
    counts = Counter(code for _, codes in rows for code in codes)
    if not counts:
        return []
    language = language_of(text[:LONGEST_ASKED])
    of_text = {language or ENGLISH}
    of_text |= {c for at, codes in rows for c in codes if _CALENDARS[c].joins(text, tokens, at)}
    matches = list[tuple[int, int, str]]()
    for at, codes in rows:
        start = tokens[at].start()
        former = text[max(start - 2, 0) : start].rstrip(" ")
        if not codes and words[at][0].isupper() and former.endswith(_BEFORE_ITEM):
            codes = [c for c in counts if words[at].casefold() in _CALENDARS[c].full]
        if among := of_text.intersection(codes):
            code = language if language in among else max(sorted(among), key=counts.__getitem__)
            name = _CALENDARS[code].full[words[at].casefold()]
            matches.append(
                (*tokens[at].span(), name.capitalize() if words[at][0].isupper() else name)
            )
    return matches
