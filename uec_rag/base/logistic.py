"""Logistic regressions on a few features, and shares that stand for a probability."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record, cached_property

EVEN, NEARLY = 0.5, 0.9
"""A probability or share above which something is rather so than not, and one that is most."""

LEAST_SHARE = 1e-4
"""The distance from 0 and 1 at which shares are kept, so that their log odds are finite."""

RANGE = 6.0
"""The range of standardised features, on either side of 0."""


@dataclass(frozen=True)
class Calibrator(Record):
    """A logistic regression on a few features, followed by a Platt scaling to a user's corpus.

    Attributes
    ----------
    weights : tuple of F floats
        Weights of the standardised features, at least 0: each feature is evidence *for* the event.
    location, spread : tuple of F floats
        Mean and standard deviation by which each feature is standardised.
    bias : float
    slope, offset : float
        Parameters of ``sigmoid(slope * score + offset)``; 1 and 0 before `recalibrate`.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    bias: float
    slope: float = 1.0
    offset: float = 0.0

    @cached_property
    def _numbers(self) -> FloatArray:
        return np.array([self.weights, self.location, self.spread], np.float32)

    def logits(self, features: FloatArray, extra: FloatArray | None = None) -> FloatArray:
        """Compute log odds, shape (...), from features (..., F); NaN counts as the mean.

        `extra`: array, shape (...), further evidence in log odds, before the Platt scaling.
        """
        weights, location, spread = self._numbers
        standard = np.minimum(np.maximum((features - location) / spread, -RANGE), RANGE)
        standard[np.isnan(standard)] = 0
        # Not a matrix product, whose rounding depends on how many rows there are.
        score = (standard * weights).sum(axis=-1)
        if extra is not None:
            score = score + extra
        logits: FloatArray = np.float32(self.slope) * (score + np.float32(self.bias))
        return logits + np.float32(self.offset)

    def contributions(self, features: Sequence[float]) -> list[float]:
        """Compute what the mean and each of F features add to the log odds, 1 + F numbers."""
        parts = [self.slope * self.bias + self.offset]
        rows = zip(features, self.weights, self.location, self.spread, strict=True)
        for value, weight, location, spread in rows:
            standard = 0.0 if math.isnan(value) else (value - location) / spread
            parts.append(self.slope * weight * min(max(standard, -RANGE), RANGE))
        return parts

    def probability(self, features: Sequence[float]) -> float:
        """Compute the probability of one event from F features, as `predict` does."""
        odds = sum(self.contributions(features))
        small = math.exp(-abs(odds))
        return (1.0 if odds >= 0 else small) / (1 + small)

    def predict(self, features: FloatArray) -> FloatArray:
        """Compute probabilities, shape (...), from features (..., F)."""
        return sigmoid(self.logits(features))

    def with_line(self, slope: float, offset: float) -> Self:
        """Return a calibrator with log odds ``slope * logits + offset``."""
        return replace(self, slope=slope * self.slope, offset=slope * self.offset + offset)

    def recalibrate(
        self,
        features: FloatArray,
        labels: ArrayLike,
        weights: ArrayLike | None = None,
        extra: FloatArray | None = None,
    ) -> Self:
        """Fit the probabilities to labels without changing their order (Platt scaling).

        A prior keeps slope and offset near their current values if there are few labels, even if
        all labels are equal.

        Parameters
        ----------
        features : array, shape (..., F)
        labels : array_like of bool, shape (...)
        weights : array_like, shape (...), optional
            Weight of each example; 1 by default.
        extra : array, shape (...), optional
            See `logits`.
        """
        slope, offset = fit_line(self.logits(features, extra)[..., None], labels, weights)
        return self.with_line(float(slope[0]), offset)


def sigmoid(logits: FloatArray) -> FloatArray:
    """Compute ``1 / (1 + exp(-logits))`` without overflow."""
    # Importing scipy's would be a tenth of the time that a new process takes to answer.
    small = np.exp(-np.abs(logits))
    probability: FloatArray = np.where(logits >= 0, np.ones_like(small), small) / (1 + small)
    return probability


def fit_line(
    scores: FloatArray, labels: ArrayLike, weights: ArrayLike | None
) -> tuple[NDArray[np.float64], float]:
    """Fit weights and an offset, with priors of 1 for log odds and of 0 for all others.

    `scores`: array, shape (..., F), with log odds in the first column.
    """
    flat = scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    right = np.asarray(labels, dtype=bool).ravel()
    counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
    start = np.eye(1, flat.shape[1])[0]
    return fit_logistic(flat, right, counts, start, strength=1.0, offset_strength=0.5)


def fit_logistic(
    features: NDArray[np.float64],
    labels: NDArray[np.bool_],
    counts: NDArray[np.float64],
    start: NDArray[np.float64],
    strength: float,
    offset_strength: float,
) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression with nonnegative weights and a ridge penalty towards `start`.

    So more evidence never lowers a probability, which scikit-learn's does not ensure.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    origin = np.append(start, 0.0)
    stiffness = np.array([strength] * len(start) + [offset_strength])

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = features @ parameters[:-1] + parameters[-1]
        moved = parameters - origin
        error = counts * (expit(logits) - labels)
        value = counts @ (np.logaddexp(0, logits) - logits * labels) + stiffness @ moved**2 / 2
        gradient = np.append(features.T @ error, error.sum()) + stiffness * moved
        return float(value) / len(labels), gradient / len(labels)

    bounds = [(0.0, None)] * len(start) + [(None, None)]
    optimum = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds).x
    return optimum[:-1], float(optimum[-1])


def read_learned(room: str, name: str) -> dict[str, Any]:
    """Read a JSON file of learned parameters that comes with a room of the package."""
    return cast(dict[str, Any], json.loads(files(room).joinpath(name).read_text(encoding="utf-8")))
