"""What a verifier adds: nDCG@10 and the level of confidence, without one and with one.

    python -m benchmarks.quality.verifier DATA --model pypi:wordllama --verifier MODEL

An ensemble of the models and `bm25`, fitted on the training pairs of one collection, is asked the
questions of others; then again with a verifier that reads its first hits. MODEL is a CrossEncoder,
or with --embedder an embedding model as a stand-in for one, whose cosine is the score. "level" is
how far mean confidence is from the share of questions with an answer among ten hits, and "Brier"
the mean square of what confidence is off by; both where the answers of a random half of the
questions are taken out of the corpus. DATA is a folder of test collections (see
`benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.options import (
    CACHE,
    FITTED_ON,
    SETS,
    Cache,
    Data,
    Fit,
    Markdown,
    Models,
    Sets,
)
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever, SearchResult
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.verifier import VerifierLike
from uec_rag.ensemble.verifier import VERIFY_K

_K = 10


def cosines(encoder: Encoder) -> Callable[[str, list[str]], object]:
    """An embedding model as a callable that scores passages for a query."""

    def cosine(query: str, passages: list[str]) -> object:
        asked = encoder.encode([query], "query").embedding[0]
        return encoder.encode(passages, "passage").embedding @ asked

    return cosine


def asked(uec: UEC, collection: Collection, gone: frozenset[str] = frozenset()) -> SearchResult:
    """Index a collection without some passages and ask all its questions."""
    kept = {id_: text for id_, text in collection.passages.items() if id_ not in gone}
    retriever = Retriever(uec)
    retriever.add(list(kept.values()), ids=list(kept))
    return retriever.search(list(collection.queries.values()), _K)


def figures(uec: UEC, collection: Collection) -> list[float]:
    """nDCG@10, and level and Brier score of confidence where half of the answers are gone."""
    ndcg = mean_ndcg(collection, asked(uec, collection).ids)
    relevant = list(collection.relevant.values())
    half = np.random.default_rng(0).permutation(len(relevant))[: len(relevant) // 2]
    found = asked(uec, collection, frozenset().union(*(relevant[row] for row in half)))
    right = [bool(set(ids) & set(own)) for ids, own in zip(found.ids, relevant, strict=True)]
    sure = found.by_cutoff[:, _K - 1]
    level = abs(float(sure.mean()) - float(np.mean(right)))
    return [ndcg, level, float(np.mean((sure - right) ** 2))]


def main(
    data: Data,
    model: Models,
    verifier: Annotated[str, typer.Option(help="Reads the first hits.")],
    embedder: Annotated[bool, typer.Option(help="It is an embedding model.")] = False,
    verify_k: Annotated[int, typer.Option(help="How many hits it reads.")] = VERIFY_K,
    fit: Fit = FITTED_ON,
    sets: Sets = SETS,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    members = [*(CachedEncoder(load_encoder(name), cache) for name in model), "bm25"]
    reader: VerifierLike = (
        cosines(CachedEncoder(load_encoder(verifier), cache)) if embedder else verifier
    )
    pairs = load_collection(data / fit, "train").pairs()
    plain = UEC(members).fit(pairs)
    read = UEC(members, verifier=reader, verify_k=verify_k).fit(pairs)
    print(read.report, file=sys.stderr)
    rows = []
    for name in sets.split(","):
        collection = load_collection(data / name)
        before, after = figures(plain, collection), figures(read, collection)
        rows.append([value for pair in zip(before, after, strict=True) for value in pair])
        print(name, np.round(rows[-1], 3), file=sys.stderr)
    columns = [f"{what} {when}" for what in ("nDCG@10", "level", "Brier") for when in ("", "read")]
    table = [
        [name, *(f"{value:.3f}" for value in row)]
        for name, row in [
            *zip(sets.split(","), rows, strict=True),
            ("mean", np.mean(rows, axis=0).tolist()),
        ]
    ]
    print_table(
        "A verifier", ["collection", *(c.strip() for c in columns)], table, markdown=markdown
    )


if __name__ == "__main__":
    typer.run(main)
