"""How far sums from a digest are from those over every passage, and what that does to a search.

Over a large corpus the sums behind coefficients, relevance and confidence are taken from the
largest similarities and a sample of the rest (`uec_rag.base.columns`). Here the same searches
are made with both, for queries that are hard enough for the rest to matter.

    python -m benchmarks.digest                       # 50,000 and 200,000 passages, a minute
    python -m benchmarks.digest --passages 1000000 --markdown
"""

from __future__ import annotations

from typing import Annotated
from unittest.mock import patch

import numpy as np
import typer
from uec_rag.retrieval.search import own_similarities

from benchmarks.search import build
from benchmarks.synthetic import Corpus
from benchmarks.tables import print_table
from uec_rag import Retriever, SearchResult
from uec_rag.base import sums
from uec_rag.base.columns import Digest
from uec_rag.stores import MemoryStore

HEADER = [
    "passages",
    "log normaliser",
    "of half the logits",
    "entropy",
    "coefficients",
    "confidence",
    "largest of those",
    "relevance",
    "of ten hits the same",
]


def main(
    passages: Annotated[str, typer.Option(help="Corpus sizes.")] = "50000,200000",
    queries: Annotated[int, typer.Option(help="Of which there are as many.")] = 200,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """Print root mean square errors of the sums, and of what a search makes of them."""
    corpus = Corpus(3, noise=8.0)
    rows = []
    for size in (int(size) for size in passages.split(",")):
        retriever = build(corpus, size, MemoryStore())
        errors = sum_errors(corpus, retriever, queries)
        found = search(corpus, retriever, queries)
        with patch.object(sums, "EXACT_UP_TO", size):
            expected = search(corpus, retriever, queries)
        changes = {
            name: np.abs(getattr(found, name) - getattr(expected, name))
            for name in ("coefficients", "confidence", "relevance")
        }
        shared = [len({*a} & {*b}) for a, b in zip(found.ids, expected.ids, strict=True)]
        numbers = [
            *errors,
            root_mean_square(changes["coefficients"]),
            root_mean_square(changes["confidence"]),
            float(changes["confidence"].max()),
            root_mean_square(changes["relevance"]),
        ]
        rows.append([f"{size:,}", *(f"{x:.4f}" for x in numbers), f"{np.mean(shared):.2f}"])
    print_table("Digest against all passages", HEADER, rows, markdown=markdown)


def sum_errors(corpus: Corpus, retriever: Retriever, queries: int) -> list[float]:
    """Root mean square error of normalisers and entropy, over queries and encoders."""
    uec, errors = corpus.uec, []
    for start in range(0, queries, 20):  # similarities to a million passages are large
        parts = [part[start : start + 20] for part in corpus.queries(queries)]
        own = own_similarities(uec, retriever.store, parts)
        for similarities, slope in zip(own, uec.slopes, strict=True):
            found = Digest.of(similarities).softmax(slope)
            with patch.object(sums, "EXACT_UP_TO", similarities.shape[1]):
                expected = Digest.of(similarities).softmax(slope)
            errors.append(
                [
                    found.log_normaliser - expected.log_normaliser,
                    found.soft_normaliser - expected.soft_normaliser,
                    (found.log_normaliser - found.mean_logit)
                    - (expected.log_normaliser - expected.mean_logit),
                ]
            )
    return [root_mean_square(np.array([error[i] for error in errors])) for i in range(3)]


def root_mean_square(values: np.ndarray) -> float:
    """Of all values, whatever the shape."""
    return float(np.sqrt(np.mean(values**2)))


def search(corpus: Corpus, retriever: Retriever, queries: int) -> SearchResult:
    """The ten best passages of every query."""
    texts = [str(i) for i in range(queries)]
    return retriever.search_encoded(texts, corpus.queries(queries), 10)


if __name__ == "__main__":
    typer.run(main)
