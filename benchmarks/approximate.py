"""Approximate search through a graph against exact search of the same store.

python benchmarks/approximate.py                       # 100,000 passages, a minute
python benchmarks/approximate.py --passages 1000000    # some minutes
"""

from __future__ import annotations

import time
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from search import K, build, interleaved, machine
from synthetic import Corpus
from tables import print_table

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
    seconds, stores = {}, {}
    for name, store in (("exact", MemoryStore()), ("hnsw", MemoryStore(index="hnsw"))):
        Console(stderr=True).print(f"building: {name} ...")
        start = time.perf_counter()
        build(corpus, passages, store)
        seconds[name], stores[name] = time.perf_counter() - start, store
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
    header = ["width", "passages", "recall@10", "exact, ms", "hnsw, ms", "faster", "to build, s"]
    row = [
        str(uec.dimension),
        f"{passages:,}",
        f"{recall:.4f}",
        f"{1e3 * times['exact'][0]:.2f}",
        f"{1e3 * times['hnsw'][0]:.2f}",
        f"{1 / times['hnsw'][1]:.1f} times",
        f"{seconds['hnsw'] - seconds['exact']:.0f}",
    ]
    print_table(described, header, [row], markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
