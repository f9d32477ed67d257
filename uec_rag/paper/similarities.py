"""Other similarities of Gaussians in place of s_hat: quality and time (paper table 10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.similarity import SIMILARITIES, score
from uec_rag.ensemble import UEC
from uec_rag.paper.collections import Collection
from uec_rag.paper.scoring import score_retrieval
from uec_rag.paper.systems import Ensemble, ranking

_REPEATS = 3
_ENOUGH = 1.0  # seconds: what takes as long need not be timed again


@dataclass(frozen=True)
class SimilarityRow:
    """One similarity, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    seconds : float
        For all scores of all collections, best of three where that is short.
    relative : float
        Time over s_hat's.
    """

    name: str
    ndcg10: float
    recall10: float
    auc10: float
    seconds: float
    relative: float


def compare_similarities(uec: UEC, collections: Sequence[Collection]) -> list[SimilarityRow]:
    """Search collections with every similarity of the very same Gaussians.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collections : sequence of Collection
    """
    system = Ensemble("UEC", "UEC", uec)
    embedded = []
    for collection in collections:
        texts = list(collection.queries.values()), list(collection.passages.values())
        embedded.append((collection, *system.compared(*texts)))
    for _, queries, passages in embedded:  # multiplied out once, outside what is timed
        _ = queries.variance, passages.variance
    measured = {name: _measure(name, uec.beta, embedded) for name in SIMILARITIES}
    unit = measured["uec"][1]
    return [
        SimilarityRow(name, *quality, seconds=seconds, relative=seconds / unit)
        for name, (quality, seconds) in measured.items()
    ]


def _measure(
    name: str, beta: float, embedded: Sequence[tuple[Collection, Gaussian, Gaussian]]
) -> tuple[tuple[float, float, float], float]:
    quality, total = [], 0.0
    for collection, queries, passages in embedded:
        compare = partial(score, beta=beta) if name == "uec" else SIMILARITIES[name]
        total += _fastest(partial(compare, queries, passages))
        found = ranking(compare(queries, passages), list(collection.passages), 100)
        result = score_retrieval(collection, found.ids, found.confidence)
        quality.append((result.ndcg10, result.recall10, result.auc10))
    ndcg, recall, auc = np.mean(quality, axis=0).tolist()
    return (ndcg, recall, auc), total


def search_times(uec: UEC, collection: Collection) -> list[dict[str, str | float]]:
    """Time of combining and comparing embeddings that are there, over a uniform ensemble's.

    Parameters
    ----------
    uec : UEC
        Fitted.
    collection : Collection

    Returns
    -------
    list of {"name", "seconds", "relative"}
        Paper table 6. The passages are combined once and not counted; UEC's coefficients are, and
        so are the members' own similarities where it learns the coefficients from them.
    """
    from uec_rag.paper.ablation import variation

    plain = variation(uec, coefficients="uniform", beta=0.0)
    weights = np.arange(1, len(uec.encoders) + 1).tolist()
    weighted = variation(uec, coefficients=weights, beta=0.0)
    texts = list(collection.queries.values())
    parts = uec.encode(texts, "query")
    candidates = uec.encode(list(collection.passages.values()), "passage")
    passages = uec.combine(candidates, uec.coefficients(candidates, "passage"))
    system = Ensemble("UEC", "UEC", uec)

    def deterministic(ensemble: UEC) -> None:
        query = ensemble.combine(parts, ensemble.coefficients(parts, "query"))
        _ = query.mean @ passages.mean.T

    def uncertain() -> None:
        score(uec.combine(parts, system.query_coefficients(parts, candidates)), passages, uec.beta)

    work = {
        "uniform": lambda: deterministic(plain),
        "weighted": lambda: deterministic(weighted),
        "UEC": uncertain,
    }
    seconds = {name: _fastest(call) for name, call in work.items()}
    return [
        {"name": name, "seconds": value, "relative": value / seconds["uniform"]}
        for name, value in seconds.items()
    ]


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of the best of a few calls; of one call where that is long."""
    best = np.inf
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if best > _ENOUGH:
            break
    return float(best)
