"""The progress of long work, on a terminal or in lines, and the spans of its steps.

Spans are for OpenTelemetry, where it is imported, and for watchers.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal, TypeAlias

_PATIENCE = 1.0  # second without a bar
_LOGGED = 1.0  # second between two lines of the log
_REDRAWN = 0.5  # seconds between two states of a bar
_BETWEEN_LINES = 10.0  # seconds

IN_LINES: ContextVar[bool] = ContextVar("in_lines", default=False)
"""True where progress is told in lines if stderr is no terminal, as commands do."""

_ADVANCE: ContextVar[Callable[[int], object]] = ContextVar("advance", default=lambda _: None)


_log = logging.getLogger("uec_rag")


@dataclass
class Progress:
    """The name of a step and the number of items that are done; `update` counts more of them.

    The log tells at the level INFO how far it is, once a second at most.
    """

    name: str
    total: int = 0
    count: int = 0
    begun: float = field(default_factory=time.monotonic)
    _logged_at: float = field(default_factory=time.monotonic)

    def update(self, count: int = 1) -> None:
        """Count items that are done."""
        self.count += count
        if (now := time.monotonic()) >= self._logged_at + _LOGGED:
            self._logged_at = now
            _log.info("uec_rag: %s.", line(self.name, self.count, self.total, now - self.begun))


def advance(count: int = 1) -> None:
    """Count items of the `counted` block that this is called in, if there is one."""
    _ADVANCE.get()(count)


@contextmanager
def counted(progress: Progress | None, total: int) -> Iterator[None]:
    """Let `advance` count items in a block, and the end of the block those that are left.

    They are counted by `progress`; if that is None, by the block that this one is in.
    """
    update, rest = _ADVANCE.get() if progress is None else progress.update, total

    def step(count: int) -> None:
        nonlocal rest
        rest -= count
        update(count)

    token = _ADVANCE.set(step)
    try:
        yield
    finally:
        _ADVANCE.reset(token)
    update(rest)


@contextmanager
def progress_bar(name: str, total: int, show: bool | None = None) -> Iterator[Progress]:
    """Show progress on stderr while a block runs, also if nothing is counted for a while.

    Parameters
    ----------
    name : str
        What is done.
    total : int
        Number of items.
    show : bool, optional
        Whether to show a bar; by default on a terminal, after a second. In a command whose
        stderr is no terminal, a line is written every ten seconds instead.
    """
    progress, ended = Progress(name, total), threading.Event()
    # In a program for Windows without a console, there is no stderr.
    is_drawn = sys.stderr is not None and (sys.stderr.isatty() if show is None else show)
    if not is_drawn and (sys.stderr is None or show is False or not IN_LINES.get()):
        yield progress
        return
    tell = partial(_draw, 0.0 if show else _PATIENCE) if is_drawn else _write_lines
    thread = threading.Thread(target=tell, args=(total, progress, ended), daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        ended.set()
        thread.join()


def _draw(patience: float, total: int, progress: Progress, ended: threading.Event) -> None:
    from tqdm import tqdm  # type: ignore[import-untyped]

    begun = time.time()
    if patience and ended.wait(patience):
        return
    shape: dict[str, Any] = {"dynamic_ncols": True}
    with suppress(OSError, ValueError):
        if not os.get_terminal_size(sys.stderr.fileno()).columns:  # as in some containers
            shape = {"ncols": 80, "nrows": 24}
    # The delay keeps it from being drawn before its count is known.
    with tqdm(None, progress.name, total, leave=not patience, delay=1e-9, **shape) as bar:
        bar.start_t, is_last = begun, False
        while not is_last:
            bar.n = progress.count
            bar.set_description(progress.name)  # and draws it
            is_last = ended.wait(_REDRAWN)
        bar.n = progress.count


def _write_lines(total: int, progress: Progress, ended: threading.Event) -> None:
    begun = time.monotonic()
    while not ended.wait(_BETWEEN_LINES):
        sys.stderr.write(
            f"{line(progress.name, progress.count, total, time.monotonic() - begun)}\n"
        )
        sys.stderr.flush()


def line(name: str, count: int, total: int, seconds: float) -> str:
    """Write how far work is after some seconds.

    Examples
    --------
    >>> line("Encoding texts", 512, 2240, 20.0)
    'Encoding texts: 512 of 2,240, 1:08 left'
    """
    eta = round((total / count - 1) * seconds) if count else 0
    ending = f", {eta // 60}:{eta % 60:02} left" if count else ""
    return f"{name}: {count:,} of {total:,}{ending}"


Step: TypeAlias = Literal["search", "fit", "advice"]

WATCHERS: list[Callable[[Step, float, Mapping[str, Any]], object]] = []
"""Functions that are told each step, its seconds, and what it says of itself; see `span`."""


@contextmanager
def span(step: Step) -> Iterator[dict[str, Any]]:
    """Trace a step as the span "uec_rag.STEP" of OpenTelemetry, and tell it to `WATCHERS`.

    Yields the dict of what it says of itself, which become attributes ("uec_rag.reasons") of the
    span: counts and names, never a text of users or documents. An error adds its type as "error".
    """
    facts, begun = dict[str, Any](), time.perf_counter()
    with _start(f"uec_rag.{step}") as traced:
        try:
            yield facts
        except BaseException as error:
            facts["error"] = type(error).__name__
            raise
        finally:
            if traced is not None:
                traced.set_attributes({f"uec_rag.{name}": value for name, value in facts.items()})
            for watch in WATCHERS:
                watch(step, time.perf_counter() - begun, facts)


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
