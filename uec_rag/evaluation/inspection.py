"""Inspection of an index: uncertain passages, disagreeing encoders, hits of plainer searches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import TypeAlias

import numpy as np

from uec_rag.base.checks import visible
from uec_rag.base.gaussian import Gaussian
from uec_rag.corpora.questions import make_questions
from uec_rag.encoders.lexical import writings
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage

_BATCH, _CHUNK = 32, 256  # queries and passages between two reports of progress
_DEPTH = 10  # hits of a question
_MOST_PASSAGES = 5_000  # whose variance is looked at
_PROBES = 150  # questions made from the passages, to see what comes up for everything
_LOOKED_AT = 64  # passages that tell in what a corpus is written
_BEGINNING = 2_000  # characters of a passage that are encoded to look at it


@dataclass(frozen=True, eq=False)
class Probe:
    """A question, and what a search found for it.

    Attributes
    ----------
    question : str
    sigma : float
        Standard deviation of the first hit's similarity; 0 without a hit.
    disagreement : float
        As `uec_rag.evaluation.inspection.disagreement` has it; 0 of a single encoder.
    firsts : dict of str to Passage
        The first hit of each encoder alone.
    """

    question: str
    sigma: float
    disagreement: float
    firsts: dict[str, Passage]


@dataclass(frozen=True, eq=False)
class Inspection:
    """The findings of an inspection of an index.

    Attributes
    ----------
    variances : list of (Passage, float)
        Passages and the sum of their variances over dimensions, the highest first.
    probes : list of Probe
    hubs : list of (Passage, int)
        How many of the questions each passage comes up for, beside those made from it; the most
        first.
    fair : float
        For how many a passage would come up were all alike.
    """

    variances: list[tuple[Passage, float]]
    probes: list[Probe]
    hubs: list[tuple[Passage, int]]
    fair: float


def inspect(
    retriever: Retriever,
    asked: Sequence[str] = (),
    *,
    listed: int = 15,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Inspection:
    """Look at an index's passages, and ask it questions that can be made from them.

    Parameters
    ----------
    retriever : Retriever
    asked : sequence of str
        Questions to try as well.
    listed : int
        How many passages come back as `hubs`.
    progress : callable
        Called as `progress(stage, done, total)`.
    """
    passages = [*islice(retriever.passages(), _MOST_PASSAGES)]
    variances: list[float] = []
    for start in range(0, len(passages), _CHUNK):
        progress("Reading variances", start, len(passages))
        ids = [passage.id for passage in passages[start : start + _CHUNK]]
        variances += retriever.vectors(ids).trace.tolist()
    made = make_questions(passages, _PROBES)
    places = dict(zip(made.questions, made.relevant, strict=True))
    queries = [*dict.fromkeys([*asked, *made.questions])]
    times: Counter[str] = Counter()
    probes: list[Probe] = []
    for start in range(0, len(queries), _BATCH):
        progress("Asking questions", start, len(queries))
        some = queries[start : start + _BATCH]
        parts = retriever.uec.encode(some, "query")
        result = retriever.search_encoded(some, parts, _DEPTH)
        alone = members_alone(retriever, some, parts, _DEPTH)
        shares = disagreement(alone) if alone else [0.0] * len(some)
        for row, query in enumerate(some):
            # What a question was made from is no surprise.
            expected = {passages[place].id for place in places.get(query, ())}
            times.update(id_ for id_ in result.ids[row] if id_ not in expected)
            firsts = {name: found[row][0] for name, found in alone.items() if found[row]}
            sigma = math.sqrt(result.sigma2[row, 0]) if result.ids[row] else 0.0
            probes.append(Probe(query, sigma, shares[row], firsts))
    hubs = retriever.get([id_ for id_, _ in times.most_common(listed)])
    return Inspection(
        sorted(zip(passages, variances, strict=True), key=lambda one: one[1], reverse=True),
        probes,
        [(passage, times[passage.id]) for passage in hubs],
        _DEPTH * len(queries) / max(len(retriever), 1),
    )


def neighbours(retriever: Retriever, id_: str, k: int = 10) -> dict[str, list[Passage]]:
    """Find the passages nearest to a passage: by the ensemble, as "", and by each encoder alone.

    Raises KeyError if it is not there.
    """
    passage = next(iter(retriever.get([id_])), None)
    if passage is None:
        raise KeyError(
            f"id: {visible(id_)[:100]!r} is not in the index; ids are shown beside hits."
        )
    query = [passage.text[:_BEGINNING]]
    parts = retriever.uec.encode(query, "query")
    together = retriever.search_encoded(query, parts, k + 1).passages
    alone = members_alone(retriever, query, parts, k + 1)
    return {
        name: [near for near in found[0] if near.id != id_][:k]
        for name, found in {"": together, **alone}.items()
    }


def writing(retriever: Retriever) -> dict[str, object]:
    """Find the writing of an index's first passages, and whether its encoders know it.

    Returns its languages (letters or languages, the most frequent first), those that its ensemble
    was fitted_on, if they are known, and strange: which encoders cannot tell the passages apart
    because of it, None if all can.
    """
    uec, training_profile, strange = retriever.uec, retriever.uec.fitted.training_profile, None
    texts = [passage.text for passage in islice(retriever.passages(), _LOOKED_AT)]
    if texts and training_profile is not None:
        parts = uec.encode([text[:_BEGINNING] for text in texts], "passage")
        strange = uec.fitted.foreign_corpus(texts, [part.mean for part in parts])
    known = () if training_profile is None else training_profile.writings
    return {"languages": writings(texts), "fitted_on": known, "strange": strange}


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
    """Search by one encoder's similarity, which is then `mu`, whatever a verifier says."""
    view = retriever.counting({other: float(other == name) for other in retriever.uec.names})
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
