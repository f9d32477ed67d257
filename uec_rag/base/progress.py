"""Progress of long work: a bar on a terminal, lines in the output of a command, else nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

_PATIENCE = 2.0  # seconds without a bar
_REDRAWN = 0.5  # seconds between two states of a bar
_BETWEEN_LINES = 10.0  # seconds

IN_LINES: ContextVar[bool] = ContextVar("in_lines", default=False)
"""True where progress is told in lines if stderr is no terminal, as commands do."""

_ADVANCE: ContextVar[Callable[[], object]] = ContextVar("advance", default=lambda: None)


@dataclass
class Progress:
    """The name of a step and the number of items that are done; `update` counts more of them."""

    what: str
    done: int = 0

    def update(self, count: int = 1) -> None:
        """Count items that are done."""
        self.done += count


def advance() -> None:
    """Count an item of the `counted` block that this is called in, if there is one."""
    _ADVANCE.get()()


@contextmanager
def counted(progress: Progress, total: int) -> Iterator[None]:
    """Let `advance` count items in a block, and the end of the block those that are left."""
    end, token = progress.done + total, _ADVANCE.set(progress.update)
    try:
        yield
    finally:
        _ADVANCE.reset(token)
    progress.done = end


@contextmanager
def progress_bar(what: str, total: int, show: bool | None = None) -> Iterator[Progress]:
    """Show progress on stderr while a block runs, also if nothing is counted for a while.

    Parameters
    ----------
    what : str
        What is done.
    total : int
        Number of items.
    show : bool, optional
        Whether to show a bar; by default on a terminal, after two seconds. In a command whose
        stderr is no terminal, a line is written every ten seconds instead.
    """
    progress, ended = Progress(what), threading.Event()
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
    with tqdm(None, progress.what, total, leave=not patience, delay=1e-9, **shape) as bar:
        bar.start_t, is_last = begun, False
        while not is_last:
            bar.n = progress.done
            bar.set_description(progress.what)  # and draws it
            is_last = ended.wait(_REDRAWN)
        bar.n = progress.done


def _write_lines(total: int, progress: Progress, ended: threading.Event) -> None:
    begun = time.monotonic()
    while not ended.wait(_BETWEEN_LINES):
        sys.stderr.write(f"{line(progress.what, progress.done, total, time.monotonic() - begun)}\n")
        sys.stderr.flush()


def line(what: str, done: int, total: int, seconds: float) -> str:
    """Write how far work is after some seconds.

    Examples
    --------
    >>> line("Encoding texts", 512, 2240, 20.0)
    'Encoding texts: 512 of 2,240, 1:08 left'
    """
    left = round((total / done - 1) * seconds) if done else 0
    told = f", {left // 60}:{left % 60:02} left" if done else ""
    return f"{what}: {done:,} of {total:,}{told}"
