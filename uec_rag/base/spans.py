"""What the library tells of its work: spans of OpenTelemetry, and lines of the log at DEBUG."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from uec_rag.base.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_log = logging.getLogger("uec_rag")


@contextmanager
def span(name: str, **attributes: str | int | float) -> Iterator[None]:
    """Put a block of work into a span "uec_rag.NAME", where OpenTelemetry is installed.

    Without it, and without an exporter that the application sets up, this costs microseconds.
    Texts and queries are never among the attributes.

    Parameters
    ----------
    name
    **attributes
        Numbers and names that say how much work it was, as "uec_rag.NAME" in the span.
    """
    tracer, begun = _tracer(), time.perf_counter()
    told = {f"uec_rag.{key}": value for key, value in attributes.items()}
    with (
        nullcontext()
        if tracer is None
        else tracer.start_as_current_span(f"uec_rag.{name}", attributes=told)
    ):
        yield
    if _log.isEnabledFor(logging.DEBUG):
        taken = 1000 * (time.perf_counter() - begun)
        what = ", ".join(f"{key} {value}" for key, value in attributes.items())
        _log.debug("%s: %.1f ms (%s)", name, taken, what)


@functools.cache
def _tracer() -> Tracer | None:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    return get_tracer("uec_rag", __version__)
