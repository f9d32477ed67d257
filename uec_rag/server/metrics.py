"""Metrics of a process in the text format of Prometheus: decisions, advice, seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from uec_rag.base.progress import WATCHERS, Step

_DECISIONS = Counter("uec_rag_decisions", "Questions decided.", ["decision", "reason"])
_BORDERLINE = Counter("uec_rag_borderline", "Questions that an advisor was asked, or uncertain.")
_TOKENS = Counter("uec_rag_advice_tokens", "Tokens that advisors read and wrote, where known.")
_FAILURES = Counter("uec_rag_advice_failures", "Calls of advisors that gave no advice.")
_ERRORS = Counter("uec_rag_errors", "Searches, fits and calls that raised.", ["step", "error"])
_SECONDS = Histogram("uec_rag_seconds", "Seconds of searches, fits and advice.", ["step"])


def _count(step: Step, seconds: float, told: Mapping[str, Any]) -> None:
    _SECONDS.labels(step).observe(seconds)
    for decision, reason in zip(told.get("decisions", ()), told.get("reasons", ()), strict=True):
        _DECISIONS.labels(decision, reason).inc()
    _BORDERLINE.inc(told.get("borderline", 0))
    _TOKENS.inc(told.get("tokens", 0))
    _FAILURES.inc(told.get("failed", 0))
    if "error" in told:
        _ERRORS.labels(step, told["error"]).inc()


WATCHERS.append(_count)


def read_metrics() -> bytes:
    """Return the metrics of this process, or of all that share PROMETHEUS_MULTIPROC_DIR."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    MultiProcessCollector(registry := CollectorRegistry())  # type: ignore[no-untyped-call]
    return generate_latest(registry)
