"""How likely a pair is an answer given its similarity: slope, intercept, probit predictive."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.similarity import PROBIT
from uec_rag.laplace.newton import Derivatives, Vector, minimise

Likelihood = Literal["pairs", "in_batch"]

# Largest mean variance of a logit. At this one even 5 logits of evidence are within a standard
# deviation. More was measured to come of pairs with unmarked answers, and spoils the ranking.
_LARGEST_VARIANCE = 25.0

# What mean variance of a logit is usual, where pairs do not tell: three encoders fitted on 1,000
# pairs of each of three collections have 1.3 to 7.0, a geometric mean of 3. It is log-normal.
_USUAL_VARIANCE, _LOG_DEVIATION = 3.0, 1.0

# Cauchy's scale for the slope of a similarity of standard deviation 1: a default for logistic
# regression that is weakly informative (Gelman et al., 2008: 2.5 at a deviation of one half).
_SLOPE_SCALE = 1.25

_FACTOR = 2.0
Floats = NDArray[np.floating]


def bernoulli_map(
    similarity: Floats, labels: Floats, slope: float | None = None, *, prior: bool = True
) -> tuple[float, float]:
    """MAP of a and b in P(answer) = sigmoid(a s + b).

    The prior on b is flat. That on a is Cauchy's, at the spread of the similarities: where a few
    pairs are told apart without an error the likelihood alone would send a to infinity.

    Parameters
    ----------
    similarity : array, shape (n,)
        Cosines of the pairs.
    labels : array, shape (n,)
        1 for an answer.
    slope : float, optional
        Keep a at this value and fit b alone.
    prior : bool
        Whether there is one on a; else it is flat, too.

    Returns
    -------
    slope, intercept : float
        The slope is kept positive: an encoder whose cosines tell nothing, or tell the wrong way
        round, counts for next to nothing in an ensemble.
    """
    s, y = similarity.astype(np.float64), labels.astype(np.float64)
    moving = slice(0 if slope is None else 1, 2)
    unit = float(s.std()) / _SLOPE_SCALE if prior else 0.0

    def loss(theta: Vector) -> Derivatives:
        a, b = (theta[0], theta[1]) if slope is None else (slope, theta[0])
        logit = a * s + b
        yes = _sigmoid(logit)
        error, weight = yes - y, yes * (1 - yes)
        cross = (weight * s).mean()
        gradient = np.array([(error * s).mean(), error.mean()])
        hessian = np.array([[(weight * s * s).mean(), cross], [cross, weight.mean()]])
        value = float((np.logaddexp(0, logit) - y * logit).mean())
        square = (a * unit) ** 2
        value += math.log1p(square) / len(s)
        gradient[0] += 2 * a * unit**2 / (1 + square) / len(s)
        hessian[0, 0] += 2 * unit**2 * (1 - square) / (1 + square) ** 2 / len(s)
        return value, gradient[moving], hessian[moving, moving]

    # In the middle of the pairs: far from it every pair is told with certainty, and the loss tells
    # little of where to go.
    first = 10.0 if slope is None else slope
    start = [first, -first * float(s.mean())]
    found = minimise(loss, start[moving], [(1e-2, 1e4), (-1e4, 1e4)][moving])
    return float(found[0] if slope is None else slope), float(found[-1])


def in_batch_map(similarity: Floats, *, prior: bool = True) -> float:
    """MAP slope of the softmax over a batch's passages.

    Parameters
    ----------
    similarity : array, shape (batches, n, n)
        Cosines of each query to each passage; the answer of row i is column i.
    prior : bool
        As in `bernoulli_map`.
    """
    from scipy.optimize import minimize_scalar

    s = similarity.astype(np.float64)
    answer = np.diagonal(s, axis1=1, axis2=2)
    unit = float(s.std()) / _SLOPE_SCALE if prior else 0.0

    def loss(log_slope: float) -> float:
        a = np.exp(log_slope)
        top = a * s.max(axis=2)
        total = top + np.log(np.exp(a * s - top[..., None]).sum(axis=2))
        return float((total - a * answer).mean()) + math.log1p((a * unit) ** 2) / answer.size

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
    similarity: Floats,
    single: Floats,
    double: Floats,
    labels: Floats,
    slope: float,
    *,
    prior: bool = True,
) -> tuple[float, float]:
    """MAP scale of the variance, and intercept, under the probit predictive.

    The slope stays at its MAP, the prior on the intercept is flat: how many of the pairs are
    answers says nothing about how far the similarities can be trusted. That on the mean variance of
    an answer's logit is log-normal: few pairs often say that there is none, or that it is huge.

    Parameters
    ----------
    similarity : array, shape (n,)
    single, double : array, shape (n,)
        The variance of a pair at scale s is ``s * single + s^2 * double``.
    labels : array, shape (n,)
    slope : float
    prior : bool
        Whether there is one on the scale.

    Returns
    -------
    scale, intercept : float
        The scale is bounded: the mean variance of a logit is at most 25.
    """
    largest = _scale_for(_LARGEST_VARIANCE / slope**2, float(single.mean()), float(double.mean()))
    start = _scale_for(1 / slope**2, float(single.mean()), float(double.mean()))
    probit = PROBIT * slope**2
    stiffness = float(prior) / (_LOG_DEVIATION**2 * len(labels))
    # The wrong passages answer queries that were fitted on: few pairs vary less on these.
    answers = labels == 1

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
        value = float((np.logaddexp(0, logit) - labels * logit).mean())
        one, two = float(first[answers].mean()), float(second[answers].mean())
        far = math.log(slope**2 * (one + two) / _USUAL_VARIANCE)
        grows = (one + 2 * two) / (one + two)
        bends = (one + 4 * two) / (one + two) - grows**2
        value += stiffness * far**2 / 2
        gradient[0] += stiffness * far * grows
        hessian[0, 0] += stiffness * (grows**2 + far * bends)
        return value, gradient, hessian

    top = float(np.log(largest))
    found = minimise(
        loss,
        [np.log(start), -slope * float(similarity.mean())],
        [(top - 35.0, top), (-np.inf, np.inf)],
        # Where no variance is best, each e-th of it is better still, by less and less.
        tolerance=1e-6,
    )
    return float(np.exp(found[0])), float(found[1])


def decided_by_prior(found: float, without: float) -> bool:
    """Whether pairs alone would say something else of a positive number, by a factor of two."""
    return not 1 / _FACTOR < found / without < _FACTOR


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
