"""`uec-rag serve` under load: many clients on loopback, questions that are new or asked again.

python -m benchmarks.serve

Each client sends its next question when it has the answer to the last one: a new one, or one of a
hundred that were asked before. What a question takes in each stage is the server's own count, from
/metrics; "the rest" is HTTP, JSON and the clients. The server is a process
of its own; clients share the processors with it, so that both are slower than on two machines.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import random
import re
import socket
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import uvicorn

from benchmarks.tables import print_table
from benchmarks.timing import machine
from uec_rag import UEC, Retriever
from uec_rag.documents import passages_of
from uec_rag.documents.python_docs import gather_corpus
from uec_rag.server import create_app

_KNOWN = 100  # questions that are asked again


def build(folder: Path, passages: int) -> list[str]:
    """Save an index of Python's documentation; returns questions, pieces of passages."""
    corpus = passages_of(gather_corpus(passages))
    index = Retriever(UEC())
    index.add([p.text for p in corpus], [p.id for p in corpus], [p.metadata for p in corpus])
    index.save(folder)
    split = [passage.text.split() for passage in corpus]
    found = {
        " ".join(words[start : start + 12]) for words in split for start in range(len(words) - 12)
    }
    questions = sorted(found)
    random.Random(0).shuffle(questions)
    return questions


def serve(folder: Path, listening: socket.socket) -> None:
    """What the server's process does."""
    app = create_app(Retriever.load(folder))
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])


async def ask(
    port: int, questions: Iterator[str], end: float, told: list[tuple[int, float]]
) -> None:
    """One client, over one connection: notes status and seconds of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for question in questions:
        if time.perf_counter() >= end:
            break
        body = json.dumps({"question": question, "k": 5}).encode()
        head = f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
        start = time.perf_counter()
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].split("\r\n")[0])
        await reader.readexactly(length)
        told.append((int(answer.split()[1]), time.perf_counter() - start))
    writer.close()


def draw(fresh: Iterator[str], known: list[str], again: float) -> Iterator[str]:
    """Questions without end, of which a share was asked before."""
    while True:
        yield random.choice(known) if random.random() < again else next(fresh)


def search_seconds(port: int) -> float:
    """Seconds that the server has spent in searches, by its own count."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(r"^uec_rag_search_seconds_sum (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def load(port: int, questions: Iterator[str], clients: int, seconds: float) -> list[str]:
    """Ask for a while; what a row of the table says of it."""
    told: list[tuple[int, float]] = []
    before, start = search_seconds(port), time.perf_counter()
    await asyncio.gather(*(ask(port, questions, start + seconds, told) for _ in range(clients)))
    taken, times = time.perf_counter() - start, [1000 * each for _, each in told]
    each = 1000 * (search_seconds(port) - before) / len(told)
    wrong = sum(status != 200 for status, _ in told)
    p50, p99 = np.percentile(times, [50, 99])
    return [
        *map(str, (clients, len(told), wrong)),
        *(f"{x:.0f}" for x in (len(told) / taken, p50, p99)),
        *(f"{x:.1f}" for x in (each, 1000 * taken / len(told) - each)),
    ]


def main(
    passages: Annotated[int, typer.Option(help="Corpus size, about.")] = 5000,
    clients: Annotated[int, typer.Option(help="At the same time.")] = 50,
    seconds: Annotated[float, typer.Option(help="Of each row.")] = 60,
) -> None:
    """Start a server, and ask it."""
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        questions = build(Path(folder, "idx"), passages)
        known, fresh = questions[:_KNOWN], iter(questions[_KNOWN:])
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn's own
            process = multiprocessing.get_context("spawn").Process(
                target=serve, args=(Path(folder, "idx"), listening)
            )
            process.start()
            port = listening.getsockname()[1]
            asyncio.run(ask(port, iter(known), math.inf, []))
            for again in (0.0, 0.5, 1.0):
                for count in (1, clients):
                    drawn = draw(fresh, known, again)
                    rows.append([f"{again:.0%}", *asyncio.run(load(port, drawn, count, seconds))])
            process.terminate()
            process.join()
    header = ["asked before", "clients", "answers", "errors", "answers/s", "p50 ms", "p99 ms"]
    header += ["search, ms", "the rest, ms"]
    print_table(f"{machine()}; {passages} passages", header, rows)


if __name__ == "__main__":
    typer.run(main)
