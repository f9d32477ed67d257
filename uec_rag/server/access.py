"""Who may ask a server, and what it never tells: shared by `serve`, `explore` and `mcp` over HTTP.

A page of a stranger's, open in the user's browser, can send requests to this machine. Under a name
of its own that it lets point here (DNS rebinding) it could read the answers: the Host header gives
that away. Without one it can still have things written (CSRF): the Origin header gives that away.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import logging.config
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uec_rag.base.checks import one_line

log = logging.getLogger("uec_rag.server")

_COOKIE = "uec_rag_token"
_SHORTEST = 16  # characters of a token
_OPEN = ("/healthz", "/readyz")  # need no token, and tell nothing of any passage
_READING = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

# Of a URL the user and password, of a DSN or a query the value of a key that names a secret, and of
# a path all but its last part: between quotation marks it may hold blanks.
_HIDDEN = [
    (re.compile(r"(?<=://)[^\s/@'\"]+@"), ""),
    (re.compile(r"(?i)\b(password|token|api[_-]?key|secret)(\s*[=:]\s*)[^\s&,;'\"]+"), r"\1\2..."),
    (re.compile(r"(?i)\b(bearer\s+)[^\s,;'\"]+"), r"\1..."),
    (re.compile(r"(['\"])(?:~|[A-Za-z]:)?[\\/][^'\"]*[\\/]([^'\"\\/]+)[\\/]?\1"), r"\1\2\1"),
    (re.compile(r"(?<![\w:/.<])(?:~|[A-Za-z]:)?(?:[\\/][^\s\\/'\":,;()]+)+[\\/](?=\w)"), ""),
]


def harmless(text: str) -> str:
    r"""Text for an answer or a log: one line, without control characters, folders and passwords.

    Examples
    --------
    >>> print(harmless("no index in '/home/me/my docs/idx' at postgresql://me:pw@host/db\x1b[2J"))
    no index in 'idx' at postgresql://host/db\x1b[2J
    """
    for pattern, instead in _HIDDEN:
        text = pattern.sub(instead, text)
    return one_line(text)


class LogFormatter(logging.Formatter):
    """One `harmless` line for each record; with UEC_DEBUG=1 in the environment, tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            if os.environ.get("UEC_DEBUG") == "1":
                return f"{line}\n{self.formatException(record.exc_info)}"
            line += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        return harmless(line)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": f"{__name__}.LogFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {name: {"level": "WARNING"} for name in ("httpx", "mcp", "uvicorn.access")},
}
"""For `logging.config.dictConfig`: everything goes to stderr by way of `LogFormatter`."""


def log_to_stderr() -> None:
    """Have this process log as `LOGGING` says, warnings too."""
    logging.config.dictConfig(LOGGING)
    logging.captureWarnings(True)


@dataclass(frozen=True)
class Access:
    """Who may ask a server; ValueError if that is anybody, or the token is a weak one.

    `host`: the address it listens on. `token`: what every request brings, as "Authorization: Bearer
    TOKEN"; needed where `host` is not this machine alone. `names`: others that the server is
    reached by, as a proxy's. `body`: bytes that a request may have. `cookie`: whether a browser may
    bring the token, as "?token=TOKEN" of the first page.
    """

    host: str = "127.0.0.1"
    token: str | None = None
    names: tuple[str, ...] = ()
    body: int = 2**20
    cookie: bool = False

    def __post_init__(self) -> None:
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
        """Whether only programs of this machine can reach the server."""
        address = _address(self.host)
        return self.host == "localhost" or (address is not None and address.is_loopback)

    @property
    def warning(self) -> str | None:
        """What to know before others can reach the server."""
        if self.is_local:
            return None
        return (
            f"--host {self.host}: requests, answers and the token go over the network unencrypted; "
            "put a proxy with TLS before it, and listen on an address that only the proxy reaches"
        )

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        """Why a request is not answered; None if it is."""
        host, origin = headers.get("host", ""), headers.get("origin", f"//{headers.get('host')}")
        if not self._knows(_name(host)):
            return problem(421, "Host: not a name of this server; name it with --allow-host.")
        own = origin.partition("//")[2] == host or _name(origin.partition("//")[2]) in self.names
        writes = method not in _READING
        if not own or (writes and headers.get("sec-fetch-site") == "cross-site"):
            return problem(403, "Origin: a page of another site may not ask this server.")
        if self.token is None or path in _OPEN or self._has_token(headers):
            return None
        refused = problem(401, "Authorization: expected 'Bearer TOKEN' with the server's token.")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _knows(self, name: str) -> bool:
        """Whether this server has a name; nobody can have an address point anywhere else."""
        return name in ("localhost", self.host.lower(), *self.names) or _address(name) is not None

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            cookies = cookie_parser(headers.get("cookie", "")) if self.cookie else {}
            given = cookies.get(_COOKIE, "")
        return self.is_token(given.strip())

    def is_token(self, given: str) -> bool:
        """Whether a text is the token; takes as long whatever it is."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())


def _name(place: str) -> str:
    """The host of a HOST:PORT; "" where there is none."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def invalid(errors: Iterable[Mapping[str, Any]], depth: int = 0) -> str:
    """What pydantic found wrong with a request, in a line that does not repeat it.

    `depth`: how much of each place leads to the request itself.
    """
    found = (
        f"{'.'.join(map(str, one['loc'][depth:])) or 'body'}: {one['msg']}"
        for one in islice(errors, 5)
    )
    return harmless("; ".join(found))


def problem(status: int, detail: str) -> JSONResponse:
    """An answer that says what is wrong and what to do, as FastAPI's have it."""
    return JSONResponse({"detail": detail}, status)


class Guard:
    """ASGI middleware around a whole application: refuses, limits, and hides what went wrong."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have the application do it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no websockets here: the server answers 500 to whoever wants one
        started = failed = False

        async def hardened(message: Message, *, own: bool = False) -> None:
            nonlocal started, failed
            failed |= message.get("status") == 500  # what the application says of it is for the log
            if failed and not own:
                return
            if message["type"] == "http.response.start":
                started, headers = True, MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = problem(500, "The server failed on this request; its log says why.")
        try:
            refused = self._signed_in(scope) or self._refusal(scope)
            await (refused or self.app)(scope, self._limited(receive), hardened)
        except HTTPException as error:
            failed, answer = True, problem(error.status_code, error.detail)
        except Exception as error:
            failed = True
            log.error("%s: %s", scope["path"], type(error).__name__, exc_info=error)
        if failed and not started:
            await answer(scope, receive, partial(hardened, own=True))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length.isdecimal():
            self._check_length(int(length))
        return self.access.refusal(scope["method"], scope["path"], headers)

    def _check_length(self, length: int) -> None:
        if length > self.access.body:
            most = f"more than {self.access.body:,} bytes"
            raise HTTPException(413, f"The request has {most}; send less at a time.")

    def _limited(self, receive: Receive) -> Receive:
        """Count what comes, whatever length was announced."""
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            self._check_length(taken)
            return message

        return limited

    def _signed_in(self, scope: Scope) -> Response | None:
        """Take the token of a browser's first request out of the address, into a cookie."""
        if not self.access.cookie or scope["method"] != "GET":
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given, rest = dict(query).get("token", ""), [part for part in query if part[0] != "token"]
        known = {**Headers(scope=scope), "authorization": f"Bearer {given}"}
        if not self.access.is_token(given) or self.access.refusal("GET", scope["path"], known):
            return None
        answer = RedirectResponse(
            f"/{scope['path'].lstrip('/')}{'?' * bool(rest)}{urlencode(rest)}", 303
        )
        answer.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
        return answer
