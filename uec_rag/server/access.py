"""Access to a server and its limits: middlewares of Starlette, and our own where it has none.

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
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from fastapi.responses import JSONResponse
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

requests = logging.getLogger("uec_rag.server.requests")

BODY, ANSWER = 2**20, 2**24
"""The largest numbers of bytes of a request and of an answer."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
"""The headers of every answer: a page loads only what comes from this server."""

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_SHORTEST = 16  # characters of a token
_SECONDS = 30.0  # in which a body must arrive
_READING = ("GET", "HEAD", "OPTIONS")


def is_local(host: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(
    host: str, token: str | None, names: Collection[str], origins: Collection[str]
) -> None:
    """Check where a server listens and who may ask it; ValueError that names the option."""
    for name in names:
        if not re.fullmatch(r"[^\s/:*?#@]+", name):
            raise ValueError(
                f"--allow-host: expected a name without scheme and port, docs.example.com, got "
                f"{name!r:.60}."
            )
    for origin in origins:
        if not re.fullmatch(r"https?://[^\s/*?#@]+", origin):
            raise ValueError(
                f"--cors: expected an origin as browsers name it, https://app.example.com or "
                f"http://localhost:3000, got {origin!r:.60}."
            )
    if token is not None and not re.fullmatch(rf"[!-~]{{{_SHORTEST},}}", token):
        raise ValueError(
            f"--token: expected at least {_SHORTEST} letters, digits or signs without blanks; "
            "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if token is None and not is_local(host):
        raise ValueError(
            f"--host {host}: others could ask, so a token is needed: --token TOKEN, or UEC_TOKEN "
            "in the environment."
        )


def names_of(host: str) -> list[str]:
    """Return the names and addresses by which this machine is asked if it listens on a host."""
    if host not in ("0.0.0.0", "::"):
        return [f"[{host}]" if ":" in host else host]
    own = {str(address[0]) for *_, address in socket.getaddrinfo(socket.gethostname(), None)}
    return [socket.gethostname(), *(f"[{one}]" if ":" in one else one for one in sorted(own))]


def protections(
    token: str | None,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
    open_paths: Collection[str] = (),
    count: Callable[[str, int], None] = lambda path, status: None,
) -> list[Middleware]:
    """List the middlewares of a server, the outermost first.

    Parameters
    ----------
    token : str, optional
        The secret that each request must send as "Authorization: Bearer TOKEN".
    names : sequence of str
        Host names of the server besides those of this machine.
    origins : sequence of str
        Origins of other sites whose pages may send requests.
    open_paths : collection of str
        Paths that need no token, since they disclose nothing about the passages.
    count : callable
        Called with the path and the status of each answer.
    """
    guards = [
        Middleware(Answers, count=count, most=ANSWER),
        Middleware(TrustedHostMiddleware, allowed_hosts=[*_LOCAL, *names], www_redirect=False),
        Middleware(Guard, token=token, names=names, origins=origins, open_paths=open_paths),
        Middleware(RequestBodyLimitMiddleware, max_body_size=BODY),
        Middleware(SlowBodies, seconds=_SECONDS),
    ]
    if origins:  # outside of what refuses, so that pages can also read refusals
        cross = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
        guards.insert(1, cross)
    return guards


class Guard:
    """ASGI middleware that refuses other sites' pages, and requests without token or one length.

    Its arguments are those of `protections`.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        names: Collection[str],
        origins: Collection[str],
        open_paths: Collection[str],
    ) -> None:
        self.app, self.token, self.names = app, token, names
        self.origins, self.open_paths = origins, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it on."""
        refused = self._refusal(scope) if scope["type"] == "http" else None
        await (refused or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._is_foreign(scope["method"], headers):
            return _refuse(403, "Origin: a page of another site may not ask this server.")
        if {"content-length", "transfer-encoding"}.issubset(headers.keys()):
            # The server and a proxy may disagree on where it ends: what is behind it is unread.
            detail = "Content-Length, Transfer-Encoding: expected one of them."
            return _refuse(400, detail, {"Connection": "close"})
        # A proxy or an application that this one is mounted in may add to the path.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if self.token is None or path in self.open_paths:
            return None
        kind, sent = get_authorization_scheme_param(headers.get("authorization"))
        if kind.lower() == "bearer" and hmac.compare_digest(sent.encode(), self.token.encode()):
            return None
        detail = "Authorization: expected 'Bearer TOKEN' with the server's token."
        return _refuse(401, detail, {"WWW-Authenticate": "Bearer"})

    def _is_foreign(self, method: str, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:
            crossed = headers.get("sec-fetch-site") == "cross-site"
            return crossed and method not in _READING
        site = origin.partition("//")[2]
        own = site == headers.get("host") or site.partition(":")[0] in self.names
        return not own and origin not in self.origins


def _refuse(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": detail}, status, headers)


class SlowBodies:
    """ASGI middleware for the time in which a body must arrive."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, whose body is waited for as long as is allowed."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        end, more = asyncio.get_running_loop().time() + self.seconds, True

        async def limited() -> Message:
            nonlocal more
            if not more:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, "The request took too long to arrive; try again."
                ) from None
            more = message.get("more_body", False)
            return message

        await self.app(scope, limited, send)


class Answers:
    """ASGI middleware that hardens, limits, counts and logs answers, without what was asked.

    A path that is not of the application is counted as "other".
    """

    def __init__(self, app: ASGIApp, count: Callable[[str, int], None], most: int) -> None:
        self.app, self.count, self.most = app, count, most
        detail = f"The answer has more than {most:,} bytes; ask for fewer passages (k)."
        self._too_long = _refuse(422, detail, HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, refused, begun = 500, False, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status, refused
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                refused = int(headers.get("content-length", 0)) > self.most
                status = 422 if refused else message["status"]
                if refused:
                    detail = (
                        f"The answer has more than {self.most:,} bytes; ask for fewer passages."
                    )
                    await _refuse(422, detail, HEADERS)(scope, receive, send)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            if not refused:
                await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            path = str(getattr(scope.get("route"), "path", "other"))
            milliseconds = (time.perf_counter() - begun) * 1000
            self.count(path, status)
            requests.info("%s %s %d %.0f ms", scope["method"], path, status, milliseconds)
