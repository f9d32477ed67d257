"""How much confidence and relevance can be trusted, on collections that nothing was fitted on.

    python benchmarks/quality/confidence.py DATA --model MODEL --model MODEL [--fit tydiqa_goldp_en]

Prints Markdown tables: confidence as a ranking of queries (nAUC) and as a detector of queries
whose answer is not there (AUROC), beside the top cosine of the member with the best nDCG@10; the
calibration error of relevance before and after `calibrate` on half of the queries; the gate over
random halves; and with --self what `self_calibrate` changes. DATA is a folder of collections, or
set UEC_DATA. Embeddings are cached.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np
import typer
from options import Data, Models

from uec_rag import UEC, Retriever, SearchResult
from uec_rag.confidence.risk import risk_threshold
from uec_rag.encoders import CachedEncoder, Encoder, load_encoder
from uec_rag.encoders.artifacts import cache_folder
from uec_rag.paper.collections import Collection, load_collection
from uec_rag.paper.scoring import score_retrieval

SETS = (
    "cranfield,cisi,medline,fiqa_small,chroma_chunking,claude_docs_rag,belebele_en,"
    "tydiqa_goldp_en,squad_sample"
)
K = 10
_SEEDS = 3
_SPLITS = 200


def main(
    data: Data,
    model: Models,
    fit: Annotated[str, typer.Option(help="Fit on the train split of it.")] = "tydiqa_goldp_en",
    fit_pairs: Annotated[int, typer.Option(help="At most so many fitting pairs.")] = 4000,
    sets: Annotated[str, typer.Option(help="Collections, comma-separated.")] = SETS,
    own: Annotated[bool, typer.Option("--self", help="Only self_calibrate.")] = False,
) -> None:
    """Print the tables."""
    warnings.filterwarnings("ignore", message="The index has changed")
    cache = cache_folder() / "embeddings"
    encoders: list[Encoder] = [CachedEncoder(load_encoder(name), cache) for name in model]
    pairs = load_collection(data / fit, "train").pairs()[:fit_pairs]
    uec = UEC(encoders).fit(pairs)
    members = [UEC([encoder], coefficients="uniform").fit(pairs) for encoder in encoders]
    print(f"Members: {', '.join(uec.names)}; fitted on {len(pairs)} pairs of {fit}.\n")
    collections = [load_collection(data / name) for name in sets.split(",")]
    if own:
        _print(_self_calibration(uec, collections))
        return
    _print(_ranking(uec, members, collections))
    _print(_calibration(uec, collections))
    _print(_gate(uec, collections))


def _ranking(
    uec: UEC, members: Sequence[UEC], collections: Sequence[Collection]
) -> Iterable[Sequence[object]]:
    yield "collection", "nAUC UEC", "nAUC best member", "AUROC UEC", "AUROC best member"
    rows = []
    for collection in collections:
        scored = [_scored(member, collection) for member in members]
        best = int(np.argmax([scores.ndcg10 for scores, _ in scored]))
        ours, _ = _scored(uec, collection)
        hidden = [_hidden(system, collection) for system in (uec, members[best])]
        rows.append((ours.auc10, scored[best][0].auc10, *hidden))
        yield collection.name, *rows[-1]
    yield "mean", *np.nanmean(rows, axis=0)


def _scored(system: UEC, collection: Collection):
    result = _index(system, collection).search(list(collection.queries.values()), K)
    return score_retrieval(collection, result.ids, _sure(system, result)), result


def _hidden(system: UEC, collection: Collection) -> float:
    """AUROC of confidence where all answers of half of the queries are removed."""
    from sklearn.metrics import roc_auc_score

    queries = list(collection.queries)
    half = np.random.default_rng(0).permutation(len(queries))[: len(queries) // 2]
    gone = {p for row in half for p in collection.relevant[queries[row]]}
    retriever = _index(system, collection)
    retriever.delete(sorted(gone))
    there = [not set(collection.relevant[query]) <= gone for query in queries]
    if not len(retriever) or len(set(there)) == 1:
        return float("nan")
    result = retriever.search(list(collection.queries.values()), K)
    return float(roc_auc_score(there, _sure(system, result)))


def _sure(system: UEC, result: SearchResult) -> np.ndarray:
    return result.confidence if len(system.encoders) > 1 else result.mu.max(axis=1)


def _calibration(uec: UEC, collections: Sequence[Collection]) -> Iterable[Sequence[object]]:
    yield (
        "collection",
        "test queries",
        "ECE of relevance before",
        "after",
        "ECE of confidence after",
    )
    rows = []
    for collection in collections:
        texts, wanted = list(collection.queries.values()), list(collection.relevant.values())
        errors = []
        for seed in range(_SEEDS):
            order = np.random.default_rng(seed).permutation(len(texts))
            mine, other = order[: len(order) // 2], order[len(order) // 2 :]
            if len(mine) < 20:
                continue
            retriever = _index(uec, collection)
            asked, ids = [texts[i] for i in other], [wanted[i] for i in other]
            before = _ece(retriever.search(asked, K), ids)[0]
            # Every labelled query has its answer here, so none is made up that has not.
            retriever.calibrate(
                [texts[i] for i in mine], [list(wanted[i]) for i in mine], unanswerable=0
            )
            errors.append((before, *_ece(retriever.search(asked, K), ids)))
        if errors:
            rows.append(np.mean(errors, axis=0))
            yield collection.name, len(texts) - len(texts) // 2, *rows[-1]
        else:
            yield collection.name, len(texts) - len(texts) // 2, "too few queries", "", ""
    yield "mean", "", *np.mean(rows, axis=0)


def _ece(result: SearchResult, wanted: Sequence[dict[str, int]]) -> tuple[float, float]:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    right = np.array(
        [[id_ in ids for id_ in row] for row, ids in zip(result.ids, wanted, strict=True)]
    )
    pairs = ((result.relevance.ravel(), right.ravel()), (result.confidence, right.any(axis=1)))
    relevance, confidence = (
        float(binary_calibration_error(torch.tensor(p), torch.tensor(y), n_bins=10))
        for p, y in pairs
    )
    return relevance, confidence


def _gate(uec: UEC, collections: Sequence[Collection]) -> Iterable[Sequence[object]]:
    yield (
        "collection",
        "queries",
        "risk of answering all",
        "target",
        "splits over target",
        "answered",
        "answered by an oracle",
    )
    for collection in collections:
        result = _index(uec, collection).search(list(collection.queries.values()), 1)
        wanted = collection.relevant.values()
        right = np.array([row[0] in ids for row, ids in zip(result.ids, wanted, strict=True)])
        for risk in (0.05, 0.1):
            over, answered = [], []
            for seed in range(_SPLITS):
                order = np.random.default_rng(seed).permutation(len(right))
                mine, other = order[: len(order) // 2], order[len(order) // 2 :]
                found = risk_threshold(result.confidence[mine], right[mine], risk, 0.05)
                taken = result.confidence[other] > found.threshold
                over.append(taken.any() and (~right[other][taken]).mean() > risk)
                answered.append(taken.mean())
            oracle = min(1.0, right.mean() / (1 - risk))
            yield (
                collection.name,
                len(right),
                1 - right.mean(),
                risk,
                np.mean(over),
                np.mean(answered),
                oracle,
            )


def _self_calibration(uec: UEC, collections: Sequence[Collection]) -> Iterable[Sequence[object]]:
    yield (
        "collection",
        *(f"nDCG@10 {name}" for name in uec.names),
        "fitted",
        "self-calibrated",
        *(f"{name} counts" for name in uec.names),
    )
    for collection in collections:
        members = [
            _scored(UEC([encoder], coefficients="uniform"), collection)[0].ndcg10
            for encoder in uec.encoders
        ]
        before, _ = _scored(uec, collection)
        retriever = _index(uec, collection).self_calibrate()
        result = retriever.search(list(collection.queries.values()), K)
        after = score_retrieval(collection, result.ids, result.confidence)
        yield (
            collection.name,
            *members,
            before.ndcg10,
            after.ndcg10,
            *result.coefficients.mean(axis=0),
        )


def _index(system: UEC, collection: Collection) -> Retriever:
    retriever = Retriever(system)
    retriever.add(list(collection.passages.values()), ids=list(collection.passages))
    return retriever


def _print(rows: Iterable[Sequence[object]]) -> None:
    for number, row in enumerate(rows):
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        print("| " + " | ".join(cells) + " |", flush=True)
        if not number:
            print("|" + "---|" * len(cells))
    print()


if __name__ == "__main__":
    typer.run(main)
