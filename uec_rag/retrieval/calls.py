"""Calls of other packages' methods, of which some work only synchronously, others only awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from uec_rag.advice.ask import run_to_end

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
