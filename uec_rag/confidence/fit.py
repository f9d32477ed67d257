"""Learning what relevance and confidence are, from fit queries asked of small corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.calibrator import fit_calibrator
from uec_rag.confidence.features import relevance_features, summarise
from uec_rag.confidence.model import ConfidenceModel


@dataclass(frozen=True, eq=False)
class FitView:
    """Fit queries asked of one corpus.

    Attributes
    ----------
    logits, variance : array, shape (n, N)
        Mean and variance of the ensemble's logit of every passage.
    relevant : array of bool, shape (n, N)
        A row without any is a query that the corpus does not answer.
    """

    logits: FloatArray
    variance: FloatArray
    relevant: NDArray[np.bool_]


def fit_confidence(views: Sequence[FitView], k: int = 10) -> ConfidenceModel:
    """Learn the model on fit queries asked of several corpora, some without the answer.

    Parameters
    ----------
    views : sequence of FitView
        Small and larger corpora; a fifth of the queries unanswerable is a good share.
    k : int
        Hits that count.

    Raises
    ------
    ValueError
        If no query is answerable, or all are answered.
    """
    temperature = fit_temperature(views)
    hit_features, hit_labels, query_features, answered = [], [], [], []
    for view in views:
        summary = summarise(view.logits, temperature)
        hits = np.argpartition(-view.logits, min(k, view.logits.shape[1]) - 1, axis=1)[:, :k]
        relevant = np.take_along_axis(view.relevant, hits, axis=1)
        features = relevance_features(
            np.take_along_axis(view.logits, hits, axis=1),
            np.take_along_axis(view.variance, hits, axis=1),
            summary.log_normaliser,
            temperature,
        )
        hit_features.append(features.reshape(-1, features.shape[-1]))
        hit_labels.append(relevant.ravel())
        query_features.append(summary.features())
        answered.append(relevant.any(axis=1))
    return ConfidenceModel(
        temperature,
        fit_calibrator(np.concatenate(hit_features), np.concatenate(hit_labels)),
        fit_calibrator(np.concatenate(query_features), np.concatenate(answered), penalty=0.01),
    )


def fit_temperature(views: Sequence[FitView]) -> float:
    """Temperature at which the posterior gives the relevant passages the most, over the fit views.

    Raises
    ------
    ValueError
        If no query is answerable.
    """
    from scipy.optimize import minimize_scalar

    answerable = [
        (view.logits[some], view.relevant[some])
        for view in views
        if (some := view.relevant.any(axis=1)).any()
    ]
    if not answerable:
        raise ValueError("views: expected at least one query with a relevant passage.")

    def loss(log_scale: float) -> float:
        total = 0.0
        for logits, relevant in answerable:
            scaled = np.float32(np.exp(log_scale)) * logits
            mass = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            share = np.where(relevant, mass, 0).sum(axis=1) / mass.sum(axis=1)
            total -= float(np.log(np.maximum(share, 1e-30)).sum())
        return total

    found = minimize_scalar(loss, bounds=(-4, 6), method="bounded")
    return float(np.exp(-found.x))
