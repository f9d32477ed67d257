"""Search times of UEC and its peers over the same vectors, as ratios to the plain inner product.

Every ratio is of one run: the systems of a case take turns, and a ratio is the median over the
rounds. "plain" is what one writes with NumPy: a matrix product, `argpartition`, a sort of ten; "our
selection" the same with this package's quicker way to the largest of many; "UEC score" the ten of
the highest s_hat; "UEC search" a whole search after encoding, with relevance and confidence, and,
where there are several encoders, coefficients from the corpus's evidence.

    python -m benchmarks.search                     # the whole table, about half an hour
    python -m benchmarks.search --quick             # small ones only, two minutes
    python -m benchmarks.search --markdown          # the table of README.md

faiss-cpu (IndexFlatIP), langchain-core (InMemoryVectorStore) and llama-index-core
(SimpleVectorStore) take part where they are installed.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks.synthetic import Corpus, with_encodings
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.base.similarity import largest
from uec_rag.stores import LocalStore, Passage

K = 10
PEERS_UP_TO = 50_000  # passages; beyond, the frameworks' stores take minutes a round
_LEAST = 0.02  # seconds a system runs in each round

Search = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """One system in one case: seconds for the batch, and the ratio to "plain" in those rounds."""

    passages: int
    width: int
    batch: int
    system: str
    seconds: float
    ratio: float


def machine() -> str:
    """What the numbers depend on, in a line."""
    config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"{processor}, {len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__} with {config['name']} {config['version']}; "
        f"load average before: {os.getloadavg()[0]:.1f}"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def interleaved(
    systems: dict[str, Search], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, tuple[float, float]]:
    """Median seconds of each system, and median ratio to the first one in the same round."""
    repeats = {}
    for name, search in systems.items():
        search()
        start = clock()
        search()
        repeats[name] = max(1, round(_LEAST / (clock() - start)))
    seconds = np.empty((rounds, len(systems)))
    for row in seconds:
        for i, (name, search) in enumerate(systems.items()):
            start = clock()
            for _ in range(repeats[name]):
                search()
            row[i] = (clock() - start) / repeats[name]
    medians = np.median(seconds, axis=0)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return {name: (medians[i], ratios[i]) for i, name in enumerate(systems)}


def plain(queries: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Top ten rows by inner product, best first."""
    similarities = queries @ matrix.T
    rows = np.argpartition(similarities, -K, axis=1)[:, -K:]
    order = np.argsort(-np.take_along_axis(similarities, rows, axis=1), axis=1)
    return np.take_along_axis(rows, order, axis=1)


def plain_quickly(queries: np.ndarray, matrix: np.ndarray) -> list[np.ndarray]:
    """`plain` with the package's own way to the largest of many: what is left is the price."""
    best = []
    for row in queries @ matrix.T:
        rows = largest(row, K)
        best.append(rows[np.argsort(-row[rows])])
    return best


def peers(matrix: np.ndarray, queries: np.ndarray) -> Iterator[tuple[str, Search]]:
    """The other libraries' searches over the same vectors, where they are installed."""
    try:
        import faiss
    except ImportError:
        pass
    else:
        index = faiss.IndexFlatIP(matrix.shape[1])
        index.add(matrix)
        yield "faiss", lambda: index.search(queries, K)
    if len(matrix) > PEERS_UP_TO or len(queries) > 1:
        return
    vectors, query = matrix.tolist(), queries[0].tolist()
    try:
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from langchain_core.vectorstores import InMemoryVectorStore
    except ImportError:
        pass
    else:
        langchain = InMemoryVectorStore(DeterministicFakeEmbedding(size=len(query)))
        for i, vector in enumerate(vectors):
            langchain.store[str(i)] = {"id": str(i), "vector": vector, "text": "", "metadata": {}}
        yield (
            "LangChain",
            lambda: langchain.similarity_search_by_vector(query, K),
        )
    try:
        from llama_index.core.vector_stores import SimpleVectorStore
        from llama_index.core.vector_stores.types import VectorStoreQuery
    except ImportError:
        pass
    else:
        llama = SimpleVectorStore()
        llama.data.embedding_dict = {str(i): vector for i, vector in enumerate(vectors)}
        asked = VectorStoreQuery(query_embedding=query, similarity_top_k=K)
        yield "LlamaIndex", lambda: llama.query(asked)


def build(corpus: Corpus, count: int, store: LocalStore) -> Retriever:
    """An index of the corpus's first passages."""
    retriever = Retriever(corpus.uec, store)
    for start in range(0, count, 50_000):
        stop = min(count, start + 50_000)
        passages = [Passage(str(i), str(i)) for i in range(start, stop)]
        retriever.add_encoded(passages, corpus.passages(start, stop))
    return retriever


def measure(
    corpus: Corpus, retriever: Retriever, batch: int, rounds: int, *, with_peers: bool
) -> list[Measured]:
    """Time everything on one corpus and batch size."""
    uec, store, count = corpus.uec, retriever.store, len(retriever)
    parts = corpus.queries(batch)
    texts = [str(i) for i in range(batch)]
    view = with_encodings(retriever, texts, parts)
    query = uec.fitted.combine(
        parts, np.full((batch, len(parts)), 1 / len(parts), dtype=np.float32)
    )
    matrix = corpus.matrix(store)
    systems: dict[str, Search] = {
        "plain": lambda: plain(query.mean, matrix),
        "plain, our selection": lambda: plain_quickly(query.mean, matrix),
        "UEC score": lambda: store.search(query, K, beta=uec.fitted.beta),
        "UEC search": lambda: view.search(texts, K),
    }
    if with_peers:
        systems |= dict(peers(matrix, query.mean))
    return [
        Measured(count, uec.dimension, batch, name, seconds, ratio)
        for name, (seconds, ratio) in interleaved(systems, rounds).items()
    ]


def opening(retriever: Retriever, parts: list) -> dict[str, float]:
    """Seconds to open the saved store and to search it first; bytes a passage over the vectors'."""
    with tempfile.TemporaryDirectory() as folder:
        retriever.store.save(Path(folder))
        vectors = sum(file.stat().st_size for file in Path(folder).glob("mean.*.npy"))
        numbers = sum(file.stat().st_size for file in Path(folder).glob("*.npy"))
        start = time.perf_counter()
        store = LocalStore(Path(folder))
        opened = time.perf_counter() - start
        start = time.perf_counter()
        with_encodings(Retriever(retriever.uec, store), ["0"], parts).search(["0"], K)
        searched = time.perf_counter() - start
    return {
        "passages": len(retriever),
        "width": retriever.uec.dimension,
        "open_seconds": opened,
        "first_search_seconds": searched,
        "bytes_ratio": numbers / vectors,
    }


def main(
    quick: Annotated[bool, typer.Option(help="Only 10,000 passages, few rounds.")] = False,
    passages: Annotated[str, typer.Option(help="Corpus sizes.")] = "10000,50000,100000,1000000",
    encoders: Annotated[str, typer.Option(help="Encoders of 384 dimensions each.")] = "1,3",
    batches: Annotated[str, typer.Option(help="Queries at a time.")] = "1,8,64",
    rounds: Annotated[int, typer.Option(help="Of which the median is taken.")] = 9,
    with_peers: Annotated[bool, typer.Option("--peers/--no-peers")] = True,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Write the numbers here, too.")] = None,
) -> None:
    """Print the tables."""
    sizes = [10_000] if quick else [int(size) for size in passages.split(",")]
    rounds = 3 if quick else rounds
    console = Console(stderr=True)
    described = machine()
    measured: list[Measured] = []
    opened: list[dict[str, float]] = []
    for count in (int(count) for count in encoders.split(",")):
        corpus = Corpus(count)
        for size in sizes:
            console.print(f"{size:,} passages, {corpus.uec.dimension} wide ...")
            retriever = build(corpus, size, LocalStore())
            for batch in (int(batch) for batch in batches.split(",")):
                measured += measure(corpus, retriever, batch, rounds, with_peers=with_peers)
            if size == max(sizes):
                opened.append(opening(retriever, corpus.queries(1)))
    report(described, measured, opened, markdown=markdown)
    if out is not None:
        rows = [asdict(row) for row in measured]
        out.write_text(
            json.dumps({"machine": described, "search": rows, "opening": opened}, indent=1)
        )


def report(
    described: str,
    measured: list[Measured],
    opened: list[dict[str, float]],
    *,
    markdown: bool,
) -> None:
    """Print what was measured: a row per case, a column per system."""
    systems = list(dict.fromkeys(row.system for row in measured))
    cases: dict[tuple[int, int, int], dict[str, Measured]] = {}
    for row in measured:
        cases.setdefault((row.width, row.passages, row.batch), {})[row.system] = row
    header = ["width", "passages", "batch", "plain, ms", *(f"{s} / plain" for s in systems[1:])]
    rows = [
        [
            str(width),
            f"{passages:,}",
            str(batch),
            f"{1e3 * case['plain'].seconds:.3g}",
            *(f"{case[s].ratio:.3g}" if s in case else "" for s in systems[1:]),
        ]
        for (width, passages, batch), case in cases.items()
    ]
    print_table(described, header, rows, markdown=markdown)
    header = ["width", "passages", "to open, s", "first search, s", "bytes / those of the vectors"]
    rows = [
        [
            f"{row['width']}",
            f"{row['passages']:,}",
            f"{row['open_seconds']:.2f}",
            f"{row['first_search_seconds']:.2f}",
            f"{row['bytes_ratio']:.3f}",
        ]
        for row in opened
    ]
    print_table("A saved index", header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
