"""Clarifying questions ("Do you mean A or B?"), and replies to them."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, TypeAlias, cast

import regex

from uec_rag.base.errors import UnknownReading
from uec_rag.base.records import cached_property
from uec_rag.base.text import (
    HAS_SPACELESS,
    LONGEST_ASKED,
    WORD,
    skip_long_texts,
    stems,
    undecorated,
)
from uec_rag.questions import languages
from uec_rag.questions.languages import (
    is_courtesy,
    phrases,
    without_faces,
    without_last,
    without_phrases,
)

ENDS = " :?？"  # of a title, which a label leaves out
MOST_READINGS = 4  # of which a user is asked to choose
LONGEST_LABEL = 60  # characters

_ONE_QUESTION = regex.compile(r"(?:[^.!?。！？؟]|[.!](?=\S))++[?？؟]")
_OFFER = regex.compile(r"\b(?:else|help|assist|anything)\b", regex.IGNORECASE)
_LONGEST_LIST = MOST_READINGS * (LONGEST_LABEL + 10)
_MIDDLE, _OF_A_MIDDLE = slice(1, -1), 3  # titles, of which one is in the middle
_KEY, _CIRCLED = (
    regex.compile("[\ufe0f\u20e3]"),
    regex.compile("[\u2776-\u277e\u2780-\u2788\u278a-\u2792]"),
)
_LINE = 80  # characters up to which a clarifying question is read as one sentence
_ROW = regex.compile(r"^[ \t]*+(?:\d{1,2}[.)]|[-*•])[ \t]++(.*\S)", regex.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """One of the possible meanings of a question.

    Attributes
    ----------
    title : str
        A title, a heading, the beginning of a long passage, or a few words of a short one that
        distinguish it from the other readings.
    ids : tuple of str
        Ids of its passages, best first.
    probability : float
        Its share of the mass, see `readings`.
    """

    title: str
    ids: tuple[str, ...]
    probability: float


Within: TypeAlias = Reading | Mapping[str, Any] | Sequence[str] | str
"""A chosen reading: the object itself, a mapping with its "ids" (from JSON), its ids, or its label.
"""


def chosen_ids(within: Reading | Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the passages of a chosen reading that is not given by its label.

    Raises
    ------
    TypeError
        If `within` has another type, or no ids.
    """
    ids: object = within.ids if isinstance(within, Reading) else within
    if isinstance(within, Mapping):
        ids = within.get("ids")
    is_list = isinstance(ids, Sequence) and not isinstance(ids, str)
    if not is_list or not ids or not all(isinstance(id_, str) for id_ in cast(list[object], ids)):
        raise TypeError(
            "within: expected a Reading, a mapping with its ids, a list of one id or more, or a "
            f"label, got {within!r:.60}."
        )
    return tuple(cast(list[str], ids))


def shorten(label: str, length: int = LONGEST_LABEL) -> str:
    """Return a label on one line of at most `length` characters, cut between words.

    Only a single word that is longer is cut, and scripts without spaces anywhere.
    """
    line = " ".join(label.split()).rstrip(ENDS)
    if len(line) <= length:
        return line
    head = line[: length - 1]
    if not HAS_SPACELESS.match(line[length - 1]):
        head = line[:length].rpartition(" ")[0].rstrip(ENDS) or head
    return f"{head}…"


def clarifying_question(readings: Sequence[Reading], language: str = languages.ENGLISH) -> str:
    """Ask in one sentence which reading is meant, in a language.

    Examples
    --------
    >>> clarifying_question([Reading(name, (name,), 0.3) for name in ("git add", "rsync", "tar")])
    'Do you mean git add, rsync or tar?'
    >>> clarifying_question([Reading(name, (name,), 0.3) for name in ("Forms, files", "tar")])
    'Do you mean “Forms, files” or tar?'
    """
    if len(readings) < 2:
        return languages.sentence("unclear", language)
    before, between, after, comma = languages.template(language)
    *titles, end = [
        # A label that would be misread in a list.
        f"“{label}”" if comma in label or between in label or label.endswith("…") else label
        for label in (reading.title for reading in readings)
    ]
    return f"{before}{comma.join(titles)}{between}{end}{after}"


def clarifying_list(readings: Sequence[Reading], language: str = languages.ENGLISH) -> str:
    """Ask which reading is meant as `clarifying_question` does, with long titles as a list.

    Examples
    --------
    >>> titles = "How a lost card is replaced abroad", "How a card that was found is returned to us"
    >>> print(clarifying_list([Reading(title, (title,), 0.3) for title in titles]))
    What exactly do you mean?
    1. How a lost card is replaced abroad
    2. How a card that was found is returned to us
    """
    question = clarifying_question(readings, language)
    if len(question) <= _LINE:
        return question
    rows = (f"{place}. {reading.title}" for place, reading in enumerate(readings, start=1))
    return "\n".join([languages.sentence("unclear", language), *rows])


def is_clarifying_question(text: str) -> bool:
    """Return whether a text is a question of `clarifying_list`, or begins with one."""
    befores = (languages.template(code)[0] for code in languages.TRANSLATIONS)
    return text.lstrip().startswith((*befores, *_unclear()))


def _unclear() -> tuple[str, ...]:
    """Return the question that names no readings, or has them as a list, in each language."""
    # Not remembered, since users may phrase sentences anew.
    questions = [texts["unclear"] for texts in languages.TRANSLATIONS.values()]
    return (*questions, *(text.replace("\u00a0", " ") for text in questions))  # as models copy it


@skip_long_texts(None)
def extract_clarifying_question(answer: str) -> str | None:
    """Return the clarifying question in an answer; None if it does not ask one.

    A language model may have put a question of `clarifying_list` in quotation marks or behind a few
    words. Another answer is one if it is a single question, unless that only offers further
    help.

    Examples
    --------
    >>> extract_clarifying_question("Which year do you mean?")
    'What exactly do you mean? Which year do you mean?'
    """
    if is_clarifying_question(answer):
        return answer
    for before, _, after, _ in map(languages.template, languages.TRANSLATIONS):
        # Behind a few words, in quotation marks or in bold.
        if repeated := regex.match(
            rf"[^?]{{0,200}}?(?<!\w){regex.escape(before)}[^\n]*{regex.escape(after.strip())}",
            answer,
        ):
            return before + repeated[0].partition(before)[2]
    for unclear in _unclear():
        before, question, tail = answer.partition(unclear)
        if question and len(before) <= 200 and "?" not in before and len(_rows(tail)) > 1:
            return unclear + tail.rstrip('*"”» \n')
    asks = _ONE_QUESTION.fullmatch(answer.strip()) and not _OFFER.search(answer)
    return f"{languages.SENTENCES['unclear']} {answer.strip()}" if asks else None


def extract_labels(question: str) -> list[str]:
    """List the labels in a clarifying question; [] if it offers none.

    Examples
    --------
    >>> extract_labels("Do you mean “Forms, files”, git add or tar?")
    ['Forms, files', 'git add', 'tar']
    """
    text = question.lstrip()
    if len(text) > LONGEST_ASKED:  # which is asked for its labels at each turn behind it
        return []
    if text.startswith(_unclear()):
        return _rows(text)
    for before, between, after, comma in map(languages.template, languages.TRANSLATIONS):
        if text.startswith(before):
            tail = text.removeprefix(before)
            listing = " ".join((tail.rpartition(after.strip())[0] if after else tail).split())
            if 0 < len(listing) <= _LONGEST_LIST:
                apart = rf"(?:{regex.escape(between)}|{regex.escape(comma)})(?![^“]*”)"
                return [label.strip("“”") for label in regex.split(apart, listing)]
    return []


def _rows(text: str) -> list[str]:
    """List what the rows of a list in a text say; [] if there are not several, or too many."""
    rows = [row.strip("“”") for row in _ROW.findall(text)]
    return rows if len(rows) > 1 and sum(map(len, rows)) <= _LONGEST_LIST else []


@skip_long_texts(None)
def find_positions(reply: str, titles: Sequence[str]) -> list[int] | None:
    """Return the positions of the titles that a reply chooses; None if the reply is anything else.

    A reply chooses by a number ("2.", "option b", "second", "the first two"), by a title or a part
    of it that only one has, by "both", "all" or "none", by several of these ("1 and 3"), or by what
    it excludes ("not the first"), in any of `languages`. Upper and lower case are the same.

    Examples
    --------
    >>> titles = ["git-push.html", "git-add.html", "rsync"]
    >>> [find_positions(reply, titles) for reply in ("push", "2.", "all", "neither", "5", "git")]
    [[0], [1], [0, 1, 2], [], None, None]
    >>> [find_positions(reply, titles) for reply in ("number 2", "all but rsync", "push and 3")]
    [[1], [0, 1], [0, 2]]
    >>> find_positions("the one for Borg", ["Borg: Encryption", "restic: Encryption"])
    [0]
    >>> [find_positions(reply, ["tar", "rsync"]) for reply in ("das zweite", "los dos", "都不是")]
    [[1], [0, 1], []]
    """
    text, plain = _plain(reply), [*map(_plain, titles)]
    matches = [position for position, title in enumerate(plain) if title == text]
    if matches:  # "inspect.Signature" and "inspect.signature" are different titles
        return [next((position for position in matches if titles[position] in reply), matches[0])]
    spoken = tuple(word.strip(_MARKS) for word in text.split())
    courtesies = phrases("courtesies"), phrases("courtesies") | phrases("around")
    ways = product(courtesies, (without_last, without_phrases))  # "No idea, sorry" begins with "no"
    alone = (" ".join(without(spoken, polite)) or text for polite, without in ways)
    candidates = dict.fromkeys([text, *alone])
    among = _Titles(plain)
    choices = (_parse(candidate, among) for candidate in candidates)
    return next((places for places in choices if places is not None), None)


class _Titles:
    """Titles, and which of them have a word: a reply of many parts reads them once."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.titles, self.plain = frozenset(titles), titles

    @cached_property
    def _by_term(self) -> Mapping[tuple[str, bool], set[int]]:
        """The places of those that have a word, or, with True, a stem."""
        places = defaultdict[tuple[str, bool], set[int]](set)
        for place, title in enumerate(self.plain):
            for word in WORD.findall(title):
                places[word, False].add(place)
            for stem in stems(title):
                places[stem, True].add(place)
        return places

    def having(self, words: Collection[str], reply: str) -> set[int]:
        """Return the places of the titles that have all words of a reply, or all their stems."""
        if not words:
            return set()
        places = self._having((word, False) for word in words)
        places |= self._having((stem, True) for word in words for stem in stems(word) or {word})
        if HAS_SPACELESS.search(reply):
            places |= {place for place, title in enumerate(self.plain) if reply in title}
        return places

    def _having(self, terms: Iterable[tuple[str, bool]]) -> set[int]:
        places = {*range(len(self.plain))}
        for term in terms:
            places &= self._by_term.get(term, set())
            if not places:
                break
        return places


def _parse(reply: str, titles: _Titles) -> list[int] | None:
    """Return the positions of the titles that a reply without courtesies chooses, if it does."""
    positions = [*range(len(titles.plain))]
    if (choice := _choices().get(_without_spaces(reply))) is not None:
        if choice == _MIDDLE and len(positions) != _OF_A_MIDDLE:
            return None
        count = max(choice.stop or 0, -(choice.start or 0))
        return positions[choice] if count <= len(positions) else None
    if excludes := next(filter(reply.startswith, _excluding()), ""):
        but = _parse(reply.removeprefix(excludes).strip(_MARKS), titles)
        return [place for place in positions if place not in but] if but else None
    parts = [part.strip(_MARKS) for part in _and().split(reply)]
    if len(parts) > 1 and reply not in titles.titles:
        choices = {part: _parse(part, titles) for part in dict.fromkeys(filter(None, parts))}
        if all(choices.values()):
            excludes_ = [part for part in choices if part.startswith(_excluding())]
            picks = {place for part in choices.keys() - excludes_ for place in choices[part] or ()}
            sets = [{*(choices[part] or ())} for part in excludes_]
            picks = picks or {*positions}
            return [at for at in positions if at in picks and all(at in rows for rows in sets)]
    words = {*WORD.findall(reply)} - {word for [word] in phrases("around", languages.ENGLISH)}
    places = titles.having(words, reply)
    return [*places] if len(places) == 1 else None


@cache
def _choices() -> Mapping[str, slice]:
    """Read the replies that name no title, in every language, with the titles that they choose."""
    choices, behind_another = dict[str, slice](), dict[str, slice]()
    for table in (languages.tables()[code]["replies"] for code in languages.languages()):
        of = {key: _together(text) for key, text in table.items() if isinstance(text, str)}
        nouns, articles = of.get("before_number", []), ["", *table.get("articles", "").split()]
        ordinals = [[str(row), *_together(text)] for row, text in enumerate(table["ordinals"], 1)]
        singles = [(slice(row, row + 1), forms) for row, forms in enumerate(ordinals)]
        singles += [(slice(-1, None), of.get("last", [])), (_MIDDLE, of.get("middle", []))]
        for choice, forms in [*singles, (slice(None), of["all"]), (slice(0, 0), of["none"])]:
            fillers = nouns if (choice, forms) in singles else []
            for phrase in forms:
                choices.setdefault(phrase, choice)
                longer = [word + phrase for word in (*articles[1:], *fillers)]
                longer += [phrase + word for word in fillers]
                for article, word in product(articles, longer):
                    behind_another.setdefault(article + word, choice)
        # "the first two"
        pairs = [(2, phrase) for phrase in of.get("pair", [])]
        counts = [(row, word) for row, forms in enumerate(ordinals[1:], 2) for word in forms]
        for (count, phrase), article in product([*pairs, *counts], articles):
            for key, choice in (("first", slice(0, count)), ("last", slice(-count, None))):
                for pattern in of.get(key, []):
                    whole = pattern.replace("{}", phrase) if "{}" in pattern else pattern + phrase
                    behind_another.setdefault(article + whole, choice)
    return behind_another | choices  # "les deux" are both, not "le deux"


def _together(text: str) -> list[str]:
    """List the phrases of a text without their spaces."""
    return [*map(_without_spaces, languages.split_phrases(text.casefold()))]


@cache
def _words(key: str) -> tuple[str, ...]:
    """List the phrases of all languages under a key, the longest first."""
    return tuple(sorted({*map(str.casefold, languages.listed(key))}, key=len, reverse=True))


@cache
def _and() -> regex.Pattern[str]:
    """Return what joins several choices: a comma, or a word such as "and"."""
    joints, excludes = ("|".join(map(regex.escape, _words(key))) for key in ("and", "except"))
    spaceless = "|".join(filter(HAS_SPACELESS.search, _words("and")))
    return regex.compile(
        rf"\s*,\s*(?:(?:{joints})\s+)?|\s+(?:{joints})\s+|(?<=\w)(?:{spaceless})(?=\w)"
        rf"|(?<=\w)\s+(?=(?:{excludes})\s)"
    )


@cache
def _excluding() -> tuple[str, ...]:
    return tuple(text if HAS_SPACELESS.search(text) else f"{text} " for text in _words("except"))


_MARKS = "“”\"'.!?,;()#。！？ "


def _without_spaces(text: str) -> str:
    """Return a text without its spaces, which Korean writers put in different places."""
    return "".join(text.split())


def _plain(label: str) -> str:
    if not label.isascii():  # of the digits in circles and on keys, of which messengers have many
        label = _KEY.sub("", undecorated(label))
        label = _CIRCLED.sub(lambda sign: f" {unicodedata.digit(sign[0])} ", label)
    return " ".join(label.casefold().replace("’", "'").split()).strip(_MARKS)


def gives_up(reply: str) -> bool:
    """Return whether a reply asks for nothing any more: thanks, "never mind", but not a bare "no".

    Examples
    --------
    >>> [gives_up(reply) for reply in ("Never mind.", "Thanks!", "No.", "The tablet.")]
    [True, True, False, False]
    """
    text = _plain(without_faces(reply))
    return is_courtesy(text) and text not in _words("yes_or_no")


def names_some(reply: str, labels: Sequence[str]) -> bool:
    """Return whether a reply has a word of some labels, in any inflection."""
    return not stems(reply).isdisjoint(stems(" ".join(labels)))


def find_readings(reply: str, readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings that a reply chooses, by `find_positions`.

    Raises
    ------
    UnknownReading
        If the reply is anything else, or there are no readings.
    """
    labels = [reading.title for reading in readings]
    places = find_positions(reply, labels) if labels else None
    if places is None:
        raise UnknownReading(
            "within: expected a reading's ids, the label or the place ('2') of one that this "
            f"question has, {labels or 'which has none'}, 'both' or 'neither', got {reply!r:.60}."
        )
    return [readings[position] for position in places]
