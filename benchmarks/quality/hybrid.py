"""nDCG@10 of words beside vectors: as a member of the ensemble, and as others join the two.

    python -m benchmarks.quality.hybrid DATA --model MODEL --model MODEL [--fit tydiqa_goldp_en]

Each model and `bm25` alone; "RRF" is reciprocal rank fusion (c = 60) of the collection's best model
and `bm25`, what LangChain's `EnsembleRetriever` does with the two; "relative" sums the scores of
all, scaled from 0 to 1 over each one's hits, what LlamaIndex's `QueryFusionRetriever` does in mode
"relative_score"; "bm25s" is that library with its English stop words and Snowball's stems, where it
is installed. Each finds 100. "UEC" and the ensemble without words are fitted on the
training pairs of one collection, and reported on others; with --shipped there is `UEC()`, fitted as
it comes, too. Of each collection at most so many queries are asked, a fixed sample. Under the
scores stands what each system has over the best single member, words among them, of the same
collection. DATA is a folder of test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.members import sampled
from benchmarks.quality.options import (
    CACHE,
    FITTED_ON,
    SETS,
    Cache,
    Data,
    Fit,
    Markdown,
    Models,
    Queries,
    Sets,
)
from benchmarks.tables import print_table
from uec_rag import UEC, Retriever
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.base import TermEncoder

_DEPTH = 100
_C = 60

Run = list[dict[str, float]]
"""Scores by passage of each query's hits, best first."""


def searched(uec: UEC, collection: Collection) -> Run:
    """Index a collection and search all its queries."""
    retriever = Retriever(uec)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    found = retriever.search(list(collection.queries.values()), k=_DEPTH)
    return [
        dict(zip(ids, scores, strict=True))
        for result in found
        for of_copies in [result.with_copies(_DEPTH)]
        for ids, scores in [(of_copies.ids, of_copies.scores.tolist())]
    ]


def searched_by_bm25s(collection: Collection) -> Run | None:
    """The same with bm25s; None where it is not installed."""
    try:
        import bm25s
    except ImportError:
        return None
    import Stemmer

    def tokens(texts: list[str]) -> object:
        stemmer = Stemmer.Stemmer("english")
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens(list(collection.passages.values())), show_progress=False)
    names = list(collection.passages)
    places, scores = index.retrieve(
        tokens(list(collection.queries.values())),
        k=min(_DEPTH, len(names)),
        show_progress=False,
    )
    return [
        {names[place]: float(score) for place, score in zip(row, own, strict=True)}
        for row, own in zip(places.tolist(), scores, strict=True)
    ]


def reciprocal_ranks(runs: list[Run]) -> Run:
    """Sum of 1 / (c + rank) over the runs that found a passage."""
    return _summed([[_reciprocal(hits) for hits in run] for run in runs])


def relative_scores(runs: list[Run]) -> Run:
    """Sum of scores that are scaled from 0 to 1 over each run's hits of a query."""
    return _summed([[_relative(hits) for hits in run] for run in runs])


def _reciprocal(hits: dict[str, float]) -> dict[str, float]:
    return {id_: 1 / (_C + rank) for rank, id_ in enumerate(hits, 1)}


def _relative(hits: dict[str, float]) -> dict[str, float]:
    lowest, highest = min(hits.values()), max(hits.values())
    width = max(highest - lowest, 1e-12)
    return {id_: (score - lowest) / width for id_, score in hits.items()}


def _summed(runs: list[Run]) -> Run:
    return [
        dict(sum(map(Counter, of_query), Counter()).most_common())
        for of_query in zip(*runs, strict=True)
    ]


def shipped(cache: Path, preset: str = "english") -> UEC:
    """The UEC of a preset, whose members look into a folder before they encode."""
    uec = UEC(preset)
    uec.encoders = [
        e if isinstance(e, TermEncoder) else CachedEncoder(e, cache) for e in uec.encoders
    ]
    return uec


def summary(rows: list[dict[str, float]], systems: list[str], alone: list[str]) -> list[list[str]]:
    """Means, and what each system has over the best single member: on average and at worst."""
    singles = np.array([max(row[system] for system in alone) for row in rows])
    scores = np.array([[row[system] for system in systems] for row in rows])
    over = scores - singles[:, None]
    fused = scores[:, systems.index("RRF"), None]
    below = (scores < fused).sum(axis=0)
    return [
        ["mean", *(f"{value:.3f}" for value in scores.mean(axis=0))],
        ["over the best single member", *(f"{value:+.3f}" for value in over.mean(axis=0))],
        ["at worst", *(f"{value:+.3f}" for value in over.min(axis=0))],
        ["collections below RRF", *map(str, below.tolist())],
    ]


def main(
    data: Data,
    model: Models,
    fit: Fit = FITTED_ON,
    sets: Sets = SETS,
    with_shipped: Annotated[
        bool, typer.Option("--shipped", help="Report UEC(), fitted as it comes, too.")
    ] = False,
    queries: Queries = 1000,
    cache: Cache = CACHE,
    markdown: Markdown = False,
) -> None:
    """Print the table."""
    encoders: list[Encoder] = [CachedEncoder(load_encoder(name), cache) for name in model]
    pairs = load_collection(data / fit, "train").pairs()
    alone = {e.name: UEC([e]).fit(pairs) for e in encoders} | {"bm25": UEC(["bm25"]).fit(pairs)}
    ensembles = {
        "UEC, no words": UEC(encoders).fit(pairs),
        "UEC": UEC([*encoders, "bm25"]).fit(pairs),
    }
    if with_shipped:
        ensembles["UEC()"] = shipped(cache)
    rows: list[dict[str, float]] = []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), queries)
        runs = {system: searched(uec, collection) for system, uec in (alone | ensembles).items()}
        row = {
            system: mean_ndcg(collection, [list(hits) for hits in run])
            for system, run in runs.items()
        }
        best = max((e.name for e in encoders), key=row.__getitem__)
        runs = {"RRF": reciprocal_ranks([runs[best], runs["bm25"]])} | {
            "relative": relative_scores([runs[system] for system in alone])
        }
        others = searched_by_bm25s(collection)
        if others is not None:
            runs["bm25s"] = others
        row |= {
            system: mean_ndcg(collection, [list(hits) for hits in run])
            for system, run in runs.items()
        }
        rows.append(row)
        print(name, {system: round(score, 3) for system, score in row.items()}, file=sys.stderr)
    systems = [*alone, *(s for s in ("bm25s", "RRF", "relative") if s in rows[0]), *ensembles]
    table = [
        [name, *(f"{row[system]:.3f}" for system in systems)]
        for name, row in zip(sets.split(","), rows, strict=True)
    ]
    table += summary(rows, systems, list(alone))
    print_table("nDCG@10", ["collection", *systems], table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
