"""What the ensemble is compared with: rank fusion, fixed weights, merged models.

Borda count and reciprocal rank fusion, and the score- and rank-based rules that the ranx library
collects (Bassani and Romelli, 2022), of which `best_fusion` picks the one that does best on fitting
queries. They are written here as array operations: ranx compiles each rule for some seconds in
every process and brings 341 MB of packages (numba, pandas, ...), for sums over a (K, n, N) cube.
A test compares every rule with what ranx returns.

Weighted ensembles have one weight per encoder, the best of a grid over the simplex. Model merging
makes one model of several checkpoints of one architecture; task arithmetic adds differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.data import Collection
from uec_rag.base.gaussian import FloatArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor


Metric = Callable[[FloatArray], float]
_RRF = 60


def ranks(scores: FloatArray, depth: int | None = None) -> NDArray[np.int64]:
    """Rank of every passage from 0, shape (n, N); N where it was not found.

    Parameters
    ----------
    scores : array, shape (n, N)
        -inf marks what was not found. Ties go to the smaller index.
    depth : int, optional
        Ranks from here on count as not found.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(scores.shape[1])[None], axis=1)
    missing = np.isneginf(scores)
    if depth is not None:
        missing |= found >= depth
    return np.where(missing, scores.shape[1], found)


def borda(systems: Sequence[FloatArray], depth: int | None = None) -> FloatArray:
    """Borda count (de Borda, 1770; Aslam and Montague, 2001).

    Of the c passages that any system found, each system gives c - rank points; those it did not
    find itself share the points that are left, evenly.

    Parameters
    ----------
    systems : sequence of K arrays, shape (n, N)
        Scores of every query and passage, -inf for what was not found.
    depth : int, optional
        How many hits of each system count.

    Returns
    -------
    array, shape (n, N)

    Examples
    --------
    >>> borda([np.float32([[3, 2, 1]]), np.float32([[1, 3, 2]])]).tolist()
    [[4.0, 5.0, 3.0]]
    """
    _, passages = _shape(systems)
    rank = np.stack([ranks(scores, depth) for scores in systems])
    found = rank < passages
    candidate = found.any(axis=0)
    count = candidate.sum(axis=1, keepdims=True)
    left = count - found.sum(axis=2, keepdims=True)
    points = np.where(found, count - rank, (left + 1) / 2)
    return np.where(candidate, points.sum(axis=0), 0).astype(np.float32)


def reciprocal_rank(
    systems: Sequence[FloatArray], depth: int | None = None, constant: float = _RRF
) -> FloatArray:
    """Reciprocal rank fusion, ``sum_k 1 / (60 + rank_k)`` (Cormack, Clarke and Buettcher, 2009).

    Parameters
    ----------
    systems : sequence of K arrays, shape (n, N)
    depth : int, optional
    constant : float

    Returns
    -------
    array, shape (n, N)
    """
    total = np.zeros(_shape(systems), dtype=np.float64)
    for scores in systems:
        rank = ranks(scores, depth)
        total += np.where(rank < total.shape[1], 1 / (constant + rank + 1), 0)
    return total.astype(np.float32)


def min_max(scores: FloatArray) -> FloatArray:
    """Scale each query's found scores to [0, 1]; what was not found gets 0."""
    found = np.isfinite(scores)
    low = np.where(found, scores, np.inf).min(axis=1, keepdims=True)
    high = np.where(found, scores, -np.inf).max(axis=1, keepdims=True)
    span = np.maximum(high - low, 1e-12)
    return np.where(found, (np.where(found, scores, 0) - low) / span, 0).astype("f4")


def z_score(scores: FloatArray) -> FloatArray:
    """Standardise each query's found scores; what was not found gets the lowest found one."""
    found = np.isfinite(scores)
    mean = np.mean(scores, axis=1, keepdims=True, where=found)
    deviation = np.std(scores, axis=1, keepdims=True, where=found)
    low = np.where(found, scores, np.inf).min(axis=1, keepdims=True)
    standard = (np.where(found, scores, low) - mean) / np.maximum(deviation, 1e-12)
    return standard.astype(np.float32)


NORMALISATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "min-max": min_max,
    "z-score": z_score,
}
"""How scores of different systems are made comparable."""


def _mean_of_found(cube: FloatArray, found: NDArray[np.bool_]) -> FloatArray:
    return (cube * found).sum(axis=0) / np.maximum(found.sum(axis=0), 1)


COMBINATIONS: dict[str, Callable[[FloatArray, NDArray[np.bool_]], FloatArray]] = {
    "CombSUM": lambda cube, _: cube.sum(axis=0),
    "CombMNZ": lambda cube, found: cube.sum(axis=0) * found.sum(axis=0),
    "CombANZ": _mean_of_found,
    "CombMAX": lambda cube, _: cube.max(axis=0),
    "CombMIN": lambda cube, _: cube.min(axis=0),
    "CombMED": lambda cube, _: np.median(cube, axis=0).astype(np.float32),
}
"""Rules on normalised scores (K, n, N) and which were found (Fox and Shaw, 1994)."""

Floats = NDArray[np.float64]
RANK_RULES: dict[str, Callable[[Floats, NDArray[np.bool_]], Floats]] = {
    "ISR": lambda inverse, found: (inverse**2).sum(axis=0) * found.sum(axis=0),
    "Log-ISR": lambda inverse, found: (
        (inverse**2).sum(axis=0) * np.log(np.maximum(found.sum(axis=0), 1))
    ),
}
"""Rules on inverse ranks (K, n, N), 0 where not found (Mourao, Martins and Magalhaes, 2013)."""


@dataclass(frozen=True)
class Fusion:
    """One way to fuse.

    Attributes
    ----------
    rule : str
        "Borda", "RRF", or a key of `COMBINATIONS` or `RANK_RULES`.
    normalisation : str or None
        A key of `NORMALISATIONS` for the rules on scores.
    depth : int or None
        How many hits of each system count; None for all.
    """

    rule: str
    normalisation: str | None = None
    depth: int | None = None

    def __call__(self, systems: Sequence[FloatArray]) -> FloatArray:
        """Fused scores, shape (n, N), from K systems' scores of that shape."""
        shape = _shape(systems)
        if self.rule == "Borda":
            return borda(systems, self.depth)
        if self.rule == "RRF":
            return reciprocal_rank(systems, self.depth)
        rank = np.stack([ranks(scores, self.depth) for scores in systems])
        found = rank < shape[1]
        if self.rule in RANK_RULES:
            inverse = np.where(found, 1 / (rank + 1.0), 0)
            return RANK_RULES[self.rule](inverse, found).astype(np.float32)
        normalise = NORMALISATIONS[self.normalisation]
        cut = [np.where(f, s, -np.inf) for f, s in zip(found, systems, strict=True)]
        fused = COMBINATIONS[self.rule](np.stack([normalise(scores) for scores in cut]), found)
        return np.where(found.any(axis=0), fused, np.float32(-np.inf))


def all_fusions(depth: int | None = 100) -> list[Fusion]:
    """Every rule, with every normalisation where it takes one."""
    on_ranks = [Fusion(rule, depth=depth) for rule in ("Borda", "RRF", *RANK_RULES)]
    on_scores = [Fusion(rule, way, depth) for rule in COMBINATIONS for way in NORMALISATIONS]
    return on_ranks + on_scores


def best_fusion(systems: Sequence[FloatArray], metric: Metric) -> Fusion:
    """The rule that does best on fitting queries.

    Parameters
    ----------
    systems : sequence of K arrays, shape (n, N)
        The systems' scores on fitting queries.
    metric : callable
        Fused scores (n, N) -> a number, larger is better.
    """
    return max(all_fusions(), key=lambda fusion: metric(fusion(systems)))


def _shape(systems: Sequence[FloatArray]) -> tuple[int, int]:
    shapes = {scores.shape for scores in systems}
    if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
        raise ValueError(
            f"systems: expected score matrices of one shape (n, N), got {sorted(shapes)}."
        )
    n, passages = shapes.pop()
    return n, passages


Weights = NDArray[np.float64]
_TIE = 1e-9


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
    parts = round(1 / step)
    rows = product(range(parts + 1), repeat=count)
    return np.array([row for row in rows if sum(row) == parts]) / parts


def best_weights(score: Callable[[Weights], float], count: int) -> Weights:
    """Weights of `count` encoders with the highest score, by trying the whole grid.

    Of several equally good ones, the nearest to uniform.

    Examples
    --------
    >>> best_weights(lambda w: -abs(w[0] - 0.3), 2).tolist()
    [0.3, 0.7]
    """
    grid = simplex_grid(count)
    scores = np.array([score(weights) for weights in grid], dtype=np.float64)
    from_uniform = ((grid - 1 / count) ** 2).sum(axis=1)
    return grid[np.where(scores >= scores.max() - _TIE, from_uniform, np.inf).argmin()]


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
    return _unit(weighted_sum(embeddings, weights))


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


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
        query, passage, gain = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return cls(query.astype(np.int64), passage.astype(np.int64), gain, len(relevant))

    @classmethod
    def of_collection(cls, collection: Collection) -> Relevance:
        """Build from a collection's own judgements."""
        place = {name: index for index, name in enumerate(collection.passages)}
        return cls.of(
            [
                {place[name]: float(gain) for name, gain in collection.relevant[query].items()}
                for query in collection.queries
            ]
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
        return np.bincount(self.query, gains, self.queries)


ALPHAS = (0.0001, 0.001, 0.01, 0.1, 1.0)
"""The paper's grid for the alpha of task arithmetic."""


def merge(
    models: Sequence[SentenceTransformer], weights: Sequence[float] | None = None
) -> SentenceTransformer:
    """Average the weights of models of one architecture (Wortsman et al., 2022).

    Parameters
    ----------
    models : sequence of SentenceTransformer
        Tokenizer, pooling and prompts are the first one's.
    weights : sequence of float, optional
        One per model, summing to 1; uniform by default.

    Raises
    ------
    ValueError
        If the architectures differ; the first tensor that differs is named.
    """
    return _linear_combination(models, weights or [1 / len(models)] * len(models))


def task_arithmetic(
    base: SentenceTransformer, finetuned: Sequence[SentenceTransformer], alpha: float
) -> SentenceTransformer:
    """Task arithmetic on weights, ``base + alpha sum_i (finetuned_i - base)``.

    Ilharco et al. (2023), "Editing models with task arithmetic".

    Parameters
    ----------
    base : SentenceTransformer
        What the others were fine-tuned from.
    finetuned : sequence of SentenceTransformer
    alpha : float

    Raises
    ------
    ValueError
        If the architectures differ.
    """
    coefficients = [1 - alpha * len(finetuned)] + [alpha] * len(finetuned)
    return _linear_combination([base, *finetuned], coefficients)


def _linear_combination(
    models: Sequence[SentenceTransformer], coefficients: Sequence[float]
) -> SentenceTransformer:
    import torch

    states = [model.state_dict() for model in models]
    for index, state in enumerate(states[1:], start=1):
        _check_alike(states[0], state, index)
    merged = _copy(models[0])
    with torch.no_grad():
        for name, target in merged.state_dict().items():
            if target.is_floating_point():
                parts = [
                    coefficient * state[name].to(target.device, torch.float64)
                    for coefficient, state in zip(coefficients, states, strict=True)
                ]
                target.copy_(torch.stack(parts).sum(dim=0))
    return merged


def _check_alike(first: dict[str, Tensor], other: dict[str, Tensor], index: int) -> None:
    for name in [*first, *other]:
        shapes = [tuple(state[name].shape) if name in state else None for state in (first, other)]
        if shapes[0] != shapes[1]:
            said = ["no such tensor" if shape is None else f"shape {shape}" for shape in shapes]
            raise ValueError(
                f"models: merging needs one architecture, but tensor {name!r} differs: {said[0]} "
                f"in models[0], {said[1]} in models[{index}]. Ensembles (UEC) take any models."
            )


def _copy(model: SentenceTransformer) -> SentenceTransformer:
    merged = deepcopy(model)
    # A copy that still gave its origin as its name would be reported, and reloaded, as that model.
    config = getattr(getattr(merged[0], "auto_model", None), "config", None)
    if config is not None:
        config._name_or_path = "merged"
    return merged


def embedding_arithmetic(a: FloatArray, b: FloatArray, c: FloatArray, alpha: float) -> FloatArray:
    """``A + alpha (B - C)`` of unit embeddings (n, d), scaled to unit length.

    Examples
    --------
    >>> a, b, c = (np.float32([row]) for row in ([1, 0], [0, 1], [1, 0]))
    >>> embedding_arithmetic(a, b, c, 1.0).tolist()
    [[0.0, 1.0]]
    """
    return _unit(a + np.float32(alpha) * (b - c))
