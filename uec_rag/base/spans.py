"""Tracing: spans of OpenTelemetry, without texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from uec_rag.base import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

Value: TypeAlias = str | int | float | Sequence[str] | Sequence[float]


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[Callable[..., None]]:
    """Trace a block of work as a span "uec_rag.NAME", if OpenTelemetry is installed.

    Without it, or without an exporter of the application, this costs microseconds.

    `**attributes`: attributes of the span, which gets them as "uec_rag.NAME". Yields a function
    that adds attributes later.
    """
    tracer = _tracer()
    if tracer is None:
        yield lambda **_: None
        return
    with tracer.start_as_current_span(f"uec_rag.{name}") as current:

        def note(**found: Value) -> None:
            current.set_attributes({f"uec_rag.{key}": value for key, value in found.items()})

        note(**attributes)
        yield note


@functools.cache
def _tracer() -> Tracer | None:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    return get_tracer("uec_rag", __version__)
