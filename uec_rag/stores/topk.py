"""Exact top-k by the uncertainty-aware score, looking at a few candidates only.

For beta >= 0 a score lies between mu_s and 0. So: take the m best by mu_s, score those, and if the
k-th score is above what the best mu_s left out can score at most, nothing left out can enter; else
take more. At most it scores mu_s itself, if that is positive; a negative one is raised towards 0
by its variance, at most by the largest variance that the query has with any row.
Where mu_s is known up to an error only, candidates are scored with the exact one, and what is left
out must be below by the error, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import PROBIT, probit
from uec_rag.base.tiles import largest

_AT_ONCE = 16  # times as many candidates as before
_ROUNDED = 1 + 1e-5  # scores are float32
_UNDERFLOW = -1e-37  # a negative score above this may have become 0

Moments = Callable[[NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""mu_s and sigma_s^2 of one query against some rows, (m,) -> (m,), (m,)."""


class Top(NamedTuple):
    """The k best rows of one query, best first; shape (k,) each."""

    rows: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


def top_k(
    mu: FloatArray,
    moments: Moments,
    k: int,
    beta: float,
    error: float = 0.0,
    most: Callable[[], float] = lambda: np.inf,
) -> Top:
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
    most : callable
        Gives what sigma_s^2 of no row exceeds; asked for only where the k-th score is negative.
    """
    count = len(mu)
    m = min(count, 2 * k + 16)
    shrinking: float | None = None  # how many times closer to 0 than mu_s a score may be
    while True:
        rows, left_out = _largest(mu, m)
        exact, sigma2 = moments(rows)
        scores = probit(exact, sigma2, beta)
        order = np.lexsort((rows, -scores))[:k]
        last = float(scores[order[-1]])
        # Only a mu_s from here on can enter, or tie.
        enough = last
        if last <= 0:
            if shrinking is None:
                shrinking = np.sqrt(1 + float(PROBIT) * beta * most()) * _ROUNDED if beta else 1.0
            enough = min(last, _UNDERFLOW) * shrinking
        if m == count or enough > left_out + error:
            return Top(rows[order], scores[order], exact[order], sigma2[order])
        # All that could enter, unless that is so many that more candidates may rule most of it out.
        near = int(np.count_nonzero(mu >= enough - error))
        m = min(count, max(2 * m, near if near <= _AT_ONCE * m else 0))


def _largest(mu: FloatArray, m: int) -> tuple[NDArray[np.int64], float]:
    """Rows of the m largest values, and the largest value among the others."""
    if m == len(mu):
        return np.arange(m), -np.inf
    rows = largest(mu, m + 1)
    return rows[1:], float(mu[rows[0]])
