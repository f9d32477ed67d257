"""Clarifying questions ("Do you mean A or B?"), and replies to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import regex

from uec_rag.base.text import WORD, skip_long_texts
from uec_rag.confidence.languages import ENGLISH
from uec_rag.confidence.readings import LONGEST_LABEL, MOST_READINGS, Reading
from uec_rag.confidence.reply_words import Token, languages_of_replies, tokens_of
from uec_rag.confidence.sentences import (
    SENTENCES,
    detect_language,
    sentence,
    template,
    templates,
)

_COUNTED = (
    ("1", "one", "first", "1st", "a"),
    ("2", "two", "second", "2nd", "b"),
    ("3", "three", "third", "3rd", "c"),
    ("4", "four", "fourth", "4th", "d"),
    ("5", "five", "fifth", "5th", "e"),
)
_PLACES: dict[str, int] = {word: place for place, words in enumerate(_COUNTED) for word in words}
_PLACES |= {"last": -1, "latter": -1}
_ALL = {"both", "all", "any", "either", "every", "whichever", "whatever"}
_NONE = {"neither", "none", "nothing"}
_NOT_SURE = regex.compile(r"(?:i )?(?:don['’]?t|do not) (?:know|mind|care)")
_NOT = regex.compile(r"(?:not|other than|anything but|all but|except(?: for)?)\s*")
_UNCLEAR = {"place", "last", "yes", "not", "polite", "or"}
_YES = {"yes", "yeah", "yep", "sure", "ok", "okay"}
_THANKS = {"thanks", "thank"}
_POLITE = _YES | _THANKS | {"please", "you", "well", "i", "mean", "meant", "think"}
_POLITE |= {"guess", "probably", "maybe", "the", "one", "option", "choice", "number", "reading"}
_POLITE |= {"it", "is", "that", "this", "about", "a", "an", "for", "of", "them", "these", "those"}
_OR = regex.compile(r",? (?:and|or) |, ?| ?[&、] ?")
_EXTENSION = regex.compile(r"\.(?:html?|md|rst|txt|pdf|docx?|pptx?|xlsx?|csv|epub|ipynb)\b")
_ONE_QUESTION = regex.compile(r"(?:[^.!?。！？؟]|[.!](?=\S))++[?？؟]")
_ITEM = regex.compile(r"\s*(?:[-*•]|\p{N}{1,2}[.)])\s+(?P<label>\S[^\n?]*)")
_OFFER = regex.compile(r"\b(?:else|help|assist|anything)\b", regex.IGNORECASE)
_MARKS = " .,;*_`\"“”'"  # around a label in a list
_LONGEST_LIST = MOST_READINGS * (LONGEST_LABEL + 10)

Within: TypeAlias = Reading | Mapping[str, Any] | Sequence[str] | str
"""A chosen reading: the object itself, a mapping with its "ids" (from JSON), its ids, or its label.
"""


class UnknownReading(ValueError):
    """The error for a chosen reading that the question does not have, or the index no longer."""


def chosen_ids(within: Reading | Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the passages of a chosen reading that is not given by its label.

    Raises
    ------
    TypeError, ValueError
        If `within` has another type, or no ids.
    """
    ids: object = within
    if isinstance(within, Reading):
        ids = within.ids
    elif isinstance(within, Mapping):
        ids = within.get("ids")
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(
            "within: expected a Reading, a mapping with its ids, a list of ids, or a label, got "
            f"{within!r:.60}."
        )
    for id_ in ids:
        if not isinstance(id_, str):
            raise TypeError(f"within: expected ids, strings, got {id_!r:.60}.")
    if not ids:
        raise ValueError("within: expected the ids of one passage at least, got none.")
    return tuple(ids)


def clarifying_question(readings: Sequence[Reading], language: str = ENGLISH) -> str:
    """Ask in one sentence which reading is meant, in a language.

    Examples
    --------
    >>> clarifying_question([Reading(name, (name,), 0.3) for name in ("git add", "rsync", "tar")])
    'Do you mean git add, rsync or tar?'
    >>> clarifying_question([Reading(name, (name,), 0.3) for name in ("Forms, files", "tar")])
    'Do you mean “Forms, files” or tar?'
    """
    if len(readings) < 2:
        return sentence("unclear", language)
    return _offer([reading.title for reading in readings], language)


def _offer(labels: Sequence[str], language: str = ENGLISH) -> str:
    before, between, after, comma = template(language)
    *others, last = [
        # A label that would be misread in a list.
        f"“{label}”" if comma in label or between in label or label.endswith("…") else label
        for label in labels
    ]
    return f"{before}{comma.join(others)}{between}{last}{after}"


def is_clarifying_question(text: str) -> bool:
    """Return whether a text is a question of `clarifying_question`, or begins with one."""
    return detect_language(text) is not None


@skip_long_texts(None)
def extract_clarifying_question(answer: str) -> str | None:
    r"""Return the clarifying question in an answer; None if it does not ask one.

    A language model may have put a question of `clarifying_question` in quotation marks, behind a
    few words or into a list. Another answer is one if it is a single question, unless that only
    offers further help.

    Examples
    --------
    >>> extract_clarifying_question("Which year do you mean?")
    'What exactly do you mean? Which year do you mean?'
    >>> extract_clarifying_question("Which one?\n1. **tar**\n2. cp")
    'Do you mean tar or cp?'
    """
    if is_clarifying_question(answer):
        return answer
    for before, _, after, _ in templates():
        # Behind a few words, in quotation marks or in bold.
        if repeated := regex.match(
            rf"[^?]{{0,200}}?(?<!\w){regex.escape(before)}[^\n]*{regex.escape(after)}", answer
        ):
            return before + repeated[0].partition(before)[2]
    items = [item for line in answer.splitlines() if (item := _ITEM.fullmatch(line))]
    offers = _OFFER.search(answer)
    if 2 <= len(items) <= 2 * MOST_READINGS and answer.count("?") == 1 and not offers:
        return _offer([item["label"].strip(_MARKS) for item in items])
    asks = _ONE_QUESTION.fullmatch(answer.strip()) and not offers
    return f"{SENTENCES['unclear']} {answer.strip()}" if asks else None


def extract_labels(asked: str) -> list[str]:
    """List the labels in a clarifying question; [] if it offers none.

    Examples
    --------
    >>> extract_labels("Do you mean “Forms, files”, git add or tar?")
    ['Forms, files', 'git add', 'tar']
    """
    if (language := detect_language(asked)) is None:
        return []
    before, between, after, comma = template(language)
    which, begins, rest = asked.lstrip().partition(before)
    listed = rest.rpartition(after)[0] if after else rest
    named = " ".join(listed.split()) if begins and not which else ""
    if not named or len(named) > _LONGEST_LIST:
        return []
    labels = regex.split(rf"(?:{regex.escape(between)}|{regex.escape(comma)})(?![^“]*”)", named)
    return [label.strip("“”") for label in labels]


@skip_long_texts(None)
def find_positions(reply: str, labels: Sequence[str]) -> list[int] | None:
    """Return the positions of the labels that a reply chooses; None if the reply is anything else.

    A reply may name labels by words that not all have, by ordinals or numbers, all but some, all or
    none, in any language of `languages`. Upper and lower case are the same.

    Examples
    --------
    >>> labels = ["git-push.html: OPTIONS", "git-add.html: OPTIONS", "rsync"]
    >>> said = ("push, please", "the 2nd or rsync", "not the last", "all of them", "neither", "5")
    >>> [find_positions(reply, labels) for reply in said]
    [[0], [1, 2], [0, 1], [0, 1, 2], [], None]
    >>> [find_positions(reply, ["tar", "rsync"]) for reply in ("das zweite", "los dos", "都不是")]
    [[1], [0, 1], []]
    """
    named = _named_in_english(reply, labels)
    for language in languages_of_replies():
        if named is None:
            named = _named_in(language, reply, labels)
    return named


def _named_in_english(reply: str, labels: Sequence[str]) -> list[int] | None:
    """Return the positions that a reply chooses, in English or as numbers and titles."""
    said = _plain(reply)
    same = [position for position, label in enumerate(labels) if _plain(label) == said]
    if same:  # "inspect.Signature" and "inspect.signature" are different labels
        return [next((position for position in same if labels[position] in reply), same[0])]
    negated = _NOT.match(said)
    said = said[negated.end() :] if negated else said
    words = set(WORD.findall(said)) - _POLITE
    if words and words <= _NONE:
        return []
    everything = [*range(len(labels))]
    if (words and words <= _ALL) or _NOT_SURE.search(said):
        return everything
    named = set[int]()
    for part in _OR.split(said):
        words = _words(part)
        chosen = _choose_labels(words, labels)
        if words and not chosen:
            return None
        named |= chosen
    return (sorted({*everything} - named if negated else named)) if named else None


def _words(text: str) -> set[str]:
    """Return the words of a text that say something, which "one" alone does."""
    words: list[str] = WORD.findall(_EXTENSION.sub("", _plain(text)))
    return {*words} - _POLITE or {*words[-1:]} & _PLACES.keys()


def _choose_labels(words: set[str], labels: Sequence[str]) -> set[int]:
    """Return the labels that words name, by a place or because not all have them."""
    position = _PLACES.get(min(words)) if len(words) == 1 else None
    if position is not None:
        return {position % len(labels)} if position < len(labels) else set()
    words_of_labels = [{*WORD.findall(_EXTENSION.sub("", _plain(label)))} for label in labels]
    fitting = {index for index, label in enumerate(words_of_labels) if words <= label}
    fitting = {index for index in fitting if words_of_labels[index] == words} or fitting
    return fitting if words and len(fitting) < max(len(labels), 2) else set()


def _named_in(language: str, reply: str, labels: Sequence[str]) -> list[int] | None:
    """Return the positions that a reply chooses by the words of a language; None if it does not."""
    tokens = tokens_of(_with_marks(reply, labels), language)
    kinds = {token.kind for token in tokens}
    everything = [*range(len(labels))]
    if "" not in kinds and "none" in kinds:
        return []
    if "" not in kinds and "unsure" in kinds:
        return everything
    said = [token for token in tokens if token.kind not in ("polite", "yes", "thanks")]
    negated = bool(said) and "not" in (said[0].kind, said[-1].kind)  # in Japanese, it comes last
    if negated and any(token.text == "," for token in said):
        return None  # "not the first, but the second"
    named, part = set[int](), list[Token]()
    for token in [*said, _END]:
        if token.kind == "not":
            continue
        if token.kind != "or":
            part.append(token)
        elif part:
            chosen = _chosen_by(part, labels)
            if not chosen:
                return None
            named |= chosen
            part = []
    return (sorted({*everything} - named if negated else named)) if named else None


_END = Token("or", 0, "")
_FIRST_MARK = 0xE000  # of characters for private use, each for a label


def _with_marks(reply: str, labels: Sequence[str]) -> str:
    """Return a reply in lower case with a character in place of each label, longest first."""
    said = _plain(reply)
    for position in sorted(range(len(labels)), key=lambda place: -len(labels[place])):
        label = _plain(labels[position])
        apart = r"(?<![\p{Latin}\p{N}_])", r"(?![\p{Latin}\p{N}_])"
        if label:
            mark = f" {chr(_FIRST_MARK + position)} "
            said = regex.sub(regex.escape(label).join(apart), mark, said)
    return said


def _chosen_by(part: Sequence[Token], labels: Sequence[str]) -> set[int]:
    """Return the labels that a part of a reply names by a place, by all, or by words of theirs."""
    kinds = {token.kind for token in part}
    if kinds <= {"all"}:
        return {*range(len(labels))}
    if len(part) == 1 and kinds <= {"place", "last"}:
        position = part[0].place - 1  # the last is -1
        return {position % len(labels)} if position < len(labels) else set()
    words = {word for token in part for word in WORD.findall(_EXTENSION.sub("", token.text))}
    marks = {ord(mark) - _FIRST_MARK for token in part for mark in token.text}
    if marks <= {*range(len(labels)), ord(" ") - _FIRST_MARK}:
        return marks & {*range(len(labels))}
    is_named = kinds <= {"", "place", "last"} and words.isdisjoint(_PLACES)
    return _choose_labels(words, labels) if is_named else set()


def _plain(label: str) -> str:
    return " ".join(label.casefold().split()).strip("“”\"'.!?,; ")


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


def choose_label(asked: str, reply: str) -> str:
    """Return the label that a reply chooses in a clarifying question, else the reply itself.

    Examples
    --------
    >>> [choose_label("Do you mean git add or tar?", said) for said in ("2.", "Add", "both")]
    ['tar', 'git add', 'both']
    """
    labels = extract_labels(asked)
    places = find_positions(reply, labels) if labels else None
    return labels[places[0]] if places is not None and len(places) == 1 else reply


@skip_long_texts(False)
def is_unclear(reply: str) -> bool:
    """Return whether a reply that chooses no reading is a place, a mere "yes" or a "not".

    Thanks end the matter.

    Examples
    --------
    >>> [is_unclear(reply) for reply in ("the sixth", "7", "not that", "Yes.", "a file")]
    [True, True, True, True, False]
    """
    return _is_unclear_in_english(reply) or any(
        _is_unclear_in(language, reply) for language in languages_of_replies()
    )


def _is_unclear_in(language: str, reply: str) -> bool:
    kinds = {token.kind for token in tokens_of(_plain(reply), language)}
    return bool(kinds & {"place", "last", "yes", "not"}) and kinds <= _UNCLEAR


def _is_unclear_in_english(reply: str) -> bool:
    words = set(WORD.findall(_plain(reply)))
    rest = words - _POLITE
    counted = len(rest) == 1 and regex.fullmatch(r"\d+|\w+th|\w|last|first|second", *rest)
    return bool(counted) or (words <= _POLITE | {"not", "no"} and words.isdisjoint(_THANKS))
