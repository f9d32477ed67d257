"""Locks that a fork leaves free: it waits until none is held.

Of a process's threads a forked child has the one that forked. What another one had locked would
stay locked there for ever, half-written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import ref

_SECONDS = 60.0
"""A fork waits so long at most: who holds a lock may be waiting for the fork."""


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


_L = TypeVar("_L", bound=_Lock)
_OUTER: dict[int, Callable[[], _Lock | None]] = {}
_INNER: dict[int, Callable[[], _Lock | None]] = {}
_held = threading.local()


def free_after_fork(lock: _L, *, inner: bool = False) -> _L:
    """The lock itself, which a fork of this process leaves free, as long as there is the lock.

    `inner`: whether it is taken while others are held, and none while it is.
    """
    known, key = (_INNER if inner else _OUTER), id(lock)
    known[key] = ref(lock, lambda _: known.pop(key, None))
    return lock


def _before() -> None:
    _held.locks = []
    end = time.monotonic() + _SECONDS
    for known in (_OUTER, _INNER):  # who has the outer ones makes no more inner ones
        for find in list(known.values()):
            lock = find()
            if lock is not None and lock.acquire(timeout=max(0.0, end - time.monotonic())):
                _held.locks.append(lock)


def _after() -> None:
    while _held.locks:
        _held.locks.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
