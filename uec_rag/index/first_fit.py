"""The fit that the first search of an index makes, once: in time, in threads, one at a time."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

from uec_rag.base.errors import EncoderFailed
from uec_rag.base.loops import beside, context_of_its_own, waiting
from uec_rag.encoders.calls import patiently
from uec_rag.ensemble.uec import UEC
from uec_rag.index import learn
from uec_rag.stores.base import Searched
from uec_rag.stores.passage import Passage

_AGAIN = 60.0  # seconds after which a fit that failed is tried again
_log = logging.getLogger("uec_rag")

FitMode: TypeAlias = bool | Literal["background"]
"""When an index fits its ensemble: before its first search, never, or beside searches."""

_beginning = threading.Lock()
_turns: dict[Hashable, list[Any]] = {}  # the lock of each fit that runs, and how many want it
_threads = weakref.WeakSet[threading.Thread]()
_LONGEST_WAIT = 120.0  # seconds in all that a first search waits for a service that fails
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
        arguments = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(*arguments)
    for thread in running:
        thread.join(_LONGEST_END)


class FirstFit:
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
        return FirstFit, (self.mode if self.is_due else False,)

    @property
    def has_failed(self) -> bool:
        """True from a fit that failed until the next one is tried."""
        return self.is_due and self.not_before > 0

    def is_now(self, uec: UEC, store: Searched, must_stay: Callable[[], bool]) -> bool:
        """Return whether to fit the ensemble of a store now.

        `must_stay`: tells whether something was made with the ensemble as it is.
        """
        if not self.is_due or time.monotonic() < self.not_before:
            return False
        # Else there may be more passages later.
        is_large_enough = store.is_elsewhere or len(store) >= learn.ENOUGH
        if uec.is_fitted or (is_large_enough and must_stay()):
            self.is_due = False
        return self.is_due and is_large_enough

    def once(
        self, uec: UEC, store: Searched, must_stay: Callable[[], bool], work: Callable[[], None]
    ) -> bool:
        """Do the work if it is due, for which others wait; return whether it is yet to be done.

        It is if it is done beside them, or has failed and is tried again later. See `is_now`.
        """
        if not self.is_now(uec, store, must_stay):
            return self.has_failed and not uec.is_fitted
        in_background = self.mode == "background"
        running = self.begin(work, here=not in_background)
        if in_background:
            return not running.done()
        with waiting():
            running.result()
        return self.has_failed

    async def aonce(
        self, uec: UEC, store: Searched, must_stay: Callable[[], bool], work: Callable[[], None]
    ) -> None:
        """Wait for the work, if it is due, in a thread that no event loop needs."""

        def begin() -> Future[None] | None:
            return self.begin(work, here=False) if self.is_now(uec, store, must_stay) else None

        running = await beside(begin)
        if running is not None:
            await asyncio.wrap_future(running)

    def attempt(
        self, uec: UEC, store: Searched, take: Callable[[UEC, Sequence[Passage]], None]
    ) -> None:
        """Fit an ensemble; if a service fails, or in the background, it is tried again later.

        What was embedded until then is in the ensemble's cache. `take`: is given a fit.
        """
        is_apart = self.mode == "background"
        longest = math.inf if is_apart else _LONGEST_WAIT
        try:
            with (
                one_at_a_time(learn.fit_key(uec, store)),
                patiently(at_first=is_apart, longest=longest),
            ):
                outcome = learn.fit_own(uec, store)
                if outcome is not None:
                    take(*outcome)
        except Exception as error:
            self.not_before = time.monotonic() + _AGAIN
            if not isinstance(error, EncoderFailed) and not is_apart:
                raise
            _log.warning("uec_rag: not fitted, which is tried again later: %s", error)
            return
        self.is_due = False

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
            copy = context_of_its_own()
            begun = threading.Thread(target=copy.run, args=(run,), name="uec-rag-fit", daemon=True)
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
