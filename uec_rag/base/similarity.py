"""Step 3: similarity between Gaussians: its moments, and the score s_hat.

`moments` and `score` take queries q (n, d) and candidates c (m, d) and return (n, m) matrices. For
divergences and distances in place of the score see `benchmarks/paper`.

Sums, softmax and largest of similarities to a whole corpus are computed a cache-sized tile at a
time: at a million passages the temporaries of a plain expression cost more than the arithmetic.
Python threads were measured to make it slower, as tiles take less time than handing over the
interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian, probit
from uec_rag.base.postings import Corpus, Postings


def moments(query: Gaussian, candidate: Gaussian) -> tuple[FloatArray, FloatArray]:
    """Compute the mean and variance of the inner product s = q.c of two Gaussians (paper eq. 5).

    ``mu_s = mu_q.mu_c`` and ``sigma_s^2 = mu_q' S_c mu_q + mu_c' S_q mu_c + tr(S_q S_c)``. The
    three terms of the variance are two matrix products:
    ``<var_c, mu_q^2 + var_q> + <mu_c^2, var_q>``. Sparse blocks add to the mean, with the
    candidates as the corpus that tells how rare a term is.

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
    if len(query.terms) != len(candidate.terms):
        raise ValueError(
            f"candidate: expected {len(query.terms)} blocks of terms, the query's, "
            f"got {len(candidate.terms)}."
        )
    mu: FloatArray = query.mean @ candidate.mean.T
    for asked, held in zip(query.terms, candidate.terms, strict=True):
        mu += Postings.of(held).similarities(asked, Corpus(len(held)))
    second = query.mean**2 + query.variance
    weights = second if candidate.profile is None else second @ candidate.profile.T
    sigma2: FloatArray = weights @ candidate.scales.T + query.variance @ (candidate.mean**2).T
    return mu, sigma2


def score(query: Gaussian, candidate: Gaussian, beta: float = 1.0) -> FloatArray:
    """Compute the paper's s_hat of n queries and m candidates, shape (n, m)."""
    return probit(*moments(query, candidate), beta)


_TILE = 2**16  # numbers at a time: a few such buffers fit a core's cache
_SAMPLE = 2**12  # row length from which `largest` looks at a sample first


def tiles(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of the tiles of a matrix.

    Examples
    --------
    >>> [(r.start, c.start) for r, c in tiles(2, 100_000)]
    [(0, 0), (0, 65536), (1, 0), (1, 65536)]
    """
    height = max(1, _TILE // max(1, columns))
    for row in range(0, rows, height):
        for column in range(0, columns, _TILE):
            yield slice(row, row + height), slice(column, column + _TILE)


def weighted_sum(
    matrices: list[FloatArray], weights: FloatArray, out: FloatArray | None = None
) -> FloatArray:
    """Compute ``sum_k weights_nk matrices_k``, shape (n, N).

    `matrices`: list of K arrays, shape (n, N). `weights`: array, shape (n, K). `out`, array, shape
    (n, N): where to write it; the first matrix may be it, which spares fresh memory.
    """
    out = np.empty_like(matrices[0]) if out is None else out
    for rows, columns in tiles(*out.shape):
        total = out[rows, columns]
        np.multiply(matrices[0][rows, columns], weights[rows, 0, None], out=total)
        for matrix, weight in zip(matrices[1:], weights.T[1:], strict=True):
            total += matrix[rows, columns] * weight[rows, None]
    return out


def largest(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Find the positions of the `count` largest of many values, the smallest of them first.

    `values`: array, shape (N,). `count`: at most N.

    Examples
    --------
    >>> largest(np.float32([3, 1, 4, 1, 5]), 2).tolist()
    [2, 4]
    """
    size = len(values)
    if size >= _SAMPLE and count * 64 <= size:
        # A sample tells a floor that a few hundred values are above.
        sample = values[::64]
        rank = len(sample) - max(8, count // 8)
        floor = np.partition(sample, rank)[rank]
        rows = np.flatnonzero(values >= floor)
        if count <= len(rows) <= size // 4:
            return rows[_partitioned(values[rows], count)]
        # Many may be alike, as most passages hold none of a query's words.
        above = np.flatnonzero(values > floor)
        if len(above) <= size // 4 and count <= len(rows):
            alike = np.flatnonzero(values == floor)[: max(0, count - len(above))]
            best = _partitioned(values[above], min(count, len(above)))
            return np.concatenate([alike, above[best]])
    return _partitioned(values, count)


def _partitioned(values: FloatArray, count: int) -> NDArray[np.intp]:
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def softmax(logits: FloatArray) -> FloatArray:
    """Compute the softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: FloatArray = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights
