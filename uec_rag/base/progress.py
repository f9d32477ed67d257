"""Progress of long work, on a terminal only: never in logs or in the output of a notebook."""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import Any

from uec_rag.base.forks import free_after_fork

_PATIENCE = 2.0  # seconds without a bar


def progress_bar(what: str, total: int | None, show: bool | None = None) -> Any:  # noqa: ANN401
    """Make a progress bar on stderr, a context manager with `update(count)`.

    Parameters
    ----------
    what : str
        What is done.
    total : int or None
        Number of items; None if unknown.
    show : bool, optional
        Whether to show it; by default on a terminal, if it takes longer than two seconds.
    """
    # In a program for Windows without a console, there is no stderr.
    if sys.stderr is None or show is False or (show is None and not sys.stderr.isatty()):
        return _bar()(disable=True)
    delay = _PATIENCE if show is None else 0.0
    return _bar()(None, what, total, leave=bool(show), delay=delay)


@cache
def _bar() -> Any:  # noqa: ANN401
    """Return the class of bars, which have a lock of their own.

    That of tqdm is shared with forked processes: one that is killed while it holds the lock would
    stop all others.
    """
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread that redraws bars

    Bar.set_lock(free_after_fork(threading.RLock(), inner=True))
    return Bar
