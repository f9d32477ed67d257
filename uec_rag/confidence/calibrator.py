"""Probabilities from a few features: logistic regression, and a line on top for a new corpus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record

_RANGE = 6.0


@dataclass(frozen=True)
class Calibrator(Record):
    """Logistic regression on a few features, and a line on top of it for a user's own corpus.

    Attributes
    ----------
    weights, location, spread : tuple of F floats
        Of the features, standardised; weights are at least 0: every feature is evidence *for*.
    bias : float
    slope, offset : float
        Of ``sigmoid(slope * score + offset)``; 1 and 0 before `recalibrated`.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    bias: float
    slope: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.location) == len(self.spread):
            raise ValueError("weights, location, spread: expected one of each per feature.")
        if not all(value > 0 for value in self.spread):
            raise ValueError(f"spread: expected numbers > 0, got {self.spread}.")

    def score(self, features: FloatArray) -> FloatArray:
        """Log odds before the line, shape (...), of features (..., F)."""
        location, spread = (np.asarray(v, np.float32) for v in (self.location, self.spread))
        standard = np.clip((features - location) / spread, -_RANGE, _RANGE)
        score: FloatArray = standard @ np.asarray(self.weights, np.float32) + np.float32(self.bias)
        return score

    def predict(self, features: FloatArray) -> FloatArray:
        """Probabilities, shape (...), of features (..., F)."""
        return sigmoid(np.float32(self.slope) * self.score(features) + np.float32(self.offset))

    def recalibrated(
        self, features: FloatArray, labels: ArrayLike, weights: ArrayLike | None = None
    ) -> Self:
        """Return the same order with probabilities that fit the labels (Platt scaling).

        A prior keeps slope and offset near those of the fit pairs where labels are few.

        Parameters
        ----------
        features : array, shape (..., F)
        labels : array_like of bool, shape (...)
        weights : array_like, shape (...), optional
            How much each example counts; 1 by default.

        Raises
        ------
        ValueError
            If no label is positive.
        """
        right = _labels(labels)
        if not right.any():
            raise ValueError(
                "calibration: none of the hits is relevant, expected at least one; check that "
                "relevant ids are those of the index."
            )
        return self.lined(features, right, weights)

    def lined(
        self, features: FloatArray, labels: ArrayLike, weights: ArrayLike | None = None
    ) -> Self:
        """As `recalibrated`, of labels that may all be negative."""
        right = _labels(labels)
        score = self.score(features).astype(np.float64).ravel()[:, None]
        counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
        slope, offset = _logistic(score, right, counts, (1.0,), strength=1.0, offset_strength=0.5)
        return replace(self, slope=float(slope[0]), offset=offset)

    def reweighted(self, features: FloatArray, labels: ArrayLike, weights: ArrayLike) -> Self:
        """Return it with a weight of each feature, and a bias, that fit the labels.

        A prior keeps them near its own where labels are few, as strong as that of a line's slope.

        Parameters
        ----------
        features : array, shape (..., F)
        labels : array_like of bool, shape (...)
        weights : array_like, shape (...)
            How much each example counts.
        """
        right, spread = _labels(labels), np.array(self.spread)
        inside = np.clip((features - np.array(self.location)) / spread, -_RANGE, _RANGE) * spread
        flat = inside.reshape(-1, len(spread)).astype(np.float64)
        start = tuple((np.array(self.weights) / spread).tolist())
        counts = np.ravel(weights).astype(np.float64)
        found, bias = _logistic(flat, right, counts, start, strength=1.0, offset_strength=0.5)
        return replace(self, weights=tuple((found * spread).tolist()), bias=bias)


def fit_calibrator(
    features: FloatArray,
    labels: ArrayLike,
    penalty: float = 0.001,
    weights: ArrayLike | None = None,
) -> Calibrator:
    """Learn a `Calibrator`.

    scikit-learn's logistic regression cannot keep weights above 0, which is what keeps a
    probability from falling as the evidence grows.

    Parameters
    ----------
    features : array, shape (..., F)
    labels : array_like of bool, shape (...)
        Both kinds must be there.
    penalty : float
        Ridge on the weights of the standardised features, per example.
    weights : array_like, shape (...), optional
        How much each example counts; 1 by default.

    Raises
    ------
    ValueError
        If all labels are alike.
    """
    flat = features.reshape(-1, features.shape[-1]).astype(np.float64)
    right = _labels(labels)
    if right.all() or not right.any():
        raise ValueError(
            f"labels: expected some of either kind, got {len(right)} times {bool(right.any())}."
        )
    counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
    counts *= len(counts) / counts.sum()
    location = np.average(flat, axis=0, weights=counts)
    spread = np.sqrt(np.average((flat - location) ** 2, axis=0, weights=counts))
    spread = np.maximum(spread, 1e-3)
    standard = np.clip((flat - location) / spread, -_RANGE, _RANGE)
    strength = 2 * penalty * len(right)
    found, bias = _logistic(standard, right, counts, (0.0,) * flat.shape[1], strength, 0.0)
    return Calibrator(tuple(found.tolist()), tuple(location.tolist()), tuple(spread.tolist()), bias)


def sigmoid(logits: FloatArray) -> FloatArray:
    """``1 / (1 + exp(-logits))``, without overflow."""
    # Not scipy's: its import alone is a tenth of the time that a new process takes to answer.
    small = np.exp(-np.abs(logits))
    probability: FloatArray = np.where(logits >= 0, np.ones_like(small), small) / (1 + small)
    return probability


def _labels(labels: ArrayLike) -> NDArray[np.bool_]:
    flat = np.asarray(labels, dtype=bool).ravel()
    if not len(flat):
        raise ValueError("labels: expected at least one, got none.")
    return flat


def _logistic(
    features: NDArray[np.float64],
    labels: NDArray[np.bool_],
    counts: NDArray[np.float64],
    start: tuple[float, ...],
    strength: float,
    offset_strength: float,
) -> tuple[NDArray[np.float64], float]:
    """Weights of at least 0 and offset of a logistic regression; a ridge towards `start` and 0."""
    from scipy.optimize import minimize
    from scipy.special import expit

    origin = np.array([*start, 0.0])
    stiffness = np.array([strength] * len(start) + [offset_strength])

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = features @ parameters[:-1] + parameters[-1]
        moved = parameters - origin
        error = counts * (expit(logits) - labels)
        value = counts @ (np.logaddexp(0, logits) - logits * labels) + stiffness @ moved**2 / 2
        gradient = np.append(features.T @ error, error.sum()) + stiffness * moved
        return float(value) / len(labels), gradient / len(labels)

    bounds = [(0.0, None)] * len(start) + [(None, None)]
    found = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:-1], float(found[-1])
