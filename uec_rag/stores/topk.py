"""Exact top-k by the uncertainty-aware score, looking at a few candidates only.

For beta >= 0 and mu_s >= 0 the score never exceeds mu_s. So: take the m best by mu_s, score those,
and if the k-th score is above the best mu_s left out, nothing left out can enter; else double m.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from uec_rag.gaussian import FloatArray
from uec_rag.passes import largest
from uec_rag.similarity import probit

Variance = Callable[[NDArray[np.int64]], FloatArray]
"""sigma_s^2 of one query against some rows, (m,) -> (m,)."""


def top_k(
    mu: FloatArray, variance: Variance, k: int, beta: float
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Rows of the k highest scores of one query, best first; ties go to the earlier row.

    Parameters
    ----------
    mu : array, shape (N,)
        Similarities; -inf for rows that do not take part.
    variance : callable
        sigma_s^2 of given rows.
    k : int
        At most the number of finite entries of `mu`.
    beta : float
        At least 0.

    Returns
    -------
    rows : int array, shape (k,)
    scores, sigma2 : array, shape (k,)
    """
    count = len(mu)
    m = min(count, 2 * k + 16)
    while True:
        rows, left_out = _largest(mu, m)
        sigma2 = variance(rows)
        scores = probit(mu[rows], sigma2, beta)
        order = np.lexsort((rows, -scores))[:k]
        # A negative mu_s is raised towards 0 by its variance, hence the bound of 0 for those.
        if m == count or scores[order[-1]] > max(left_out, 0.0):
            return rows[order], scores[order], sigma2[order]
        m = min(count, 2 * m)


def _largest(mu: FloatArray, m: int) -> tuple[NDArray[np.int64], float]:
    """Rows of the m largest values, and the largest value among the others."""
    if m == len(mu):
        return np.arange(m), -np.inf
    rows = largest(mu, m + 1)
    return rows[1:], float(mu[rows[0]])
