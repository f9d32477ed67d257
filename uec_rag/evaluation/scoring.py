"""Retrieval metrics of ranked hits: nDCG@10 and Recall@100 by ir-measures, nAUC by ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uec_rag.evaluation.collections import Collection
from uec_rag.gaussian import FloatArray
from uec_rag.metrics import nauc


@dataclass(frozen=True)
class RetrievalScores:
    """Metrics of one system on one collection.

    Attributes
    ----------
    ndcg10, recall100 : float
        Means over the queries.
    auc10 : float
        Normalised area under the abstention curve of nDCG@10 (AUC@10, as mteb defines nAUC).
    per_query : array, shape (n,)
        nDCG@10 of each query, in the collection's order.
    """

    ndcg10: float
    recall100: float
    auc10: float
    per_query: FloatArray


def score_retrieval(
    collection: Collection, ids: list[list[str]], scores: FloatArray, confidence: FloatArray
) -> RetrievalScores:
    """Score the hits of every query of a collection.

    Parameters
    ----------
    collection : Collection
    ids : list of list of str
        Hits of each query, best first, in the order of `collection.queries`.
    scores : array, shape (n, k)
        What they are ordered by.
    confidence : array, shape (n,)
        What queries are abstained on by, least first.
    """
    import ir_measures
    from ir_measures import R, nDCG

    queries = list(collection.queries)
    qrels = [
        ir_measures.Qrel(query, passage, gain)
        for query, gains in collection.relevant.items()
        for passage, gain in gains.items()
    ]
    # Ranks, not scores: ties in float32 must not be broken by another rule than ours.
    run = [
        ir_measures.ScoredDoc(query, passage, -float(rank))
        for query, row in zip(queries, ids, strict=True)
        for rank, passage in enumerate(row)
    ]
    per_query = dict.fromkeys(queries, 0.0)
    recall = dict.fromkeys(queries, 0.0)
    for metric in ir_measures.iter_calc([nDCG @ 10, R @ 100], qrels, run):
        (per_query if metric.measure == nDCG @ 10 else recall)[metric.query_id] = metric.value
    ndcg = np.array([per_query[query] for query in queries], dtype=np.float32)
    return RetrievalScores(
        ndcg10=float(ndcg.mean()),
        recall100=float(np.mean(list(recall.values()))),
        auc10=nauc(confidence, ndcg),
        per_query=ndcg,
    )
