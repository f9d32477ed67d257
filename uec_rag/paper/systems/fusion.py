"""Rank fusion: several systems' rankings into one.

Borda count and reciprocal rank fusion, and the score- and rank-based rules that the ranx library
collects (Bassani and Romelli, 2022), of which `best_fusion` picks the one that does best on fitting
queries. They are written here as array operations: ranx compiles each rule for some seconds in
every process and brings 341 MB of packages (numba, pandas, ...), for sums over a (K, n, N) cube.
A test compares every rule with what ranx returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray

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
    scaled: FloatArray = np.where(found, (np.where(found, scores, 0) - low) / span, 0).astype("f4")
    return scaled


def z_score(scores: FloatArray) -> FloatArray:
    """Standardise each query's found scores; what was not found gets the lowest found one."""
    found = np.isfinite(scores)
    mean = np.mean(scores, axis=1, keepdims=True, where=found)
    deviation = np.std(scores, axis=1, keepdims=True, where=found)
    low = np.where(found, scores, np.inf).min(axis=1, keepdims=True)
    standard = (np.where(found, scores, low) - mean) / np.maximum(deviation, 1e-12)
    z: FloatArray = standard.astype(np.float32)
    return z


NORMALISATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "min-max": min_max,
    "z-score": z_score,
}
"""How scores of different systems are made comparable."""


def _mean_of_found(cube: FloatArray, found: NDArray[np.bool_]) -> FloatArray:
    mean: FloatArray = (cube * found).sum(axis=0) / np.maximum(found.sum(axis=0), 1)
    return mean


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
            on_ranks: FloatArray = RANK_RULES[self.rule](inverse, found).astype(np.float32)
            return on_ranks
        if self.rule not in COMBINATIONS or self.normalisation not in NORMALISATIONS:
            raise ValueError(
                f"fusion: expected a rule of {['Borda', 'RRF', *RANK_RULES]}, or one of "
                f"{list(COMBINATIONS)} with a normalisation of {list(NORMALISATIONS)}, got {self}."
            )
        normalise = NORMALISATIONS[self.normalisation]
        cut = [np.where(f, s, -np.inf) for f, s in zip(found, systems, strict=True)]
        fused = COMBINATIONS[self.rule](np.stack([normalise(scores) for scores in cut]), found)
        return np.where(found.any(axis=0), fused, np.float32(-np.inf))


def all_fusions(depth: int | None = 100) -> list[Fusion]:
    """Every rule, with every normalisation where it takes one."""
    on_ranks = [Fusion(rule, depth=depth) for rule in ("Borda", "RRF", *RANK_RULES)]
    on_scores = [Fusion(rule, way, depth) for rule in COMBINATIONS for way in NORMALISATIONS]
    return on_ranks + on_scores


def best_fusion(
    systems: Sequence[FloatArray], metric: Metric, depth: int | None = 100
) -> tuple[Fusion, dict[Fusion, float]]:
    """The rule that does best on fitting queries, and what every rule scored there.

    Parameters
    ----------
    systems : sequence of K arrays, shape (n, N)
        The systems' scores on fitting queries.
    metric : callable
        Fused scores (n, N) -> a number, larger is better.
    depth : int, optional
    """
    scores = {fusion: metric(fusion(systems)) for fusion in all_fusions(depth)}
    return max(scores, key=lambda fusion: scores[fusion]), scores


def _shape(systems: Sequence[FloatArray]) -> tuple[int, int]:
    shapes = {scores.shape for scores in systems}
    if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
        raise ValueError(
            f"systems: expected score matrices of one shape (n, N), got {sorted(shapes)}."
        )
    n, passages = shapes.pop()
    return n, passages
