"""Approximate search through a graph against exact search of the same store.

python -m benchmarks.approximate                       # 100,000 passages, a minute
python -m benchmarks.approximate --passages 1000000    # some minutes, 3 GB

One thread links the graph: on a busy machine the seconds of a processor are what to read.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks.search import K, build, interleaved, machine
from benchmarks.synthetic import Corpus
from benchmarks.tables import print_table
from uec_rag.stores import MemoryStore

_ASKED = 200


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 100_000,
    encoders: Annotated[int, typer.Option(help="Encoders of 384 dimensions each.")] = 1,
    rounds: Annotated[int, typer.Option(help="Of which the median is taken.")] = 9,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """Print recall@10 and the ratio of the times, one query at a time."""
    described, corpus = machine(), Corpus(encoders)
    Console(stderr=True).print("building ...")
    approximate, exact = MemoryStore(index="hnsw"), MemoryStore()
    linked = timed(approximate)
    build(corpus, passages, approximate)
    exact._state = replace(approximate._state, graph=None)
    stores = {"exact": exact, "hnsw": approximate}
    uec, parts = corpus.uec, corpus.queries(_ASKED)
    pi = np.full((_ASKED, encoders), 1 / encoders, dtype=np.float32)
    query = uec.combine(parts, pi)
    found = {name: store.search(query, K, beta=uec.beta) for name, store in stores.items()}
    pairs = zip(found["exact"].passages, found["hnsw"].passages, strict=True)
    recall = np.mean([len({p.id for p in a} & {p.id for p in b}) / K for a, b in pairs])
    one = query[[0]]
    times = interleaved(
        {
            name: lambda store=store: store.search(one, K, beta=uec.beta)
            for name, store in stores.items()
        },
        rounds,
    )
    header = ["width", "passages", "recall@10", "exact, ms", "hnsw, ms", "faster"]
    header += ["to link, s", "of a processor, s"]
    row = [
        str(uec.dimension),
        f"{passages:,}",
        f"{recall:.4f}",
        f"{1e3 * times['exact'][0]:.2f}",
        f"{1e3 * times['hnsw'][0]:.2f}",
        f"{1 / times['hnsw'][1]:.1f} times",
        *(f"{seconds:.0f}" for seconds in linked),
    ]
    print_table(described, header, [row], markdown=markdown)


def timed(store: MemoryStore) -> list[float]:
    """Seconds that linking the store's graph takes, by the clock and of a processor."""
    graph, taken = store._state.graph, [0.0, 0.0]
    assert graph is not None
    add = graph.add

    def timing(start: int, mean: np.ndarray) -> None:
        before = time.perf_counter(), time.process_time()
        add(start, mean)
        taken[0] += time.perf_counter() - before[0]
        taken[1] += time.process_time() - before[1]

    graph.add = timing  # type: ignore[method-assign]
    return taken


if __name__ == "__main__":
    typer.run(main)
