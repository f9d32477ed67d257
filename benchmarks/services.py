"""What an index sends to an embedding service, and how long its users wait for that.

The service is in this process. It counts calls and texts, takes a time for each call, and may fail
or refuse calls of many texts, and many calls a minute.

    python -m benchmarks.services
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine
from uec_rag import UEC, Retriever
from uec_rag.documents import fitting_pairs, passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.langchain import UECRetriever

_WIDTH = 64
_MINUTE = 60.0
_PASSAGES, _SLOW, _SLOWER = 251, 0.2, 0.3
_FEW, _MANY, _PAIRS = 16, 700, 200
_LOST = 3  # the call that fails among those of the many


class Clock(Protocol):
    """A clock such as the module `time`."""

    def monotonic(self) -> float:
        """Return seconds since some moment."""

    def sleep(self, seconds: float, /) -> object:
        """Let some seconds pass."""


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
    clock: Clock = time
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
        while self._begun and self._begun[0] <= now - _MINUTE:
            self._begun.popleft()
        if self.most_calls is not None and len(self._begun) >= self.most_calls:
            wait = self._begun[0] + _MINUTE - now
            return Refusal(429, "Too Many Requests: rate limit reached", wait)
        self._begun.append(now)
        return None


def _nothing() -> np.ndarray:
    return np.full(_WIDTH, 1e-3)


@cache
def _direction(word: str) -> np.ndarray:
    return np.random.default_rng([*word.encode()]).standard_normal(_WIDTH)


def every(step: int, error: Exception) -> Callable[[int], Exception | None]:
    """Return a function by which one in some calls fails."""
    return lambda number: None if number % step else error


def corpus(count: int) -> list[str]:
    """Return different texts of Python's documentation."""
    texts = [passage.text for passage in passages_of(gather_corpus(2 * count))]
    return [*dict.fromkeys(texts)][:count]


@contextlib.contextmanager
def _taken(times: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times.append(time.perf_counter() - start)


def first_search(texts: Sequence[str]) -> tuple[Service, float]:
    """Return the service of an index, and the seconds of its first search, which fits it."""
    service, times = Service(), list[float]()
    index = Retriever(UEC([service, "bm25"]))
    index.add(texts)
    service.reset()
    service.seconds = _SLOW
    with _taken(times):
        index.search(["What does textwrap.dedent do?"])
    return service, times[0]


QUESTIONS = {
    "a follow-up": (
        "And of itertools.chain?",
        ["How do I read a file?", "What does it return?", "What are the arguments of zip?"],
    ),
    "a double question": ("What is a deque, and how do I remove a folder?", []),
}


def question(texts: Sequence[str], name: str) -> tuple[Service, float]:
    """Return the service below a store, and the seconds of a question over it."""
    service, times = Service(), list[float]()
    store = InMemoryVectorStore(service)
    store.add_texts(texts)
    over = UECRetriever.over(store, service)
    over.invoke("What does textwrap.dedent do?")
    service.reset()
    service.seconds = _SLOWER
    text, turns = QUESTIONS[name]
    with _taken(times):
        over.index.search([text], history=[turns])
    return service, times[0]


def added_twice(texts: Sequence[str], *, fails: bool) -> Service:
    """Return the service of an index to which texts are added twice."""
    error = Refusal(503, "Service Unavailable")
    service = Service()
    index = Retriever(UEC([service, "bm25"]))
    if fails:
        # Also where a failed call is tried again: all fail until the next addition.
        service.fails = lambda number: error if number >= _LOST else None
    ids = [f"p{number}" for number in range(len(texts))]
    with contextlib.suppress(ConnectionError):
        index.add(texts, ids)
    service.fails = lambda _: None
    index.add(texts, ids)
    return service


def main() -> None:
    """Print the calls, the texts and the seconds."""
    logging.getLogger("uec_rag").setLevel(logging.ERROR)
    texts = corpus(_PASSAGES)
    rows = list[list[str]]()
    service, seconds = first_search(texts)
    name = f"first search, {_PASSAGES} passages, {_SLOW} s a call"
    rows.append([name, str(service.calls), str(service.texts), f"{seconds:.1f}"])
    service = Service()
    UEC([service, "bm25"]).fit(fitting_pairs(gather_corpus(1000), limit=_PAIRS))
    rows.append([f"fit on {_PAIRS} pairs", str(service.calls), str(service.texts), ""])
    for kind in QUESTIONS:
        service, seconds = question(texts, kind)
        name = f"{kind} over a store, {_SLOWER} s a call"
        rows.append([name, str(service.calls), str(service.texts), f"{seconds:.2f}"])
    for fails, count in ((False, _FEW), (True, _MANY)):
        suffix = " with a failure" if fails else ""
        short = [f"Text {number} of many." for number in range(count)]
        service = added_twice(short, fails=fails)
        numbers = [str(service.calls), str(service.texts), ""]
        rows.append([f"add twice, {count} texts{suffix}", *numbers])
    print_table(f"Services ({machine()})", ["what", "calls", "texts", "seconds"], rows)


if __name__ == "__main__":
    run_script(main)
