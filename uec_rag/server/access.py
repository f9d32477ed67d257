"""Access control, request limits and safe errors for `serve`, `explore` and `mcp` over HTTP.

A hostile page that is open in the user's browser can send requests to this machine. If its domain
name resolves to this machine (DNS rebinding), it could also read the responses; the Host header
reveals this. Otherwise it can still cause writes (CSRF); the Origin header reveals this.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uec_rag.base.checks import one_line

log = logging.getLogger("uec_rag.server")
requests = logging.getLogger("uec_rag.server.requests")

_SHORTEST = 16  # characters of a token
_BODY_SECONDS = 30
ANSWER_TOO_LONG = "The answer has more than {:,} bytes; ask for fewer passages (k)."
_READING = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


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


@dataclass(frozen=True)
class Limits:
    """The limits of a server, listed in docs/serving.md.

    `body`, `answer`: bytes of a request and of a response. `connections`: open connections of each
    process. `headers`: seconds in which all headers of a request must arrive; its body must arrive
    in 30 seconds plus one for each megabyte that `body` allows. `queue`: questions that may wait.
    `conditions`, `values`, `characters`: size of a filter, as counted by
    `uec_rag.stores.filters.check_size`.
    """

    body: int = 2**20
    answer: int = 2**24
    connections: int = 512
    headers: int = 10
    queue: int = 256
    conditions: int = 100
    values: int = 10_000
    characters: int = 1_000


def limits_of(settings: Iterable[str]) -> Limits:
    """Parse limits from the command line, "NAME=NUMBER" for each that differs from the default.

    Raises ValueError if a name is unknown or a number is not a positive integer.

    Examples
    --------
    >>> limits_of(["connections=100"]).connections
    100
    """
    names, numbers = [field.name for field in fields(Limits)], {}
    for setting in settings:
        name, _, number = setting.partition("=")
        if name not in names or not re.fullmatch("[1-9][0-9]{0,11}", number):
            raise ValueError(
                f"--limit: expected NAME=NUMBER with a whole number from 1 and one of the names "
                f"{', '.join(names)}, got {setting!r:.60}."
            )
        numbers[name] = int(number)
    return Limits(**numbers)


@dataclass(frozen=True)
class Access:
    """The access rules of a server.

    `host`: the address to listen on. `token`: the secret that each request must send as
    "Authorization: Bearer TOKEN"; required if other machines can reach `host`. `names`: further
    host names of the server, such as that of a proxy. `limits`: the limits of requests. `origins`:
    origins of other sites whose pages may send requests. `open`: paths that need no token, since
    they disclose nothing about the passages.

    Raises ValueError if a name or an origin is malformed, or if the token is too short, malformed
    or required but missing.
    """

    host: str = "127.0.0.1"
    token: str | None = None
    names: tuple[str, ...] = ()
    limits: Limits = Limits()
    origins: tuple[str, ...] = ()
    open: tuple[str, ...] = ("/healthz", "/readyz")

    def __post_init__(self) -> None:
        for name in self.names:
            if not re.fullmatch(r"[^\s/:*?#@]+", name):
                raise ValueError(
                    f"--allow-host: expected a name without scheme and port, docs.example.com, got "
                    f"{name!r:.60}."
                )
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^\s/*?#@]+", origin):
                raise ValueError(
                    f"--cors: expected an origin as browsers name it, https://app.example.com or "
                    f"http://localhost:3000, got {origin!r:.60}."
                )
        if self.token is not None and not re.fullmatch(rf"[!-~]{{{_SHORTEST},}}", self.token):
            raise ValueError(
                f"--token: expected at least {_SHORTEST} letters, digits or signs without blanks; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        if self.token is None and not self.is_local:
            raise ValueError(
                f"--host {self.host}: others could ask, so a token is needed: --token TOKEN, or "
                "UEC_TOKEN in the environment."
            )

    @property
    def is_local(self) -> bool:
        """True if only programs on this machine can reach the server."""
        address = _address(self.host)
        return self.host == "localhost" or (address is not None and address.is_loopback)

    @property
    def warning(self) -> str | None:
        """A warning for the operator if other machines can reach the server, else None."""
        if self.is_local:
            return None
        return (
            f"--host {self.host}: requests, answers and the token are sent unencrypted; put a "
            "TLS proxy in front of the server, and listen on an address that only the proxy can "
            "reach"
        )

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        """Return the error response for a request that is not permitted; None if it is."""
        host, origin = headers.get("host", ""), headers.get("origin", f"//{headers.get('host')}")
        allowed = origin in self.origins
        name = _name(host)  # DNS rebinding needs a name, not an address
        if name not in ("localhost", self.host.lower(), *self.names) and _address(name) is None:
            return problem(421, "Host: not a name of this server; name it with --allow-host.")
        own = origin.partition("//")[2] == host or _name(origin.partition("//")[2]) in self.names
        crossed = method not in _READING and headers.get("sec-fetch-site") == "cross-site"
        if not allowed and (crossed or not own):
            return problem(403, "Origin: a page of another site may not ask this server.")
        if self.token is None or path in self.open or self._has_token(headers):
            return None
        refused = problem(401, "Authorization: expected 'Bearer TOKEN' with the server's token.")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request has the token, compared in constant time."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        token = (self.token or "").encode()
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token)


def _name(address: str) -> str:
    """Return the host of HOST:PORT; "" if there is none."""
    try:
        return urlsplit(f"//{address}").hostname or ""
    except ValueError:
        return ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def describe_invalid_request(errors: Iterable[Mapping[str, Any]], depth: int = 0) -> str:
    """Describe pydantic's validation errors in one line that does not repeat the input.

    `depth`: number of leading parts to drop from each location, such as "body".
    """
    # In a union, pydantic adds the name of a Python type to the location; `_KINDS` are dropped.
    rows = [
        (
            tuple(f"{part!s:.60}" for part in details["loc"][depth:] if part not in _KINDS),
            details["type"].endswith("_type"),
            _reword(details),
        )
        for details in islice(errors, 5)
    ]
    lines_of: dict[str, list[str]] = {}
    for location, is_kind, said in rows:
        # If a value has the type of one member of a union, type errors of the others are noise.
        others = (row for row in rows if row[0][: len(location)] == location)
        if not is_kind or all(row[:2] == (location, True) for row in others):
            lines_of.setdefault(".".join(location) or "body", []).append(said)
    lines = (f"{path}: {' or '.join(said)}" for path, said in lines_of.items())
    return sanitise("; ".join(lines).replace(" or should be ", " or "))


_KINDS = {"str", "list[str]", "Message"}
_SAID = {  # by the first part of an error's type
    "dict": "should be an object",
    "extra": "is not expected",
    "int": "should be a whole number",
    "missing": "is missing",
    "model": "should be an object",
}


def _reword(error: Mapping[str, Any]) -> str:
    """Reword an error message of pydantic so that it reads well after the name of a field."""
    said = re.sub("^[A-Z][a-z]+ (?=should)|valid | after validation", "", error["msg"])
    return _SAID.get(error["type"].partition("_")[0], said)


def describe_error(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the message for an error, without details meant for the log."""
    if isinstance(error, BlockingIOError):
        return 409, "Another process is saving the index; nothing was changed. Try again."
    if isinstance(error, OSError):
        log.error("the index cannot be reached or written: %s", error)
        return 503, "The index cannot be reached or written; try again later."
    if isinstance(error, TypeError | ValueError | KeyError | ImportError | RecursionError):
        own = isinstance(error, KeyError) and error.args  # str() of a KeyError quotes its message
        return 422, sanitise(str(error.args[0] if own else error))
    return 500, "The server failed on this request; its log says why."


def problem(status: int, detail: str) -> JSONResponse:
    """Make an error response in FastAPI's format."""
    return JSONResponse({"detail": detail}, status)


class Guard:
    """ASGI middleware that controls access, enforces limits and hides internals of errors.

    `count`: called with the path and status of each response, which is then also logged. A path
    that is not of the application is counted as "other".
    """

    def __init__(
        self, app: ASGIApp, access: Access, count: Callable[[str, int], None] | None = None
    ) -> None:
        self.app, self.access, self.count = app, access, count
        self._answer: ASGIApp = self._guard
        if access.origins:  # CORS is outermost, so that pages can also read refusals
            self._answer = CORSMiddleware(
                self._guard,
                allow_origins=access.origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["Authorization", "Content-Type"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it to the application."""
        await self._answer(scope, receive, send)

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # websockets are not supported; the server then answers 500
        started, failed, begun = False, False, time.perf_counter()
        answer = problem(500, "The server failed on this request; its log says why.")

        async def hardened(message: Message, *, own: bool = False) -> None:
            nonlocal started, failed, answer
            failed |= message.get("status") == 500  # the application's message is only for the log
            most = self.access.limits.answer
            length = Headers(raw=message.get("headers", ())).get("content-length", "0")
            if not failed and int(length) > most:
                failed, answer = True, problem(422, ANSWER_TOO_LONG.format(most))
            if failed and not own:
                return
            if message["type"] == "http.response.start":
                started, headers = True, MutableHeaders(scope=message)
                self._note(scope, message["status"], begun)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_headers(headers)
            refused = self.access.refusal(scope["method"], scope["path"], headers)
            await (refused or self.app)(scope, self._limit_body(receive), hardened)
        except HTTPException as error:
            failed, answer = True, problem(error.status_code, error.detail)
            answer.headers.update(error.headers or {})
        except Exception as error:
            failed = True
            log.error("%s: %s", scope["path"], type(error).__name__, exc_info=error)
        if failed and not started:
            await answer(scope, receive, partial(hardened, own=True))

    def _note(self, scope: Scope, status: int, begun: float) -> None:
        """Count a response, and log it without the content of the request."""
        if self.count is None:
            return
        unrouted = scope["path"] if scope["path"] in self.access.open else "other"
        path = str(getattr(scope.get("route"), "path", unrouted))
        self.count(path, status)
        milliseconds = (time.perf_counter() - begun) * 1000
        requests.info("%s %s %d %.0f ms", scope["method"], path, status, milliseconds)

    def _check_headers(self, headers: Headers) -> None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # The server and a proxy may disagree on where it ends: what is behind it is unread.
            raise HTTPException(
                400,
                "Content-Length, Transfer-Encoding: expected one of them.",
                {"Connection": "close"},
            )
        if (length := headers.get("content-length", "0")).isdecimal():
            self._check_length(int(length))

    def _check_length(self, length: int) -> None:
        if length > self.access.limits.body:
            most = f"more than {self.access.limits.body:,} bytes"
            raise HTTPException(413, f"The request has {most}; send less at a time.")

    def _limit_body(self, receive: Receive) -> Receive:
        """Limit the size of the received body, whatever its Content-Length, and its duration."""
        taken, more = 0, True
        end = asyncio.get_running_loop().time() + _BODY_SECONDS + self.access.limits.body / 2**20

        async def limited() -> Message:
            nonlocal taken, more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, "The request took too long to arrive; try again."
                ) from None
            taken += len(message.get("body", b""))
            self._check_length(taken)
            more = message.get("more_body", False)
            return message

        return limited
