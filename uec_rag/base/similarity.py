"""Step 3: the similarity of Gaussians: its moments, the score s_hat of these, and the top k.

`moments` takes queries q (n, d) and candidates c (m, d) and returns (n, m) matrices; `probit` is
the score s_hat. A search computes both of the passages that may be among the first, see
`best_rows`. For divergences and distances instead of the score, see `benchmarks/paper`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Words
from uec_rag.base.gaussian import FloatArray, Gaussian

PROBIT = math.pi / 8
"""The constant of the probit approximation to a logistic-Gaussian integral."""


def moments(query: Gaussian, candidate: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Compute the mean and variance of the inner product s = q.c of two Gaussians (paper eq. 5).

    ``mu_s = mu_q.mu_c`` and ``sigma_s^2 = mu_q' S_c mu_q + mu_c' S_q mu_c + tr(S_q S_c)``. The
    three terms of the variance take two matrix products:
    ``<var_c, mu_q^2 + var_q> + <mu_c^2, var_q>``. Sparse blocks add to the mean, with document
    frequencies among the candidates.

    Parameters
    ----------
    query : Gaussian, n texts
    candidate : Gaussian, m texts

    Returns
    -------
    mu : array, shape (n, m)
    sigma2 : array, shape (n, m)

    Examples
    --------
    >>> q = Gaussian([[1.0, 0.0]], [[0.1, 0.1]])
    >>> c = Gaussian([[0.6, 0.8]], [[0.2, 0.2]])
    >>> mu, sigma2 = moments(q, c)
    >>> round(float(mu[0, 0]), 4), round(float(sigma2[0, 0]), 4)
    (0.6, 0.34)
    """
    mu = means(query, candidate)
    square = query.mean**2 + query.variance
    weights = square if candidate.profile is None else square @ candidate.profile.T
    sigma2: FloatArray = weights @ candidate.scales.T + query.variance @ (candidate.mean**2).T
    return mu, sigma2


def means(query: Gaussian, candidate: Gaussian) -> FloatArray:
    """Compute the mean alone, as `moments` does."""
    mu: FloatArray = query.mean @ candidate.mean.T
    for terms, stored in zip(query.terms, candidate.terms, strict=True):
        words = Words.from_terms(stored)
        mu += words.similarities(words.look_up(terms))
    return mu


def probit(mu: FloatArray, sigma2: FloatArray, beta: float = 1.0) -> FloatArray:
    """Compute the uncertainty-aware score ``mu / sqrt(1 + pi/8 beta sigma2)`` (paper eq. 6).

    `mu`, `sigma2`: moments of the similarity, of the same shape. `beta`: weight of the variance; 0
    gives `mu`.

    Examples
    --------
    >>> scores = probit(np.float32([0.8, 0.8]), np.float32([0.0, 1.0]))
    >>> [round(float(value), 2) for value in scores]
    [0.8, 0.68]
    """
    shrunk: FloatArray = mu / np.sqrt(1 + PROBIT * np.float32(beta) * sigma2)
    return shrunk


_SAMPLE = 2**12  # smallest row length at which `largest` takes a sample first


def weighted_sum(matrices: list[FloatArray], weights: FloatArray) -> FloatArray:
    """Compute ``sum_k weights_nk matrices_k``, shape (n, N).

    `matrices`: list of K arrays, shape (n, N). `weights`: array, shape (n, K).
    """
    total: FloatArray = matrices[0] * weights[:, 0, None]
    for matrix, weight in zip(matrices[1:], weights.T[1:], strict=True):
        total += matrix * weight[:, None]
    return total


def largest(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Find the indices of the `count` largest of many values; the smallest of them is first.

    `values`: array, shape (N,). `count`: at most N.

    Examples
    --------
    >>> largest(np.float32([3, 1, 4, 1, 5]), 2).tolist()
    [2, 4]
    """
    size = len(values)
    if size >= _SAMPLE and count * 64 <= size:
        # A sample gives a lower bound that only a small share of the values exceeds.
        sample = values[::64]
        rank = len(sample) - max(8, count // 8)
        floor = np.partition(sample, rank)[rank]
        rows = np.flatnonzero(values >= floor)
        if count <= len(rows) <= size // 4:
            return rows[_partitioned(values[rows], count)]
        # Many may be equal, since most passages contain none of a query's words.
        above = np.flatnonzero(values > floor)
        if len(above) <= size // 4 and count <= len(rows):
            alike = np.flatnonzero(values == floor)[: max(0, count - len(above))]
            best = _partitioned(values[above], min(count, len(above)))
            return np.concatenate([alike, above[best]])
    return _partitioned(values, count)


def first_of_largest(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the indices of the `count` largest of many values, best first; ties in order.

    Examples
    --------
    >>> first_of_largest(np.float32([3, 1, 4, 1, 3, 3]), 3).tolist()
    [2, 0, 4]
    """
    pool = np.flatnonzero(values >= values[largest(values, count)].min(initial=np.inf))
    order: NDArray[np.intp] = pool[np.argsort(-values[pool], kind="stable")[:count]]
    return order


def _partitioned(values: FloatArray, count: int) -> NDArray[np.intp]:
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    return np.argpartition(values, len(values) - count)[len(values) - count :]


_SAME = 0.999  # cosines above it are of one text twice


def cosines_of_pairs(vectors: FloatArray) -> FloatArray:
    """Compute the cosine of every two vectors, shape (n, d), but of those of one text twice."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    cosine = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    different: FloatArray = cosine[cosine < _SAME]
    return different


def softmax(logits: FloatArray) -> FloatArray:
    """Compute the softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: FloatArray = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights


# Exact top k by the uncertainty-aware score from a few candidates.
#
# For beta >= 0, a score lies between mu_s and 0. So take the m best by mu_s and score them. If the
# k-th score exceeds the largest possible score of the remaining rows, the result is exact; if not,
# take more. The score of a positive mu_s is at most mu_s. A negative mu_s is raised towards 0 by
# its variance, which is at most the largest variance of the query with any row.

_GROWTH = 16  # largest factor by which the number of candidates grows
_ROUNDED = 1 + 1e-5  # scores are float32
_UNDERFLOW = -1e-37  # a negative score above this may have been rounded to 0

Moments = Callable[[NDArray[np.int64]], tuple[FloatArray, FloatArray]]
"""A function that returns mu_s and sigma_s^2 of one query and given rows, (m,) -> (m,), (m,)."""


def best_rows(
    mu: FloatArray,
    moments: Moments,
    k: int,
    beta: float,
    bound: Callable[[], float] = lambda: np.inf,
    slack: float = 0.0,
) -> tuple[NDArray[np.int64], FloatArray, FloatArray, FloatArray]:
    """Find the k highest scores of one query; ties go to the earlier row.

    Returns rows, scores, mu_s and sigma_s^2, best first, each of shape (k,).

    `mu`, shape (N,): similarities; -inf for excluded rows. `moments`: returns mu_s and sigma_s^2 of
    given rows. `k`: at most the number of finite entries of `mu`. `beta`: at least 0. `bound`:
    returns an upper bound of sigma_s^2 of all rows; called only if the k-th score is not positive.
    `slack`: how far off `mu` may be.
    """
    count = len(mu)
    m = min(count, 2 * k + 16)
    shrinking: float | None = None  # largest ratio of mu_s to its score
    while True:
        if m < count:
            highest = largest(mu, m + 1)
            rows, left_out = highest[1:], float(mu[highest[0]]) + slack
        else:
            rows, left_out = np.arange(count), -np.inf
        exact, sigma2 = moments(rows)
        scores = probit(exact, sigma2, beta)
        order = np.lexsort((rows, -scores))[:k]
        floor = float(scores[order[-1]])
        # Only rows with at least this mu_s can enter, or tie.
        enough = floor
        if floor <= 0:
            if shrinking is None:
                shrinking = np.sqrt(1 + float(PROBIT) * beta * bound()) * _ROUNDED if beta else 1.0
            enough = min(floor, _UNDERFLOW) * shrinking
        if m == count or enough > left_out:
            return rows[order], scores[order], exact[order], sigma2[order]
        # Take all rows that could enter, unless they are so many that more candidates may first
        # rule out most of them.
        rivals = int(np.count_nonzero(mu >= enough - slack))
        m = min(count, max(2 * m, rivals if rivals <= _GROWTH * m else 0))
