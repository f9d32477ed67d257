"""Calls of what embeds texts: several at a time, in halves if refused for their size, and again.

A call fails for one of three reasons:

- It has too many texts. Its halves are sent, and the size that is accepted is remembered.
- The service is busy, or away for a moment. The call is sent again after a wait, in a block of
  `patiently`: an addition or a fit can wait, a user cannot.
- Anything else. The texts of the other calls are returned first, and then it is raised.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from uec_rag.base.errors import EncoderFailed
from uec_rag.base.loops import check_cancelled, waiting

AT_ONCE = 8
"""The number of calls of a service at the same time, unless it is known to take fewer."""

MOST_TEXTS = 256
"""The number of texts of a call, unless a service takes fewer."""

BUGS = (AttributeError, ImportError, NameError, NotImplementedError, TypeError)
"""The errors that are no service's."""


# Seconds before a call is sent again, unless the service says how many: a minute in all where it
# counts calls by the minute.
_WAITS: Mapping[str, Sequence[float]] = {"busy": (1, 2, 4, 8, 16, 32), "away": (0.5, 1, 2, 4)}
_LONGEST_WAIT = 120.0  # seconds; a service that names more, as for a day's quota, is not waited for
_SLICE = 0.5  # seconds after which a wait looks whether it was cancelled
_MOST_TRIES = 10  # of a call, while others succeed
_MOST_MISSES = 2  # failures in turn after which others are still sent


@dataclass
class _Patience:
    """The patience with calls: `is_alive` once one has succeeded, before which it is short.

    `longest`: the seconds for which calls are sent again from `start`, when the first one failed.
    """

    is_alive: bool
    longest: float
    start: float | None = None

    def allows(self, delay: float) -> bool:
        """Return whether a call that has failed may be sent again after some seconds."""
        self.start = now() if self.start is None else self.start
        return now() + delay <= self.start + self.longest


now = time.monotonic

_patience: ContextVar[_Patience | None] = ContextVar("_patience", default=None)


@contextmanager
def patiently(*, at_first: bool = True, longest: float = math.inf) -> Iterator[None]:
    """Let calls in the block that fail for a moment be sent again.

    `at_first`: also before one has succeeded, or but once; as where a user waits for the block.
    `longest`: the seconds from the first failure after which none is sent again.
    """
    token = _patience.set(_Patience(at_first, longest))
    try:
        yield
    finally:
        _patience.reset(token)


def pause(seconds: float) -> None:
    """Wait, unless the caller is cancelled meanwhile."""
    while seconds > 0:
        check_cancelled()
        time.sleep(min(seconds, _SLICE))
        seconds -= _SLICE


@dataclass(frozen=True)
class _Piece:
    """The texts of a call, from `start` to `end`, and how often it was sent before.

    `half`: half the number of texts of a call that was refused, of which it is a part; else 0.
    """

    start: int
    end: int
    tries: int = 0
    half: int = 0

    def __len__(self) -> int:
        return self.end - self.start

    def cut(self, size: int) -> list[_Piece]:
        return [
            replace(self, start=start, end=min(start + size, self.end))
            for start in range(self.start, self.end, size)
        ]


class CallFailed(EncoderFailed):
    """A call that has failed for good: its error, and its texts."""

    def __init__(self, error: Exception, texts: Sequence[Any]) -> None:
        super().__init__(str(error), texts=texts)
        self.error = error


class Calls:
    """A function that embeds texts, which is called for some of them at a time.

    Parameters
    ----------
    embed : callable(list) -> sequence
        Embeds texts, or does other work for them; whatever it returns has an item for each.
    at_once : int
        The number of calls at the same time.
    size : int
        The largest number of texts of a call; lower once a service has refused it.

    Examples
    --------
    >>> def embed(texts):
    ...     if len(texts) > 2:
    ...         raise ValueError("too many texts")
    ...     return [len(text) for text in texts]
    >>> calls = Calls(embed)
    >>> list(calls.run(["a", "bb", "ccc"]))
    [(slice(0, 2, None), [1, 2]), (slice(2, 3, None), [3])]
    >>> calls.size
    2
    """

    def __init__(
        self, embed: Callable[[list[Any]], Any], at_once: int = 1, size: int = MOST_TEXTS
    ) -> None:
        self.embed, self.at_once, self.size = embed, at_once, size

    def run(self, texts: Sequence[Any]) -> Iterator[tuple[slice, Any]]:
        """Yield the positions of the texts of each call with what was returned, as it comes.

        Raises CallFailed, or a bug of `embed`, once all calls have ended that were sent before.
        """
        run = _Run(self, texts)
        try:
            yield from run.results()
        finally:
            if run.pool is not None:
                run.pool.shutdown()


@dataclass
class _Run:
    """The calls for some texts.

    Attributes
    ----------
    size : int
        The largest number of texts of a call when it began.
    todo : deque of _Piece
        Those that are to be sent.
    again : list of (float, _Piece)
        Those that are to be sent again, with the seconds to wait before.
    waits : int
        How often it has waited since a call has succeeded.
    running : dict of Future to _Piece
    misses : int
        The number of the last calls in turn that have failed.
    is_held : bool
        Whether no call is sent until what has failed was waited for.
    is_of_text : bool
        Whether calls were refused for a text, and not for their size.
    error : Exception or None
        The first that ends the run.
    pool : ThreadPoolExecutor or None
        Made when it is needed.
    """

    calls: Calls
    texts: Sequence[Any]
    size: int = field(init=False)
    todo: deque[_Piece] = field(init=False)
    again: list[tuple[float, _Piece]] = field(default_factory=list)
    running: dict[Future[Any], _Piece] = field(default_factory=dict)
    waits: int = 0
    misses: int = 0
    is_held: bool = False
    is_of_text: bool = False
    error: Exception | None = None
    pool: ThreadPoolExecutor | None = None

    def __post_init__(self) -> None:
        self.size, self.todo = self.calls.size, deque([_Piece(0, len(self.texts))])

    def results(self) -> Iterator[tuple[slice, Any]]:
        """Yield what the calls return; see `Calls.run`."""
        while self.todo or self.running or self.again:
            self._send()
            for future in wait(self.running, return_when=FIRST_COMPLETED).done:
                piece = self.running.pop(future)
                try:
                    vectors = future.result()
                except Exception as error:
                    self._take(error, piece)
                    continue
                self.misses = self.waits = 0
                if (patience := _patience.get()) is not None:
                    patience.is_alive = True
                if piece.half:  # so the whole had too many
                    self.calls.size = min(self.calls.size, piece.half)
                yield slice(piece.start, piece.end), vectors
        if self.is_of_text:
            self.calls.size = self.size
        if self.error is not None:
            raise self.error

    def _send(self) -> None:
        """Send as many calls as may run at once; first, if all have ended, wait where it must."""
        if self.error is not None:
            self.todo.clear()
            self.again.clear()
        elif self.again and not self.running and (self.is_held or not self.todo):
            pause(max(seconds for seconds, _ in self.again))
            self.todo.extendleft(piece for _, piece in reversed(self.again))
            self.again.clear()
            self.misses, self.is_held = 0, False
            self.waits += 1
        while self.todo and len(self.running) < self.calls.at_once and not self.is_held:
            piece = self.todo.popleft()
            if len(piece) > self.calls.size:
                self.todo.extendleft(reversed(piece.cut(self.calls.size)))
            else:
                self._begin(piece)

    def _begin(self, piece: _Piece) -> None:
        """Send a call; the only one in this thread."""
        work = partial(self._embed, self.texts[piece.start : piece.end])
        if self.calls.at_once > 1 and (self.todo or self.running):
            self.pool = self.pool or ThreadPoolExecutor(self.calls.at_once, "uec-rag-embed")
            self.running[self.pool.submit(copy_context().run, work)] = piece
            return
        future = Future[Any]()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        self.running[future] = piece

    def _embed(self, texts: Sequence[Any]) -> Any:  # noqa: ANN401
        with waiting():
            return self.calls.embed([*texts])

    def _take(self, error: Exception, piece: _Piece) -> None:
        """Decide what becomes of a call that has failed."""
        kind, seconds = kind_of(error), wait_of(error)
        patience = _patience.get()
        waits = () if patience is None else _WAITS.get(kind, ())
        waits = waits if patience is None or patience.is_alive else waits[:1]
        if len(piece) > 1 and kind in ("refused", "lasting"):
            half = (len(piece) + 1) // 2
            if kind == "refused":
                self.calls.size = min(self.calls.size, half)
            self.todo.extendleft(reversed(replace(piece, half=half).cut(half)))
        elif (
            self.waits < len(waits)
            and piece.tries < _MOST_TRIES
            and (delay := waits[self.waits] if seconds is None else seconds) <= _LONGEST_WAIT
            and (patience is None or patience.allows(delay))
        ):
            self.misses += 1
            self.is_held |= kind == "busy" or self.misses > _MOST_MISSES
            self.again.append((delay, replace(piece, tries=piece.tries + 1)))
        else:
            self.is_of_text |= piece.half > 0
            texts = self.texts[piece.start : piece.end]
            failure = error if isinstance(error, BUGS) else CallFailed(error, texts)
            self.error = self.error or failure


_BUSY = re.compile(
    r"rate.?limit|too many (requests|calls)|throttl|resource.?exhausted|\bquota\b|\b429\b"
    r"|(requests|calls|tokens|texts|inputs) (per|a|each|/) ?(second|minute|hour)|\b[rt]pm\b",
    re.IGNORECASE,
)
_SPENT = re.compile(r"insufficient.?quota|billing|credit|payment", re.IGNORECASE)
_TOO_MANY = re.compile(
    r"batch|too (many|large|long|big)|at most|no more than|or (fewer|less)|up to|maximum|max_"
    r"|\bmax\b|limit|exceed|larger than|greater than|more than|fewer than|entity|payload",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"unavailable|overload|time.?out|timed out|temporar|connection|reset|gateway|try again"
    r"|internal server|server error|disconnect|jsondecode|\b50[0234]\b|\b529\b",
    re.IGNORECASE,
)
_OF_VALUES = (ArithmeticError, AssertionError, LookupError, ValueError)
_FORBIDDEN = (401, 402, 403, 404, 405)


def kind_of(error: BaseException) -> Literal["busy", "away", "refused", "lasting", "forbidden"]:
    """Return what kind of failure an error tells of, by its status of HTTP or its words.

    It is "refused" for the size of a call, and "forbidden" if no other call can succeed either.

    Examples
    --------
    >>> kind_of(ConnectionError("429 Too Many Requests")), kind_of(TimeoutError())
    ('busy', 'away')
    >>> kind_of(ValueError("batch size 256 > 64")), kind_of(ValueError("no such model"))
    ('refused', 'lasting')
    """
    errors = [*_causes(error)]
    message = " ".join(map(str, errors))
    words = f"{' '.join(type(cause).__name__ for cause in errors)}: {message}"
    status = next(filter(None, map(_status_of, errors)), 0)
    if isinstance(error, BUGS) or status in _FORBIDDEN or _SPENT.search(words):
        return "forbidden"
    if status == 429 or (status in (0, 503) and _BUSY.search(words)):
        return "busy"
    is_size = _TOO_MANY.search(message) and not _AWAY.search(message)
    if status == 413 or (status in (0, 400, 422) and is_size):
        return "refused"
    if status in (408, 409, 425) or status >= 500:
        return "away"
    is_known = any(isinstance(cause, OSError) for cause in errors) or _AWAY.search(words)
    if status == 0 and (is_known or not isinstance(error, _OF_VALUES)):
        return "away"
    return "lasting"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what has caused it, as packages wrap those of their clients."""
    past = set[int]()
    current: BaseException | None = error
    while current is not None and id(current) not in past:
        past.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _status_of(error: BaseException) -> int:
    """Return the status of HTTP that an error has; 0 if it has none."""
    response = getattr(error, "response", None)
    for holder in (error, response):
        for name in ("status_code", "http_status", "status", "code"):
            value = getattr(holder, name, None)
            value = getattr(value, "value", value)  # of an enumeration
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return 0


_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0, "ms": 0.001}  # in units of time
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(milli|ms|h|m|s|)[a-z]*", re.IGNORECASE)
_IN_WORDS = re.compile(  # "in 1m20s", "after 1 hour and 5 minutes"
    r"(?:again|retry|wait)\D{0,30}?(\d+(?:\.\d+)?(?:\s*(?:milli|ms|h|m|s)[a-z]*"
    r"(?:[\s,]*(?:and\s+)?\d+(?:\.\d+)?(?=\s*(?:milli|ms|h|m|s)))?)*)",
    re.IGNORECASE,
)
_KEY = re.compile(r"(?<=[\w/=])\?[\w.%~\[\]-]+=[^\s'\"<>)]*|(?<=://)[^\s/@'\"]+@")


def wait_of(error: BaseException) -> float | None:
    """Return the seconds after which a service says to try again; None if it does not.

    Examples
    --------
    >>> wait_of(ConnectionError("Rate limit reached. Please try again in 1.5s."))
    1.5
    >>> wait_of(ConnectionError("busy"))
    """
    for cause in _causes(error):
        holders = cause, getattr(cause, "response", None)
        if (seconds := _number(getattr(cause, "retry_after", None))) is not None:
            return seconds
        for holder in holders:
            headers = getattr(holder, "headers", None)
            if not isinstance(headers, Mapping):
                continue
            fields = {str(key).lower(): value for key, value in headers.items()}
            if (milliseconds := _number(fields.get("retry-after-ms"))) is not None:
                return milliseconds / 1000
            if (seconds := _number(fields.get("retry-after"))) is not None:
                return seconds
        if match := _IN_WORDS.search(str(cause)):
            parts = _PART.findall(match[1])
            return sum(
                float(number) * _SECONDS[unit.lower().replace("milli", "ms")]
                for number, unit in parts
            )
    return None


def said_by(error: Exception) -> str:
    """Return what an error says, without the query of an address, which may have a key.

    A wait that is too long to be waited for is told.

    Examples
    --------
    >>> said_by(ConnectionError("404 for https://host/v1?key=secret"))
    'ConnectionError: 404 for https://host/v1'
    """
    text = f"{type(error).__name__}: {_KEY.sub('', str(error)).strip():.200}"
    if (seconds := wait_of(error) or 0.0) <= _LONGEST_WAIT:
        return text
    return f"{text}; it asks to wait for {seconds:,.0f} s, and {_LONGEST_WAIT:.0f} s are the most"


def _number(value: object) -> float | None:
    """Read what `Retry-After` holds: seconds, or a date."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime  # takes a while to load

    try:
        date = parsedate_to_datetime(str(value))
    except ValueError:
        return None
    return max(date.timestamp() - time.time(), 0.0)
