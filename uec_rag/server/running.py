"""A server's process: its port, the connections that it keeps, its log and its metrics.

Metrics hold no texts, no ids, no names of files.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import logging.config
import os
import re
import socket
import time
import warnings
from statistics import fmean
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from uec_rag.confidence.decision import Decision
from uec_rag.retrieval import Gate
from uec_rag.server.access import Guard, Limits, harmless, log

# Connections that are accepted at once, before any of them is counted: with `Limits.connections`
# they stay below the 1,024 files that a process may usually have open.
_BACKLOG = 256
# The SDK's log repeats invalid requests: questions, and whatever else is in them.
_SDK = re.compile(r"[\\/]mcp[\\/]((?:client|server|shared)[\\/].+)")


class LogFormatter(logging.Formatter):
    """A formatter of one `harmless` line for each record; with UEC_DEBUG=1, tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        debug, error = os.environ.get("UEC_DEBUG") == "1", record.exc_info and record.exc_info[1]
        head = f"{self.formatTime(record)} {record.levelname} {record.name}"
        if (place := _SDK.search(record.pathname)) and not debug:
            kind = f" ({type(error).__name__})" if error else ""
            return f"{head}: mcp/{place[1]}:{record.lineno}{kind}"
        line = f"{head}: {record.getMessage()}"
        if error is not None and record.exc_info is not None:
            if debug:
                return f"{line}\n{self.formatException(record.exc_info)}"
            line += f" ({type(error).__name__}: {error})"
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
    """Log as `LOGGING` says, warnings too, except those about clients' questions."""
    logging.config.dictConfig(LOGGING)
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", "filter: no passage has the metadata key")


class Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """A client's connection, closed if it is idle for long or others need its place."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count a new connection; if there are too many, close the one that is idle for longest."""
        super().connection_made(transport)
        self._limits: Limits = self.app.access.limits  # of a `Guard`
        self._idle_since = time.monotonic()
        self._wait()
        if len(self.connections) > self._limits.connections:
            idle = [one for one in self.connections if one.is_idle()]
            max(idle, key=lambda one: one.idle_for(), default=self).transport.abort()

    def is_idle(self) -> bool:
        """Tell if no request is being answered: none has come, or not all of its headers."""
        answered = self.cycle is None or self.cycle.response_complete
        return bool(answered) and not self.transport.is_closing()

    def idle_for(self) -> float:
        """Return the seconds for which no request has come."""
        return time.monotonic() - self._idle_since

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def _wait(self) -> None:
        """Check now and then if the client still has a request to send."""
        left = self._limits.headers - self.idle_for() if self.is_idle() else self._limits.headers
        if left <= 0:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.loop.call_later(left, self._wait)


SETTINGS: dict[str, Any] = {
    "http": Connection,
    "ws": "none",
    "backlog": _BACKLOG,
    "log_config": LOGGING,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # a `Guard` is what uvicorn has as its application
    "timeout_graceful_shutdown": 30,
}
"""Of uvicorn."""


def serve(app: Guard, port: int, said: str = "serving on %s") -> None:
    """Serve one application until the process is told to end.

    `said`: what the log says of the address. Raises OSError where the port is taken.
    """
    with listen(app.access.host, port) as listening:
        server = uvicorn.Server(uvicorn.Config(app, **SETTINGS))
        log.info(said, address_of(listening))
        server.run([listening])


def address_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Open a port; OSError if it is taken or the address is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
            raise OSError(f"--host {host}: expected an address or name of this machine.") from error
        raise OSError(
            f"--port {port}: cannot listen on {host} ({error.strerror}); choose another port, or 0 "
            "for any that is free."
        ) from error
    # Connections inherit it; else an answer's second packet waits for the client's delayed ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of the environment: a folder in which several processes count together."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_SHARES = tuple(tenth / 10 for tenth in range(1, 11))


class Metrics:
    """The counts of one server."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        stages = "Seconds that a batch of queries took: to wait, to encode, to search, to judge."
        self.stages = self._histogram("stage_seconds", stages, _SECONDS, ["stage"])
        self.batches = self._histogram("batch_queries", "Queries searched at once.", _BATCHES)
        confidence = "Confidence of /ask; its mean is the sum over the count."
        self.confidence = self._histogram("confidence", confidence, _SHARES)
        self._calibrated: Gauge | None = None  # where there is a gate
        self.requests = Counter(
            "uec_rag_requests", "Requests answered.", ["path", "status"], registry=self._own
        )
        self.decisions = Counter(
            "uec_rag_decisions", "Decisions of /ask.", ["action"], registry=self._own
        )

    def _histogram(
        self, name: str, what: str, buckets: tuple[float, ...], labels: list[str] | None = None
    ) -> Histogram:
        own = self._own
        return Histogram(f"uec_rag_{name}", what, labels or [], buckets=buckets, registry=own)

    def decided(self, decision: Decision, gate: Gate | None) -> None:
        """Count a decision, and record the confidence that the gate's calibration expects."""
        self.decisions.labels(decision.action).inc()
        self.confidence.observe(decision.confidence)
        if gate is not None and gate.confidences:
            if self._calibrated is None:
                self._calibrated = Gauge(
                    "uec_rag_calibrated_confidence",
                    "Mean confidence of the questions that the gate was made of: as far as that of "
                    "/ask is off it, questions have drifted.",
                    multiprocess_mode="max",
                    registry=self._own,
                )
            self._calibrated.set(fmean(gate.confidences))

    def requested(self, path: str, status: int) -> None:
        """Count a request."""
        self.requests.labels(path, status).inc()

    def text(self) -> bytes:
        """Write all counts in Prometheus' format; those of all processes if several count."""
        if SHARED not in os.environ:
            return generate_latest(self._own)
        joined = CollectorRegistry()
        MultiProcessCollector(joined)  # type: ignore[no-untyped-call]
        return generate_latest(joined)
