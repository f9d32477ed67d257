"""The metrics of a server, for Prometheus: no texts, no ids, no names of files."""

from __future__ import annotations

import os
from statistics import fmean

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from uec_rag.confidence.decision import Decision
from uec_rag.retrieval import Gate

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
