"""Step 3: similarity between Gaussians. Pure, vectorised functions of two batches.

Each takes queries q (n, d) and candidates c (m, d) and returns an (n, m) matrix in which larger
means more similar; distances come back negated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian

PROBIT = np.float32(np.pi / 8)
"""The constant of the probit approximation to a logistic-Gaussian integral."""

_TINY = np.float32(1e-12)  # a variance of exactly 0 has no divergence; this one has a finite one


def moments(query: Gaussian, candidate: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the inner product s = q.c of two Gaussians (paper eq. 9).

    ``mu_s = mu_q.mu_c`` and ``sigma_s^2 = mu_q' S_c mu_q + mu_c' S_q mu_c + tr(S_q S_c)``. The
    three terms of the variance are two matrix products:
    ``<var_c, mu_q^2 + var_q> + <mu_c^2, var_q>``.

    Parameters
    ----------
    query : Gaussian, n texts
    candidate : Gaussian, m texts

    Returns
    -------
    mu : array, shape (n, m)
    sigma2 : array, shape (n, m)

    Raises
    ------
    ValueError
        If the two live in spaces of different dimension.

    Examples
    --------
    >>> q = Gaussian([[1.0, 0.0]], [[0.1, 0.1]])
    >>> c = Gaussian([[0.6, 0.8]], [[0.2, 0.2]])
    >>> mu, sigma2 = moments(q, c)
    >>> round(float(mu[0, 0]), 4), round(float(sigma2[0, 0]), 4)
    (0.6, 0.34)
    """
    if query.dimension != candidate.dimension:
        raise ValueError(
            f"candidate: expected dimension {query.dimension}, the query's, "
            f"got {candidate.dimension}."
        )
    mu: FloatArray = query.mean @ candidate.mean.T
    second = query.mean**2 + query.variance
    weights = second if candidate.profile is None else second @ candidate.profile.T
    sigma2: FloatArray = weights @ candidate.scales.T + query.variance @ (candidate.mean**2).T
    return mu, sigma2


def probit(mu: FloatArray, sigma2: FloatArray, beta: float = 1.0) -> FloatArray:
    """Uncertainty-aware score ``mu / sqrt(1 + pi/8 beta sigma2)`` (paper eq. 10).

    Parameters
    ----------
    mu, sigma2 : array
        Moments of the similarity, of one shape.
    beta : float
        How strongly variance lowers the score; 0 gives `mu`.

    Examples
    --------
    >>> scores = probit(np.float32([0.8, 0.8]), np.float32([0.0, 1.0]))
    >>> [round(float(value), 2) for value in scores]
    [0.8, 0.68]
    """
    shrunk: FloatArray = mu / np.sqrt(1 + PROBIT * np.float32(beta) * sigma2)
    return shrunk


def score(query: Gaussian, candidate: Gaussian, beta: float = 1.0) -> FloatArray:
    """The paper's s_hat of every query and candidate, shape (n, m): `moments`, then `probit`."""
    return probit(*moments(query, candidate), beta)


def _squared_distance(x: FloatArray, y: FloatArray) -> FloatArray:
    square: FloatArray = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2 * (x @ y.T)
    return np.maximum(square, np.float32(0))


def kl_divergence(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Negated Kullback-Leibler divergence KL(q || c), shape (n, m).

    For diagonal Gaussians ``KL = 1/2 sum(var_q / var_c + (mu_q - mu_c)^2 / var_c - 1
    + log var_c - log var_q)``; expanding the square leaves matrix products only.
    """
    var_q = np.maximum(query.variance, _TINY).astype(np.float64)
    var_c = np.maximum(candidate.variance, _TINY).astype(np.float64)
    mu_q, mu_c = query.mean.astype(np.float64), candidate.mean.astype(np.float64)
    precision = 1 / var_c
    quadratic = (
        (var_q + mu_q**2) @ precision.T
        - 2 * mu_q @ (mu_c * precision).T
        + (mu_c**2 * precision).sum(1)
    )
    log_ratio = np.log(var_c).sum(1)[None, :] - np.log(var_q).sum(1)[:, None]
    kl: NDArray[np.float64] = (quadratic - query.dimension + log_ratio) / 2
    return -kl.astype(np.float32)


def jeffreys(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Negated Jeffreys divergence KL(q || c) + KL(c || q), shape (n, m)."""
    return kl_divergence(query, candidate) + kl_divergence(candidate, query).T


def wasserstein2(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Negated squared 2-Wasserstein distance, shape (n, m).

    For diagonal Gaussians ``|mu_q - mu_c|^2 + |sd_q - sd_c|^2`` (Gelbrich, 1990).
    """
    means = _squared_distance(query.mean, candidate.mean)
    return -(means + _squared_distance(np.sqrt(query.variance), np.sqrt(candidate.variance)))


def wasserstein1(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Negated 1-Wasserstein distance of the coordinates, summed, shape (n, m).

    In one dimension ``q_i - c_i`` under the comonotone coupling is N(m, t^2) with
    ``m = mu_q - mu_c`` and ``t = sd_q - sd_c``, so ``W1 = E|N(m, t^2)| = t sqrt(2/pi)
    exp(-m^2 / 2 t^2) + m erf(m / t sqrt 2)``, a folded normal (Chhachhi and Teng, 2023). The sum
    over coordinates is the distance under the ground cost |x - y|_1.
    """
    from scipy.special import erf

    sd_q, sd_c = np.sqrt(query.variance), np.sqrt(candidate.variance)
    total = np.empty((len(query), len(candidate)), dtype=np.float32)
    # This sum has no matrix-product form: (block, m, d) numbers at a time, in bounded memory.
    rows = max(1, 2**22 // max(1, candidate.mean.size))
    for start in range(0, len(query), rows):
        block = slice(start, start + rows)
        m = query.mean[block, None, :] - candidate.mean[None]
        t = np.maximum(np.abs(sd_q[block, None, :] - sd_c[None]), _TINY)
        ratio = np.clip(m / t, -1e6, 1e6)
        folded = t * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2) + m * erf(ratio / np.sqrt(2))
        total[block] = folded.sum(axis=2)
    return -total


def csd(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Negated closed-form sampled distance, shape (n, m).

    The expected squared distance of two independent draws, ``|mu_q - mu_c|^2 + tr(S_q) +
    tr(S_c)`` (Chun, 2023, "Improved Probabilistic Image-Text Representations").
    """
    means = _squared_distance(query.mean, candidate.mean)
    return -(means + query.trace[:, None] + candidate.trace[None, :])


SIMILARITIES: dict[str, Callable[[Gaussian, Gaussian], FloatArray]] = {
    "uec": score,
    "kl": kl_divergence,
    "jeffreys": jeffreys,
    "wasserstein1": wasserstein1,
    "wasserstein2": wasserstein2,
    "csd": csd,
}
"""Every similarity by name, all of one signature."""
