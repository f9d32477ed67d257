"""Requests to the servers: what a client may send, and as what it is read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from uec_rag.base.checks import parse_json
from uec_rag.questions.answers import Turn
from uec_rag.questions.query import LONGEST_QUERY, turns_of
from uec_rag.stores.filters import check_size, parse

DEFAULT_K, LARGEST_K = 4, 100
"""The number of passages that a search returns, and the largest one."""


def _unless_absent(default: object) -> BeforeValidator:
    """Take null and empty values, which models and clients send, as the default."""
    return BeforeValidator(lambda value: default if value in (None, "", [], {}) else value)


def _text_of(content: object) -> object:
    """Join the texts of a content in parts, of which others, such as images, have none."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    strings = [text for text in texts if isinstance(text, str)]
    return "\n".join(strings) if strings or isinstance(content, list | None) else content


def _as_conditions(value: object) -> object:
    """Parse conditions that were sent as a text."""
    with suppress(ValueError, RecursionError):
        return parse_json(value) if isinstance(value, str) else value
    return value


def as_list(value: object) -> object:
    """Take one value as a list of it."""
    return [value] if isinstance(value, str | dict) else value


class Message(BaseModel, strict=True):
    """A message in the format of OpenAI's API, with a content of text, parts or null.

    What others write as its `text` or its `parts` is its content, too.
    """

    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: Annotated[str, BeforeValidator(_text_of)] = ""

    @model_validator(mode="before")
    @classmethod
    def _with_content(cls, message: object) -> object:
        if not isinstance(message, dict):
            return message
        contents = [message[name] for name in ("content", "parts", "text") if name in message]
        if not contents and message.get("role") == "user":
            raise ValueError("expected the `content` of a user's message")
        return message | {"content": next(filter(None, contents), None)}


HISTORY = (
    "The turns before the question, oldest first: the user's as strings, or messages with a role. "
    "The user's count, answers that asked back, and the last answer."
)
CHOSEN = (
    "The reading that the user chose when asked back: its title, position or ids. Its passages "
    'alone are searched; "both" and "neither" choose, too.'
)
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY, pattern=r"\S")]
K = Annotated[
    int, Field(ge=1, le=LARGEST_K, description="How many passages."), _unless_absent(DEFAULT_K)
]
Conditions = Annotated[
    dict[str, Any],
    Field(
        description="Conditions on the metadata: values, or operators such as $in and $gte.",
        examples=[{"lang": "en", "year": {"$gte": 2020}}],
    ),
    BeforeValidator(_as_conditions),
    _unless_absent({}),
]
Tenant = Annotated[
    dict[str, Any],
    Field(
        min_length=1,
        description="Conditions for the passages of one tenant, as if there were no others.",
        examples=[{"customer": 7}],
    ),
    BeforeValidator(_as_conditions),
]
History = Annotated[
    list[str | Message],
    Field(
        max_length=1_000,
        fail_fast=True,  # else there would be three errors for each wrong item
        description=HISTORY,
        examples=[["Who repairs the door opener?"]],
    ),
    BeforeValidator(as_list),
    _unless_absent([]),
]
Chosen = Annotated[
    str | Annotated[list[str], Field(max_length=10_000, fail_fast=True)],
    Field(description=CHOSEN, examples=["git push"]),
    _unless_absent(""),
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
    k: K = DEFAULT_K
    filter: Conditions = {}
    tenant: Tenant = None  # type: ignore[assignment]  # if absent, but null is refused
    history: History = []
    within: Chosen = ""


class Label(BaseModel, extra="forbid", strict=True):
    """A question, and the passages that answer it; none if nothing does."""

    question: Text
    relevant_ids: list[str] = Field(max_length=1_000, examples=[["faq.md#returns"], []])


class Asked(BaseModel, extra="forbid", strict=True):
    """Questions that users asked; those made from headings are looked at, too."""

    questions: list[Text] = Field([], max_length=100)
    tenant: Tenant = None  # type: ignore[assignment]  # if absent, but null is refused
    most: int = Field(6, ge=1, le=100, description="How many to return.")


class HitCount(BaseModel, extra="forbid", strict=True):
    """The number of passages that an answer may use."""

    k: K = DEFAULT_K


class GuaranteeWanted(HitCount):
    """The guarantee of a gate of the labelled questions: one of two shares."""

    max_wrong: Share | None = Field(None, description="Of all questions, on average.")
    max_risk: Share | None = Field(None, description="Of the answers, with 95% certainty.")


def turns(history: Sequence[str | Message]) -> list[str | Turn]:
    """Extract the turns that a search uses from a history; see `turns_of`."""
    items: list[Any] = [*history]
    pairs = (("user", m) if isinstance(m, str) else (m.role, m.content) for m in items)
    return turns_of((role, text) for role, text in pairs if text.strip())


def options(
    filter: dict[str, Any],
    history: Sequence[str | Message],
    within: str | list[str],
    tenant: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the options of a search by the arguments of a request.

    TypeError or ValueError for a filter that is invalid, or too large for a server.
    """
    for condition in (filter, tenant):
        if condition:
            check_size(parse(condition), conditions=100, values=10_000, length=1_000)
    arguments = {"filter": filter or None, "history": [turns(history)], "within": within or None}
    return arguments | ({"tenant": tenant} if tenant else {})
