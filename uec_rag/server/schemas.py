"""Requests to the servers, and errors as clients and logs are told of them.

An error is one line without secrets, folders or questions.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from uec_rag.base.checks import one_line
from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted
from uec_rag.retrieval.query import LONGEST_QUERY, turns_of
from uec_rag.server.protections import HEADERS
from uec_rag.stores.filters import check_size, parse

log = logging.getLogger("uec_rag.server")

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
        return read_json(value) if isinstance(value, str) else value
    return value


def read_json(text: str | bytes) -> Any:  # noqa: ANN401
    """Read JSON; ValueError also if an object has a key twice, of which one would be dropped."""

    def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise ValueError("expected each key once in an object")
        return mapping

    return json.loads(text, object_pairs_hook=distinct)


def as_list(value: object) -> object:
    """Take one value as a list of it."""
    return [value] if isinstance(value, str | dict) else value


class Message(BaseModel, strict=True):
    """A message in the format of OpenAI's API, with a content of text, parts or null."""

    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: Annotated[str, BeforeValidator(_text_of)] = ""


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


class Hits(BaseModel, extra="forbid", strict=True):
    """The number of passages that an answer may use."""

    k: K = DEFAULT_K


class Guarantee(Hits):
    """The guarantee of a gate of the labelled questions: one of two shares."""

    max_wrong: Share | None = Field(None, description="Of all questions, on average.")
    max_risk: Share | None = Field(None, description="Of the answers, with 95% certainty.")


def turns(history: Sequence[str | Message]) -> list[str]:
    """Extract the turns that a search uses from a history; see `conversation.turns_of`."""
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
    arguments = {"filter": filter or None, "history": turns(history), "within": within or None}
    return arguments | ({"tenant": tenant} if tenant else {})


# Whose messages are for whoever asked.
_TOLD = (ImportError, KeyError, RecursionError, TypeError, ValueError)
_IN_PATH = r"[^\s\\/'\":,;()]+"


def _last_part(path: re.Match[str]) -> str:
    """Return a path from the last part on that begins with a letter or the like."""
    head, *tail = re.split(r"[\\/](?=\w)", path[2])
    return tail[-1] if tail else path[1] + head


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
        is_key = isinstance(error, KeyError) and error.args  # whose str() quotes its message
        return 422, sanitise(str(error.args[0] if is_key else error))
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
