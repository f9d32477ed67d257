"""The hits of simpler searches, beside those of an index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever

Floats: TypeAlias = NDArray[np.float64]

_C = 60  # the constant of Cormack et al.


def search_by_each_member(
    retriever: Retriever, queries: Sequence[str], k: int
) -> dict[str, SearchResult]:
    """Search by each encoder's similarity alone.

    Returns
    -------
    dict of str to SearchResult
        Searches by the encoder's name; empty if there is a single block of vectors.
    """
    names = retriever.uec.names
    if len(retriever.uec.fitted.block_names) < 2:
        return {}
    return {name: search_by_member(retriever, name, queries, k) for name in names}


def search_by_member(
    retriever: Retriever, name: str, queries: Sequence[str], k: int
) -> SearchResult:
    """Search by one encoder's similarity, which is then `mu`."""
    view = retriever.with_weights({other: float(other == name) for other in retriever.uec.names})
    view.uec.fitted = replace(view.uec.fitted, beta=0.0)
    return view.search(queries, k)


def reciprocal_ranks(mu: Floats) -> Floats:
    """Return 1 / (60 + rank) of each hit (Cormack et al., https://doi.org/10.1145/1571941.1572114).

    `mu`: the similarity of each hit, best first.
    """
    gains: Floats = 1 / (_C + 1 + np.arange(len(mu)))
    return gains


def relative_scores(mu: Floats) -> Floats:
    """Return similarities from 0 for the last hit to 1 for the first; `mu`: best first."""
    shares: Floats = (mu - mu.min()) / max(float(np.ptp(mu)), 1e-9)
    return shares


def fuse(
    members: Sequence[SearchResult], gain: Callable[[Floats], Floats]
) -> tuple[list[list[str]], Floats]:
    """Fuse several searches for n questions by the mean gain of each passage.

    `gain`: `reciprocal_ranks` or `relative_scores`. Returns the ids of the passages, best first,
    and the gain of the first ones, -1 if there is none.
    """
    ids, best = list[list[str]](), list[float]()
    for rows in zip(*members, strict=True):
        gains: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            if row.ids:
                for id_, share in zip(row.ids, gain(row.mu.astype(np.float64)), strict=True):
                    gains[id_] += float(share) / len(members)
        ranked = sorted(gains, key=lambda id_: -gains[id_])
        ids.append(ranked)
        best.append(gains[ranked[0]] if ranked else -1.0)
    return ids, np.array(best)


def finds(ids: Sequence[Sequence[str]], relevant: Sequence[set[str]], k: int) -> NDArray[np.bool_]:
    """Return whether the first k of each question's hits include one that is relevant."""
    pairs = zip(ids, relevant, strict=True)
    return np.array([not wanted.isdisjoint(hits[:k]) for hits, wanted in pairs], dtype=bool)
