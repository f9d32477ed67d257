"""Queries of a Qdrant collection, and what is made of their answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import PROBIT, probit
from uec_rag.stores.qdrant_collection import MEAN, PASSAGE, SPREAD

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
    nearest: dict[str, Any], variance: FloatArray, weights: FloatArray, k: int, beta: float
) -> models.QueryRequest:
    """The k best by s_hat of the nearest by mu_s, scored in the engine.

    Parameters
    ----------
    nearest : dict
        As `nearest_to` gives it.
    variance : array, shape (d,)
        Of the query.
    weights : array, shape (F,)
        What sigma_s^2 has of each of a passage's scales.
    k : int
    beta : float
    """
    near = models.Prefetch(**nearest)
    spread = models.Prefetch(
        prefetch=[near],
        query=[*variance.tolist(), *weights.tolist()],
        using=SPREAD,
        limit=nearest["limit"],
    )
    shrinking = models.SumExpression(
        sum=[1.0, models.MultExpression(mult=[float(PROBIT) * beta, "$score[1]"])]
    )
    score = models.DivParams(left="$score[0]", right=models.SqrtExpression(sqrt=shrinking))
    return models.QueryRequest(
        prefetch=[near, spread],
        query=models.FormulaQuery(formula=models.DivExpression(div=score)),
        limit=k,
        **WHOLE,
    )


def ranked(
    stored: Gaussian, query: Gaussian, i: int, weights: FloatArray, k: int, beta: float
) -> tuple[NDArray[np.intp], FloatArray]:
    """Places of the k best of some Gaussians for query i, and their s_hat, mu_s, sigma_s^2."""
    mu = stored.mean @ query.mean[i]
    sigma2 = stored.scales @ weights + stored.mean**2 @ query.variance[i]
    scores = probit(mu, sigma2, beta)
    best = np.argsort(-scores, kind="stable")[:k]
    return best, np.stack([scores, mu, sigma2])[:, best]
