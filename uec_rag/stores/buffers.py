"""Buffers that grow: longer than what is used of them, so that adding rows seldom copies."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np

_Buffer = TypeVar("_Buffer")


def with_room(buffer: _Buffer, used: int, needed: int) -> _Buffer:
    """The buffer itself where it is long enough, else a copy at least twice as long.

    Parameters
    ----------
    buffer : array or tensor, shape (capacity, ...)
    used : int
        Rows that are kept.
    needed : int
        Rows that it must have.

    Examples
    --------
    >>> with_room(np.ones(2), 2, 3)[:2].tolist()
    [1.0, 1.0]
    """
    held: Any = buffer
    if needed <= len(held):
        return buffer
    shape = (max(needed, 2 * used), *held.shape[1:])
    array = isinstance(held, np.ndarray)
    grown: Any = np.empty(shape, dtype=held.dtype) if array else held.new_empty(shape)
    grown[:used] = held[:used]
    return cast(_Buffer, grown)
