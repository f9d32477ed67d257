"""The likelihood of a pair given its similarity: slope, intercept and probit predictive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.similarity import PROBIT

Vector = NDArray[np.float64]


def _minimise(
    loss: Callable[[Vector], tuple[float, Vector]],
    start: Sequence[float],
    bounds: Sequence[tuple[float | None, float | None]],
) -> Vector:
    """Find a local minimum of a smooth function, given with its gradient, within bounds."""
    from scipy.optimize import minimize

    options = {"ftol": 1e-13, "gtol": 1e-10}
    optimum: Vector = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x
    return optimum


# Largest mean variance of a logit, at which even 5 logits are within one standard deviation. Higher
# estimates, as measured, result from pairs with unlabelled answers, and harm the ranking.
_LARGEST_VARIANCE = 25.0

# Log-normal prior on the mean variance of a logit: three encoders, each fitted on 1,000 pairs of
# each of three collections, have 1.3 to 7.0, with a geometric mean of 3.
_USUAL_VARIANCE, _LOG_DEVIATION = 3.0, 1.0
_EXACTLY = {"xatol": 1e-7}

# Scale of the Cauchy prior on the slope for similarities of standard deviation 1: the weakly
# informative default for logistic regression of Gelman et al., 2008 (2.5 at a deviation of 0.5).
_SLOPE_SCALE = 1.25

Floats = NDArray[np.floating]


def bernoulli_map(similarity: Floats, labels: Floats) -> tuple[float, float]:
    """Find the MAP estimate of a and b in P(answer) = sigmoid(a s + b).

    The prior on b is flat. That on a is a Cauchy distribution, scaled by the standard deviation of
    the similarities: if few pairs are linearly separable, the likelihood alone would drive a to
    infinity.

    Parameters
    ----------
    similarity : array, shape (n,)
        Cosines of the pairs.
    labels : array, shape (n,)
        1 for an answer.

    Returns
    -------
    slope, intercept : float
        The slope is at least 0.01: an encoder whose cosines are uninformative or inverted has
        almost no weight in an ensemble.
    """
    from scipy.special import expit

    s, y = similarity.astype(np.float64), labels.astype(np.float64)
    centre, spread = float(s.mean()), float(s.std()) or 1.0
    # The slope and the logit at the mean are of one scale; slope and intercept are not.
    x = (s - centre) / spread
    weight = 1 / len(s)

    def loss(theta: Vector) -> tuple[float, Vector]:
        a, logit = theta[0], theta[0] * x + theta[1]
        error = expit(logit) - y
        square = (a / _SLOPE_SCALE) ** 2
        value = float((np.logaddexp(0, logit) - y * logit).mean()) + weight * math.log1p(square)
        by_slope = (error * x).mean() + weight * 2 * a / _SLOPE_SCALE**2 / (1 + square)
        return value, np.array([by_slope, error.mean()])

    # Start at the mean similarity: far from it, all probabilities saturate and gradients vanish.
    bounds = [(1e-2 * spread, 1e4 * spread), (-1e4, 1e4)]
    a, b = _minimise(loss, [10.0 * spread, 0.0], bounds).tolist()
    return a / spread, b - a / spread * centre


def predictive_nll(
    similarity: Floats, variance: Floats, labels: Floats, slope: float, intercept: float
) -> Floats:
    """Compute the negative log-likelihood of each pair under the probit predictive, shape (n,).

    ``P(answer) = sigmoid((a s + b) / sqrt(1 + pi/8 a^2 sigma_s^2))`` (MacKay, 1992): the variance
    of the similarity shrinks probabilities towards 0.5.
    """
    logit = (slope * similarity + intercept) / np.sqrt(1 + PROBIT * slope**2 * variance)
    nll: Floats = np.logaddexp(0, logit) - labels * logit
    return nll


def variance_scale(
    similarity: Floats, single: Floats, double: Floats, labels: Floats, slope: float
) -> tuple[float, float]:
    """Find the MAP scale of the variance, and the intercept, under the probit predictive.

    The slope is fixed. The prior on the intercept is flat, since the share of answers among the
    pairs is not informative about the variance. The prior on the mean variance of an answer's logit
    is log-normal, since the estimate from few pairs is often 0 or huge.

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
        The scale is limited to a mean variance of a logit of 25.
    """
    from scipy.optimize import minimize_scalar

    # Answers only: wrong hits may be answers of queries that were fitted on, with less variance.
    answers = labels == 1

    def loss(log_scale: float) -> float:
        variance = np.exp(log_scale) * single + np.exp(2 * log_scale) * double
        intercept = fitting_intercept(similarity, variance, labels, slope)
        nll = float(predictive_nll(similarity, variance, labels, slope, intercept).mean())
        distance = math.log(slope**2 * float(variance[answers].mean()) / _USUAL_VARIANCE)
        return nll + distance**2 / (2 * _LOG_DEVIATION**2 * len(labels))

    largest = _scale_for(_LARGEST_VARIANCE / slope**2, float(single.mean()), float(double.mean()))
    top = math.log(largest)
    solution = minimize_scalar(loss, bounds=(top - 35, top), method="bounded", options=_EXACTLY)
    scale = math.exp(solution.x)
    variance = scale * single + scale**2 * double
    return scale, fitting_intercept(similarity, variance, labels, slope)


def fitting_intercept(
    similarity: Floats, variance: Floats | float, labels: Floats, slope: float
) -> float:
    """Find the maximum-likelihood intercept of the probit predictive at a given variance.

    `similarity`, `variance`, `labels`, array, shape (n,): mean and variance of the similarity of
    each pair; 1 for an answer.
    """
    from scipy.optimize import brentq
    from scipy.special import expit

    logit, root = slope * similarity, 1 / np.sqrt(1 + PROBIT * slope**2 * np.float64(variance))
    answers = float((labels * root).mean())

    def gradient(intercept: float) -> float:
        return float((expit((logit + intercept) * root) * root).mean()) - answers

    # Beyond, all probabilities are 0 or 1.
    furthest = float(np.abs(logit).max()) + 40 / float(np.min(root))
    return float(brentq(gradient, -furthest, furthest, xtol=1e-9))


def _scale_for(variance: float, single: float, double: float) -> float:
    """Solve ``s * single + s^2 * double = variance`` for the positive root s."""
    if double <= 0:
        return variance / max(single, 1e-30)
    return float(2 * variance / (single + np.sqrt(single**2 + 4 * double * variance)))
