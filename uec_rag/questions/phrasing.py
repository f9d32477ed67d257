"""A way of asking a question, as it is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from uec_rag.questions.languages import ENGLISH, language_of

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
