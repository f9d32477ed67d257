"""`uec-rag serve` under load: many clients on loopback, queries in batches and one at a time.

python -m benchmarks.serve --markdown

Each client sends its next question when it has the answer to the last one. The server is a process
of its own; clients share the processors with it, so that both are slower than on two machines.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import socket
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import uvicorn

from benchmarks.search import machine
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.corpora import passages_of
from uec_rag.corpora.python_docs import gather_corpus
from uec_rag.retrieval.live import LiveIndex, Place
from uec_rag.server.access import Access
from uec_rag.server.batching import TOGETHER
from uec_rag.server.http import create_app
from uec_rag.server.running import listen


def build(folder: Path, passages: int) -> list[str]:
    """Save an index of Python's documentation; returns questions, the beginnings of passages."""
    corpus = passages_of(gather_corpus(passages))
    index = Retriever(UEC())
    index.add([p.text for p in corpus], [p.id for p in corpus], [p.metadata for p in corpus])
    index.save(folder)
    return [" ".join(passage.text.split()[:12]) for passage in corpus]


def serve(folder: Path, together: int, listening: socket.socket) -> None:
    """What the server's process does."""
    app = create_app(LiveIndex(Place(folder)), Access(), together=together)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])


async def ask(port: int, questions: list[str], end: float, told: list[tuple[int, float]]) -> None:
    """One client, over one connection: notes status and seconds of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        body = json.dumps({"query": random.choice(questions), "k": 5}).encode()
        head = f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
        start = time.perf_counter()
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].split("\r\n")[0])
        await reader.readexactly(length)
        told.append((int(answer.split()[1]), time.perf_counter() - start))
    writer.close()


async def load(port: int, questions: list[str], clients: int, seconds: float) -> list[str]:
    """Ask for a while; what a row of the table says of it."""
    told: list[tuple[int, float]] = []
    await ask(port, questions, time.perf_counter() + 2, [])  # warm
    start = time.perf_counter()
    await asyncio.gather(*(ask(port, questions, start + seconds, told) for _ in range(clients)))
    taken, times = time.perf_counter() - start, [1000 * each for _, each in told]
    wrong = sum(count for status, count in Counter(s for s, _ in told).items() if status != 200)
    p50, p99 = np.percentile(times, [50, 99])
    return [
        *map(str, (clients, len(told), wrong)),
        *(f"{x:.0f}" for x in (len(told) / taken, p50, p99)),
    ]


def main(
    passages: Annotated[int, typer.Option(help="Corpus size, about.")] = 5000,
    clients: Annotated[int, typer.Option(help="At the same time.")] = 200,
    seconds: Annotated[float, typer.Option(help="Of each row.")] = 60,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """Start a server for each row, and ask it."""
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        questions = build(Path(folder, "idx"), passages)
        for name, together in (("one at a time", 1), (f"up to {TOGETHER} at once", TOGETHER)):
            with listen("127.0.0.1", 0) as listening:
                process = multiprocessing.get_context("spawn").Process(
                    target=serve, args=(Path(folder, "idx"), together, listening)
                )
                process.start()
                port = listening.getsockname()[1]
                for count in (1, clients):
                    rows.append([name, *asyncio.run(load(port, questions, count, seconds))])
                process.terminate()
                process.join()
    header = ["queries", "clients", "answers", "errors", "answers/s", "p50 ms", "p99 ms"]
    print_table(f"{machine()}; {passages} passages", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
