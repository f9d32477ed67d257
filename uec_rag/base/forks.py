"""Locks that are free after a fork: it waits until no thread holds them.

A forked child only has the thread that forked. Without this, a lock that another thread held would
never be released in the child, and the state that it protects could be inconsistent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import ref

_SECONDS = 60.0
"""The longest wait of a fork, since the holder of a lock may itself be waiting for the fork."""


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


_L = TypeVar("_L", bound=_Lock)
_OUTER: dict[int, Callable[[], _Lock | None]] = {}
_INNER: dict[int, Callable[[], _Lock | None]] = {}
_held = threading.local()


def free_after_fork(lock: _L, *, inner: bool = False) -> _L:
    """Register a lock, by weak reference, to be free after a fork, and return it.

    `inner`: whether it is taken while others are held, and no other while it is.
    """
    locks, key = (_INNER if inner else _OUTER), id(lock)
    locks[key] = ref(lock, lambda _: locks.pop(key, None))
    return lock


def _before() -> None:
    _held.locks = []
    end = time.monotonic() + _SECONDS
    for locks in (_OUTER, _INNER):  # while the outer ones are held, no inner ones are created
        for find in list(locks.values()):
            lock = find()
            if lock is not None and lock.acquire(timeout=max(0.0, end - time.monotonic())):
                _held.locks.append(lock)


def _after() -> None:
    while _held.locks:
        _held.locks.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
