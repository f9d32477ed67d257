"""The hits of simpler searches, beside those of an index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage

Ranking: TypeAlias = list[list[Passage]]
"""Hits of n queries, best first."""

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


def fuse(rankings: Sequence[Ranking]) -> Ranking:
    """Fuse rankings by reciprocal ranks (Cormack et al., https://doi.org/10.1145/1571941.1572114).

    Examples
    --------
    >>> a, b, c = (Passage(name, name) for name in "abc")
    >>> [passage.id for passage in fuse([[[a, b]], [[b, c]]])[0]]
    ['b', 'a', 'c']
    """
    joined = []
    for rows in zip(*rankings, strict=True):
        passages = {passage.id: passage for row in rows for passage in row}
        gains: Counter[str] = Counter()
        for row in rows:
            for rank, passage in enumerate(row, 1):
                gains[passage.id] += 1 / (_C + rank)  # type: ignore[assignment]
        joined.append([passages[id_] for id_, _ in gains.most_common()])
    return joined
