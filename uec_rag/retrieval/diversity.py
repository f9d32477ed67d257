"""Hits that differ from each other: maximal marginal relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.confidence.model import JUDGED
from uec_rag.retrieval.results import SearchResult


@dataclass(frozen=True)
class Diversity:
    """The options of a search for hits that differ from each other (maximal marginal relevance).

    Attributes
    ----------
    fetch_k : int
        Number of hits to choose from: those with the highest s_hat.
    lambda_mult : float
        From 1, relevance only, to 0, diversity only.
    """

    fetch_k: int = 50
    lambda_mult: float = 0.5

    def __post_init__(self) -> None:
        check_k(self.fetch_k, "fetch_k")
        check_share(self.lambda_mult, "lambda_mult", "a number from 0 to 1")


def diversify(
    vectors: Callable[[Sequence[str]], Gaussian],
    result: SearchResult,
    k: int,
    lambda_mult: float = 0.5,
) -> SearchResult:
    """Choose k of the hits of each query by maximal marginal relevance.

    Hits without vectors, of words alone, stay in the order of their relevance.

    Parameters
    ----------
    vectors : callable(ids) -> Gaussian
        `Retriever.vectors` of the index, or of the snapshot if passages may be deleted meanwhile.
    result : SearchResult
    k : int
    lambda_mult : float
        As in `maximal_marginal_relevance`.
    """
    results = []
    for row in result:
        means = vectors(row.ids).mean if row.ids else np.zeros((0, 1), dtype=np.float32)
        enough = max(check_k(k), JUDGED)  # confidence is in the first JUDGED hits, whatever k is
        positions = maximal_marginal_relevance(row.scores, means, enough, lambda_mult)
        results.append(row.select(positions).first(k))
    return SearchResult(results)


def maximal_marginal_relevance(
    relevance: FloatArray, vectors: FloatArray, k: int, lambda_mult: float = 0.5
) -> list[int]:
    """Choose k of m candidates greedily, trading relevance off against redundancy.

    The first choice is the most relevant candidate. Each further one maximises
    ``lambda * relevance - (1 - lambda) * max cosine to those chosen`` (Carbonell and Goldstein,
    1998).

    Parameters
    ----------
    relevance : array, shape (m,)
        Relevance on the scale of a cosine, such as s_hat.
    vectors : array, shape (m, d)
        Vectors of any length. The cosine of a zero vector with any other counts as 0.
    k : int
        Number of candidates to choose; if there are fewer, all are returned.
    lambda_mult : float
        Weight of relevance, from 0 (diversity only) to 1 (relevance only).

    Returns
    -------
    list of int
        Indices of the chosen candidates, in the order of choice.

    Raises
    ------
    TypeError, ValueError
        If lambda_mult is not a number from 0 to 1.

    Examples
    --------
    >>> relevance = np.float32([0.9, 0.8, 0.3])
    >>> vectors = np.float32([[1, 0], [0.99, 0.1], [0, 1]])
    >>> maximal_marginal_relevance(relevance, vectors, k=2, lambda_mult=0.5)
    [0, 2]
    """
    check_share(lambda_mult, "lambda_mult", "a number from 0 to 1")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, np.float32(1e-30))
    redundancy: NDArray[np.floating] = np.zeros(len(unit), dtype=np.float32)
    mask = np.ones(len(unit), dtype=bool)
    order: list[int] = []
    while mask.any() and len(order) < k:
        weight = lambda_mult if order else 1.0
        worth = np.where(mask, weight * relevance - (1 - weight) * redundancy, -np.inf)
        best = int(worth.argmax())
        similarity = unit @ unit[best]
        redundancy = np.maximum(redundancy, similarity) if order else similarity
        mask[best] = False
        order.append(best)
    return order
