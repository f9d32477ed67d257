"""The request of a search: questions and options, parsed and checked before they are encoded.

A question with turns before it may be searched in several views: alone, with the turns on the
latest subject, and with all (`Query.views`). A reply to a clarifying question is parsed together
with the question that was asked back about (`Query.parse`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict, TypeVar

from uec_rag.base.checks import as_strings
from uec_rag.confidence.languages import ENGLISH, language_of
from uec_rag.confidence.readings import Reading
from uec_rag.confidence.replies import (
    Within,
    choose_label,
    extract_labels,
    find_positions,
    find_readings,
    is_clarifying_question,
)
from uec_rag.confidence.wording import complete_question, is_question, refers_back
from uec_rag.stores.base import Filter, check_stored_text

_Q = TypeVar("_Q")
_T = TypeVar("_T")

_MOST_REPLIES = 8  # to one question; each is a search
_ROOM = 1500  # bytes that the turns before a question may take, as UTF-8

LONGEST_QUERY = 8_000
"""The largest number of characters of a question that are searched."""

MOST_TURNS = 64
"""The number of turns before a question that are looked at: the latest."""


class Diversity(NamedTuple):
    """The options of a search for hits that differ from each other (maximal marginal relevance).

    Attributes
    ----------
    fetch_k : int
        Number of hits to choose from: those with the highest s_hat.
    lambda_mult : float
        From 1, relevance only, to 0, diversity only.
    """

    fetch_k: int = 50
    lambda_mult: float = 0.5


class Options(TypedDict, total=False):
    """The options of a search besides its queries and k; see `Retriever.search`."""

    filter: Filter | None
    unanswerable_rate: float | None
    history: Sequence[Sequence[str]] | None
    within: Within | None
    diversity: Diversity | None


@dataclass(frozen=True)
class Query:
    """A question of a conversation, from parsing to its result.

    Attributes
    ----------
    text : str
        The question; after a clarifying question, followed by a reply that named no reading.
    turns : sequence of str
        The turns before it that are searched with it, oldest first.
    replies : tuple of str
        The replies that choose among the readings of the question, one for each time that the user
        was asked back: a label, an ordinal or another form that `find_readings` recognises.
    history : sequence of str
        All turns before the question, oldest first.
    """

    text: str
    turns: Sequence[str] = ()
    replies: tuple[str, ...] = ()
    history: Sequence[str] = ()

    @classmethod
    def parse(cls, said: str, history: Sequence[str] = (), within: Within | None = None) -> Query:
        """Parse what the user said, which may be the reply to a clarifying question.

        A reply that says which readings are meant (some, all or none) chooses among those of the
        question asked before. So does `within`, if it is the label of a chosen reading or another
        reply: among the readings of `said` or, if the turns have `said` and end with a clarifying
        question, among those that this one offers. A reply that names no reading is searched
        together with that question, unless it is a question itself.

        Examples
        --------
        >>> Query.parse("rsync", ["How do I force it?", "Do you mean rsync or git add?"])
        Query(text='How do I force it?', turns=[], replies=('rsync',), history=[])
        """
        if within is None and not history:
            return cls(said)
        if within is None:
            text, before, replies = _parse_turns(said, history)
        elif not isinstance(within, str):
            text, before, replies = said, history, ()
        elif history and is_clarifying_question(history[-1]) and said in history:
            # The last of the turns asks which reading of the question is meant.
            text, before, replies = _parse_turns(within, history)
        else:
            text, before, replies = _parse_turns(said, history)
            replies = (*replies, within)
        return cls(text, searched_turns(text, before), replies, before)

    @property
    def is_blank(self) -> bool:
        """True if there is no question, which is not searched."""
        return not self.text.strip()

    @property
    def lines(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])

    @property
    def alone(self) -> Query:
        """The question without its turns; a complete question, without a conjunction."""
        return Query(complete_question(self.text) or self.text, history=self.history)

    @property
    def language(self) -> str:
        """The code of the language to reply in: the question's, else its turns', else English."""
        return language_of(self.text) or language_of("\n".join(self.history)) or ENGLISH

    @property
    def views(self) -> dict[int | None, Query]:
        r"""The views in which it is searched, by the number of their turns; None has all.

        There is none of a blank text. If there are turns, the others are 0 and the number of those
        since the latest that does not refer back.

        Examples
        --------
        >>> query = Query.parse("How much is it?", ["My door opener broke.", "Can it be fixed?"])
        >>> [view.lines for view in query.views.values()]
        ['How much is it?', 'My door opener broke.\nCan it be fixed?\nHow much is it?']
        """
        turns = self.turns
        if self.is_blank:
            return {}
        if not turns:
            return {None: self}
        back = (count for count, turn in enumerate(reversed(turns), 1) if not refers_back(turn))
        since = next(back, len(turns))
        if since == len(turns):
            return {0: self.alone, None: self}
        return {0: self.alone, since: replace(self, turns=turns[-since:]), None: self}

    def with_reply(self, reply: str) -> Query:
        """Return the question with a reply that named no reading, as more text of the question."""
        text = f"{self.text}\n{reply}"
        return replace(self, text=text, turns=searched_turns(text, self.history))


def _parse_turns(said: str, history: Sequence[str]) -> tuple[str, Sequence[str], tuple[str, ...]]:
    """Return the question that was asked, the turns before it, and the replies to it."""
    position, spoken, heard = len(history), [*history, said], list[str]()
    while position >= 2 and is_clarifying_question(spoken[position - 1]):
        asked, reply = spoken[position - 1], spoken[position]
        named = find_positions(reply, extract_labels(asked)) is not None
        if not named and is_question(reply):
            break
        heard.append(choose_label(asked, reply) if named else reply)
        position -= 2  # to the question that was asked back about, which may be a reply, too
        if len(heard) == _MOST_REPLIES:
            break
    text, before = spoken[position], spoken[:position]
    replies: tuple[str, ...] = ()
    for asked, reply in zip(spoken[position + 1 :: 2], reversed(heard), strict=True):
        if find_positions(reply, extract_labels(asked)) is not None:
            replies = (*replies, reply)
        else:
            text, replies = f"{text}\n{reply}", ()
    return text, before, replies


def searched_turns(question: str, history: Sequence[str]) -> list[str]:
    """List the turns that a question is searched with: the latest, up to 1,500 bytes in UTF-8.

    A reply that chooses a reading is one turn with the question it was asked about. A turn that
    does not fit is left out together with all earlier ones. Blank turns, clarifying questions and
    the same question are also left out.
    """
    kept: list[str] = []
    room, same, before = _ROOM, question.strip().casefold(), history
    while before:
        turn, earlier, replies = _parse_turns(before[-1], before[:-1])
        if not replies:
            turn, earlier = before[-1], before[:-1]
        before, said = earlier, "\n".join([turn, *replies])
        if is_clarifying_question(said):
            continue
        room -= len(said.encode())
        if room < 0:
            break
        if said.strip().casefold() not in ("", same):
            kept.append(said.strip())
    return kept[::-1]


def searched_texts(queries: Sequence[str]) -> list[str]:
    r"""Return questions as they are searched; TypeError unless they are a list of strings.

    Only the first 8,000 characters are, and half of a surrogate pair, as is left of an emoji that
    was cut in two, is a question mark.

    Examples
    --------
    >>> searched_texts(["Who pays? \ud83d"])
    ['Who pays? ?']
    """
    said = as_strings(queries, "queries")
    return [text[:LONGEST_QUERY].encode(errors="replace").decode() for text in said]


def texts_of(queries: Sequence[Query]) -> list[str]:
    """List the different texts to encode for a search: the questions and their turns."""
    asked = [query for query in queries if not query.is_blank]
    turns = (turn for query in asked for turn in query.turns)
    alone = (query.alone.text for query in asked if query.turns)
    return [*dict.fromkeys([*(query.text for query in asked), *turns, *alone])]


@dataclass(frozen=True)
class Request:
    """The checked arguments of a search, before its texts are encoded.

    Attributes
    ----------
    said : list of str
        The questions as the user wrote them.
    history : sequence of n sequences of str, or None
        The turns before each of them.
    queries : list of Query
        The questions in their conversations, parsed.
    texts : list of str
        The different texts to encode: `texts_of(queries)`.
    k : int
        Number of hits to search for.
    filter, unanswerable_rate
        As in `Retriever.search`.
    chosen : tuple of str
        The ids of the chosen reading; none if it was chosen by its label, or not at all.
    label : str or None
        The label of the chosen reading.
    diversity : (int, float) or None
        Number of diverse hits to choose of those found, and the weight of their relevance.
    """

    said: list[str]
    history: Sequence[Sequence[str]] | None
    queries: list[Query]
    texts: list[str]
    k: int
    filter: Filter | None
    unanswerable_rate: float | None
    chosen: tuple[str, ...] = ()
    label: str | None = None
    diversity: tuple[int, float] | None = None

    @property
    def is_narrowed(self) -> bool:
        """True if a reading of one of the questions was chosen."""
        return bool(self.chosen) or any(query.replies for query in self.queries)


def choose_readings(choice: str | Sequence[str], offered: Sequence[Reading]) -> list[Reading]:
    """Return the readings that a reply names, or those with one of the chosen ids.

    UnknownReading if a reply names none, and does not decline all.
    """
    if isinstance(choice, str):
        return find_readings(choice, offered)
    return [reading for reading in offered if not {*choice}.isdisjoint(reading.ids)]


def with_turns(questions: Sequence[_Q], history: Sequence[_T]) -> list[tuple[_Q, _T]]:
    """Pair each question with the turns before it; ValueError unless there are as many of each."""
    if len(history) != len(questions):
        raise ValueError(
            f"history: expected the turns before each of {len(questions)} questions, got "
            f"{len(history)} lists; write [] for a question that begins a conversation."
        )
    return [*zip(questions, history, strict=True)]


def check_history(history: object) -> list[Sequence[str]]:
    """Return the latest turns before each question; TypeError if they are not lists of strings."""
    expected = "expected a list of the turns before each question, oldest first, each a string"
    if isinstance(history, str) or not isinstance(history, Sequence):
        raise TypeError(f"history: {expected}, got {type(history).__name__}.")
    latest = []
    for row, turns in enumerate(history):
        if isinstance(turns, str) or not isinstance(turns, Sequence):
            kind = type(turns).__name__
            raise TypeError(f"history[{row}]: {expected}, got {kind}; write [turn] for one.")
        latest.append(turns[-MOST_TURNS:])
        for position, turn in enumerate(latest[-1], max(0, len(turns) - MOST_TURNS)):
            if not isinstance(turn, str):
                raise TypeError(
                    f"history[{row}][{position}]: {expected}, got {type(turn).__name__}; of a "
                    "message give its text."
                )
            check_stored_text(turn, f"history[{row}][{position}]")
    return latest
