"""Spans of long steps for OpenTelemetry, where it is imported, and for watchers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, Literal, TypeAlias

Step: TypeAlias = Literal["search", "fit", "advice"]

WATCHERS: list[Callable[[Step, float, Mapping[str, Any]], object]] = []
"""Functions that are told each step, its seconds, and what it says of itself; see `span`."""


@contextmanager
def span(step: Step) -> Iterator[dict[str, Any]]:
    """Trace a step as the span "uec_rag.STEP" of OpenTelemetry, and tell it to `WATCHERS`.

    Yields the dict of what it says of itself, which become attributes ("uec_rag.reasons") of the
    span: counts and names, never a text of users or documents. An error adds its type as "error".
    """
    told, begun = dict[str, Any](), time.perf_counter()
    with _start(f"uec_rag.{step}") as traced:
        try:
            yield told
        except BaseException as error:
            told["error"] = type(error).__name__
            raise
        finally:
            if traced is not None:
                traced.set_attributes({f"uec_rag.{name}": value for name, value in told.items()})
            for watch in WATCHERS:
                watch(step, time.perf_counter() - begun, told)


def _start(name: str) -> Any:  # noqa: ANN401
    if "opentelemetry.trace" not in sys.modules:  # an application that traces has it
        return nullcontext()
    # The message of an error may quote a question.
    silent = {"record_exception": False, "set_status_on_exception": False}
    return _tracer().start_as_current_span(name, **silent)


@cache
def _tracer() -> Any:  # noqa: ANN401
    """Return the tracer of whatever SDK the application sets up."""
    from opentelemetry import trace

    return trace.get_tracer("uec_rag")
