"""Requests to the servers, and errors as clients and logs are told of them.

An error is one line without secrets, folders or questions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uec_rag.base.checks import one_line
from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted
from uec_rag.retrieval.query import LONGEST_QUERY, turns_of
from uec_rag.server.access import HEADERS
from uec_rag.stores.filters import check_size, parse

log = logging.getLogger("uec_rag.server")

LARGEST_K = 100
"""The largest number of passages that a search returns."""


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


class Label(BaseModel, extra="forbid", strict=True):
    """A question, and the passages that answer it; none if nothing does."""

    question: Text
    relevant_ids: list[str] = Field(max_length=1_000, examples=[["faq.md#returns"], []])


class Asked(BaseModel, extra="forbid", strict=True):
    """Questions that users asked; those made from headings are looked at, too."""

    questions: list[Text] = Field([], max_length=100)
    most: int = Field(6, ge=1, le=100, description="How many to return.")


class Hits(BaseModel, extra="forbid", strict=True):
    """The number of passages that an answer may use."""

    k: K = 4


class Guarantee(Hits):
    """The guarantee of a gate of the labelled questions: one of two shares."""

    max_wrong: Share | None = Field(None, description="Of all questions, on average.")
    max_risk: Share | None = Field(None, description="Of the answers, with 95% certainty.")


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


# Whose messages are for whoever asked.
_TOLD = (ImportError, KeyError, RecursionError, TypeError, ValueError)
_IN_PATH = r"[^\s\\/'\":,;()]+"


def _last_part(path: re.Match[str]) -> str:
    """Return a path from the last part on that begins with a letter or the like."""
    first, *others = re.split(r"[\\/](?=\w)", path[2])
    return others[-1] if others else path[1] + first


# What is hidden: the user and password of a URL, values of keys that name a secret, bearer tokens,
# and the folders of a path, which may contain blanks if it is quoted.
_HIDDEN: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"(?<=://)[^\s/@'\"]+@"), ""),
    (re.compile(r"(?i)\b(password|token|api[_-]?key|secret)(\s*[=:]\s*)[^\s&,;'\"]+"), r"\1\2..."),
    (re.compile(r"(?i)\b(bearer\s+)[^\s,;'\"]+"), r"\1..."),
    (re.compile(r"(['\"])(?:~|[A-Za-z]:)?[\\/][^'\"]*[\\/]([^'\"\\/]+)[\\/]?\1"), r"\1\2\1"),
    (
        re.compile(rf"(?<![\w:/.<])((?:~|[A-Za-z]:)?[\\/])({_IN_PATH}(?:[\\/]{_IN_PATH})++)"),
        _last_part,
    ),
]


def sanitise(text: str) -> str:
    r"""Remove folders and secrets from text and make it one line without control characters.

    Examples
    --------
    >>> print(sanitise("no index in '/home/me/my docs/idx' at postgresql://me:pw@host/db\x1b[2J"))
    no index in 'idx' at postgresql://host/db\x1b[2J
    """
    for pattern, instead in _HIDDEN:
        text = pattern.sub(instead, text)
    return one_line(text)


def describe_invalid(errors: Iterable[Mapping[str, Any]], depth: int = 0) -> str:
    """Describe the first of pydantic's validation errors in a line that does not repeat the input.

    `depth`: number of leading parts to drop from each location, such as "body".
    """
    lines = (
        f"{'.'.join(f'{part!s:.60}' for part in error['loc'][depth:]) or 'body'}: {error['msg']}"
        for error in islice(errors, 5)
    )
    return sanitise("; ".join(lines))


def describe_error(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the message for an error, without details meant for the log."""
    if isinstance(error, BlockingIOError):
        return 409, "Another process is saving the index; nothing was changed. Try again."
    if isinstance(error, OSError | IndexCorrupted | FingerprintMismatch):
        log.error("the index cannot be used: %s", error)
        return 503, "The index cannot be reached, read or written; the server's log says why."
    if isinstance(error, _TOLD):
        own = isinstance(error, KeyError) and error.args  # str() of a KeyError quotes its message
        return 422, sanitise(str(error.args[0] if own else error))
    return 500, "The server failed on this request; its log says why."


async def error_response(request: Request, error: Exception) -> Response:
    """Make the answer to a request that failed."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"detail": describe_invalid(error.errors(), depth=1)}, 422)
    status, detail = describe_error(error)
    return JSONResponse({"detail": detail}, status, HEADERS)


HANDLERS: dict[int | type[Exception], Any] = dict.fromkeys(
    (RequestValidationError, *_TOLD, OSError, Exception), error_response
)
"""The handlers of a FastAPI or Starlette application, by the type of an error."""
