"""Between synchronous code and event loops: work beside a loop, and methods of one way alone.

What is awaited runs in threads of this package, and never in those of an event loop: a thread that
waits for a coroutine of another package would hold one that the coroutine may need.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_AT_ONCE = min(32, (os.cpu_count() or 1) + 4)  # calls that compute, as in asyncio's own pool
_MOST = 2**15  # threads, most of which wait


class _Call:
    """A function that runs beside an event loop, until it ends or its caller is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._awaited = set[Future[Any]]()
        self._is_cancelled = False
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise CancelledError, which no handler of failures catches, if it was cancelled."""
        if self._is_cancelled:
            raise asyncio.CancelledError

    def cancel(self) -> None:
        """End what it waits for in the loop, and itself where it next waits for something."""
        with self._lock:
            self._is_cancelled = True
            awaited = [*self._awaited]
        for future in awaited:
            future.cancel()

    def wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the loop, and wait for it in this thread."""
        # Its own threads, such as those of a synchronous part, must not wait for this loop.
        context = copy_context()
        context.run(_call.set, None)
        context.run(_is_nested.set, True)
        with self._lock:
            if self._is_cancelled:
                work.close()
            self.check()
            future = context.run(asyncio.run_coroutine_threadsafe, work, self.loop)
            self._awaited.add(future)
        try:
            return future.result()
        except CancelledError as error:
            self.check()
            # The caller was not cancelled, and must not seem to be.
            raise RuntimeError("what was awaited has cancelled itself.") from error
        finally:
            self._awaited.discard(future)


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)
_is_nested: ContextVar[bool] = ContextVar("_is_nested", default=False)
_of_thread = threading.local()  # whether it is counted as one that computes


class _Pool:
    """Threads of which few compute at once, and any number waits for something else.

    A call from within another one begins at once, since that one waits for it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST, "uec-rag")
        self._waiting = deque[Callable[[], object]]()
        self._busy, self._lock = 0, threading.Lock()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Begin work, once few others compute; what is cancelled before is never begun."""
        future = Future[_T]()
        begin = partial(self._threads.submit, self._run, work, future)
        with self._lock:
            if self._busy >= _AT_ONCE and not _is_nested.get():
                self._waiting.append(begin)
                return future
            self._busy += 1
        begin()
        return future

    def _run(self, work: Callable[[], _T], future: Future[_T]) -> None:
        _of_thread.is_busy = True
        try:
            if future.set_running_or_notify_cancel():
                future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        finally:
            _of_thread.is_busy = False
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._busy -= 1
            begin = self._waiting.popleft() if self._waiting and self._busy < _AT_ONCE else None
            self._busy += begin is not None
        if begin is not None:
            begin()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Let others compute while this thread waits; it goes on without waiting for a turn."""
        if not getattr(_of_thread, "is_busy", False):
            yield
            return
        _of_thread.is_busy = False
        self._leave()
        try:
            yield
        finally:
            _of_thread.is_busy = True
            with self._lock:
                self._busy += 1


_pool = _Pool()


def _renew() -> None:
    """Make the threads anew in a forked child, which has none of them."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


async def beside(work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a function in a thread of its own, beside the event loop that runs now.

    What it calls by `either` is awaited in this loop. If the caller is cancelled, this is
    cancelled, too, and the function ends where it next waits for something.
    """
    call, context = _Call(asyncio.get_running_loop()), copy_context()
    context.run(_call.set, call)
    begun = _pool.submit(partial(context.run, work, *args, **kwargs))
    try:
        return await asyncio.wrap_future(begun)
    except (asyncio.CancelledError, GeneratorExit):
        call.cancel()
        raise


@contextmanager
def waiting() -> Iterator[None]:
    """Let other calls compute while the block waits for another package's store or service.

    CancelledError if the caller of this thread's work was cancelled before or meanwhile.
    """
    check_cancelled()
    with _pool.idle():
        yield
    check_cancelled()


def check_cancelled() -> None:
    """Raise CancelledError if the caller of this thread's work was cancelled."""
    if (call := _call.get()) is not None:
        call.check()


def context_of_its_own(loop: asyncio.AbstractEventLoop | None = None) -> Context:
    """Copy the context for a thread that goes on if the caller of this one is cancelled.

    It works beside the same loop as this thread, or else beside `loop`, which must not wait for it.
    """
    context, call = copy_context(), _call.get()
    if (target := loop if call is None else call.loop) is not None:
        context.run(_call.set, _Call(target))
    return context


_REFUSALS = (NotImplementedError, AssertionError)  # of a method that works in the other way alone


def either(
    call: Callable[..., Any], acall: Callable[..., Any], *, awaited_first: bool = False
) -> Callable[..., Any]:
    """Return a function that calls a method or, if that is refused, its awaited twin.

    The twin runs in the event loop beside which this thread works, whose connections it may need;
    without one, in a loop of its own.

    `awaited_first`: whether the twin comes first in a thread that works beside a loop, as one
    should that `is_own`.
    """

    def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return _finish(acall(*args, **kwargs))

    def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        is_first = awaited_first and _call.get() is not None
        attempt, fallback = (awaited, call) if is_first else (call, awaited)
        with waiting():
            try:
                return attempt(*args, **kwargs)
            except Exception as error:
                if not is_first and not isinstance(error, _REFUSALS):
                    raise
                refusal = error
            try:
                return fallback(*args, **kwargs)
            except _REFUSALS:
                raise refusal from None

    return run


def is_own(component: object, base: type, call: str, acall: str) -> bool:
    """Return whether an awaited method is the class's own, and no older than its twin.

    One of `base` calls the twin, and one that a class has overridden the twin of may do so, too,
    which would block the event loop.
    """
    order = type(component).__mro__
    at, twin_at = (
        next((at for at, cls in enumerate(order) if name in vars(cls)), len(order))
        for name in (call, acall)
    )
    return twin_at <= at and twin_at < len(order) and order[twin_at] not in base.__mro__


def _finish(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    call = _call.get()
    if call is None or asyncio._get_running_loop() is not None:
        return run_to_end(work)
    return call.wait_for(work)


def run_to_end(task: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine from synchronous code, also if an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _pool.idle():
            return asyncio.run(task)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, task).result()
