"""nDCG@10 of words beside vectors: as a member of the ensemble, and as others join the two.

    python -m benchmarks.quality.hybrid DATA --model MODEL --model MODEL [--shipped]

Each model and `bm25` alone; "RRF" is reciprocal rank fusion (c = 60) of the collection's best model
and `bm25`, what LangChain's `EnsembleRetriever` does with the two; "relative" sums the scores of
all, scaled from 0 to 1 over each one's hits, what LlamaIndex's `QueryFusionRetriever` does in mode
"relative_score"; "bm25s" is that library with its English stop words and Snowball's stems, where it
is installed. Each finds 100. "UEC" and the ensemble without words are fitted on the training pairs
of one collection, and reported on others; with --shipped there is `UEC()`, fitted as it comes, too.
Of each collection at most 1,000 queries are asked, a fixed sample. Under the scores stands what
each system has over the best single member, words among them, of the same collection. DATA is a
folder of test collections (see `benchmarks.paper.data`), or set UEC_DATA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated

import numpy as np
import typer

from benchmarks.paper.data import Collection, load_collection
from benchmarks.paper.metrics import mean_ndcg
from benchmarks.quality.shared import FITTED_ON, SETS, Data, Sets, ask_all, cached, sampled, shipped
from benchmarks.tables import print_table, run_script
from uec_rag import UEC
from uec_rag.encoders import load_encoder

_DEPTH = 100
_C = 60
_QUERIES = 1000

Run = list[dict[str, float]]
"""Scores by passage of each query's hits, best first."""


def searched(uec: UEC, collection: Collection) -> Run:
    """Index a collection and search all its queries."""
    found = [one.with_copies(_DEPTH) for one in ask_all(uec, collection, _DEPTH)]
    return [dict(zip(one.ids, one.scores.tolist(), strict=True)) for one in found]


def searched_by_bm25s(collection: Collection) -> Run:
    """The same with bm25s."""
    import bm25s
    import Stemmer

    def tokens(texts: list[str]) -> object:
        stemmer = Stemmer.Stemmer("english")
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index, names = bm25s.BM25(), [*collection.passages]
    index.index(tokens([*collection.passages.values()]), show_progress=False)
    asked, k = tokens([*collection.queries.values()]), min(_DEPTH, len(names))
    places, scores = index.retrieve(asked, k=k, show_progress=False)
    return [
        {names[place]: float(score) for place, score in zip(row, own, strict=True)}
        for row, own in zip(places.tolist(), scores, strict=True)
    ]


def reciprocal_ranks(hits: dict[str, float]) -> dict[str, float]:
    """1 / (c + rank) of each hit of a query."""
    return {id_: 1 / (_C + rank) for rank, id_ in enumerate(hits, 1)}


def relative_scores(hits: dict[str, float]) -> dict[str, float]:
    """Scores from 0 to 1 over the hits of a query."""
    lowest, highest = min(hits.values()), max(hits.values())
    width = max(highest - lowest, 1e-12)
    return {id_: (score - lowest) / width for id_, score in hits.items()}


def fused(runs: list[Run], scores: Callable[[dict[str, float]], dict[str, float]]) -> Run:
    """Sums of the scores that runs give the passages that they found."""
    return [
        dict(sum((Counter(scores(hits)) for hits in of_query), Counter()).most_common())
        for of_query in zip(*runs, strict=True)
    ]


def summary(rows: list[dict[str, float]], systems: list[str], alone: list[str]) -> list[list[str]]:
    """Means, and what each system has over the best single member: on average and at worst."""
    singles = np.array([max(row[system] for system in alone) for row in rows])
    scores = np.array([[row[system] for system in systems] for row in rows])
    over = scores - singles[:, None]
    return [
        ["mean", *(f"{value:.3f}" for value in scores.mean(axis=0))],
        ["over the best single member", *(f"{value:+.3f}" for value in over.mean(axis=0))],
        ["at worst", *(f"{value:+.3f}" for value in over.min(axis=0))],
    ]


def main(
    data: Data,
    model: Annotated[list[str], typer.Option(help="A model to take in; give it several times.")],
    sets: Sets = SETS,
    with_shipped: Annotated[
        bool, typer.Option("--shipped", help="Report UEC(), fitted as it comes, too.")
    ] = False,
) -> None:
    """Print the table."""
    encoders = [cached(load_encoder(name)) for name in model]
    pairs = load_collection(data / FITTED_ON, "train").pairs()
    alone = {e.name: UEC([e]).fit(pairs) for e in encoders} | {"bm25": UEC(["bm25"]).fit(pairs)}
    ensembles = {
        "UEC, no words": UEC(encoders).fit(pairs),
        "UEC": UEC([*encoders, "bm25"]).fit(pairs),
    }
    if with_shipped:
        ensembles["UEC()"] = shipped()
    rows: list[dict[str, float]] = []
    for name in sets.split(","):
        collection = sampled(load_collection(data / name), _QUERIES)
        runs = {system: searched(uec, collection) for system, uec in (alone | ensembles).items()}
        scores = {system: mean_ndcg(collection, [*map(list, run)]) for system, run in runs.items()}
        best = max((e.name for e in encoders), key=scores.__getitem__)
        others = {
            "RRF": fused([runs[best], runs["bm25"]], reciprocal_ranks),
            "relative": fused([runs[system] for system in alone], relative_scores),
        }
        if find_spec("bm25s"):
            others["bm25s"] = searched_by_bm25s(collection)
        scores |= {system: mean_ndcg(collection, [*map(list, r)]) for system, r in others.items()}
        rows.append(scores)
    systems = [*alone, *(s for s in ("bm25s", "RRF", "relative") if s in rows[0]), *ensembles]
    table = [
        [name, *(f"{row[system]:.3f}" for system in systems)]
        for name, row in zip(sets.split(","), rows, strict=True)
    ]
    table += summary(rows, systems, list(alone))
    print_table("nDCG@10", ["collection", *systems], table)


if __name__ == "__main__":
    run_script(main)
