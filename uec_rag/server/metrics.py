"""Metrics of a server for Prometheus; they contain no texts, ids or file names."""

from __future__ import annotations

import os
from statistics import fmean

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from uec_rag.confidence.decision import Decision
from uec_rag.retrieval import Gate

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder in which several processes share their metrics."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHARES = tuple(tenth / 10 for tenth in range(1, 11))


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self._own = own = CollectorRegistry()
        self.seconds = Histogram(
            "uec_rag_search_seconds", "Seconds per question.", buckets=_SECONDS, registry=own
        )
        self.confidence = Histogram(
            "uec_rag_confidence",
            "Confidence of /ask; its mean is the sum over the count.",
            buckets=_SHARES,
            registry=own,
        )
        self._calibrated = Gauge(
            "uec_rag_calibrated_confidence",
            "Mean confidence of the questions that the gate was calibrated on; if that of /ask "
            "differs, the questions have drifted.",
            ["of"],  # so that it is absent without a gate
            multiprocess_mode="max",
            registry=own,
        )
        self.requests = Counter(
            "uec_rag_requests", "Requests answered.", ["path", "status"], registry=own
        )
        self.decisions = Counter(
            "uec_rag_decisions", "Decisions of /ask.", ["action"], registry=own
        )

    def count_decision(self, decision: Decision, gate: Gate | None) -> None:
        """Count a decision, and record its confidence and the mean at the gate's calibration."""
        self.decisions.labels(decision.action).inc()
        self.confidence.observe(decision.confidence)
        if gate is not None and gate.confidences:
            self._calibrated.labels("gate").set(fmean(gate.confidences))

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format, summed over processes if several share."""
        if SHARED not in os.environ:
            return generate_latest(self._own)
        joined = CollectorRegistry()
        MultiProcessCollector(joined)  # type: ignore[no-untyped-call]
        return generate_latest(joined)
