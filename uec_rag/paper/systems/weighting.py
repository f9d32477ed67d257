"""Weighted ensembles: one weight per encoder, the best of a grid over the simplex."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray

Weights = NDArray[np.float64]
_TIE = 1e-9


@dataclass(frozen=True, eq=False)
class WeightSearch:
    """What a search over the grid found.

    Attributes
    ----------
    weights : array, shape (K,)
        The best weights; of several equally good ones the nearest to uniform.
    score : float
        Their score.
    grid : array, shape (G, K)
        Every point that was tried.
    scores : array, shape (G,)
    """

    weights: Weights
    score: float
    grid: Weights
    scores: Weights


def simplex_grid(count: int, step: float = 0.1) -> Weights:
    """All weights of `count` encoders that are multiples of `step` and sum to 1, shape (G, count).

    The corners are single encoders; the paper's grid ([0.1, 0.1, 0.8] ... [0.8, 0.1, 0.1]) is the
    part of it without zeros.

    Examples
    --------
    >>> simplex_grid(2, step=0.5).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    >>> len(simplex_grid(3))
    66
    """
    if count < 1:
        raise ValueError(f"count: expected at least 1 encoder, got {count}.")
    parts = round(1 / step) if step > 0 else 0
    if parts < 1 or not np.isclose(parts * step, 1):
        raise ValueError(f"step: expected 1 divided by a whole number, such as 0.1, got {step}.")
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(count - 1):
        rows = np.concatenate(
            [
                np.column_stack([np.repeat(row[None], parts - row.sum() + 1, axis=0), more])
                for row in rows
                for more in [np.arange(parts - row.sum() + 1)]
            ]
        )
    return np.column_stack([rows, parts - rows.sum(axis=1)]) / parts


def best_weights(score: Callable[[Weights], float], count: int, step: float = 0.1) -> WeightSearch:
    """Weights of `count` encoders that maximise a score, by trying the whole grid.

    Parameters
    ----------
    score : callable
        Weights of shape (count,) -> a number, larger is better.
    count : int
    step : float

    Raises
    ------
    ValueError
        If the score of a point is NaN.

    Examples
    --------
    >>> best_weights(lambda w: -abs(w[0] - 0.3), 2).weights.tolist()
    [0.3, 0.7]
    """
    grid = simplex_grid(count, step)
    scores = np.array([score(weights) for weights in grid], dtype=np.float64)
    if np.isnan(scores).any():
        raise ValueError(f"score: got NaN for the weights {grid[np.isnan(scores)][0].tolist()}.")
    from_uniform = ((grid - 1 / count) ** 2).sum(axis=1)
    best = int(np.where(scores >= scores.max() - _TIE, from_uniform, np.inf).argmin())
    return WeightSearch(grid[best], float(scores[best]), grid, scores)


def best_retrieval_weights(
    similarities: Sequence[FloatArray], relevance: Relevance, step: float = 0.1, k: int = 10
) -> WeightSearch:
    """Weights that maximise mean nDCG@k of the weighted sum of the encoders' similarities.

    The sum is what the direct sum of the encoders' spaces ranks by. For the paper's shared space
    give `best_weights` a score made with `shared_similarity`.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Each encoder's similarity of every query and passage.
    relevance : Relevance
    step : float
    k : int
    """
    shapes = {similarity.shape for similarity in similarities}
    if len(shapes) != 1:
        raise ValueError(f"similarities: expected arrays of one shape, got {sorted(shapes)}.")
    return best_weights(
        lambda weights: float(relevance.ndcg(weighted_sum(similarities, weights), k).mean()),
        len(similarities),
        step,
    )


def weighted_sum(similarities: Sequence[FloatArray], weights: Weights) -> FloatArray:
    """``sum_k w_k s_k``, shape (n, N); encoders of weight 0 cost nothing."""
    total = np.zeros_like(similarities[0], dtype=np.float32)
    for similarity, weight in zip(similarities, weights, strict=True):
        if weight:
            total += np.float32(weight) * similarity
    return total


def shared_similarity(
    queries: Sequence[FloatArray], passages: Sequence[FloatArray], weights: Weights
) -> FloatArray:
    """Cosine of weighted mean embeddings, the paper's deterministic ensemble, shape (n, N).

    Parameters
    ----------
    queries, passages : sequences of K arrays, shapes (n, d) and (N, d)
        Unit embeddings by each encoder, all of one dimension.
    weights : array, shape (K,)
    """
    return weighted_embedding(queries, weights) @ weighted_embedding(passages, weights).T


def weighted_embedding(embeddings: Sequence[FloatArray], weights: Weights) -> FloatArray:
    """Weighted mean of K encoders' unit embeddings, scaled back to unit length, shape (n, d)."""
    mean = weighted_sum(embeddings, weights)
    unit: FloatArray = mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
    return unit


@dataclass(frozen=True, eq=False)
class Relevance:
    """Which passages answer which queries, as flat arrays of R judgements.

    Attributes
    ----------
    query, passage : int array, shape (R,)
    gain : array, shape (R,)
        How relevant, above 0.
    queries : int
        Number of queries n; one without judgements scores 0.
    """

    query: NDArray[np.int64]
    passage: NDArray[np.int64]
    gain: NDArray[np.float64]
    queries: int

    @classmethod
    def of(cls, relevant: Sequence[Mapping[int, float]]) -> Relevance:
        """Build from a mapping passage index -> gain per query; gains of 0 are left out."""
        found = [
            (query, passage, gain)
            for query, gains in enumerate(relevant)
            for passage, gain in gains.items()
            if gain > 0
        ]
        query, passage, gain = zip(*found, strict=True) if found else ((), (), ())
        return cls(
            np.array(query, dtype=np.int64),
            np.array(passage, dtype=np.int64),
            np.array(gain, dtype=np.float64),
            len(relevant),
        )

    def ranks(self, similarity: FloatArray) -> NDArray[np.int64]:
        """Rank of each judged passage from 0, shape (R,); ties go to the smaller index.

        Counting what lies above is ten times cheaper than sorting every row.
        """
        ranks = np.empty(len(self.query), dtype=np.int64)
        rows = max(1, 2**22 // max(1, similarity.shape[1]))
        for start in range(0, len(ranks), rows):
            part = slice(start, start + rows)
            scores, passage = similarity[self.query[part]], self.passage[part, None]
            own = np.take_along_axis(scores, passage, axis=1)
            before = np.arange(scores.shape[1]) < passage
            ranks[part] = ((scores > own) | ((scores == own) & before)).sum(axis=1)
        return ranks

    def ndcg(self, similarity: FloatArray, k: int = 10) -> NDArray[np.float64]:
        """nDCG@k of each query, linear gains as trec_eval has them, shape (n,).

        Parameters
        ----------
        similarity : array, shape (n, N)
        k : int
        """
        if similarity.shape[0] != self.queries:
            raise ValueError(
                f"similarity: expected {self.queries} rows, one per query, got {len(similarity)}."
            )
        found = self._discounted(self.ranks(similarity), k)
        best_first = np.lexsort((-self.gain, self.query))
        starts = np.searchsorted(self.query[best_first], np.arange(self.queries))
        ideal_ranks = np.empty(len(self.query), dtype=np.int64)
        ideal_ranks[best_first] = np.arange(len(best_first)) - starts[self.query[best_first]]
        ideal = self._discounted(ideal_ranks, k)
        return np.divide(found, ideal, out=np.zeros(self.queries), where=ideal > 0)

    def _discounted(self, ranks: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        gains = np.where(ranks < k, self.gain / np.log2(ranks + 2.0), 0.0)
        total: Weights = np.bincount(self.query, gains, self.queries).astype(np.float64)
        return total
