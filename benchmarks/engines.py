"""Qdrant against exact search of the same passages: hits, confidence, time.

python -m benchmarks.engines                # Qdrant's engine, which pip installs
python -m benchmarks.engines --qdrant URL   # a server
python -m benchmarks.engines --passages 1000000 --encoders 1 --folder kept

A local index in a folder, and a server, keep what was filled, and it is measured again when this is
run again: filling a million takes most of an hour and may be done on a busy machine, milliseconds
want a quiet one.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from qdrant_client import QdrantClient

from benchmarks.synthetic import Corpus, K, with_encodings
from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine
from tests.stores.edge_client import EdgeClient
from uec_rag import Retriever, SearchResult
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore

_QUERIES, _TIMED = 200, 40
_NOISE = (1.0, 4.0)  # of the queries, see `Corpus`
_CANDIDATES = 256  # of Qdrant's searches
_TEXT = " Some four hundred characters, as a paragraph has them." * 7


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 20_000,
    encoders: Annotated[int, typer.Option(help="Encoders of 384 dimensions each.")] = 2,
    qdrant: Annotated[str | None, typer.Option(help="URL of a Qdrant server.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Keep what is filled here.")] = None,
) -> None:
    """Print what searches find and take."""
    described, corpus = machine(), Corpus(encoders, noise=max(_NOISE))
    folder = folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    corpus.use(folder / "ensemble")
    rows, expected = [], dict[float, SearchResult]()
    for name in ("exact", "qdrant"):
        index = Retriever(corpus.uec, filled(name, folder / name, corpus, passages, qdrant))
        for corpus.noise in _NOISE:
            found, milliseconds = searched(corpus, index)
            cells = *compared(found, expected.setdefault(corpus.noise, found)), milliseconds
            rows.append([name, f"{corpus.noise:g}", *(f"{cell:.3f}" for cell in cells)])
    title = f"{passages:,} passages, {encoders} x 384, {_QUERIES} queries. {described}"
    header = ["store", "noise", "recall@10", "confidence off by", "at most"]
    print_table(title, [*header, "coefficients off by", "ms a query"], rows)


def filled(name: str, folder: Path, corpus: Corpus, passages: int, url: str | None) -> Any:
    """A store in a folder or on a server, which is filled unless all passages are there."""
    client = None
    if name != "qdrant":
        store = LocalStore(folder)
    else:
        client = QdrantClient(url) if url else EdgeClient(folder)
        store = QdrantStore(client=client, collection="bench", candidates=_CANDIDATES)
    if len(store) < passages:
        corpus.fill(Retriever(corpus.uec, store), passages, _TEXT)
        if isinstance(client, EdgeClient):
            client.optimize("bench")
    return store


def searched(corpus: Corpus, index: Retriever) -> tuple[SearchResult, float]:
    """The result of all queries, and median milliseconds of some asked alone."""
    texts = [*map(str, range(_QUERIES))]
    view = with_encodings(index, texts, corpus.queries(_QUERIES))
    result, times = view.search(texts, K), []
    for text in texts[:_TIMED]:
        start = time.perf_counter()
        view.search([text], K)
        times.append(1e3 * (time.perf_counter() - start))
    return result, float(np.median(times))


def compared(found: SearchResult, expected: SearchResult) -> list[float]:
    """Recall, how far confidence is off on average and at most, and coefficients on average."""
    recall = np.mean([len({*a} & {*b}) / K for a, b in zip(found.ids, expected.ids, strict=True)])
    off = np.abs(found.confidence - expected.confidence)
    weights = np.abs(found.coefficients - expected.coefficients).mean()
    return [float(recall), float(off.mean()), float(off.max()), float(weights)]


if __name__ == "__main__":
    run_script(main)
