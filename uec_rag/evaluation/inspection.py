"""Inspect an index: uncertain passages, disagreeing encoders, hits of simpler searches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from uec_rag.base.checks import visible
from uec_rag.base.gaussian import Gaussian
from uec_rag.corpora.questions import make_questions
from uec_rag.encoders.lexical import writings
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage

_BATCH, _CHUNK = 32, 256  # queries and passages between two calls of `progress`
_DEPTH = 10  # hits of a question
_MOST_PASSAGES = 5_000  # passages whose variance is read
_PROBES = 150  # questions made from the passages, to find hubs
_SAMPLE = 64  # passages from which the languages of a corpus are determined
_BEGINNING = 2_000  # characters of a passage that are encoded


@dataclass(frozen=True, eq=False)
class Probe:
    """A question with results of its search.

    Attributes
    ----------
    question : str
    sigma : float
        Standard deviation of the first hit's similarity; 0 without a hit.
    disagreement : float
        See `uec_rag.evaluation.inspection.disagreement`; 0 for a single encoder.
    firsts : dict of str to Passage
        The first hit of each encoder alone.
    """

    question: str
    sigma: float
    disagreement: float
    firsts: dict[str, Passage]


@dataclass(frozen=True, eq=False)
class Inspection:
    """The results of an inspection.

    Attributes
    ----------
    variances : list of (Passage, float)
        Passages with their total variance, highest first.
    probes : list of Probe
    hubs : list of (Passage, int)
        Passages with the number of questions that they are hits of, except those made from them;
        highest first.
    fair : float
        The number of questions per passage if hits were evenly distributed.
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
    """Inspect the passages of an index, and search for questions made from them.

    Parameters
    ----------
    retriever : Retriever
    asked : sequence of str
        Further questions to search for.
    listed : int
        Number of passages to return as `hubs`.
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
        batch = queries[start : start + _BATCH]
        parts = retriever.uec.encode(batch, "query")
        result = retriever.search_encoded(batch, parts, _DEPTH)
        alone = search_by_each_member(retriever, batch, parts, _DEPTH)
        shares = disagreement(alone) if alone else [0.0] * len(batch)
        for row, query in enumerate(batch):
            # The passages that a question was made from do not count.
            expected = {passages[place].id for place in places.get(query, ())}
            times.update(id_ for id_ in result.ids[row] if id_ not in expected)
            firsts = {name: found[row][0] for name, found in alone.items() if found[row]}
            sigma = math.sqrt(result.sigma2[row, 0]) if result.ids[row] else 0.0
            probes.append(Probe(query, sigma, shares[row], firsts))
    hubs = retriever.get([id_ for id_, _ in times.most_common(listed)])
    return Inspection(
        sorted(zip(passages, variances, strict=True), key=itemgetter(1), reverse=True),
        probes,
        [(passage, times[passage.id]) for passage in hubs],
        _DEPTH * len(queries) / max(len(retriever), 1),
    )


def neighbours(retriever: Retriever, id_: str, k: int = 10) -> dict[str, list[Passage]]:
    """Find the nearest passages to a passage, for the ensemble (under "") and each encoder alone.

    Raises KeyError if the passage does not exist.
    """
    query = [passage_at(retriever, id_).text[:_BEGINNING]]
    parts = retriever.uec.encode(query, "query")
    together = retriever.search_encoded(query, parts, k + 1).passages
    alone = search_by_each_member(retriever, query, parts, k + 1)
    return {
        name: [near for near in found[0] if near.id != id_][:k]
        for name, found in {"": together, **alone}.items()
    }


def passage_at(retriever: Retriever, id_: str) -> Passage:
    """Return the passage with an id; KeyError if there is none."""
    for passage in retriever.get([id_]):
        return passage
    raise KeyError(
        f"id: {visible(id_)[:100]!r} is not in the index (any more); ids are shown with hits."
    )


def describe_languages(retriever: Retriever) -> dict[str, object]:
    """Determine the scripts or languages of an index's first passages, and whether they are known.

    Returns a mapping of "languages" (most frequent first), "fitted_on" (those of the fit, empty if
    unknown), and "strange" (a note on encoders that cannot distinguish these passages; None if all
    can).
    """
    uec, training_profile, strange = retriever.uec, retriever.uec.fitted.training_profile, None
    texts = [passage.text for passage in islice(retriever.passages(), _SAMPLE)]
    if texts and training_profile is not None:
        parts = uec.encode([text[:_BEGINNING] for text in texts], "passage")
        strange = uec.fitted.foreign_corpus(texts, [part.mean for part in parts])
    known = () if training_profile is None else training_profile.writings
    return {"languages": writings(texts), "fitted_on": known, "strange": strange}


Ranking: TypeAlias = list[list[Passage]]
"""Hits of n queries, best first."""

_C = 60  # the constant of Cormack et al.
_COMPARED = 10  # first hits whose overlap is measured


def search_by_each_member(
    retriever: Retriever, queries: Sequence[str], parts: Sequence[Gaussian], k: int
) -> dict[str, Ranking]:
    """Search by each encoder's similarity alone.

    Parameters
    ----------
    parts : sequence of K Gaussian
        Gaussians of the queries from each encoder, as `UEC.encode` returns them.

    Returns
    -------
    dict of str to Ranking
        Rankings by the encoder's name; empty for a single encoder, and in the shared space, which
        does not keep them apart.
    """
    names = retriever.uec.names
    if len(names) < 2 or retriever.uec.space == "shared":
        return {}
    return {name: search_by_member(retriever, name, queries, parts, k).passages for name in names}


def search_by_member(
    retriever: Retriever, name: str, queries: Sequence[str], parts: Sequence[Gaussian], k: int
) -> SearchResult:
    """Search by one encoder's similarity, which is then `mu`."""
    view = retriever.counting({other: float(other == name) for other in retriever.uec.names})
    view.uec.fitted = replace(view.uec.fitted, beta=0.0)
    return view.search_encoded(queries, parts, k)


def fused(rankings: Sequence[Ranking]) -> Ranking:
    """Fuse rankings by reciprocal ranks (Cormack et al., https://doi.org/10.1145/1571941.1572114).

    Examples
    --------
    >>> a, b, c = (Passage(name, name) for name in "abc")
    >>> [passage.id for passage in fused([[[a, b]], [[b, c]]])[0]]
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


def disagreement(rankings: Mapping[str, Ranking]) -> list[float]:
    """Measure for each query to what extent encoders find different passages, from 0 to 1.

    This is 1 minus the mean overlap (intersection over union) of the first ten hits of any two.
    """
    shares = []
    for rows in zip(*rankings.values(), strict=True):
        first = [{passage.id for passage in row[:_COMPARED]} for row in rows]
        overlaps = [len(a & b) / max(len(a | b), 1) for a, b in combinations(first, 2)]
        shares.append(1 - float(np.mean(overlaps)))
    return shares
