"""An embedding service in this process: it counts, takes its time, fails and refuses."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

WIDTH, MINUTE = 64, 60.0


@dataclass
class FakeClock:
    """A clock on which time passes where somebody sleeps, and no other time."""

    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def monotonic(self) -> float:
        """Return the seconds that everybody has slept."""
        return self.seconds

    def sleep(self, seconds: float, /) -> None:
        """Let some seconds pass at once."""
        with self._lock:
            self.seconds += seconds


class Refusal(Exception):
    """An error as packages of services raise it, with the status of HTTP and perhaps a wait."""

    def __init__(self, status: int, message: str, wait: float | None = None) -> None:
        super().__init__(f"Error code: {status} - {message}")
        self.status_code, self.retry_after = status, wait


@dataclass
class Service(Embeddings):
    """An embedding service in this process.

    Attributes
    ----------
    seconds : float
        What each call takes.
    most_texts : int or None
        Calls of more texts are refused.
    most_calls : int or None
        More calls in a minute are refused, with the seconds to wait.
    fails : callable(number) -> Exception or None
        Returns what a call raises, by its number from 1.
    clock : Clock
        The module `time`, or one that tests set.
    model : str
        Its name.
    calls, queries, texts, refusals : int
        The numbers of calls, of those for a question, of texts that were embedded, of calls that
        raised.
    at_once : int
        The largest number of calls at the same time.
    log : list
        All texts that were embedded.
    """

    seconds: float = 0.0
    most_texts: int | None = None
    most_calls: int | None = None
    fails: Callable[[int], Exception | None] = lambda _: None
    clock: Any = time
    model: str = "service"
    calls: int = 0
    queries: int = 0
    refusals: int = 0
    at_once: int = 0
    log: list[str] = field(default_factory=list)
    _running: int = 0
    _begun: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    __hash__ = object.__hash__

    @property
    def texts(self) -> int:
        """The number of texts that were embedded."""
        return len(self.log)

    def reset(self) -> None:
        """Count from 0."""
        self.calls = self.queries = self.refusals = self.at_once = 0
        self.log.clear()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return self._answer(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        with self._lock:
            self.queries += 1
        return self._answer([text])[0]

    def _answer(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            self.calls += 1
            self._running += 1
            self.at_once = max(self.at_once, self._running)
            error = self.fails(self.calls) or self._refusal(texts)
            self.refusals += error is not None
        try:
            self.clock.sleep(self.seconds)
            if error is not None:
                raise error
        finally:
            with self._lock:
                self._running -= 1
        with self._lock:
            self.log += texts
        return [sum(map(_direction, text.lower().split()), _nothing()).tolist() for text in texts]

    def _refusal(self, texts: Sequence[str]) -> Exception | None:
        if self.most_texts is not None and len(texts) > self.most_texts:
            return Refusal(400, f"batch size {len(texts)} > maximum of {self.most_texts} inputs")
        now = self.clock.monotonic()
        while self._begun and self._begun[0] <= now - MINUTE:
            self._begun.popleft()
        if self.most_calls is not None and len(self._begun) >= self.most_calls:
            wait = self._begun[0] + MINUTE - now
            return Refusal(429, "Too Many Requests: rate limit reached", wait)
        self._begun.append(now)
        return None


def _nothing() -> np.ndarray:
    return np.full(WIDTH, 1e-3)


@cache
def _direction(word: str) -> np.ndarray:
    return np.random.default_rng([*word.encode()]).standard_normal(WIDTH)


def every(step: int, error: Exception) -> Callable[[int], Exception | None]:
    """Return a function by which one in some calls fails."""
    return lambda number: None if number % step else error
