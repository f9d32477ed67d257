"""The ways of asking a question, as it is searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from uec_rag.base.text import split_words, stems
from uec_rag.questions import grammar
from uec_rag.questions.languages import ENGLISH, language_of
from uec_rag.questions.query import Query

Role: TypeAlias = Literal[
    "written", "spelled", "half", "possible_half", "alone", "carried", "latest"
]

HALVES: tuple[Role, ...] = ("half", "possible_half")
"""The roles of the questions that a question may be at once."""


class Goal(NamedTuple):
    """The subject that a follow-up goes on to, "And a tablet?".

    Attributes
    ----------
    before : str
        The turn that it goes on from.
    after : str
        That turn, about what it goes on to.
    place : str
        What takes the place of a "there" in it; "" if it has none.
    """

    before: str
    after: str
    place: str = ""


@dataclass(frozen=True)
class Phrasing:
    """A way of asking a question, as it is searched.

    Attributes
    ----------
    text : str
    turns : sequence of str
        The turns before it that are searched with it, oldest first.
    role : {"written", "spelled", "half", "possible_half", "alone", "carried", "latest"}
        As the user wrote it; with the words as the index writes them; one of the two questions that
        it is, or of which only the documents tell whether it is two; without its turns; the
        question before, about what a follow-up goes on to; or with the turns since the latest that
        does not refer back.
    prior : float
        How likely it is what was meant, before it is searched.
    language : str
        The code of the language to reply in.
    goal : Goal or None
        What it goes on to, if it is a follow-up that does.
    answer : str
        The answer to the turn before, which is searched with the turns; "" if it is not known.
    """

    text: str
    turns: Sequence[str] = ()
    role: Role = "written"
    prior: float = 1.0
    language: str = ENGLISH
    goal: Goal | None = None
    answer: str = ""

    @classmethod
    def of(cls, text: str) -> Phrasing:
        """Return a question as it is written, without turns."""
        return cls(text, language=language_of(text) or ENGLISH)

    @property
    def searched(self) -> Sequence[str]:
        """The texts that are searched for together, the question first."""
        return [self.text, *self.turns, *filter(None, [self.answer])]

    @property
    def lines(self) -> str:
        """The turns, followed by the question, one per line."""
        return "\n".join([*self.turns, self.text])


def phrasings(query: Query) -> list[Phrasing]:
    r"""List the ways of asking a question; there is none of a blank text.

    Examples
    --------
    >>> query = Query.parse("How much is it?", ["My door opener broke.", "Can it be fixed?"])
    >>> [(row.role, row.lines) for row in phrasings(query)]
    [('written', 'My door opener broke.\nCan it be fixed?\nHow much is it?')]
    >>> query = Query.parse("And in Borg?", ["How do I make a backup in restic?"])
    >>> [row.text for row in phrasings(query)]
    ['How do I make a backup in Borg?', 'And in Borg?']
    """
    if not query.text.strip():
        return []
    before = language_of("\n".join(query.history)) or ENGLISH
    ways = [*_ways(query)]
    carried = next((text for role, text, *_ in ways if role == "carried"), "")
    return [
        Phrasing(
            text,
            turns,
            role,
            prior,
            language_of(text) or before,
            _goal(query, carried if text == query.text else text) if carried else None,
            query.answer if turns else "",
        )
        for role, text, turns, prior in ways
    ]


def _goal(query: Query, after: str) -> Goal:
    """Return what a follow-up goes on to, as the question before asks about it."""
    before = latest_whole(query.turns)
    is_there = {*split_words(query.text)} - {*split_words(after)} == {"there"}
    place = " ".join(stems(after) - stems(query.text)) if is_there else ""
    return Goal(before, after, place)


def _ways(query: Query) -> Iterator[tuple[Role, str, Sequence[str], float]]:
    """Yield role, text, turns and prior; of those that are understood as well, the first counts."""
    text, turns = query.text, query.turns
    if query.spelled:
        yield "spelled", query.spelled, turns, query.likely
    if not query.replies:
        for part in grammar.parts_of(query.spelled or text):
            yield "half", part, (), 1.0
        for part in grammar.possible_parts(query.spelled or text):
            yield "possible_half", part, (), 1.0
    # A complete question is searched without a conjunction before it.
    if turns and (complete := grammar.complete_question(text)):
        yield "alone", complete, (), 1.0
    whole = [at for at, turn in enumerate(turns) if not grammar.refers_back(turn)]
    for carried in grammar.switched(text, turns[whole[-1]]) if whole else ():
        yield "carried", carried, (), 1.0
    if whole and whole[-1]:  # other subjects are before it
        yield "latest", text, turns[whole[-1] :], 1.0
    yield "written", text, turns, 1.0


def latest_whole(turns: Sequence[str]) -> str:
    """Return the latest turn that does not refer back; "" if there is none."""
    return next((turn for turn in reversed(turns) if not grammar.refers_back(turn)), "")
