"""Progress of long work, on a terminal only: never in logs or in the output of a notebook."""

from __future__ import annotations

import sys
from typing import Any

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
    from tqdm import tqdm  # type: ignore[import-untyped]

    # In a program for Windows without a console, there is no stderr.
    shown = sys.stderr is not None and (sys.stderr.isatty() if show is None else show)
    delay = 0 if show else _PATIENCE
    return tqdm(None, what, total, disable=not shown, leave=bool(show), delay=delay)
