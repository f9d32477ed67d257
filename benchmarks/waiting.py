"""What a fit costs others: work that needs a thread of the event loop, and another tenant.

Tenant A's model is a service of some seconds a call, so that the processor is free meanwhile; B's
answers at once. Forty searches of A wait for its fit, and each time is taken beside them.

    python -m benchmarks.waiting
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine
from uec_rag import UEC, Retriever
from uec_rag.index.first_fit import FitMode

_WAITING, _PASSAGES, _MANY = 40, 100, 20


class Service:
    """A model that takes some seconds to embed many texts at once."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Embed texts as the sums of directions of their words."""
        time.sleep(self.seconds if len(texts) > _MANY else 0)
        words = [[sum(map(ord, word)) for word in text.lower().split()] for text in texts]
        return np.stack([sum(map(self._direction, of_text)) for of_text in words])

    def _direction(self, word: int) -> np.ndarray:
        return np.random.default_rng(word).standard_normal(64)


def tenant(name: str, seconds: float, fit: FitMode = True) -> Retriever:
    """Return an index that its first search fits."""
    service = Service()
    index = Retriever(UEC([service, "bm25"]), fit=fit)
    index.add(
        [
            f"{name} keeps item {number} on shelf {number % 7}. It weighs {number} grams and was "
            f"made in {1900 + number} by maker {number * 37 % 101}."
            for number in range(_PASSAGES)
        ]
    )
    service.seconds = seconds
    return index


async def taken(work: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds that a coroutine takes."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def measure(seconds: float, fit: FitMode, *, beside: bool) -> list[float]:
    """Return how long others' work, B's first answer and A's first answer take."""
    a, b = tenant("A", seconds, fit), tenant("B", 0.0)
    question = ["How much does item 31 weigh?"]
    start = time.perf_counter()
    searches = [
        asyncio.ensure_future(a.asearch(question)) for _ in range(_WAITING if beside else 0)
    ]
    if fit == "background":
        await asyncio.gather(*searches)
    answered = time.perf_counter() - start
    await asyncio.sleep(0.5 if beside else 0)  # until they wait
    others = await taken(lambda: asyncio.to_thread(lambda: None))
    of_b = await taken(lambda: b.asearch(question))
    await asyncio.gather(*searches)
    if fit != "background":
        answered = time.perf_counter() - start
    return [others, of_b, answered if beside else float("nan")]


def main(seconds: Annotated[float, typer.Option(help="Of a call of A's model.")] = 3.0) -> None:
    """Print what others wait."""
    logging.getLogger("uec_rag").setLevel(logging.ERROR)
    ways: list[tuple[str, FitMode, bool]] = [
        ("A does nothing", True, False),
        (f"{_WAITING} searches wait for A's fit", True, True),
        (f"{_WAITING} searches of A, whose fit is in the background", "background", True),
    ]
    tenant("warm", 0.0).search(["What is imported first?"])
    rows = []
    for name, fit, beside in ways:
        times = asyncio.run(measure(seconds, fit, beside=beside))
        rows.append([name, *(f"{one:.3f}" if one == one else "" for one in times)])
    header = ["beside", "others' work, s", "B's first answer, s", "A's answers, s"]
    print_table(f"Waiting ({machine()})", header, rows)


if __name__ == "__main__":
    run_script(main)
