"""Queries of a Qdrant collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import PROBIT
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.engine_points import Wanted

_SPARE = 64  # hits that are scored again, at least, where words were saturated by a usual length
_AS_USUAL = 1.1  # how far the mean length may be from the usual one for that

MEAN, SPREAD = "mean", "spread"
PASSAGE = ["id", "text", "metadata"]
"""What of a point's payload makes a passage."""


def words_name(block: int) -> str:
    """Name of a sparse block's vector, and of its terms in the payload."""
    return f"words{block}"


def sparse(keys: NDArray[np.uint64], weights: FloatArray) -> models.SparseVector:
    """Terms as Qdrant takes them: numbers of 32 bits, each once.

    Terms whose lower halves are alike are one in it, which decides on candidates only.
    """
    indices, place = np.unique(keys.astype(np.uint32), return_inverse=True)
    values = np.bincount(place, weights=weights, minlength=len(indices))
    return models.SparseVector(indices=indices.tolist(), values=values.tolist())


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


def most_alike(
    wanted: Wanted, block: int, count: int, where: models.Filter | None
) -> dict[str, Any] | None:
    """What a query or a prefetch of the best by words asks; None where there are none."""
    if not len(wanted.keys):
        return None
    return {
        "query": sparse(wanted.keys, wanted.shares),
        "using": words_name(block),
        "filter": where,
        "limit": count,
    }


def candidates_of(
    where: models.Filter | None,
    mean: FloatArray,
    words: Sequence[Wanted],
    count: int,
    by_words: int,
    *,
    exact: bool = False,
) -> list[dict[str, Any]]:
    """What the nearest `count` of one query are asked by, and those by each block's words."""
    alike = (most_alike(wanted, block, by_words, where) for block, wanted in enumerate(words))
    found = [one for one in alike if one is not None and by_words]
    return [nearest_to(mean, count, where, exact=exact), *found]


def multiplied(
    candidates: list[dict[str, Any]], vector: FloatArray, payload: list[str]
) -> models.QueryRequest:
    """Inner products of a vector with the means of candidates, as `candidates_of` gives them."""
    sources = [models.Prefetch(**one) for one in candidates]
    return models.QueryRequest(
        prefetch=sources,
        query=vector.tolist(),
        using=MEAN,
        limit=sum(one["limit"] for one in candidates),
        with_payload=payload or False,
    )


def scored_again(notes: Notes, k: int, count: int, words: Sequence[Wanted]) -> int:
    """How many of those that the engine finds best are worth scoring here, of twice `count`."""
    for noted, wanted in zip(notes.words, words, strict=False):
        if noted.saturation is not None:
            k = max(k, min(count, max(4 * k, _SPARE)))
            off = max(wanted.mean_length, 1.0) / noted.usual_length
            if not 1 / _AS_USUAL < off < _AS_USUAL:
                return 2 * count
    return k


def best_of(
    candidates: list[dict[str, Any]],
    spread: FloatArray,
    k: int,
    beta: float,
    answer: dict[str, Any],
) -> models.QueryRequest:
    """The k best by s_hat of candidates, scored in the engine.

    Parameters
    ----------
    candidates : list of dict
        The nearest as `nearest_to` gives them, then those by words as `most_alike` does.
    spread : array, shape (d + F,)
        Whose inner product with a point's is sigma_s^2.
    k : int
    beta : float
    answer : dict
        What comes back of a point.
    """
    sources = [models.Prefetch(**one) for one in candidates]
    count = sum(one["limit"] for one in candidates)
    asked = [(candidates[0]["query"], MEAN), (spread.tolist(), SPREAD)]
    asked += [(one["query"], one["using"]) for one in candidates[1:]]
    scored = [
        models.Prefetch(prefetch=sources, query=query, using=using, limit=count)
        for query, using in asked
    ]
    by_words = [f"$score[{place}]" for place in range(2, len(asked))]
    mu = models.SumExpression(sum=["$score[0]", *by_words]) if by_words else "$score[0]"
    shrinking = models.SumExpression(
        sum=[1.0, models.MultExpression(mult=[float(PROBIT) * beta, "$score[1]"])]
    )
    score = models.DivParams(left=mu, right=models.SqrtExpression(sqrt=shrinking))
    return models.QueryRequest(
        prefetch=scored,
        query=models.FormulaQuery(
            formula=models.DivExpression(div=score),
            defaults=dict.fromkeys(by_words, 0.0),  # of those that share no word
        ),
        limit=k,
        **answer,
    )
