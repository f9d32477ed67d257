"""Errors as clients and logs are told of them: one line without secrets, folders or questions."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from uec_rag.base.checks import one_line
from uec_rag.base.errors import FingerprintMismatch, IndexCorrupted
from uec_rag.server.protections import HEADERS

log = logging.getLogger("uec_rag.server")

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
