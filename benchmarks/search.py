"""Search times of UEC over the same vectors, as ratios to the plain inner product.

Every ratio is of one run: the systems of a case take turns, and a ratio is the median over the
rounds. "plain" is what one writes with NumPy: a matrix product, `argpartition`, a sort of ten; "our
selection" the same with this package's quicker way to the largest of many; "UEC score" the ten of
the highest s_hat; "UEC search" a whole search after encoding, with relevance and confidence, and,
where there are several encoders, coefficients from the corpus's evidence.

    python -m benchmarks.search                     # the whole table, about half an hour
    python -m benchmarks.search --passages 10000 --rounds 3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.synthetic import Corpus, K, with_encodings
from benchmarks.tables import print_table
from benchmarks.timing import machine, take_turns
from uec_rag import Retriever
from uec_rag.base.similarity import largest
from uec_rag.stores import LocalStore


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


def systems_of(corpus: Corpus, index: Retriever, batch: int) -> dict[str, Callable[[], object]]:
    """What is timed on one corpus and batch size."""
    fitted, parts, texts = corpus.uec.fitted, corpus.queries(batch), [*map(str, range(batch))]
    uniform = np.full((batch, len(parts)), 1 / len(parts), dtype=np.float32)
    query, matrix = fitted.combine(parts, uniform), corpus.matrix(index.store)
    view = with_encodings(index, texts, parts)
    return {
        "plain": lambda: plain(query.mean, matrix),
        "plain, our selection": lambda: plain_quickly(query.mean, matrix),
        "UEC score": lambda: index.store.search(query, K, beta=fitted.options.beta),
        "UEC search": lambda: view.search(texts, K),
    }


def main(
    passages: Annotated[str, typer.Option(help="Corpus sizes.")] = "10000,100000,200000",
    encoders: Annotated[str, typer.Option(help="Encoders of 384 dimensions each.")] = "1,3",
    batches: Annotated[str, typer.Option(help="Queries at a time.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(help="Of which the median is taken.")] = 9,
) -> None:
    """Print the table."""
    described, rows, found = machine(), [], {}
    for count in map(int, encoders.split(",")):
        corpus = Corpus(count)
        for size in map(int, passages.split(",")):
            index = Retriever(corpus.uec, LocalStore())
            corpus.fill(index, size)
            for batch in map(int, batches.split(",")):
                found = take_turns(systems_of(corpus, index, batch), rounds)
                times = [f"{1e3 * found['plain'][0]:.3g}"]
                times += [f"{ratio:.3g}" for _, ratio in [*found.values()][1:]]
                rows.append([str(corpus.uec.dimension), f"{size:,}", str(batch), *times])
    header = ["width", "passages", "batch", "plain, ms", *(f"{s} / plain" for s in [*found][1:])]
    print_table(described, header, rows)


if __name__ == "__main__":
    typer.run(main)
