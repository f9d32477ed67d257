"""The messages of clients and their replies, over HTTP and by the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, Field

from uec_rag.confidence.decision import Action
from uec_rag.confidence.sentences import Code
from uec_rag.retrieval.query import LONGEST_QUERY, turns_of
from uec_rag.retrieval.tool import shown_metadata
from uec_rag.stores.base import Passage
from uec_rag.stores.filters import check_size, parse

LARGEST_K = 100
"""The largest number of passages that a search returns."""

MOST_PASSAGES, LONGEST_PASSAGE = 1_000, 1_000_000
"""The largest number of passages to add or delete at a time, and of characters of each."""


class Message(BaseModel, strict=True):
    """A message in the format of OpenAI's API."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: str


Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY, pattern=r"\S")]
K = Annotated[int, Field(ge=1, le=LARGEST_K, description="How many passages.")]
Conditions = Annotated[
    dict[str, Any],
    Field(
        description="Conditions on the metadata: values, or operators such as $in and $gte.",
        examples=[{"lang": "en", "year": {"$gte": 2020}}],
    ),
]
History = Annotated[
    list[str | Message],
    Field(
        max_length=1_000,
        fail_fast=True,  # else there would be three errors for each wrong item
        description="The turns before the question, oldest first: the user's as strings, or "
        "messages with a role. The user's count, and answers that asked back.",
        examples=[["Who repairs the door opener?"]],
    ),
]
Chosen = Annotated[
    str | Annotated[list[str], Field(min_length=1, max_length=10_000, fail_fast=True)],
    Field(
        description="The reading that the user chose when asked back: its title, position or ids. "
        'Its passages alone are searched; "both" and "neither" choose, too.',
        examples=["git push"],
    ),
]
Share = Annotated[float, Field(gt=0, lt=1)]


class Question(
    BaseModel,
    extra="forbid",
    strict=True,
    json_schema_extra={"examples": [{"question": "How do I reset my password?", "k": 3}]},
):
    """A question and the options of its search."""

    question: Text
    k: K = 4
    filter: Conditions | None = None
    history: History | None = None
    within: Chosen | None = None


class ReadingFound(BaseModel):
    """One of the possible meanings of a question."""

    title: str
    ids: list[str] = Field(description="Ids of its passages, best first.")
    probability: float = Field(description="That it is meant; those of all subjects sum to 1.")


class Part(BaseModel):
    """One encoder's part in a hit."""

    similarity: float
    rank: int | None = Field(description="By this similarity among all passages, if known.")
    share: float = Field(description="Of the score.")


class Hit(BaseModel):
    """A passage that was found."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float = Field(description="The similarity, reduced if it is uncertain.")
    mu: float = Field(description="Mean of the similarity.")
    sigma2: float = Field(description="Variance of the similarity.")
    relevance: float = Field(description="Probability that the passage answers the question.")
    encoders: dict[str, Part] = {}
    matched_terms: list[str] = []


class Answer(BaseModel):
    """The decision about the hits, and the hits, best first."""

    decision: Action = Field(examples=["abstain"])
    reason: str = Field(examples=["The documents do not seem to answer this."])
    reason_code: Code | Literal[""] = Field(examples=["no_answer"])
    language: str = Field(description="Code of the language of the reason.", examples=["en"])
    clarifying_question: str = Field(description="Empty, unless the decision is to clarify.")
    readings: list[ReadingFound] = Field(description="The meanings that the question may have.")
    candidates: list[str] = Field(description="Ids of the passages that the question may be about.")
    confidence: float = Field(description="Probability that the passages answer the question.")
    threshold: float | None = Field(description="Of an answer's confidence; null: never answers.")
    in_corpus: float = Field(description="Probability that the corpus has an answer.")
    underspecified: float = Field(description="Probability that the question is ambiguous.")
    weights: dict[str, float] = Field(description="Each encoder's share of the scores.")
    exact: bool = Field(description="Whether no other passage can have a higher score.")
    passages: list[Hit]


class NewPassage(BaseModel, extra="forbid", strict=True):
    """A passage to add; it replaces a passage with the same id."""

    text: str = Field(min_length=1, max_length=LONGEST_PASSAGE, pattern=r"\S")
    id: str = Field(
        default_factory=lambda: uuid4().hex,
        min_length=1,
        max_length=1000,
        description="Generated by default.",
    )
    metadata: dict[str, Any] = Field(default_factory=dict, examples=[{"source": "faq.md"}])


class NewPassages(BaseModel, extra="forbid"):
    """Passages to add."""

    passages: list[NewPassage] = Field(min_length=1, max_length=MOST_PASSAGES)


class Label(BaseModel, extra="forbid", strict=True):
    """A question, and the passages that answer it; none if nothing does."""

    question: Text
    relevant_ids: list[str] = Field(max_length=MOST_PASSAGES, examples=[["faq.md#returns"], []])


class Asked(BaseModel, extra="forbid", strict=True):
    """Questions that users asked; those made from headings are looked at, too."""

    questions: list[Text] = Field([], max_length=100)
    most: int = Field(6, ge=1, le=100, description="How many to return.")


class Table(BaseModel, extra="forbid", strict=True):
    """Labelled questions: a table, or the labels of the index."""

    name: str = Field("", max_length=200, description="Name of the table's file.")
    table: str | None = Field(None, description="Its text; null for the labels of the index.")
    k: K = 4


class Guarantee(Table):
    """Labelled questions, and what a gate of them guarantees: one of two shares."""

    max_wrong: Share | None = Field(None, description="Of all questions, on average.")
    max_risk: Share | None = Field(None, description="Of the answers, with 95% certainty.")


class Problem(BaseModel):
    """A description of an error and its remedy."""

    detail: str


def stored(passage: Passage) -> dict[str, Any]:
    """Return a whole passage as JSON values."""
    return {"id": passage.id, "text": passage.text, "metadata": shown_metadata(passage)}


def turns(history: Sequence[str | Message] | None) -> list[str]:
    """Extract the turns that a search uses from a history; see `conversation.turns_of`."""
    said: list[Any] = [*(history or ())]
    return turns_of(
        ("user", turn) if isinstance(turn, str) else (turn.role, turn.content) for turn in said
    )


def check_conditions(filter: dict[str, Any] | None) -> None:
    """Raise TypeError or ValueError for a filter that is invalid, or too large for a server."""
    if filter is not None:
        check_size(parse(filter), conditions=100, values=10_000, length=1_000)
