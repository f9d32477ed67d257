"""Whether an event loop goes on while many questions are asked of an engine at once.

python -m benchmarks.concurrency --markdown

`asearch` asks in threads. A heartbeat of ten milliseconds beats beside it: by how much a beat is
late says how long anything else in that process would have waited; questions asked one after
another say what the threads gain.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.search import K, build, machine
from benchmarks.synthetic import Corpus
from benchmarks.tables import print_table
from tests.stores.edge_client import EdgeClient
from tests.stores.postgres_server import server_dsn
from uec_rag import Retriever
from uec_rag.stores import MemoryStore
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.qdrant import QdrantStore

_BEAT = 0.01


async def late(retriever: Retriever, corpus: Corpus, questions: int) -> tuple[float, list[float]]:
    """Seconds of all questions at once, and how late each beat was beside them."""
    parts, beats, going = corpus.queries(questions), [], True

    async def beat() -> None:
        while going:
            start = time.perf_counter()
            await asyncio.sleep(_BEAT)
            beats.append(time.perf_counter() - start - _BEAT)

    heart = asyncio.create_task(beat())
    start = time.perf_counter()
    await asyncio.gather(
        *(
            asyncio.to_thread(retriever.search_encoded, [str(i)], [p[[i]] for p in parts], K)
            for i in range(questions)
        )
    )
    seconds, going = time.perf_counter() - start, False
    await heart
    return seconds, beats


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 3000,
    questions: Annotated[int, typer.Option(help="Asked at once.")] = 50,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """Print the table."""
    corpus, described, rows = Corpus(2, noise=4.0), machine(), []
    client = EdgeClient(Path(tempfile.mkdtemp()))
    stores = {
        "in memory": MemoryStore(),
        "Qdrant's engine": QdrantStore(client=client, collection="bench"),
        "PostgreSQL": PgVectorStore(server_dsn(), collection="concurrent"),
    }
    for name, store in stores.items():
        retriever = build(corpus, passages, store)
        parts = corpus.queries(questions)
        start = time.perf_counter()
        for i in range(questions):
            retriever.search_encoded([str(i)], [part[[i]] for part in parts], K)
        one_by_one = time.perf_counter() - start
        seconds, beats = asyncio.run(late(retriever, corpus, questions))
        times = 1e3 * np.quantile(beats, [0.5, 0.95, 1.0])
        rows.append(
            [name, f"{one_by_one:.2f}", f"{seconds:.2f}", *(f"{value:.0f}" for value in times)]
        )
    header = ["store", "one by one, s", "at once, s", "a beat late, ms", "of 20 one", "the latest"]
    title = f"{questions} questions of {passages:,} passages at once. {described}"
    print_table(title, header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
