"""Turns about the answer before them: they take up what it offers, or ask about it.

The phrases are those of `languages`, in their tables `replies` and `answer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Literal, TypeAlias

import regex

from uec_rag.base.text import LONGEST_ASKED, skip_long_texts
from uec_rag.questions import languages
from uec_rag.questions.grammar import WORDS, without_conjunction
from uec_rag.questions.languages import (
    ENGLISH,
    WORD_OR_CLITIC,
    language_of,
    phrases,
    sentence,
    tables,
    take_phrases,
    without_phrases,
)

_ITEM = regex.compile(r"(?m)^[ \t]*(?:[-*•–]|\(?(?:\d{1,2}[.)]|[a-h]\))|\[\d{1,2}\])[ \t]+(\S.*)$")
# The marks of a list in one line, which begin it in one of these orders: "1.", "(b)", "[3]".
_INLINE = regex.compile(
    r"(?:^|(?<=[\s:]))[(\[]?(?:(?P<mark>[1-9])(?:[.:)\]]| [-–])|(?P<mark>[a-h]|[iv]+)[)\]])\s+",
    regex.IGNORECASE,
)
_ORDERS = "123456789", "abcdefgh", ("i", "ii", "iii", "iv", "v", "vi")
_SENTENCE, _MARKS = regex.compile(r"[.?!](?:\s|\Z).*", regex.DOTALL), "*_`,;. "
# "We have lamps, chairs and tables."
_SERIES = regex.compile(
    r"(?::\s*|\b(?:about|are|between|have|is|of|offer|on|with)\s+)"
    r"((?:[^\s,.:;?!][^,.:;?!\n]{0,60},\s+)+[^,.:;?!\n]{1,80})[.?!]",
    regex.IGNORECASE,
)
_COMMAS = {regex.escape(languages.template(code)[-1]) for code in languages.languages()}
_APART = regex.compile(rf"“[^”]*”(*SKIP)(*FAIL)|{'|'.join(sorted(_COMMAS))}")
_LONGEST_ANSWER = 200  # characters
_ASKED = regex.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*+[?？]")
# Of what is offered without a name: "anything else", "more about it".
_NAMELESS = regex.compile(
    r"\b(?:else|anything|any|these|this|that|it|them|more)\b", regex.IGNORECASE
)


Speaker: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation; a plain string is a turn of the user's, or a clarifying question.

    Attributes
    ----------
    speaker : {"user", "assistant"}
    text : str
    """

    speaker: Speaker
    text: str


TurnLike: TypeAlias = str | Turn | tuple[str, str]
"""A turn as it is passed: a string, a `Turn`, or a pair of speaker and text, as of many clients."""


def offers(answer: str) -> list[str]:
    r"""List what an answer offers to tell next, else the items of its list; [] if there is none.

    Examples
    --------
    >>> offers("Two years. Would you like to know how long gift cards are valid?")
    ['how long gift cards are valid']
    >>> offers("I know about:\n- refunds\n- lamps"), offers("Can I help with anything else?")
    (['refunds', 'lamps'], [])
    >>> offers('No passage mentions "tea". Closest: Bed and linen, “Dr. May: 2 rooms, with…”.')
    ['Bed and linen', 'Dr. May: 2 rooms, with']
    """
    text = answer[-LONGEST_ASKED:]
    if names := _named_in_offer(text) or _named_as_closest(text):
        return names
    items = _ITEM.findall(text)
    if len(items) < 2:
        items = _items_in_line(text)
    if len(items) < 2 and (series := _SERIES.findall(text)):
        parts = _split(series[-1], language_of(text) or ENGLISH)
        items = parts if len(parts) > 2 else []  # "two years, or three" is none
    return [item.strip(_MARKS) for item in items] if len(items) > 1 else []


def stated_in(answer: str) -> str:
    """Return what the first 200 characters of an answer state; "" if they only ask."""
    return " ".join(_ASKED.sub("", answer[:_LONGEST_ANSWER]).split())


def offers_to_tell(answer: str) -> bool:
    """Return whether an answer offers something in words, which "yes" takes up, and no list."""
    return bool(_named_in_offer(answer[-LONGEST_ASKED:]))


def _named_in_offer(text: str) -> list[str]:
    language = language_of(text) or ENGLISH
    matches = [*_offer(language).finditer(text)]
    if not matches or _NAMELESS.search(series := matches[-1]["what"]):
        return []
    is_list = _items_in_line(text[matches[-1].start("what") :])
    return [] if is_list else _split(series, language)


def _named_as_closest(text: str) -> list[str]:
    """List the sections that a reason of ours says are the closest; [] of any other text."""
    match = _reason_with_closest().fullmatch(text.strip())
    parts = regex.split(_APART, match["titles"]) if match else []
    return [part.strip(f"{_MARKS}“”…") for part in parts]


@cache
def _reason_with_closest() -> regex.Pattern[str]:
    forms = list[str]()
    for code in languages.languages():
        written = partial(_sentence_as_written, language=code)
        heads = "|".join(map(written, ("uncertain", "several", "unclear", "absent")))
        notes = "|".join(map(written, ("searched_as", "note")))
        titles = written("closest").replace(".+?", "(?P<titles>.+?)")
        forms.append(f"(?:{heads}){titles}(?:{notes})*")
    return regex.compile("|".join(forms))


def _sentence_as_written(key: str, language: str) -> str:
    """Return an expression of a sentence with any values, without the reason before it."""
    text = sentence(key, language).removeprefix("{reason}")
    text = text.replace("{question}", sentence("quoted", language))
    texts = regex.split(r"\{\w+\}", text)
    return ".+?".join(map(regex.escape, texts))


def _items_in_line(text: str) -> list[str]:
    """List the items behind the marks of a list in one line; [] if there are not several."""
    joint = rf"[,;]?\s(?:{_joints(language_of(text) or ENGLISH)})\s*\Z"
    for order in _ORDERS:
        marks = list[regex.Match[str]]()
        for mark in _INLINE.finditer(text):
            if mark["mark"].lower() in order[len(marks) : len(marks) + 1]:
                marks.append(mark)
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        items = (text[mark.end() : end] for mark, end in zip(marks, ends, strict=False))
        if len(marks) > 1:
            return [regex.sub(joint, "", _SENTENCE.sub("", item)) for item in items]
    return []


def _split(text: str, language: str) -> list[str]:
    """Split what is said in a series: "refunds, invoices or lamps"."""
    _, _, _, comma = languages.template(language)
    apart = rf",?\s(?:{_joints(language)})\s|{regex.escape(comma)}"
    return [part.strip(_MARKS) for part in regex.split(apart, text) if part.strip(_MARKS)]


def _joints(language: str) -> str:
    """Return an expression of "or" and "and" in a language."""
    _, between, _, _ = languages.template(language)
    also = tables()[language]["replies"].get("and", between).partition(",")[0]
    return "|".join(regex.escape(word.strip()) for word in (between, also))


@cache
def _offer(language: str) -> regex.Pattern[str]:
    begins = tables()[language]["replies"].get("offers", "(?!)")
    return regex.compile(rf"\b(?>{begins})[ ,:]+(?P<what>\p{{L}}[^?.!\n]+)", regex.IGNORECASE)


@skip_long_texts(False)
def accepts(reply: str) -> bool:
    """Return whether a reply takes up an offer.

    Examples
    --------
    >>> [accepts(reply) for reply in ("Yes, tell me!", "ja, gerne", "No thanks.", "Who?")]
    [True, True, False, False]
    """
    matches, remainder = take_phrases(_words(reply), phrases("courtesies") | phrases("accepts"))
    declines = not phrases("declines").isdisjoint(matches)
    return not remainder and not declines and not phrases("accepts").isdisjoint(matches)


@skip_long_texts(False)
def asks_about_answer(turn: str, language: str = "") -> bool:
    """Return whether a turn asks for the last answer in another form, or where it is from.

    It is a set phrase, or has no words but those of a form or a source, with function words: as a
    request ("say that in German"), or as an ellipsis ("shorter please").

    `language`: the code of that of the question before, in which a request of one word is; "sage"
    is a herb, and "say" in German.

    Examples
    --------
    >>> said = ("Say that in German", "Source?", "Are you sure?", "Sag es kürzer", "Say who pays")
    >>> [asks_about_answer(turn) for turn in said]
    [True, True, True, True, False]
    """
    plain = without_conjunction(turn)
    goes_on = plain != turn  # "and in English?" is more of a question
    words = _words(plain)
    if goes_on and language_of(turn) == ENGLISH and plain[:1].isupper() and not turn.isupper():
        return False  # "What about Word?": what has a capital is a name
    return any(
        _asks_about(
            words, code, goes_on=goes_on, is_thing=code != language if language else goes_on
        )
        for code in languages.languages()
    )


_NUMBERS = ("number", "no", "nr", "nummer", "numéro", "número", "numero")


@skip_long_texts(None)
def place_of_answer(turn: str, language: str = "") -> int | None:
    """Return the place of an earlier answer that a turn asks for, from 0 or back from -1.

    None if it asks for none by its place, or says anything else.

    `language`: the code of that of the question before.

    Examples
    --------
    >>> said = ("Repeat the first answer", "And the answer before that?", "What is the first step?")
    >>> [place_of_answer(turn) for turn in said]
    [0, -2, None]
    """
    spoken = [word for word in _words(turn) if word not in _NUMBERS]
    words = {*spoken}
    for code in [language] if language else languages.languages():
        table = tables()[code].get("answer", {})
        if "ordinals" not in table:
            continue
        nouns, returns, before, ends, begins = (
            {*table[key].replace(",", " ").split()}
            for key in ("nouns", "returns", "before", "last", "begins")
        )
        ordinals = [{*row.split()} for row in table["ordinals"].split(",")]
        numbered = {number for noun, number in pairwise(spoken) if noun in nouns}  # "question 2"
        ordinals = [row | {str(at)} & numbered for at, row in enumerate(ordinals, 1)]
        _, fillers, verbs = _words_of_forms(code, goes_on=False)
        small_words = fillers if words & nouns else {"one", *languages.function_words(code)}
        remainder = words - nouns - returns - before - ends - begins - verbs - small_words
        is_place = not words.isdisjoint(nouns | returns) and not remainder.difference(*ordinals)
        place = next((at for at, row in enumerate(ordinals) if not row.isdisjoint(words)), None)
        if is_place and place is not None:
            return place if words.isdisjoint(ends) else -1 - place  # "second to last"
        if is_place and not words.isdisjoint(before):
            return -2
    return None


def _asks_about(words: tuple[str, ...], language: str, *, goes_on: bool, is_thing: bool) -> bool:
    if "answer" not in tables()[language]:
        return False
    plain = without_phrases(words, phrases("courtesies", language))
    _, core = take_phrases(plain, phrases("begins", language, "answer"))
    if {words, plain, core} & phrases("asks", language, "answer"):
        return True
    forms, fillers, verbs = _words_of_forms(language, goes_on=goes_on)
    requests = bool(core) and core[0] in verbs and not (is_thing and len(core) == 1)
    names_form = not forms.isdisjoint(core) and core[0] not in WORDS["openings"]
    return (requests or names_form) and fillers.issuperset(core[requests:])


@cache
def _words_of_forms(language: str, *, goes_on: bool) -> tuple[frozenset[str], ...]:
    """Return what names a form or a source, this with what may be beside it, and the verbs."""
    table = tables()[language]
    form, of_language, neighbours, verbs = (
        frozenset(table["answer"][key].split()) for key in ("forms", "languages", "beside", "verbs")
    )
    forms = form if goes_on else form | of_language
    fillers = forms.union(neighbours, table["words"].split(), languages.function_words(language))
    return forms, fillers, verbs


def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD_OR_CLITIC.findall(text.casefold().replace("’", "'")))
