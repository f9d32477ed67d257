"""Retrieval metrics of ranked hits: nDCG, Recall and MAP by ir-measures, nAUC by ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.paper.collections import Collection
from uec_rag.paper.metrics import nauc

if TYPE_CHECKING:
    from ir_measures.measures import Measure


@dataclass(frozen=True)
class RetrievalScores:
    """Metrics of one system on one collection.

    Attributes
    ----------
    ndcg10, recall10, recall100 : float
        Means over the queries.
    auc10 : float
        Normalised area under the abstention curve of nDCG@10 (AUC@10, as mteb defines nAUC).
    per_query : array, shape (n,)
        nDCG@10 of each query, in the collection's order.
    """

    ndcg10: float
    recall10: float
    recall100: float
    auc10: float
    per_query: FloatArray


def score_retrieval(
    collection: Collection, ids: Sequence[Sequence[str]], confidence: FloatArray
) -> RetrievalScores:
    """Score the hits of every query of a collection.

    Parameters
    ----------
    collection : Collection
    ids : list of list of str
        Hits of each query, best first, in the order of `collection.queries`.
    confidence : array, shape (n,)
        What queries are abstained on by, least first.
    """
    from ir_measures import R, nDCG

    ndcg, recall10, recall100 = _per_query(collection, ids, [nDCG @ 10, R @ 10, R @ 100])
    return RetrievalScores(
        ndcg10=float(ndcg.mean()),
        recall10=float(recall10.mean()),
        recall100=float(recall100.mean()),
        auc10=float(nauc(confidence, ndcg)),
        per_query=ndcg,
    )


def mean_ndcg(collection: Collection, ids: Sequence[Sequence[str]]) -> float:
    """nDCG@10, mean over the queries."""
    from ir_measures import nDCG

    return float(_per_query(collection, ids, [nDCG @ 10])[0].mean())


def mean_average_precision(collection: Collection, ids: Sequence[Sequence[str]]) -> float:
    """Mean over the queries of the average precision of ranked ids."""
    from ir_measures import AP

    return float(_per_query(collection, ids, [AP])[0].mean())


def _per_query(
    collection: Collection, ids: Sequence[Sequence[str]], measures: list[Measure]
) -> list[FloatArray]:
    """Each measure's value of each query, 0 where nothing was found."""
    import ir_measures

    qrels = [
        ir_measures.Qrel(query, passage, gain)
        for query, gains in collection.relevant.items()
        for passage, gain in gains.items()
    ]
    # Ranks, not scores: ties in float32 must not be broken by another rule than ours.
    run = [
        ir_measures.ScoredDoc(query, passage, -float(rank))
        for query, row in zip(collection.queries, ids, strict=True)
        for rank, passage in enumerate(row)
    ]
    values = {str(measure): dict.fromkeys(collection.queries, 0.0) for measure in measures}
    for metric in ir_measures.iter_calc(measures, qrels, run):
        values[str(metric.measure)][metric.query_id] = metric.value
    return [np.array(list(found.values()), dtype=np.float32) for found in values.values()]
