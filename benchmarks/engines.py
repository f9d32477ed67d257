"""Qdrant against exact search of the same passages: hits, confidence, time, bytes.

python -m benchmarks.engines                # Qdrant's engine, which pip installs
python -m benchmarks.engines --qdrant URL   # a server
python -m benchmarks.engines --passages 1000000 --encoders 1 --folder kept

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
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from qdrant_client import QdrantClient
from rich.console import Console

from benchmarks.search import K, machine
from benchmarks.synthetic import Corpus, with_encodings
from benchmarks.tables import print_table
from tests.stores.edge_client import EdgeClient
from uec_rag import Retriever
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.qdrant import QdrantStore

_TIMED = 40
_BLOCK = 10_000
_TEXT = "Some four hundred characters, as a paragraph has them. " * 7  # 385 of them
_SIZES = ("bytes", "of its index")
_DIGITS = {
    "recall@10": 4,
    "confidence off by": 4,
    "at most": 3,
    "on average": 4,
    "coefficients off by": 4,
    "ms a query": 1,
    "one of 20": 1,
}


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
    store: Annotated[str, typer.Option(help="Beside exact search.")] = "int8,qdrant",
    candidates: Annotated[str, typer.Option(help="Of Qdrant's searches.")] = "256",
    noise: Annotated[str, typer.Option(help="Of the queries, see `Corpus`.")] = "1,4",
    queries: Annotated[int, typer.Option(help="How many; some of them are timed.")] = 200,
    qdrant: Annotated[str | None, typer.Option(help="URL of a Qdrant server.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Keep what is filled here.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Write the numbers here, too.")] = None,
) -> None:
    """Print what filling takes, then what searches find and take."""
    levels = [float(level) for level in noise.split(",")]
    described, corpus = machine(), Corpus(encoders, noise=max(levels))
    folder = folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    corpus.use(folder / "ensemble")
    kinds = {
        "exact": ("exact, in memory", memory),
        "int8": ("int8, in memory", lambda at: memory(at, dtype="int8")),
        "qdrant": ("Qdrant" if qdrant else "Qdrant's engine", lambda at: of_qdrant(at, qdrant)),
    }
    filled, found = [], []
    expected: dict[float, Any] = {}
    for short in ("exact", *store.split(",")):
        name, open_ = kinds[short]
        at = partial(open_, folder / short)
        taken = fill(folder / f"{short}.json", name, at, corpus, passages)
        kind = at()
        held, index = kind.size()
        filled.append({"store": name, **taken, "bytes": held, "of its index": index})
        retriever = Retriever(corpus.uec, kind.store)
        for corpus.noise in levels:
            looked_at = [*map(int, candidates.split(","))] if kind.store.remote else [0]
            for count in looked_at:
                if count:
                    kind.store.candidates = count
                result, milliseconds = searched(corpus, retriever, queries)
                wanted = expected.setdefault(corpus.noise, result)
                asked = {"store": name, "noise": corpus.noise, "candidates": count}
                found.append(asked | compared(result, wanted) | milliseconds)
        kind.close()
    title = f"{passages:,} passages, {encoders} x 384, {queries} queries. {described}"
    show(title, [row | {what: row[what] / passages for what in _SIZES} for row in filled], markdown)
    show(title, found, markdown)
    if out is not None:
        of = {"machine": described, "passages": passages, "encoders": encoders}
        out.write_text(json.dumps(of | {"filled": filled, "found": found}, indent=1))


def show(title: str, rows: list[dict[str, Any]], markdown: bool) -> None:
    """Print numbers as a table, with as many digits as there is reason for."""
    header = [*rows[0]]
    texts = [
        [
            value if isinstance(value, str) else f"{value:,.{_DIGITS.get(name, 0)}f}"
            for name, value in row.items()
        ]
        for row in rows
    ]
    print_table(title, header, texts, markdown=markdown)


def memory(folder: Path, **options: Any) -> Kind:
    """A store in memory, or the one that was saved."""
    store = LocalStore(folder) if folder.exists() else LocalStore(**options)

    def close() -> None:
        if not folder.exists():
            folder.mkdir()
            store.save(folder)

    return Kind(store, lambda: None, lambda: (_bytes(folder), 0), close)


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


def fill(
    noted: Path, name: str, open_: Callable[[], Kind], corpus: Corpus, passages: int
) -> dict[str, float]:
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
        noted.write_text(
            json.dumps(
                {"s to fill": there - start, "s to index": done - there, "load": os.getloadavg()[2]}
            )
        )
    taken: dict[str, float] = json.loads(noted.read_text())
    return taken


def _bytes(folder: Path) -> int:
    """On the disk: of what is written of files, not of what they might become."""
    return sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())


def searched(corpus: Corpus, retriever: Retriever, queries: int) -> tuple[Any, dict[str, float]]:
    """The result of all queries, and milliseconds of some asked alone, once they were asked."""
    parts = corpus.queries(queries)
    view, asked = with_encodings(retriever, [*map(str, range(queries))], parts), range(queries)
    result = view.search([*map(str, asked)], K)
    times = []
    for i in range(min(queries, _TIMED)):
        start = time.perf_counter()
        view.search([str(i)], K)
        times.append(1e3 * (time.perf_counter() - start))
    median, slow = np.quantile(times, [0.5, 0.95]).tolist()
    return result, {"ms a query": median, "one of 20": slow}


def compared(found: Any, expected: Any) -> dict[str, float]:
    """What is found against what exact search finds."""
    recall = np.mean([len({*a} & {*b}) / K for a, b in zip(found.ids, expected.ids, strict=True)])
    off = np.abs(found.confidence - expected.confidence)
    weights = np.abs(found.coefficients - expected.coefficients).mean()
    return {
        "recall@10": float(recall),
        "confidence off by": float(off.mean()),
        "at most": float(off.max()),
        "on average": float((found.confidence - expected.confidence).mean()),
        "coefficients off by": float(weights),
    }


if __name__ == "__main__":
    typer.run(main)
