"""The fit that an index makes for itself: when it is due, where it runs, and who waits for it.

Each runs once for the same models and store. A search that waits for one holds no thread of an
event loop, and one of other models or another store waits for none.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypeAlias

FitMode: TypeAlias = bool | Literal["background"]
"""When an index fits its ensemble: before its first search, never, or beside searches."""

_beginning = threading.Lock()
_turns: dict[Hashable, list[Any]] = {}  # the lock of each fit that runs, and how many want it
_threads = weakref.WeakSet[threading.Thread]()
_LONGEST_END = 10.0  # seconds that the end of the process waits for a call of a model


def check_mode(mode: object) -> FitMode:
    """Return a mode; ValueError if it is none."""
    if mode is True or mode is False or mode == "background":
        return mode
    raise ValueError(f"fit: expected True, False or 'background', got {mode!r:.60}.")


@contextmanager
def one_at_a_time(key: Hashable) -> Iterator[None]:
    """Wait until no other thread of this process is in a block of the same key."""
    key = os.getpid(), key  # a forked child has locks of its own
    with _beginning:
        turn = _turns.setdefault(key, [threading.RLock(), 0])
        turn[1] += 1
    try:
        with turn[0]:
            yield
    finally:
        with _beginning:
            turn[1] -= 1
            if not turn[1]:
                _turns.pop(key, None)


@atexit.register
def _end_fits() -> None:
    """End the fits that run beside the end of the process, each after the call that it is in.

    A thread that the interpreter ends within a model's library would abort the process.
    """
    running = [thread for thread in _threads if thread.is_alive()]
    for thread in running:
        asked = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(*asked)
    for thread in running:
        thread.join(_LONGEST_END)


class OwnFit:
    """The fit of an index and of its views.

    Parameters
    ----------
    mode : FitMode

    Attributes
    ----------
    is_due : bool
        False once it was made, or cannot be.
    not_before : float
        The time, of `time.monotonic`, before which it is not tried again.
    swapping : lock
        Held while the ensemble of an index and its passages change together.
    """

    def __init__(self, mode: FitMode) -> None:
        self.mode = check_mode(mode)
        self.is_due, self.not_before = bool(mode), 0.0
        self.swapping = threading.RLock()
        self._running: tuple[int, Future[None]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnFit, (self.mode if self.is_due else False,)

    def begin(self, work: Callable[[], None], *, here: bool) -> Future[None]:
        """Begin the work unless it runs already; return what ends with it.

        `here`: whether this thread does it, or one that is made for it.
        """
        with _beginning:
            if self._running is not None and self._running[0] == os.getpid():
                return self._running[1]
            future = Future[None]()
            self._running = os.getpid(), future
        future.set_running_or_notify_cancel()  # who waits cannot cancel it for others
        run = partial(self._run, work, future)
        if here:
            run()
        else:
            own = copy_context()
            begun = threading.Thread(target=own.run, args=(run,), name="uec-rag-fit", daemon=True)
            _threads.add(begun)
            begun.start()
        return future

    def _run(self, work: Callable[[], None], future: Future[None]) -> None:
        try:
            work()
        except BaseException as error:
            self._running = None
            future.set_exception(error)
        else:
            self._running = None
            future.set_result(None)
