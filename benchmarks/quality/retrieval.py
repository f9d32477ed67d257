"""nDCG@10, Recall@100 and AUC@10 of each encoder and of the ensembles, side by side.

Every posterior and gate is fitted on the training pairs of one collection and everything is
reported on others. Embeddings are kept in a cache folder, so a second run takes a minute.

    python -m benchmarks.quality.retrieval DATA --model MODEL --model MODEL [--fit tydiqa_goldp_en]

DATA is a folder of test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import RetrievalScores, score_retrieval
from benchmarks.quality.options import CACHE, FITTED_ON, SETS, Cache, Data, Fit, Models, Sets
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.loading import load_encoders

_DEPTH = 100


def evaluate(uec: UEC, collection: Collection, confidence: str = "confidence") -> RetrievalScores:
    """Index a collection, search all its queries, score the hits."""
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    result = retriever.search(list(collection.queries.values()), k=_DEPTH)
    sure = result.confidence if confidence == "confidence" else result.scores[:, 0]
    return score_retrieval(collection, result.ids, sure)


def main(
    data: Data,
    model: Models,
    fit: Fit = FITTED_ON,
    sets: Sets = SETS,
    cache: Cache = CACHE,
    out: Annotated[Path | None, typer.Option(help="Write the figures here as JSON.")] = None,
) -> None:
    """Print the tables."""
    encoders: list[Encoder] = [CachedEncoder(load_encoder(name), cache) for name in model]
    pairs = load_collection(data / fit, "train").pairs()
    systems: dict[str, tuple[UEC, str]] = {}
    for encoder in encoders:
        # Alone, as its users have it: cosine, and the top cosine as confidence.
        systems[encoder.name] = (UEC([encoder]).fit(pairs), "top score")
    if len({encoder.dimension for encoder in encoders}) == 1:
        shared = UEC(encoders, space="shared", coefficients="uniform", beta=0.0)
        systems["shared, uniform"] = (shared.fit(pairs), "top score")
        inside = [CachedEncoder(e, cache) for e in load_encoders(model, last_layer="auto")]
        systems["UEC.paper"] = (UEC.paper(inside).fit(pairs), "top score")
    direct = UEC(encoders, space="direct", coefficients="uniform", beta=0.0)
    systems["direct, uniform"] = (direct.fit(pairs), "top score")
    systems["UEC"] = (UEC(encoders).fit(pairs), "confidence")

    figures: dict[str, dict[str, RetrievalScores]] = {}
    for name in sets.split(","):
        collection = load_collection(data / name)
        figures[name] = {
            system: evaluate(uec, collection, signal) for system, (uec, signal) in systems.items()
        }
    console = Console(width=140)
    console.print(str(systems["UEC"][0].report))
    for metric, title in (
        ("ndcg10", "nDCG@10"),
        ("recall100", "Recall@100"),
        ("auc10", "AUC@10 (nAUC of nDCG@10)"),
    ):
        table = Table("collection", *systems, title=title)
        for name, row in figures.items():
            table.add_row(name, *(f"{getattr(scores, metric):.3f}" for scores in row.values()))
        means = [np.mean([getattr(row[s], metric) for row in figures.values()]) for s in systems]
        table.add_row("mean", *(f"{mean:.3f}" for mean in means))
        console.print(table)
    if out is not None:
        plain = {
            name: {
                system: {m: getattr(scores, m) for m in ("ndcg10", "recall100", "auc10")}
                for system, scores in row.items()
            }
            for name, row in figures.items()
        }
        out.write_text(json.dumps(plain, indent=1))


if __name__ == "__main__":
    typer.run(main)
