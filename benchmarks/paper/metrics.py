"""Metrics: nAUC and Var-ECE, which no library offers as needed; nDCG, Recall, MAP by ir-measures.

For the calibration error of probabilities see `torchmetrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.paper.data import Collection
from uec_rag.base.gaussian import FloatArray

if TYPE_CHECKING:
    from ir_measures.measures import Measure


ABSTENTION_RATES = tuple(np.linspace(0, 1, 11)[:-1].tolist())
"""0, 0.1, ..., 0.9, to the last bit as mteb has them: a share may fall on half a query."""


def abstention_curve(
    confidence: ArrayLike, quality: ArrayLike, rates: ArrayLike = ABSTENTION_RATES
) -> NDArray[np.float64]:
    """Mean quality of the queries that are left when the least confident ones are not answered.

    Queries of equal confidence count with their mean quality, so their order does not matter.

    Parameters
    ----------
    confidence : array_like, shape (n,)
    quality : array_like, shape (n,)
        For instance each query's nDCG@10.
    rates : array_like, shape (r,)
        Shares of the queries to abstain on, in [0, 1].

    Returns
    -------
    array, shape (r,)

    Raises
    ------
    ValueError
        If the two differ in length, are empty, or hold NaN or infinity.

    Examples
    --------
    >>> abstention_curve([0.1, 0.9], [0.0, 1.0], rates=[0, 0.5]).tolist()
    [0.5, 1.0]
    """
    sure, good = _paired(confidence=confidence, quality=quality)
    order = np.argsort(sure, kind="stable")
    _, group, sizes = np.unique(sure[order], return_inverse=True, return_counts=True)
    good = (np.bincount(group, weights=good[order]) / sizes)[group]
    left_out = [
        min(round(float(rate) * len(good)), len(good) - 1)
        for rate in np.asarray(rates, dtype=np.float64)
    ]
    return np.array([good[skip:].mean() for skip in left_out])


def nauc(confidence: ArrayLike, quality: ArrayLike, rates: ArrayLike = ABSTENTION_RATES) -> float:
    """Normalised area under the abstention curve (AUC@10 where quality is nDCG@10).

    1 where confidence ranks queries as their quality does, 0 where it says nothing, below 0 where
    it misleads; NaN where all queries are equally good. "Towards Trustworthy Reranking: A Simple
    yet Effective Abstention Mechanism", https://arxiv.org/abs/2402.12997, as mteb computes it.

    Parameters
    ----------
    confidence, quality, rates
        As in `abstention_curve`.

    Examples
    --------
    >>> nauc([1, 2, 3, 4], [0, 0, 1, 1]), nauc([4, 3, 2, 1], [0, 0, 1, 1]) < 0
    (1.0, True)
    """
    rates_ = np.asarray(rates, dtype=np.float64)
    curve = abstention_curve(confidence, quality, rates_)
    oracle = abstention_curve(quality, quality, rates_)
    flat = oracle[0] * (rates_[-1] - rates_[0])
    best = np.trapezoid(oracle, rates_) - flat
    if np.isclose(best, 0, atol=1e-12):
        return float("nan")
    return float((np.trapezoid(curve, rates_) - flat) / best)


def var_ece(mean: ArrayLike, variance: ArrayLike, target: ArrayLike, bins: int = 10) -> float:
    """Var-ECE: how far predicted variance is from squared error (paper eq. 31).

    Examples are sorted into bins by quantiles of their variance; the absolute difference between a
    bin's mean squared error and its mean variance counts with the bin's share of the examples.

    Parameters
    ----------
    mean, variance : array_like, shape (n,)
        mu_s and sigma_s^2 of each pair.
    target : array_like, shape (n,)
        The similarity by humans, on the scale of `mean`.
    bins : int
        At least 1.

    Raises
    ------
    ValueError
        If lengths differ, a variance is negative, or there are more bins than examples.

    Examples
    --------
    >>> var_ece([0.5, 0.5], [0.25, 0.25], [0.0, 1.0], bins=1)
    0.0
    """
    mu, sigma2, y = _paired(mean=mean, variance=variance, target=target)
    if sigma2.min() < 0:
        raise ValueError(f"variance: expected values >= 0, got {sigma2.min()}.")
    if not 1 <= bins <= len(mu):
        raise ValueError(f"bins: expected 1 to {len(mu)}, the number of examples, got {bins}.")
    gap = (mu - y) ** 2 - sigma2
    parts = np.array_split(gap[np.argsort(sigma2, kind="stable")], bins)
    return float(sum(abs(part.sum()) for part in parts) / len(gap))


def _paired(**arrays: ArrayLike) -> list[NDArray[np.float64]]:
    """The arrays as float64, checked to be finite vectors of one length."""
    out = [np.asarray(values, dtype=np.float64) for values in arrays.values()]
    for name, values in zip(arrays, out, strict=True):
        if values.ndim != 1 or not len(values) or len(values) != len(out[0]):
            raise ValueError(
                f"{', '.join(arrays)}: expected vectors of one length, at least 1; "
                f"{name} has shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: holds NaN or infinity; expected finite numbers.")
    return out


def score_retrieval(
    collection: Collection, ids: Sequence[Sequence[str]], confidence: FloatArray
) -> dict[str, float]:
    """Score the hits of every query of a collection: means, and AUC@10, as mteb defines nAUC.

    Parameters
    ----------
    collection : Collection
    ids : list of list of str
        Hits of each query, best first, in the order of `collection.queries`.
    confidence : array, shape (n,)
        What queries are abstained on by, least first.
    """
    from ir_measures import R, nDCG

    found = _per_query(collection, ids, [nDCG @ 10, R @ 10, R @ 100])
    means = zip(("ndcg10", "recall10", "recall100"), map(np.mean, found), strict=True)
    return {name: float(mean) for name, mean in means} | {"auc10": nauc(confidence, found[0])}


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
