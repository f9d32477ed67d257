"""Divergences and distances of Gaussians in place of s_hat (paper table 9).

Each takes queries q (n, d) and candidates c (m, d) and returns an (n, m) matrix in which larger
means more similar; distances come back negated. What `uec_rag.base.similarity` has is here as
well: the old path ``uec_rag.similarity`` held all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import PROBIT, moments, probit, score

__all__ = [
    "PROBIT",
    "SIMILARITIES",
    "csd",
    "jeffreys",
    "kl_divergence",
    "moments",
    "probit",
    "score",
    "wasserstein1",
    "wasserstein1_by_coordinate",
    "wasserstein2",
]

_TINY = np.float32(1e-12)  # a variance of exactly 0 has no divergence; this one has a finite one


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
    """Negated 1-Wasserstein distance as the paper approximates it (eq. 28), shape (n, m).

    ``|mu_q - mu_c| + |tr sqrt(S_q) - tr sqrt(S_c)|``: far below the distance itself where
    standard deviations differ by coordinate and not in sum.
    """
    spread = np.sqrt(query.variance).sum(1)[:, None] - np.sqrt(candidate.variance).sum(1)[None, :]
    distance: FloatArray = np.sqrt(_squared_distance(query.mean, candidate.mean)) + np.abs(spread)
    return -distance


def wasserstein1_by_coordinate(query: Gaussian, candidate: Gaussian) -> FloatArray:
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
    "wasserstein1_by_coordinate": wasserstein1_by_coordinate,
    "wasserstein2": wasserstein2,
    "csd": csd,
}
"""Every similarity by name, all of one signature."""
