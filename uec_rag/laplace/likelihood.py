"""How likely a pair is an answer given its similarity: slope, intercept, probit predictive."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.similarity import PROBIT
from uec_rag.laplace.newton import Derivatives, Vector, minimise

Likelihood = Literal["pairs", "in_batch"]

# Largest mean variance of a logit. At this one even 5 logits of evidence are within a standard
# deviation. More was measured to come of pairs with unmarked answers, and spoils the ranking.
_LARGEST_VARIANCE = 25.0
Floats = NDArray[np.floating]


def bernoulli_map(
    similarity: Floats, labels: Floats, slope: float | None = None
) -> tuple[float, float]:
    """MAP of a and b in P(answer) = sigmoid(a s + b), a flat prior on both.

    Parameters
    ----------
    similarity : array, shape (n,)
        Cosines of the pairs.
    labels : array, shape (n,)
        1 for an answer.
    slope : float, optional
        Keep a at this value and fit b alone.

    Returns
    -------
    slope, intercept : float
        The slope is kept positive: an encoder whose cosines tell nothing, or tell the wrong way
        round, counts for next to nothing in an ensemble.
    """
    s, y = similarity.astype(np.float64), labels.astype(np.float64)
    moving = slice(0 if slope is None else 1, 2)

    def loss(theta: Vector) -> Derivatives:
        a, b = (theta[0], theta[1]) if slope is None else (slope, theta[0])
        logit = a * s + b
        yes = _sigmoid(logit)
        error, weight = yes - y, yes * (1 - yes)
        cross = (weight * s).mean()
        gradient = np.array([(error * s).mean(), error.mean()])
        hessian = np.array([[(weight * s * s).mean(), cross], [cross, weight.mean()]])
        value = float((np.logaddexp(0, logit) - y * logit).mean())
        return value, gradient[moving], hessian[moving, moving]

    # In the middle of the pairs: far from it every pair is told with certainty, and the loss tells
    # little of where to go.
    first = 10.0 if slope is None else slope
    start = [first, -first * float(s.mean())]
    found = minimise(loss, start[moving], [(1e-2, 1e4), (-1e4, 1e4)][moving])
    return float(found[0] if slope is None else slope), float(found[-1])


def in_batch_map(similarity: Floats) -> float:
    """MAP slope of the softmax over a batch's passages.

    Parameters
    ----------
    similarity : array, shape (batches, n, n)
        Cosines of each query to each passage; the answer of row i is column i.
    """
    from scipy.optimize import minimize_scalar

    s = similarity.astype(np.float64)
    answer = np.diagonal(s, axis1=1, axis2=2)

    def loss(log_slope: float) -> float:
        a = np.exp(log_slope)
        top = a * s.max(axis=2)
        total = top + np.log(np.exp(a * s - top[..., None]).sum(axis=2))
        return float((total - a * answer).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4.6, 9.2), method="bounded").x))


def predictive_nll(
    similarity: Floats, variance: Floats, labels: Floats, slope: float, intercept: float
) -> Floats:
    """Negative log-likelihood of each pair under the probit predictive, shape (n,).

    ``P(answer) = sigmoid((a s + b) / sqrt(1 + pi/8 a^2 sigma_s^2))`` (MacKay, 1992): the variance
    of the similarity pulls an overconfident model back towards one half.
    """
    logit = (slope * similarity + intercept) / np.sqrt(1 + PROBIT * slope**2 * variance)
    nll: Floats = np.logaddexp(0, logit) - labels * logit
    return nll


def variance_scale(
    similarity: Floats, single: Floats, double: Floats, labels: Floats, slope: float
) -> tuple[float, float]:
    """Scale of the variance, and the intercept, that make the probit predictive most likely.

    The slope stays at its MAP, the intercept is free: how many of the pairs are answers says
    nothing about how far the similarities can be trusted.

    Parameters
    ----------
    similarity : array, shape (n,)
    single, double : array, shape (n,)
        The variance of a pair at scale s is ``s * single + s^2 * double``.
    labels : array, shape (n,)
    slope : float

    Returns
    -------
    scale, intercept : float
        The scale is bounded: the mean variance of a logit is at most 25.
    """
    largest = _scale_for(_LARGEST_VARIANCE / slope**2, float(single.mean()), float(double.mean()))
    start = _scale_for(1 / slope**2, float(single.mean()), float(double.mean()))
    probit = PROBIT * slope**2

    def loss(theta: Vector) -> Derivatives:
        first, second = np.exp(theta[0]) * single, np.exp(2 * theta[0]) * double
        # The logit is (a s + b) root; root and its derivatives by the log of the scale.
        root = 1 / np.sqrt(1 + probit * (first + second))
        once, twice = probit * (first + 2 * second), probit * (first + 4 * second)
        slower = -once * root**3 / 2
        bend = (-twice + 1.5 * once**2 * root**2) * root**3 / 2
        plain = slope * similarity + theta[1]
        logit = plain * root
        yes = _sigmoid(logit)
        error, weight = yes - labels, yes * (1 - yes)
        by_scale = plain * slower
        cross = (weight * by_scale * root + error * slower).mean()
        gradient = np.array([(error * by_scale).mean(), (error * root).mean()])
        hessian = np.array(
            [
                [(weight * by_scale**2 + error * plain * bend).mean(), cross],
                [cross, (weight * root**2).mean()],
            ]
        )
        return float((np.logaddexp(0, logit) - labels * logit).mean()), gradient, hessian

    top = float(np.log(largest))
    found = minimise(
        loss,
        [np.log(start), -slope * float(similarity.mean())],
        [(top - 35.0, top), (-np.inf, np.inf)],
        # Where no variance is best, each e-th of it is better still, by less and less.
        tolerance=1e-6,
    )
    return float(np.exp(found[0])), float(found[1])


def fitting_intercept(similarity: Floats, variance: Floats, labels: Floats, slope: float) -> float:
    """Intercept that makes the probit predictive most likely at a given variance.

    Parameters
    ----------
    similarity, variance, labels : array, shape (n,)
        Mean and variance of the similarity of each pair; 1 for an answer.
    slope : float
    """
    root = 1 / np.sqrt(1 + PROBIT * slope**2 * variance.astype(np.float64))

    def loss(theta: Vector) -> Derivatives:
        logit = (slope * similarity + theta[0]) * root
        yes = _sigmoid(logit)
        error, weight = yes - labels, yes * (1 - yes)
        return (
            float((np.logaddexp(0, logit) - labels * logit).mean()),
            np.array([(error * root).mean()]),
            np.array([[(weight * root**2).mean()]]),
        )

    return float(minimise(loss, [-slope * float(similarity.mean())], [(-np.inf, np.inf)])[0])


def _scale_for(variance: float, single: float, double: float) -> float:
    """Positive root s of ``s * single + s^2 * double = variance``."""
    if double <= 0:
        return variance / max(single, 1e-30)
    return float(2 * variance / (single + np.sqrt(single**2 + 4 * double * variance)))


def _sigmoid(x: Floats) -> Floats:
    sigmoid: Floats = 0.5 * (1 + np.tanh(x / 2))
    return sigmoid
