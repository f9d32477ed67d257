"""Other similarities of Gaussians in place of s_hat: quality and time (paper table 10)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.ensemble import UEC
from uec_rag.evaluation.collections import Collection
from uec_rag.evaluation.scoring import score_retrieval
from uec_rag.evaluation.systems import ranking
from uec_rag.gaussian import Gaussian
from uec_rag.similarity import SIMILARITIES, score

_REPEATS = 3


@dataclass(frozen=True)
class SimilarityRow:
    """One similarity, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    seconds : float
        For all scores of all collections, best of three.
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
    embedded = [
        (
            collection,
            uec.embed(list(collection.queries.values()), "query"),
            uec.embed(list(collection.passages.values()), "passage"),
        )
        for collection in collections
    ]
    for _, queries, passages in embedded:  # multiplied out once, outside what is timed
        _ = queries.variance, passages.variance
    measured = {name: _measure(name, uec.beta, embedded) for name in SIMILARITIES}
    unit = measured["uec"][1]
    return [
        SimilarityRow(name, *np.mean(quality, axis=0).tolist(), seconds, seconds / unit)
        for name, (quality, seconds) in measured.items()
    ]


def _measure(
    name: str, beta: float, embedded: Sequence[tuple[Collection, Gaussian, Gaussian]]
) -> tuple[list[tuple[float, float, float]], float]:
    quality, total = [], 0.0
    for collection, queries, passages in embedded:
        best = np.inf
        for _ in range(_REPEATS):
            start = time.perf_counter()
            if name == "uec":
                scores = score(queries, passages, beta)
            else:
                scores = SIMILARITIES[name](queries, passages)
            best = min(best, time.perf_counter() - start)
        total += best
        found = ranking(scores, list(collection.passages), 100)
        result = score_retrieval(collection, found.ids, found.confidence)
        quality.append((result.ndcg10, result.recall10, result.auc10))
    return quality, total
