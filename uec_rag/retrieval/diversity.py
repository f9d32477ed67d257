"""Hits that are relevant and unlike one another: maximal marginal relevance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.terms import Terms


def maximal_marginal_relevance(
    relevance: FloatArray, vectors: FloatArray, k: int, lambda_mult: float = 0.5
) -> list[int]:
    """Choose k of m candidates, each time the best trade of relevance against redundancy.

    The next choice maximises ``lambda * relevance - (1 - lambda) * max cosine to those chosen``
    (Carbonell and Goldstein, 1998); the first is the most relevant one.

    Parameters
    ----------
    relevance : array, shape (m,)
        On the scale of a cosine, such as s_hat.
    vectors : array, shape (m, d)
        Of any length; one of length 0 is like no other.
    k : int
        All candidates come back, reordered, where there are fewer.
    lambda_mult : float
        1 looks at relevance only, 0 at diversity only.

    Returns
    -------
    list of int
        Places of the chosen candidates, in the order of choice.

    Raises
    ------
    ValueError
        If lambda_mult is not between 0 and 1.

    Examples
    --------
    >>> relevance = np.float32([0.9, 0.8, 0.3])
    >>> vectors = np.float32([[1, 0], [0.99, 0.1], [0, 1]])
    >>> maximal_marginal_relevance(relevance, vectors, k=2, lambda_mult=0.5)
    [0, 2]
    """
    if not 0 <= lambda_mult <= 1:
        raise ValueError(f"lambda_mult: expected a number from 0 to 1, got {lambda_mult!r}.")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.float32(1e-30))
    redundancy: NDArray[np.floating] = np.zeros(len(unit), dtype=np.float32)
    left = np.ones(len(unit), dtype=bool)
    chosen: list[int] = []
    while left.any() and len(chosen) < k:
        weight = lambda_mult if chosen else 1.0
        worth = np.where(left, weight * relevance - (1 - weight) * redundancy, -np.inf)
        best = int(worth.argmax())
        similarity = unit @ unit[best]
        redundancy = np.maximum(redundancy, similarity) if chosen else similarity
        left[best] = False
        chosen.append(best)
    return chosen


def term_vectors(blocks: Sequence[Terms]) -> FloatArray:
    """Texts that have terms only as vectors: a column per term, shape (m, terms).

    Parameters
    ----------
    blocks : sequence of Terms
        Of m texts each.
    """
    columns = []
    for block in blocks:
        keys, place = np.unique(block.keys, return_inverse=True)
        column = np.zeros((len(block), max(1, len(keys))), dtype=np.float32)
        column[block.rows, place] = block.weights
        columns.append(column)
    return np.concatenate(columns, axis=1)
