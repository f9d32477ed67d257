"""Tracing: spans of OpenTelemetry, and log lines at DEBUG."""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from uec_rag.base.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

Value: TypeAlias = str | int | float | Sequence[str] | Sequence[float]

_log = logging.getLogger("uec_rag")


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[Callable[..., None]]:
    """Trace a block of work as a span "uec_rag.NAME", if OpenTelemetry is installed.

    Without it, or without an exporter of the application, this costs microseconds.

    `**attributes`: attributes of the span, which gets them as "uec_rag.NAME". Yields a function
    that adds attributes later. Its positional argument, a callable that returns attributes with
    full names, is called only if the span is recorded.
    """
    tracer, begun = _tracer(), time.perf_counter()
    with (
        nullcontext() if tracer is None else tracer.start_as_current_span(f"uec_rag.{name}")
    ) as current:

        def note(named: Callable[[], Mapping[str, Value]] = dict, /, **found: Value) -> None:
            attributes.update(found)
            if current is not None and current.is_recording():
                current.set_attributes({f"uec_rag.{key}": v for key, v in found.items()})
                current.set_attributes(named())

        note(**attributes)
        yield note
    if _log.isEnabledFor(logging.DEBUG):
        taken = 1000 * (time.perf_counter() - begun)
        what = ", ".join(f"{key} {value}" for key, value in attributes.items())
        _log.debug("%s: %.1f ms (%s)", name, taken, what)


CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable of OpenTelemetry that allows texts in spans, which others may read."""


def retrieval(
    query: str, k: int, hits: Sequence[tuple[str, str, float, Mapping[str, Any], Mapping[str, Any]]]
) -> dict[str, Value]:
    """Return the attributes of a retrieval span, which observability tools display.

    They are those of OpenInference for a RETRIEVER, and those of OpenTelemetry's conventions for
    generative AI, which are in development:
    https://github.com/open-telemetry/semantic-conventions-genai. Texts of queries, passages and
    metadata are left out unless `CONTENT` is "true" (or "span_only", "span_and_event").

    `hits`: id, text, score, metadata, and results of the search for each hit, best first.
    """
    shows = os.environ.get(CONTENT, "").lower() in ("true", "1", "span_only", "span_and_event")
    scores = [{"id": id_, "score": score} for id_, _, score, _, _ in hits]
    noted: dict[str, Value] = {
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.top_k": k,
        "gen_ai.retrieval.documents": json.dumps(scores),
    }
    if shows:
        noted |= {"input.value": query, "gen_ai.retrieval.query.text": query}
    for position, (id_, text, score, metadata, fields) in enumerate(hits):
        shown = {**metadata, **fields} if shows else fields
        document: dict[str, Value] = {"id": id_, "score": score, "metadata": json.dumps(shown)}
        document |= {"content": text} if shows else {}
        at = f"retrieval.documents.{position}.document"
        noted |= {f"{at}.{name}": value for name, value in document.items()}
    return noted


@functools.cache
def _tracer() -> Tracer | None:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    return get_tracer("uec_rag", __version__)
