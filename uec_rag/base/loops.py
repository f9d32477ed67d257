"""Between synchronous code and event loops: methods that work in one of the two alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("_loop", default=None)


@contextmanager
def from_this_loop() -> Iterator[None]:
    """Let what the block calls in threads be awaited in the event loop that runs now."""
    token = _loop.set(asyncio.get_running_loop())
    try:
        yield
    finally:
        _loop.reset(token)


_REFUSALS = (NotImplementedError, AssertionError)  # of a method that works in the other way alone


def either(
    call: Callable[..., Any], acall: Callable[..., Any], *, awaited_first: bool = False
) -> Callable[..., Any]:
    """Return a function that calls a method or, if that is refused, its awaited twin.

    The twin runs in the event loop from which this thread was begun, whose connections it may need;
    without one, in a loop of its own.

    `awaited_first`: whether the twin comes first in a thread that was begun from a loop, as one
    should that `is_own`.
    """

    def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return _finish(acall(*args, **kwargs))

    def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        is_first = awaited_first and _loop.get() is not None
        first, second = (awaited, call) if is_first else (call, awaited)
        try:
            return first(*args, **kwargs)
        except Exception as error:
            if not is_first and not isinstance(error, _REFUSALS):
                raise
            refused = error
        try:
            return second(*args, **kwargs)
        except _REFUSALS:
            raise refused from None

    return run


def is_own(theirs: object, base: type, call: str, acall: str) -> bool:
    """Return whether an awaited method is the class's own, and no older than its twin.

    One of `base` calls the twin, and one that a class has overridden the twin of may do so, too,
    which would block the event loop.
    """
    order = type(theirs).__mro__
    at, own = (
        next((at for at, cls in enumerate(order) if name in vars(cls)), len(order))
        for name in (call, acall)
    )
    return own <= at and own < len(order) and order[own] not in base.__mro__


def _finish(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    loop = _loop.get()
    if loop is None or asyncio._get_running_loop() is not None:
        return run_to_end(work)
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def run_to_end(task: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine from synchronous code, also if an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(task)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, task).result()
