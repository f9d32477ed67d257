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


def either(call: Callable[..., Any], acall: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method or, if that is not implemented, its awaited twin.

    The twin runs in the event loop from which this thread was begun, whose connections it may need;
    without one, in a loop of its own.
    """

    def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return call(*args, **kwargs)
        except NotImplementedError as error:
            said = error
        try:
            return _finish(acall(*args, **kwargs))
        except NotImplementedError:
            raise said from None

    return run


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
