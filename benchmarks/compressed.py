"""Compressed scanning against float32: time, memory, and what evidence and confidence notice.

python -m benchmarks.compressed                      # 100,000 passages, a minute or two
python -m benchmarks.compressed --passages 1000000   # needs 12 GB
"""

from __future__ import annotations

from typing import Annotated, get_args

import numpy as np
import typer
from rich.console import Console

from benchmarks.search import K, build, interleaved, machine, plain
from benchmarks.synthetic import Corpus
from benchmarks.tables import print_table
from uec_rag.stores import MemoryStore
from uec_rag.stores.memory.vectors import Dtype

_ASKED = 64
_NOISE = 8.0  # of the queries: hard enough for the rest of the corpus to matter


def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 100_000,
    encoders: Annotated[int, typer.Option(help="Encoders of 384 dimensions each.")] = 3,
    batches: Annotated[str, typer.Option(help="Queries at a time.")] = "1,8,64",
    rounds: Annotated[int, typer.Option(help="Of which the median is taken.")] = 9,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Print ratios to the plain product, and how far results move."""
    described, corpus = machine(), Corpus(encoders, noise=_NOISE)
    retrievers = {}
    for dtype in get_args(Dtype):
        Console(stderr=True).print(f"building: {dtype} ...")
        retrievers[dtype] = build(corpus, passages, MemoryStore(dtype=dtype))
    matrix = corpus.matrix(retrievers["float32"].store)
    uec, rows = corpus.uec, []
    for batch in (int(batch) for batch in batches.split(",")):
        parts, texts = corpus.queries(batch), [str(i) for i in range(batch)]
        pi = np.full((batch, encoders), 1 / encoders, dtype=np.float32)
        query = uec.fitted.combine(parts, pi)
        systems = {"plain": lambda query=query: plain(query.mean, matrix)}
        for dtype, retriever in retrievers.items():
            systems[f"{dtype} score"] = lambda store=retriever.store, query=query: store.search(
                query, K, beta=uec.fitted.beta
            )
            systems[f"{dtype} search"] = lambda r=retriever, parts=parts, texts=texts: (
                r.search_encoded(texts, parts, K)
            )
        times = interleaved(systems, rounds)
        rows += [
            [
                str(uec.dimension),
                f"{passages:,}",
                str(batch),
                dtype,
                f"{times[f'{dtype} score'][1]:.3g}",
                f"{times[f'{dtype} search'][1]:.3g}",
            ]
            for dtype in retrievers
        ]
    header = ["width", "passages", "batch", "dtype", "UEC score / plain", "UEC search / plain"]
    print_table(described, header, rows, markdown=markdown)

    parts, texts = corpus.queries(_ASKED), [str(i) for i in range(_ASKED)]
    wanted = retrievers["float32"].search_encoded(texts, parts, K)
    rows = []
    for dtype, retriever in retrievers.items():
        found = retriever.search_encoded(texts, parts, K)
        same = np.mean([a == b for a, b in zip(wanted.ids, found.ids, strict=True)])
        store = retriever.store
        query = uec.fitted.combine(parts, wanted.coefficients)
        first = store.search(query, K, beta=uec.fitted.beta)
        exact = retrievers["float32"].store.search(query, K, beta=uec.fitted.beta)
        rows.append(
            [
                dtype,
                str(first.exact and first.passages == exact.passages),
                f"{np.abs(first.scores - exact.scores).max():.1e}",
                f"{np.abs(found.coefficients - wanted.coefficients).max():.1e}",
                f"{np.abs(found.confidence - wanted.confidence).max():.1e}",
                f"{np.abs(found.relevance - wanted.relevance).max():.1e}",
                f"{same:.3f}",
            ]
        )
    header = [
        "dtype",
        "same hits",
        "scores differ by",
        "coefficients move by",
        "confidence by",
        "relevance by",
        "same hits of whole searches",
    ]
    title = f"Largest difference over {_ASKED} queries; with evidence where encoders are several"
    print_table(title, header, rows, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
