"""Plainer searches of an index, to show and measure what an ensemble adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import WithoutVectors
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage

Ranking: TypeAlias = list[list[Passage]]
"""Hits of n queries, best first."""

_C = 60  # the constant of Cormack et al.
_COMPARED = 10  # first hits


def members_alone(
    retriever: Retriever, queries: Sequence[str], parts: Sequence[Gaussian], k: int
) -> dict[str, Ranking]:
    """Search by each encoder's similarity alone.

    Parameters
    ----------
    parts : sequence of K Gaussian
        Each encoder's own Gaussians of the queries, as `UEC.encode` returns them.

    Returns
    -------
    dict of str to Ranking
        By the encoder's name; empty if an index does not keep them apart: of a single encoder,
        or in the shared space.
    """
    names = retriever.uec.names
    if len(names) < 2 or retriever.uec.space == "shared":
        return {}
    return {name: alone(retriever, name, queries, parts, k).passages for name in names}


def alone(
    retriever: Retriever, name: str, queries: Sequence[str], parts: Sequence[Gaussian], k: int
) -> SearchResult:
    """Search by one encoder's similarity, which is then `mu`."""
    coefficients = {other: float(other == name) for other in retriever.uec.names}
    return _by_mean(retriever, coefficients, queries, parts, k)


def plain_cosine(
    retriever: Retriever, queries: Sequence[str], parts: Sequence[Gaussian], k: int
) -> Ranking | None:
    """Search by the mean cosine of the encoders' vectors; None if no encoder has any.

    Parameters as in `members_alone`.
    """
    uec = retriever.uec
    even = {
        name: 0.0 if isinstance(encoder, WithoutVectors) else 1 / weight
        for name, encoder, weight in zip(uec.names, uec.encoders, uec.weights.tolist(), strict=True)
    }
    return _by_mean(retriever, even, queries, parts, k).passages if any(even.values()) else None


def _by_mean(
    retriever: Retriever,
    coefficients: Mapping[str, float],
    queries: Sequence[str],
    parts: Sequence[Gaussian],
    k: int,
) -> SearchResult:
    """Order hits by the mean similarity, whatever its variance and a verifier's scores."""
    view = retriever.counting(coefficients)
    view.uec.verifier = None
    view.uec.fitted = replace(view.uec.fitted, beta=0.0)
    return view.search_encoded(queries, parts, k)


def fused(rankings: Sequence[Ranking]) -> Ranking:
    """Fuse by reciprocal ranks (Cormack et al., 2009, https://doi.org/10.1145/1571941.1572114).

    Examples
    --------
    >>> a, b, c = (Passage(name, name) for name in "abc")
    >>> [passage.id for passage in fused([[[a, b]], [[b, c]]])[0]]
    ['b', 'a', 'c']
    """
    joined = []
    for rows in zip(*rankings, strict=True):
        there = {passage.id: passage for row in rows for passage in row}
        gains: Counter[str] = Counter()
        for row in rows:
            for rank, passage in enumerate(row, 1):
                gains[passage.id] += 1 / (_C + rank)  # type: ignore[assignment]
        joined.append([there[id_] for id_, _ in gains.most_common()])
    return joined


def disagreement(rankings: Mapping[str, Ranking]) -> list[float]:
    """Measure how far encoders find different passages, for each query, from 0 to 1.

    1 less the mean overlap of the first ten hits of two of them, intersection over union.
    """
    shares = []
    for rows in zip(*rankings.values(), strict=True):
        first = [{passage.id for passage in row[:_COMPARED]} for row in rows]
        overlaps = [len(a & b) / max(len(a | b), 1) for a, b in combinations(first, 2)]
        shares.append(1 - float(np.mean(overlaps)))
    return shares
