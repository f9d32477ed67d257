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
    if sys.stderr is None:  # as in a program for Windows without a console
        show = False
    if show is None:
        from tqdm import tqdm  # type: ignore[import-untyped]

        # Disabled unless stderr is a terminal.
        return tqdm(None, what, total, leave=False, delay=_PATIENCE, disable=None)
    from tqdm.auto import tqdm as in_notebooks_too  # type: ignore[import-untyped]

    return in_notebooks_too(None, what, total, disable=not show)
