"""Queries of a Qdrant collection."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import PROBIT

MEAN, SPREAD = "mean", "spread"
PASSAGE = ["id", "text", "metadata"]
"""What of a point's payload makes a passage."""

WHOLE: dict[str, Any] = {"with_payload": PASSAGE, "with_vector": True}
"""Has points come with all they hold."""


def nearest_to(
    mean: FloatArray, count: int, where: models.Filter | None, *, exact: bool
) -> dict[str, Any]:
    """What a query or a prefetch of the nearest by mu_s asks; all are looked at where `exact`."""
    return {
        "query": mean.tolist(),
        "using": MEAN,
        "filter": where,
        "limit": count,
        "params": models.SearchParams(exact=True) if exact else None,
    }


def best_of(
    nearest: dict[str, Any], spread: FloatArray, k: int, beta: float
) -> models.QueryRequest:
    """The k best by s_hat of the nearest by mu_s, scored in the engine.

    Parameters
    ----------
    nearest : dict
        As `nearest_to` gives it.
    spread : array, shape (d + F,)
        Whose inner product with a point's is sigma_s^2.
    k : int
    beta : float
    """
    near = models.Prefetch(**nearest)
    variance = models.Prefetch(
        prefetch=[near],
        query=spread.tolist(),
        using=SPREAD,
        limit=nearest["limit"],
    )
    shrinking = models.SumExpression(
        sum=[1.0, models.MultExpression(mult=[float(PROBIT) * beta, "$score[1]"])]
    )
    score = models.DivParams(left="$score[0]", right=models.SqrtExpression(sqrt=shrinking))
    return models.QueryRequest(
        prefetch=[near, variance],
        query=models.FormulaQuery(formula=models.DivExpression(div=score)),
        limit=k,
        **WHOLE,
    )
