"""Clarifying questions ("Do you mean A or B?"), and replies to them in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import regex

from uec_rag.confidence.readings import LONGEST_LABEL, MOST_READINGS, Reading
from uec_rag.confidence.wording import unless_long

_LONGEST_REPLY = MOST_READINGS * (LONGEST_LABEL + 10)  # room for every label and polite words
_WHICH, _WHAT = "Do you mean ", "What exactly do you mean?"
_COUNTED = (
    ("1", "a", "one", "first", "1st", "former", "一"),
    ("2", "b", "two", "second", "2nd", "二"),
    ("3", "c", "three", "third", "3rd", "三"),
    ("4", "d", "four", "fourth", "4th", "四"),
    ("5", "e", "five", "fifth", "5th", "五"),
)
_PLACES = {word: place for place, words in enumerate(_COUNTED) for word in words}
_PLACES |= dict.fromkeys(("last", "latter", "最后"), -1)
_ORDINALS = {
    word for words in _COUNTED for word in words if word.endswith(("st", "nd", "rd", "th"))
}
_ORDINALS |= {"former", "latter"}
_HEDGE = r"i think|i guess|i suppose|i['’]d say|i would say|probably|maybe|perhaps"
_BEFORE = (
    r"(?:(?:yes|no|ok|okay|well(?=[,.…])|h+m+|i mean|i meant|it is|it's|that is|that's|take|choose"
    rf"|{_HEDGE})[ ,:.…]+)*"
)
_AFTER = rf"(?:,? (?:please|thanks|thank you|{_HEDGE}))*"
_OTHER_PLACE = r"\d{1,2}(?:st|nd|rd|th)?|six(?:th)?|seven(?:th)?|eighth?|nin(?:e|th)|ten(?:th)?"
_PLACE = (
    r"(?:(?:option|number|choice|reading|no\.?) ?|\#|\(|第)?"
    rf"(?P<place>{_OTHER_PLACE}|{'|'.join(sorted(_PLACES, key=len, reverse=True))})"
    r"(?:[.)]|一?[个個种種项項])?"
)
_ONE = r"(?: (?:one|option|choice|reading))?"
_OF_THEM = r"(?: (?:of )?(?:them|these|those|the above|(?:the )?(?:two|three|four|five)|one))?"
_NOT_SURE = (
    r"(?:i )?(?:really )?(?:don['’]?t|do not) (?:really )?(?:know|mind|care)"
    r"|(?:it )?(?:doesn['’]?t|does not) matter|(?:i['’]?m |i am )?not sure|(?:i have )?no idea"
    r"|idk|dunno|whichever|whatever|不知道|不清楚|不确定|随便"
)
# A user who cannot tell the readings apart is given the passages of all.
_EVERY = (
    rf"(?P<every>(?:both|all|any|either){_OF_THEM}|(?:[两兩三四五][个個种種])?都(?:要|是)?|全部"
    rf"|(?:我(?:也)?)?(?:{_NOT_SURE}))"
)
_NO = rf"(?P<no>(?:neither|none){_OF_THEM}|no|something else|(?:以上)?都不(?:是|要)|没有)"
_AND = r"(?:,? (?:and|or) |, ?| ?& ?| ?[、和与與] ?)"
# Atomic groups avoid exponential backtracking in a long list if a label is also an ordinal.
_NAMED = rf"(?>(?:the )??[\"'`]?(?:(?P<label>\L<labels>)|{_PLACE})[\"'`]?{_ONE})"
_ALL_BUT = rf"(?:anything|everything|all|any){_OF_THEM} (?:but|except(?: for)?|other than)"
_BUT = rf"(?P<but>(?:not|other than|{_ALL_BUT}) |都?不(?:是|要)|除了)"
_SEVERAL = {"two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4}
_RUN = rf"(?:the )?(?P<end>first|last) (?P<many>{'|'.join(_SEVERAL)})"
_CHOICE = rf"{_BUT}?(?:{_RUN}|{_NAMED}(?>{_AND}{_NAMED})*)"
_REPLY = rf"{_BEFORE}(?:{_CHOICE}|{_EVERY}|{_NO}){_AFTER}[.!?,; ]*"
_IN_WORDS = rf"{_BEFORE}{_BUT}?(?P<words>.+?){_AFTER}[.!?,; ]*"
# A rejection that goes on: "not the first, the grpc one", "neither. How do I install it?". After a
# comma, a list is what is rejected: "not rsync, tar or git".
_LIST_FREE = r"(?:(?!\b(?:and|or)\b)[^,.!?;，。；])"
_POLITE = r"please\b|thanks\b|thank you\b"
_NOT = r"not |(?:i )?did(?:n['’]t| not) mean |neither\b|none\b|(?:以上)?都?不(?:是|要)"
_REJECTION = regex.compile(
    rf"\s*{_BEFORE}(?:{_NOT})"
    rf"(?:[^.!?;。；]{{,100}}(?:[.!?;]\s|[。；])|{_LIST_FREE}{{,100}}(?:,|，| but | [-–—] )"
    rf"(?={_LIST_FREE}+[.!?;。；]*\s*\Z))\s*+(?:(?:but |rather |instead |而?是)\s*)?+"
    rf"(?!{_POLITE})(?P<rest>.*\S)\s*",
    regex.IGNORECASE | regex.DOTALL,
)
_YES = r"(?:yes|yeah|yep|sure|ok|okay|是|对|好)(?:,? please)?[.!?,; ]*"
# Words of a reply besides those of a label: "the one about".
_FILLERS = {"a", "about", "an", "for", "i", "in", "is", "it", "mean", "meant", "my", "of", "the"}
_FILLERS |= {"one", "option", "choice", "reading", "that", "this", "from", "called", "with"}
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
# A label that would be misread in a list: with a comma or an "or", or the beginning of a text.
_LIST = regex.compile(r", | or |…$")
_BETWEEN_LABELS = regex.compile(r"(?:, | or )(?![^“]*”)")
_MARKS = " .,;*_`\"“”'"  # around a label in a list
_MOST = 8 * MOST_READINGS  # commas in a question back
_EXTENSION = regex.compile(r"\.(?:html?|md|rst|txt|pdf|docx?|pptx?|xlsx?|csv|epub|ipynb)\b")
_ONE_QUESTION = regex.compile(r"(?:[^.!?。！？؟]|[.!](?=\S))+[?？؟]")
# A question of `ask_back` behind a few words, in quotation marks or in bold.
_REPEATED = regex.compile(rf"[^?]{{0,200}}?(?<!\w){_WHICH}[^\n]*\?")
_ITEM = regex.compile(r"\s*(?:[-*•]|\p{N}{1,2}[.)])\s+(?P<label>\S[^\n?]*)")
_OFFER = regex.compile(r"\b(?:else|help|assist|anything)\b", regex.IGNORECASE)

Within: TypeAlias = Reading | Mapping[str, Any] | Sequence[str] | str
"""A chosen reading: the object itself, a mapping with its "ids" (from JSON), its ids, or its label.
"""


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
    for one in ids:
        if not isinstance(one, str):
            raise TypeError(f"within: expected ids, strings, got {one!r:.60}.")
    if not ids:
        raise ValueError("within: expected the ids of one passage at least, got none.")
    return tuple(ids)


class UnknownReading(ValueError):
    """The error for a chosen reading that the question does not have, or the index no longer."""


def readings_named(reply: str, found: Sequence[Reading]) -> list[Reading]:
    """Find the readings that a reply chooses: by label or ordinal, all but some, all or none.

    Labels may be named by words that not all labels have: "push" for "git-push.html: OPTIONS".
    Upper and lower case are the same. The list is empty for a reply such as "neither".

    Raises
    ------
    UnknownReading
        If the reply is anything else.

    Examples
    --------
    >>> found = [Reading("git add", ("a", "b"), 0.5), Reading("rsync", ("c",), 0.5)]
    >>> [[one.label for one in readings_named(reply, found)]
    ...  for reply in ("Git Add", "the second one", "not rsync", "both", "neither")]
    [['git add'], ['rsync'], ['git add'], ['git add', 'rsync'], []]
    """
    labels = [reading.label for reading in found]
    if not labels:
        raise UnknownReading(f"within: this question has no readings, got {reply!r:.60}.")
    places = _places_named(reply, labels)
    if places is None:
        raise UnknownReading(
            "within: expected a reading's ids, the label or the place ('2') of one that this "
            f"question has, {labels}, 'both' or 'neither', got {reply!r:.60}."
        )
    return [found[place] for place in places]


def _plain(label: str) -> str:
    return " ".join(label.casefold().split()).strip("“”")


@unless_long(None)
def _places_named(
    reply: str, labels: Sequence[str], offered: Sequence[str] | None = None
) -> list[int] | None:
    """Return the positions of the labels that a reply names; None if the reply is anything else.

    `labels`: labels that are named in full. `offered`: labels that ordinals refer to, and that may
    be named by some of their words; `labels` by default.
    """
    offered = labels if offered is None else offered
    count = len(offered)
    said, plain = _plain(reply), [*map(_plain, labels)]

    def place_of(label: str) -> int:
        alike = [place for place, one in enumerate(plain) if one == label]
        # "inspect.Signature" and "inspect.signature" are different labels.
        return next((place for place in alike if labels[place] in reply), alike[0])

    if said in plain:
        return [place_of(said)]
    if len(said) > _LONGEST_REPLY:
        return None
    there = {one for one in plain if one and one in said} or {"\n"}
    match = regex.fullmatch(_REPLY, said, labels=there)
    if match is None:
        return _places_in_words(said, offered)
    if match["every"]:
        return [*range(count)]
    places = {_PLACES.get(word, count) for word in match.captures("place")}
    if not all(place < count for place in places):
        return None
    named = {place % count for place in places} | {*map(place_of, match.captures("label"))}
    if match["many"]:
        many = _SEVERAL[match["many"]]
        named = {*range(count)[:many]} if match["end"] == "first" else {*range(count)[-many:]}
    return sorted({*range(count)} - named if match["but"] else named)


def _places_in_words(said: str, offered: Sequence[str]) -> list[int] | None:
    """Return the positions of the labels that have all words of a reply, if not all labels do.

    If one label consists of these words alone, it is the only one.
    """
    match = regex.fullmatch(_IN_WORDS, said)
    if match is None:
        return None
    labels = [{*_WORD.findall(_EXTENSION.sub("", _plain(label)))} for label in offered]
    named = set[int]()
    for part in regex.split(_AND, match["words"]):
        words = {*_WORD.findall(_EXTENSION.sub("", part))} - _FILLERS
        fitting = [place for place, label in enumerate(labels) if words <= label]
        same = [place for place in fitting if labels[place] == words]
        if not words or not 0 < len(same or fitting) < max(len(labels), 2):
            return None
        named |= {*(same or fitting)}
    return sorted({*range(len(offered))} - named if match["but"] else named)


def ask_back(found: Sequence[Reading]) -> str:
    """Ask in one sentence which reading is meant.

    Examples
    --------
    >>> ask_back([Reading(name, (name,), 0.3) for name in ("git add", "rsync", "tar")])
    'Do you mean git add, rsync or tar?'
    >>> ask_back([Reading(name, (name,), 0.3) for name in ("Forms, files", "tar")])
    'Do you mean “Forms, files” or tar?'
    """
    return _offer([one.label for one in found]) if len(found) > 1 else _WHAT


def _offer(labels: Sequence[str]) -> str:
    *others, last = [f"“{label}”" if _LIST.search(label) else label for label in labels]
    return f"{_WHICH}{', '.join(others)} or {last}?"


Kind: TypeAlias = Literal["readings", "unclear", "label", ""]
"""The meaning of a reply to "Do you mean A or B?".

"readings": only which readings are meant, which `readings_named` finds. "unclear": a place that is
not offered, a negation of no reading in particular, or "yes". "label": one label among other words.
"""


@unless_long("")
def kind_of_reply(asked: str, reply: str) -> Kind:
    """Return the kind of a reply to a question of `ask_back`; "" if `asked` is not such a question.

    Examples
    --------
    >>> asked = "Do you mean git add, rsync or git push?"
    >>> [kind_of_reply(asked, reply) for reply in ("Push, please", "5", "How does rsync do it?")]
    ['readings', 'unclear', 'label']
    """
    labels = [*map(_plain, labels_offered(asked))]
    if not labels:
        return ""
    parts = regex.split("(, | or )", " ".join(_list_in(asked).split()))
    # A language model may offer a label that has a comma or an "or" without quotation marks.
    ends = range(1, len(parts) + 1, 2)
    runs = ["".join(parts[start:stop]) for stop in ends for start in range(0, stop, 2)]
    if _places_named(reply, runs, labels) is not None:
        return "readings"
    if is_unclear(reply):
        return "unclear"
    said = _plain(reply)
    held = {
        label
        for label in labels
        if label and regex.search(rf"(?<!\w){regex.escape(label)}(?!\w)", said)
    }
    longest = [one for one in held if not any(one != other and one in other for other in held)]
    return "label" if len(longest) == 1 else ""


@unless_long(list[str]())
def labels_offered(asked: str) -> list[str]:
    """List the labels in a question of `ask_back`; [] if `asked` is not such a question.

    Examples
    --------
    >>> labels_offered("Do you mean “Forms, files”, git add or tar?")
    ['Forms, files', 'git add', 'tar']
    """
    named = _list_in(asked)
    if not named or len(named) > _LONGEST_REPLY or named.count(", ") + named.count(" or ") > _MOST:
        return []  # not made by `ask_back`
    return [label.strip("“”") for label in _BETWEEN_LABELS.split(" ".join(named.split()))]


def _list_in(asked: str) -> str:
    """Return what is between "Do you mean" and the question mark; "" if that is not there."""
    which, begins, rest = asked.lstrip().partition(_WHICH)
    return rest.rpartition("?")[0].strip() if begins and not which else ""


def label_chosen(asked: str, reply: str) -> str:
    """Return the label that a reply chooses in a question of `ask_back`, else the reply itself.

    Examples
    --------
    >>> [label_chosen("Do you mean git add or tar?", said) for said in ("2.", "Add", "both")]
    ['tar', 'git add', 'both']
    """
    labels = labels_offered(asked)
    places = _places_named(reply, labels) if labels else None
    return labels[places[0]] if places is not None and len(places) == 1 else reply


def is_unclear(reply: str) -> bool:
    """Return whether a reply that chooses no reading is a place, a negation or a mere "yes".

    Examples
    --------
    >>> [is_unclear(reply) for reply in ("the sixth", "not that", "Yes.", "a file")]
    [True, True, True, False]
    """
    said = _plain(reply)
    if len(said) > _LONGEST_REPLY:
        return False
    place = regex.fullmatch(_REPLY, said, labels={"\n"})
    words = regex.fullmatch(_IN_WORDS, said)
    return bool(
        (place is not None and place["place"])
        or (words is not None and words["but"])
        or regex.fullmatch(_YES, said)
    )


def without_rejection(reply: str) -> str:
    """Return what a reply says after it rejects a reading; "" if that is nothing.

    Examples
    --------
    >>> [without_rejection(reply) for reply in ("Not that. Who pays?", "not rsync, tar or git")]
    ['Who pays?', '']
    """
    match = _REJECTION.fullmatch(reply) if len(reply) <= 2 * _LONGEST_REPLY else None
    return match["rest"] if match else ""


def is_bare_choice(text: str) -> bool:
    """Return whether a text only chooses and cannot be searched for.

    A letter, a number word and "No. 5" may be names.

    Examples
    --------
    >>> [is_bare_choice(text) for text in ("Neither.", "the 2nd", "3", "No. 5", "C?", "42")]
    [True, True, True, False, False, False]
    """
    said = _plain(text).rstrip(".!?")
    if len(said) > _LONGEST_REPLY or (len(said) == 1 and not said.isdecimal()):
        return False
    choice = regex.fullmatch(_REPLY, said, labels={"\n"})
    return len(said) == 1 or (choice is not None and {*choice.captures("place")} <= _ORDINALS)


def asks_back(text: str) -> bool:
    """Return whether a text is a question of `ask_back`, or begins with one."""
    return text.lstrip().startswith((_WHICH, _WHAT))


@unless_long(None)
def asked_back(answer: str) -> str | None:
    r"""Return the clarifying question in an answer, in a form that `asks_back` recognises.

    A language model may have put a question of `ask_back` in quotation marks, behind a few words or
    into a list. Another answer asks back if it is a single question, unless that only offers
    further help. None if the answer does not ask back.

    Examples
    --------
    >>> asked_back("Which year do you mean?"), asked_back("It costs 3 euros. Anything else?")
    ('What exactly do you mean? Which year do you mean?', None)
    >>> asked_back('Sure. "Do you mean tar or cp?"'), asked_back("Which one?\n1. **tar**\n2. cp")
    ('Do you mean tar or cp?', 'Do you mean tar or cp?')
    """
    if asks_back(answer):
        return answer
    if repeated := _REPEATED.match(answer):
        return _WHICH + repeated[0].partition(_WHICH)[2]
    items = [item for line in answer.splitlines() if (item := _ITEM.fullmatch(line))]
    if 2 <= len(items) <= _MOST and answer.count("?") == 1 and not _OFFER.search(answer):
        return _offer([item["label"].strip(_MARKS) for item in items])
    asks = _ONE_QUESTION.fullmatch(answer.strip()) and not _OFFER.search(answer)
    return f"{_WHAT} {answer.strip()}" if asks else None
