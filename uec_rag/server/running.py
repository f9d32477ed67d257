"""The process of a server: its port, connections, log and metrics.

Metrics contain no texts, ids or file names.
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
from threading import RLock
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from tqdm import tqdm  # type: ignore[import-untyped]
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from uec_rag.confidence.decision import Decision
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.gate import OUTDATED
from uec_rag.server.access import Guard, Limits, log, sanitise

# Connections that may be accepted before they are counted. Together with `Limits.connections`, they
# stay below the usual limit of 1,024 open files per process.
_BACKLOG = 256
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
    """Configure logging by `LOGGING`, also for warnings except those about clients' filters."""
    logging.config.dictConfig(LOGGING)
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", "filter: no passage has the metadata key")
    # tqdm's default lock is a system semaphore, which leaks if a signal ends the process.
    tqdm.set_lock(RLock())


class Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """A client's connection, closed if it is idle for too long or there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Register a connection; if there are too many, close the longest idle, or else itself."""
        super().connection_made(transport)
        self._limits: Limits = self.app.access.limits  # the app is a `Guard`
        self._idle_since = time.monotonic()
        self._wait()
        if len(self.connections) > self._limits.connections:
            idle = [connection for connection in self.connections if connection.is_idle()]
            max(idle, key=lambda one: one.idle_for(), default=self).transport.abort()

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
    "proxy_headers": False,  # the middleware would wrap the `Guard` that `Connection` needs
    "timeout_graceful_shutdown": 30,
}
"""The settings of uvicorn."""


def log_gate(index: Retriever) -> None:
    """Log the gate that decides, and warn if it was made for other passages."""
    if index.gate is not None:
        log.info("a gate decides: %s", index.gate.report)
    if not index.gate_fits():
        log.warning(OUTDATED)


def serve(app: Guard, port: int, said: str = "serving on %s") -> None:
    """Serve one application until the process is told to stop.

    `said`: log message, with %s for the address. Raises OSError if the port is taken.
    """
    with listen(app.access.host, port) as listening:
        server = uvicorn.Server(uvicorn.Config(app, **SETTINGS))
        host, own = listening.getsockname()[:2]
        log.info(said, f"http://[{host}]:{own}" if ":" in host else f"http://{host}:{own}")
        server.run([listening])


def listen(host: str, port: int) -> socket.socket:
    """Open a port; OSError if it is taken or the address is not of this machine."""
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
    # Accepted connections inherit this. Without it, the second packet of a response would wait for
    # the client's delayed ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which several processes share their metrics."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHARES = tuple(tenth / 10 for tenth in range(1, 11))


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        stages = "Seconds per stage of a question: waiting for a processor, searching."
        self.stages = self._histogram("stage_seconds", stages, _SECONDS, ["stage"])
        confidence = "Confidence of /ask; its mean is the sum over the count."
        self.confidence = self._histogram("confidence", confidence, _SHARES)
        self._calibrated: Gauge | None = None  # created at the first decision of a gate
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

    def count_decision(self, decision: Decision, gate: Gate | None) -> None:
        """Count a decision, and record its confidence and the mean at the gate's calibration."""
        self.decisions.labels(decision.action).inc()
        self.confidence.observe(decision.confidence)
        if gate is not None and gate.confidences:
            if self._calibrated is None:
                self._calibrated = Gauge(
                    "uec_rag_calibrated_confidence",
                    "Mean confidence of the questions that the gate was calibrated on; if that "
                    "of /ask differs, the questions have drifted.",
                    multiprocess_mode="max",
                    registry=self._own,
                )
            self._calibrated.set(fmean(gate.confidences))

    def count_request(self, path: str, status: int) -> None:
        """Count a request."""
        self.requests.labels(path, status).inc()

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format, summed over processes if several share."""
        if SHARED not in os.environ:
            return generate_latest(self._own)
        joined = CollectorRegistry()
        MultiProcessCollector(joined)  # type: ignore[no-untyped-call]
        return generate_latest(joined)
