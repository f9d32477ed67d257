"""The part of confidence that a fit without labels learns: temperature and profile, no level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import NEAREST, ConfidenceModel, features

_LEAST_SPREAD = 0.4  # of log odds; one below it is noise, as of a useless encoder
# Mean for ensembles of small encoders; standard deviation of the log over all ensembles.
_PRIOR_TEMPERATURE, _LOG_DEVIATION = 0.8, 1.5


@dataclass(frozen=True, eq=False)
class FitView:
    """The logits of fit queries for the passages of one corpus.

    Attributes
    ----------
    logits : array, shape (n, N)
        The ensemble's logit of every passage.
    relevant : array of bool, shape (n, N)
        Whether a passage answers a query; a row without any True is an unanswerable query.
    members : array, shape (n, N, K)
        Logit of each block for every passage.
    """

    logits: FloatArray
    relevant: NDArray[np.bool_]
    members: FloatArray

    def in_corpus(self, temperature: float) -> FloatArray:
        """Compute the features of `in_corpus` of the queries, shape (n, F)."""
        best = np.argsort(-self.logits, axis=1, kind="stable")[:, :NEAREST]
        logits = np.take_along_axis(self.logits, best, axis=1)
        members = self.members[np.arange(len(best)), best[:, 0]]
        return features(logits, np.zeros_like(logits), members, temperature).in_corpus


def fit_profile(views: Sequence[FitView], temperature: float) -> tuple[float, ...]:
    """Compute the mean logits of the first hits of fit queries; see `ConfidenceModel.profile`."""
    rows = [
        -np.sort(-view.logits, axis=1)[:, :NEAREST]
        for view in views
        if view.logits.shape[1] >= NEAREST
    ]
    if not rows:
        return ()
    mean = np.concatenate(rows).mean(axis=0) / temperature
    return tuple(mean.round(3).tolist())


def level_of(model: ConfidenceModel, views: Sequence[FitView]) -> tuple[float, float]:
    """Compute mean and deviation of the log odds of an answer in the corpus over fit queries."""
    inputs = np.concatenate([view.in_corpus(model.temperature) for view in views])
    odds = model.in_corpus.logits(inputs)
    return float(odds.mean()), float(odds.std())


def with_level(
    model: ConfidenceModel, views: Sequence[FitView], mean: float, deviation: float
) -> ConfidenceModel:
    """Return a model whose log odds of an answer in the corpus have a mean and deviation.

    How many of the fit queries are answered says little about the questions of users: most
    headings, for instance, are easier to answer. A deviation below 0.4 before is taken for 0.4,
    since it is noise.
    """
    before, spread = level_of(model, views)
    slope = deviation / max(spread, _LEAST_SPREAD)
    line = model.in_corpus.with_line(slope, mean - slope * before)
    return replace(model, in_corpus=line)


def fit_temperature(views: Sequence[FitView]) -> float:
    """Find the temperature that maximises the relevant passages' share of the posterior."""
    from scipy.optimize import minimize_scalar

    answerable = [
        (view.logits[rows], view.relevant[rows])
        for view in views
        if (rows := view.relevant.any(axis=1)).any()
    ]

    def loss(log_scale: float) -> float:
        # A prior: if every answer ranks first, the likelihood alone would drive it to 0.
        total = float((log_scale + np.log(_PRIOR_TEMPERATURE)) ** 2 / (2 * _LOG_DEVIATION**2))
        for logits, relevant in answerable:
            scaled = np.float32(np.exp(log_scale)) * logits
            mass = np.exp(scaled - scaled.max(axis=1, keepdims=True))
            share = np.where(relevant, mass, 0).sum(axis=1) / mass.sum(axis=1)
            total -= float(np.log(np.maximum(share, 1e-30)).sum())
        return total

    optimum = minimize_scalar(loss, bounds=(-4, 6), method="bounded")
    return float(np.exp(-optimum.x))
