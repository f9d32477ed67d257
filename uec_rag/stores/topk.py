"""Exact top-k by the uncertainty-aware score, looking at a few candidates only.

For beta >= 0 and mu_s >= 0 the score never exceeds mu_s. So: take the m best by mu_s, score those,
and if the k-th score is above the best mu_s left out, nothing left out can enter; else take more.
Where mu_s is known up to an error only, candidates are scored with the exact one, and what is left
out must be below by the error, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import probit
from uec_rag.base.tiles import largest

_AT_ONCE = 16  # times as many candidates as before

Moments = Callable[[NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""mu_s and sigma_s^2 of one query against some rows, (m,) -> (m,), (m,)."""


class Top(NamedTuple):
    """The k best rows of one query, best first; shape (k,) each."""

    rows: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


def top_k(mu: FloatArray, moments: Moments, k: int, beta: float, error: float = 0.0) -> Top:
    """Find the k highest scores of one query; ties go to the earlier row.

    Parameters
    ----------
    mu : array, shape (N,)
        Similarities; -inf for rows that do not take part.
    moments : callable
        mu_s and sigma_s^2 of given rows.
    k : int
        At most the number of finite entries of `mu`.
    beta : float
        At least 0.
    error : float
        How far `mu` may be from what `moments` returns.
    """
    count = len(mu)
    m = min(count, 2 * k + 16)
    while True:
        rows, left_out = _largest(mu, m)
        exact, sigma2 = moments(rows)
        scores = probit(exact, sigma2, beta)
        order = np.lexsort((rows, -scores))[:k]
        # A negative mu_s is raised towards 0 by its variance, hence the bound of 0 for those.
        last = float(scores[order[-1]])
        if m == count or last > max(left_out + error, 0.0):
            return Top(rows[order], scores[order], exact[order], sigma2[order])
        # All that could enter, unless that is so many that more candidates may rule most of it out.
        near = int(np.count_nonzero(mu >= last - error))
        m = min(count, max(m + 1, near) if near <= _AT_ONCE * m else 2 * m)


def _largest(mu: FloatArray, m: int) -> tuple[NDArray[np.int64], float]:
    """Rows of the m largest values, and the largest value among the others."""
    if m == len(mu):
        return np.arange(m), -np.inf
    rows = largest(mu, m + 1)
    return rows[1:], float(mu[rows[0]])
