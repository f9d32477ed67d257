"""The process of a server: its connections and log."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import os
import re
import time
from threading import RLock
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from tqdm import tqdm  # type: ignore[import-untyped]
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from uec_rag.server.errors import sanitise

# Log messages of the MCP SDK are replaced, since they repeat invalid requests with their questions.
_SDK = re.compile(r"[\\/]mcp[\\/]((?:client|server|shared)[\\/].+)")


class LogFormatter(logging.Formatter):
    """A formatter of records as one `sanitise` line each, or with tracebacks if UEC_DEBUG=1."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        debug, error = os.environ.get("UEC_DEBUG") == "1", record.exc_info and record.exc_info[1]
        head = f"{self.formatTime(record)} {record.levelname} {record.name}"
        if (match := _SDK.search(record.pathname)) and not debug:
            kind = f" ({type(error).__name__})" if error else ""
            return f"{head}: mcp/{match[1]}:{record.lineno}{kind}"
        line = f"{head}: {record.getMessage()}"
        if error is not None and record.exc_info is not None:
            if debug:
                return f"{line}\n{self.formatException(record.exc_info)}"
            line += f" ({type(error).__name__}: {error})"
        return sanitise(line)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": f"{__name__}.LogFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {name: {"level": "WARNING"} for name in ("httpx", "mcp", "uvicorn.access")},
}
"""The argument of `logging.config.dictConfig`: log to stderr with `LogFormatter`."""


def log_to_stderr() -> None:
    """Configure logging by `LOGGING`, also for warnings."""
    logging.config.dictConfig(LOGGING)
    logging.captureWarnings(True)
    # tqdm's default lock is a system semaphore, which leaks if a signal ends the process.
    tqdm.set_lock(RLock())


class Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """A client's connection, which keeps no other out.

    It is closed once it has been idle for `timeout_keep_alive` seconds, also within the headers of
    a request, which uvicorn waits for without end. Beyond `limit_concurrency` connections, the
    longest idle one is closed; if all are busy, uvicorn answers the new one with 503.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Register a connection; if there are too many, close the one that is idle longest."""
        super().connection_made(transport)
        self._idle_since = time.monotonic()
        self._wait()
        if self.limit_concurrency and len(self.connections) >= self.limit_concurrency:
            idle = [c for c in self.connections if c is not self and c.is_idle()]
            if idle:
                longest = max(idle, key=Connection.idle_for)
                longest.transport.abort()
                self.connections.discard(longest)  # now, before a request of this one is counted

    def is_idle(self) -> bool:
        """Return whether no request is being answered; partial headers do not count."""
        answered = self.cycle is None or self.cycle.response_complete
        return bool(answered) and not self.transport.is_closing()

    def idle_for(self) -> float:
        """Return the seconds since the last response was complete, or since the start."""
        return time.monotonic() - self._idle_since

    def on_response_complete(self) -> None:
        """Record that the connection is now idle."""
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def _wait(self) -> None:
        """Close the connection if it has been idle for too long, or schedule the next check."""
        limit = self.timeout_keep_alive
        seconds = limit - self.idle_for() if self.is_idle() else limit
        if seconds <= 0:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.loop.call_later(seconds, self._wait)


SETTINGS: dict[str, Any] = {
    "http": Connection,
    "ws": "none",
    "timeout_keep_alive": 10,
    "timeout_graceful_shutdown": 30,
    # With the connections that are not counted yet, below the usual limit of 1,024 open files.
    "limit_concurrency": 513,
    "backlog": 256,
    "log_config": LOGGING,
    "access_log": False,
    "server_header": False,
}
"""The settings of uvicorn."""


def serve(app: ASGIApp, host: str, port: int) -> None:
    """Serve one application until the process is told to stop; what was accepted is answered.

    `port`: 0 for any free port, which the log names.
    """
    log_to_stderr()
    uvicorn.run(app, host=host, port=port, **SETTINGS)
