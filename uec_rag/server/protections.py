"""Access to a server and its limits: middlewares of Starlette, and what it has none for.

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
from collections.abc import Collection, Mapping, Sequence

from fastapi.responses import JSONResponse
from fastapi.security.utils import get_authorization_scheme_param
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

requests = logging.getLogger("uec_rag.server.requests")

BODY = 2**20
"""The largest number of bytes of a request."""

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


def is_local(host: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(
    host: str, token: str | None, names: Sequence[str] = (), origins: Sequence[str] = ()
) -> list[str]:
    """Check where a server listens and who may ask it, and return its names.

    Raises ValueError, which names the option of the command line.
    """
    for option, values, pattern, expected in (
        ("--allow-host", names, r"[^\s/:*?#@]+", "a name without scheme, docs.example.com"),
        ("--cors", origins, r"https?://[^\s/*?#@]+", "an origin, https://app.example.com"),
    ):
        for value in values:
            if not re.fullmatch(pattern, value):
                raise ValueError(f"{option}: expected {expected}, got {value!r:.60}.")
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
    hosts = [host]
    if host in ("0.0.0.0", "::"):  # this machine is asked by its name or by any of its addresses
        addresses = socket.getaddrinfo(socket.gethostname(), None)
        hosts = [socket.gethostname(), *sorted({str(address[0]) for *_, address in addresses})]
    return [*(f"[{name}]" if ":" in name else name for name in hosts), *names]


def protections(
    token: str | None,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
    open_paths: Collection[str] = (),
    *,
    probes: Collection[str] = (),
    seconds: float = 30.0,
    limit: int = 2**24,
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
    probes : collection of str
        Paths that answer by any host name, as an orchestrator's probes ask by a changing address.
    seconds : float
        Time in which the body of a request must arrive.
    limit : int
        The largest number of bytes of an answer.
    """

    async def answer(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Limit, harden and log an answer, without what was asked."""
        begun, response = time.perf_counter(), await call_next(request)
        if int(response.headers.get("content-length", 0)) > limit:
            response = _refuse(422, f"The answer has more than {limit:,} bytes; ask for fewer (k).")
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        path = getattr(request.scope.get("route"), "path", "other")
        milliseconds = (time.perf_counter() - begun) * 1000
        requests.info("%s %s %d %.0f ms", request.method, path, response.status_code, milliseconds)
        return response

    async def admit(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Wait for a request, unless it is of another site, without token or of two lengths."""
        if _is_foreign(request, names, origins):
            return _refuse(403, "Origin: a page of another site may not ask this server.")
        if {"content-length", "transfer-encoding"}.issubset(request.headers.keys()):
            # The server and a proxy may disagree on where it ends: what is behind it is unread.
            detail = "Content-Length, Transfer-Encoding: expected one of them."
            return _refuse(400, detail, {"Connection": "close"})
        if token is not None and not _is_allowed(request, token, open_paths):
            detail = "Authorization: expected 'Bearer TOKEN' with the server's token."
            return _refuse(401, detail, {"WWW-Authenticate": "Bearer"})
        try:
            async with asyncio.timeout(seconds):
                await request.body()
        except (TimeoutError, ClientDisconnect):
            return _refuse(408, "The request took too long to arrive; try again.")
        return await call_next(request)

    # It is outside of what refuses, so that pages can also read refusals.
    cross = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type"],
    )
    return [
        Middleware(BaseHTTPMiddleware, dispatch=answer),
        *([cross] if origins else []),
        Middleware(_Hosts, probes, [*_LOCAL, *names]),
        Middleware(RequestBodyLimitMiddleware, max_body_size=BODY),
        Middleware(BaseHTTPMiddleware, dispatch=admit),
    ]


class _Hosts(TrustedHostMiddleware):
    """Refuses foreign host names, except on some paths."""

    def __init__(self, app: ASGIApp, probes: Collection[str], names: Sequence[str]) -> None:
        super().__init__(app, allowed_hosts=names, www_redirect=False)
        self._probes = probes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_probe = scope["type"] == "http" and _path_of(scope) in self._probes
        await (self.app if is_probe else super().__call__)(scope, receive, send)


def _path_of(scope: Scope) -> str:
    # A proxy or an application that this one is mounted in may add to the path.
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _is_allowed(request: Request, token: str, open_paths: Collection[str]) -> bool:
    """Return whether a request brings the token, or asks for a path that needs none."""
    kind, value = get_authorization_scheme_param(request.headers.get("authorization"))
    brought = kind.lower() == "bearer" and hmac.compare_digest(value.encode(), token.encode())
    return brought or _path_of(request.scope) in open_paths


def _is_foreign(request: Request, names: Collection[str], origins: Collection[str]) -> bool:
    origin = request.headers.get("origin")
    if origin is None:
        crossed = request.headers.get("sec-fetch-site") == "cross-site"
        return crossed and request.method not in ("GET", "HEAD", "OPTIONS")
    site = origin.partition("//")[2]
    is_named = site.partition(":")[0].lower() in map(str.lower, names)
    is_own = is_named or site == request.headers.get("host")
    return not is_own and origin not in origins


def _refuse(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"detail": detail}, status, headers)
