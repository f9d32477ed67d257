"""Preferences in addition to similarity: limits per source and removal of duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share
from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.confidence.model import JUDGED
from uec_rag.retrieval.result import SearchResult
from uec_rag.stores.base import Passage


@dataclass(frozen=True)
class Preferences:
    """Preferences in addition to similarity, for `Retriever.search` and the adapters' retrievers.

    Attributes
    ----------
    max_per_source : int or None
        Largest number of hits from one source; None for no limit.
    source_key : str
        Metadata key of a passage's source; passages without it count as separate sources.
    distinct : bool
        Whether to merge hits with the same text into one, with the ids of the others in its
        metadata "uec_copies".

    Raises
    ------
    TypeError, ValueError
        If max_per_source is not a positive integer.
    """

    max_per_source: int | None = None
    source_key: str = "source"
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.max_per_source is not None:
            check_k(self.max_per_source)


def preferred(search: Callable[[int], SearchResult], k: int, prefer: Preferences) -> SearchResult:
    """Find the k best hits under preferences, among as many hits as that takes.

    `search`: function of a number of hits that searches for as many.
    """
    count, enough = max(4 * k, 50), max(k, JUDGED)  # confidence is in JUDGED hits, whatever k is
    while True:
        found = search(count)
        places = [_chosen(one.passages, enough, prefer) for one in found]
        pairs = zip(found, places, strict=True)
        if all(len(one.passages) < count or len(chosen) == enough for one, chosen in pairs):
            break
        count *= 4
    results = []
    for one, chosen in zip(found, places, strict=True):
        if prefer.distinct:
            one = replace(one, copies=_copies(one.passages))
        results.append(one.taking(chosen).first(k))
    return SearchResult(results)


def _chosen(row: Sequence[Passage], k: int, prefer: Preferences) -> list[int]:
    """Return the positions of the first k hits within the limits."""
    taken, chosen = Counter[object](), list[int]()
    for place, hit in enumerate(row):
        limits: dict[object, int] = {}
        if prefer.max_per_source is not None:
            # Values of metadata need not be hashable, so their representations are compared.
            source = hit.metadata.get(prefer.source_key)
            limits["source", place if source is None else repr(source)] = prefer.max_per_source
        if prefer.distinct:
            limits["text", hit.text] = 1
        if all(taken[name] < limit for name, limit in limits.items()):
            taken.update(limits.keys())
            chosen.append(place)
        if len(chosen) == k:
            break
    return chosen


def _copies(row: Sequence[Passage]) -> list[list[str]]:
    """Return for each passage the ids of the others with the same text."""
    ids: dict[str, list[str]] = {}
    for passage in row:
        ids.setdefault(passage.text, []).append(passage.id)
    return [[id_ for id_ in ids[passage.text] if id_ != passage.id] for passage in row]


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
    """Make dense vectors for m texts that only have terms, with a column per term.

    `blocks`: blocks of terms, each with m rows.
    """
    columns = []
    for block in blocks:
        keys, place = np.unique(block.keys, return_inverse=True)
        column = np.zeros((len(block), max(1, len(keys))), dtype=np.float32)
        column[block.rows, place] = block.weights
        columns.append(column)
    return np.concatenate(columns, axis=1)
