"""Work beside searches: an index is cleaned in steps, once nobody has written for a moment."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable

_CALM = 1.0  # seconds without a write before it begins
_LONGEST_END = 10.0  # seconds that the end of the process waits for a step
_running = weakref.WeakSet["Cleaning"]()


class Cleaning:
    """A thread that does work in steps, while there is some; none in between.

    Parameters
    ----------
    step : callable() -> bool
        A bound method, whose object this does not keep: does a step, and tells whether more is
        left.
    """

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = weakref.WeakMethod(step)
        self._turn, self._ended = threading.Lock(), threading.Event()
        self._not_before = 0.0
        self._thread: threading.Thread | None = None
        self._process = 0

    def begin(self) -> None:
        """Let the work begin in a moment, unless it is to begin already."""
        self._not_before = time.monotonic() + _CALM
        if self._process != os.getpid():  # a forked child has no thread of its parent
            self._turn, self._thread, self._process = threading.Lock(), None, os.getpid()
        with self._turn:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="uec-rag-clean", daemon=True)
                _running.add(self)
                self._thread.start()

    def end(self) -> None:
        """Let the work end after the step that it is in, and wait for it."""
        self._ended.set()
        thread = self._thread
        is_own = self._process == os.getpid() and thread is not threading.current_thread()
        if thread is not None and is_own:
            thread.join(_LONGEST_END)

    def _run(self) -> None:
        is_left = True
        while is_left:
            while (seconds := self._not_before - time.monotonic()) > 0:
                if self._ended.wait(seconds):
                    return
            step = self._step()
            is_left = step is not None and not self._ended.is_set() and step()
            del step  # which would keep the object until the next one
            if not is_left:
                with self._turn:
                    self._thread = None


@atexit.register
def _end_all() -> None:
    """End what runs: a thread that the interpreter ends within a library may abort the process."""
    for cleaning in [*_running]:
        cleaning.end()
