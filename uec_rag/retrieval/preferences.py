"""Preferences in addition to similarity: limits per source, boosts and removal of duplicates.

A boost is a log-odds term. For a passage with metadata ``m``, it states how much more frequent such
metadata are among relevant passages than in the corpus, ``log P(m | relevant) / P(m)``, which is
added to the log-odds of relevance. Boosts are normalised such that the mean of this ratio over the
corpus is 1, as is the case for a ratio of probabilities, so that relevance remains a probability if
the weights are right. The score increases by the same term divided by the ensemble's slope, which
converts it to the unit of similarity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_share
from uec_rag.base.gaussian import FloatArray, Terms
from uec_rag.confidence.model import JUDGED
from uec_rag.retrieval.result import Result, SearchResult
from uec_rag.stores.base import Passage

_MOST = 100.0  # largest absolute log-odds of a boost


@dataclass(frozen=True)
class Boost:
    """A preference for some passages over others.

    Attributes
    ----------
    of : callable
        Function of a passage that returns a number from 0 to 1.
    weight : float
        Log-odds of a passage at 1 relative to one at 0. With log 2 = 0.69, the odds that a passage
        at 1 is relevant are doubled.

    Raises
    ------
    TypeError, ValueError
        If the weight is not a number from -100 to 100.
    """

    of: Callable[[Passage], float]
    weight: float

    def __post_init__(self) -> None:
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float | np.number):
            raise TypeError(f"weight: expected a number, got {self.weight!r:.60}.")
        if not -_MOST <= self.weight <= _MOST:
            raise ValueError(
                f"weight: expected log-odds from {-_MOST} to {_MOST}, got {self.weight!r:.60}."
            )

    def at(self, passage: Passage) -> float:
        """Compute the log-odds before normalisation; ValueError if `of` is not in [0, 1]."""
        value = float(self.of(passage))
        if not 0 <= value <= 1:
            raise ValueError(
                f"boosts: expected a number from 0 to 1 for passage {passage.id!r}, got {value}."
            )
        return self.weight * value


@dataclass(frozen=True)
class Preferences:
    """Preferences in addition to similarity, for `Retriever.search` and the adapters' retrievers.

    Attributes
    ----------
    max_per_source : int or None
        Largest number of hits from one source; None for no limit.
    source_key : str
        Metadata key of a passage's source; passages without it count as separate sources.
    boosts : tuple of Boost
        Boosts, which are added up.
    distinct : bool
        Whether to merge hits with the same text into one, with the ids of the others in its
        metadata "uec_copies".

    Raises
    ------
    TypeError, ValueError
        If max_per_source is not a positive integer or a boost is not a Boost.
    """

    max_per_source: int | None = None
    source_key: str = "source"
    boosts: tuple[Boost, ...] = ()
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.max_per_source is not None:
            check_k(self.max_per_source)
        boosts = tuple(self.boosts)
        if not all(isinstance(boost, Boost) for boost in boosts):
            raise TypeError(f"boosts: expected Boost objects, got {self.boosts!r:.60}.")
        object.__setattr__(self, "boosts", boosts)

    def at(self, passage: Passage) -> float:
        """Compute a passage's log-odds by all boosts before normalisation."""
        return sum(boost.at(passage) for boost in self.boosts)

    def level(self, passages: Iterable[Passage]) -> float:
        """Compute the normaliser of the log-odds: the log of the mean odds ratio over a corpus."""
        values = np.array([self.at(passage) for passage in passages])
        if not len(values):
            return 0.0
        highest = values.max()  # avoids overflow
        return float(highest + np.log(np.exp(values - highest).mean()))

    def highest(self) -> float:
        """Compute the highest log-odds that a passage can have before normalisation."""
        return sum(max(0.0, boost.weight) for boost in self.boosts)


def preferred(
    search: Callable[[int], SearchResult],
    k: int,
    prefer: Preferences,
    *,
    slope: float,
    level: float,
) -> SearchResult:
    """Find the k best hits under preferences.

    The number of hits searched is increased until no further hit can be among the k best: its score
    is at most that of the last one found plus the highest boost.

    `search`: function of a number of hits that searches for as many. `slope`: the ensemble's logits
    per unit of similarity. `level`: result of `Preferences.level`.
    """
    count, highest = max(4 * k, 50), prefer.highest() - level
    enough = max(k, JUDGED)  # confidence is computed from this many hits, whatever k
    while True:
        result = search(count)
        boosted = [_boosted(one, prefer, level, slope) for one in result]
        places = [_chosen(one.passages, one.scores, enough, prefer) for one in boosted]
        pairs = zip(boosted, result, places, strict=True)
        if all(
            len(found.passages) < count
            or (
                len(chosen) == enough
                and one.scores[chosen[-1]] >= found.scores[-1] + highest / np.float32(slope)
            )
            for one, found, chosen in pairs
        ):
            break
        count *= 4
    results = []
    for one, chosen in zip(boosted, places, strict=True):
        if prefer.distinct:
            one = replace(one, copies=_copies(one.passages))
        results.append(one.taking(chosen).first(k))
    return SearchResult(results)


def _boosted(result: Result, prefer: Preferences, level: float, slope: float) -> Result:
    """Add the hits' boosts to scores and relevance."""
    if not prefer.boosts or not result.passages:
        return result
    boosts = np.array([prefer.at(hit) - level for hit in result.passages], dtype=np.float32)
    in_corpus, odds = np.float32(result.decision.in_corpus), result.relevance * np.exp(boosts)
    return replace(
        result,
        scores=result.scores + boosts / np.float32(slope),
        relevance=np.minimum(odds / (odds + 1 - result.relevance), in_corpus),
    )


def _chosen(row: Sequence[Passage], scores: FloatArray, k: int, prefer: Preferences) -> list[int]:
    """Return the positions of the k hits with the highest scores within the limits, best first."""
    taken, chosen = Counter[object](), list[int]()
    for place in np.argsort(-scores, kind="stable").tolist():
        limits: dict[object, int] = {}
        if prefer.max_per_source is not None:
            # Values of metadata need not be hashable, so their representations are compared.
            source = row[place].metadata.get(prefer.source_key)
            limits["source", place if source is None else repr(source)] = prefer.max_per_source
        if prefer.distinct:
            limits["text", row[place].text] = 1
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
