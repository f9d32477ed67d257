"""The conversation in a request: earlier turns, and the reading that the user chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from uec_rag.retrieval.conversation import turns_of

MOST_MESSAGES = 1_000
"""The number of messages that a request may have; the latest that are turns are looked at."""


class Message(BaseModel, strict=True):
    """A message in the format of OpenAI's API."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: str


History = Annotated[
    list[str | Message],
    Field(
        max_length=MOST_MESSAGES,
        fail_fast=True,  # else there would be three errors for each wrong item
        description="The turns before the question, oldest first: the user's as strings, or "
        "messages with a role. The user's count, and answers that asked back.",
        examples=[["Who repairs the door opener?"]],
    ),
]

ReadingIds = Annotated[list[str], Field(min_length=1, max_length=10_000, fail_fast=True)]
Chosen = Annotated[
    str | ReadingIds,
    Field(
        description="The reading that the user chose when asked back: its label, place or ids. "
        'Its passages alone are searched; "both" and "neither" choose, too.',
        examples=["git push"],
    ),
]


class ReadingFound(BaseModel):
    """One of the possible meanings of a question."""

    title: str
    ids: list[str] = Field(description="Ids of its passages, best first.")
    probability: float = Field(
        description="Likelihood of the reading; the likelihoods of all "
        "subjects of the hits sum to 1."
    )


def turns(history: Sequence[str | Message] | None) -> list[str]:
    """Extract the turns that a search uses from a history; see `conversation.turns_of`."""
    said: list[Any] = [*(history or ())]
    return turns_of(
        ("user", turn) if isinstance(turn, str) else (turn.role, turn.content) for turn in said
    )
