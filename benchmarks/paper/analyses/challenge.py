"""Queries that every member misses and UEC answers, and the other way round (paper figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.analyses.base import Result, searched, subset
from benchmarks.paper.data import Collection
from benchmarks.paper.plan import Group
from benchmarks.paper.results import Json, markdown
from benchmarks.paper.systems import Ensemble, System
from benchmarks.paper.systems.baselines import Relevance

_HITS = 10  # as nDCG@10 and Recall@10 see it
_LONGEST = 300  # characters of a text that are shown


@dataclass(frozen=True)
class Case:
    """A query and the best rank, from 1, of a passage that answers it.

    Attributes
    ----------
    collection, query, passage : str
    members : list of int
    uec : int
    """

    collection: str
    query: str
    passage: str
    members: list[int]
    uec: int


def run(groups: Sequence[Group]) -> Json:
    """Look at every query of the subset's collections."""
    group = subset(groups)
    uec = Ensemble("UEC", "UEC", group.lineup.fitted())
    systems: list[System] = [*group.lineup.members(), uec]
    cases = [case for collection in searched(group) for case in _cases(collection, systems)]
    won = [case for case in cases if case.uec <= _HITS < min(case.members)]
    lost = [case for case in cases if max(case.members) <= _HITS < case.uec]
    best = max(won, key=lambda case: min(case.members) - case.uec, default=None)
    return {
        "encoders": [encoder.name for encoder in group.lineup.encoders],
        "queries": len(cases),
        "won": len(won),
        "lost": len(lost),
        "missed_by_members": sum(min(case.members) > _HITS for case in cases),
        "case": None if best is None else asdict(best),
    }


def section(result: Result, path: Path) -> Iterator[str]:
    """Write the counts, and the clearest case where there is one."""
    yield (
        f"Of {result['queries']} queries {result['missed_by_members']} have no answer among any "
        f"member's first {_HITS}; UEC finds one for {result['won']} of them. For {result['lost']} "
        f"queries all members have an answer among their first {_HITS} and UEC has none (paper "
        "figure 5 shows one case of the first kind)."
    )
    case = result["case"]
    if case is None:
        yield "There is no case of the first kind."
        return
    yield f"The clearest, of {case['collection']}:"
    ranks = [str(rank) for rank in (*case["members"], case["uec"])]
    yield markdown(
        ["query", "passage", *(f"rank by {name}" for name in result["encoders"]), "rank by UEC"],
        [[_shown(case["query"]), _shown(case["passage"]), *ranks]],
    )


def _shown(text: str) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def _cases(collection: Collection, systems: Sequence[System]) -> list[Case]:
    queries, texts = list(collection.queries.values()), list(collection.passages.values())
    relevance = Relevance.of_collection(collection)
    ranks = [_best(relevance, relevance.ranks(s.similarities(queries, texts))) for s in systems]
    (*members, uec), answers = [rank for rank, _ in ranks], ranks[-1][1]
    return [
        Case(
            collection.name,
            query,
            texts[int(answers[row])],
            [int(member[row]) for member in members],
            int(uec[row]),
        )
        for row, query in enumerate(queries)
    ]


def _best(
    relevance: Relevance, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Best rank of an answer, from 1, and which passage that is, of each query."""
    order = np.lexsort((ranks, relevance.query))
    first = np.searchsorted(relevance.query[order], np.arange(relevance.queries))
    chosen = order[first]
    return ranks[chosen] + 1, relevance.passage[chosen]
