"""Evaluate an index with labelled questions, beside each encoder alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import require
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.risk import reliability
from uec_rag.retrieval.hits import SearchResult
from uec_rag.retrieval.retriever import Retriever

Floats: TypeAlias = NDArray[np.float64]

_DEPTH = 100  # hits that are searched for an answer
_DRAWS = 2_000


def evaluate(
    retriever: Retriever, labels: Mapping[str, Collection[str]], *, k: int = 10
) -> dict[str, Any]:
    """Evaluate an index.

    Confidence is in the first `JUDGED` hits, as in a search, whatever k is.

    Parameters
    ----------
    retriever : Retriever
        The retriever, which is not changed, nor is its store.
    labels : mapping of str to collection of str
        Maps each question to the ids of the passages that answer it, which may be none.
    k : int
        Number of hits that the ranking is measured on.

    Returns
    -------
    dict
        "facts": questions, answerable, asked_back, passages, members and k. "systems": the metrics
        of the ensemble and of each member alone: means over the answerable questions with a 95 %
        interval, as [mean, low, high]. "confidence", of the
        questions that are not asked back: level (mean confidence minus the share of right answers)
        as [mean, low, high], brier, and the bins of `reliability`.

    Raises
    ------
    ValueError
        If there are no questions, or none is answerable.
    ImportError
        If ir-measures is not installed.
    """
    require("serve", "ir-measures")
    view = retriever.with_gate(None)
    queries, wanted = list(labels), [set(ids) for ids in labels.values()]
    if not any(wanted):
        raise ValueError(
            f"questions: expected some with an answer in the index, got {len(queries)} questions, "
            "0 with relevant_ids."
        )
    view.uec, depth = view.uec.with_cache(), max(k, _DEPTH)
    results = view.search(queries, depth)
    relevant = [result.merge_copies(ids) for result, ids in zip(results, wanted, strict=True)]
    members = search_by_each_member(view, queries, depth)
    rankings = {"ensemble": results.ids} | {name: member.ids for name, member in members.items()}
    asked = np.array([decision.action == "clarify" for decision in results.decisions])
    kept = ~asked | asked.all()
    sure = results.confidence.astype(np.float64)[kept]
    pairs = zip(results, wanted, strict=True)
    right = np.array([any(result.finds(ids)[:JUDGED]) for result, ids in pairs])[kept]
    return {
        "facts": {
            "questions": len(queries),
            "answerable": sum(map(bool, relevant)),
            "asked_back": int(asked.sum()),
            "passages": len(view.store),
            "members": list(view.uec.names),
            "k": k,
        },
        "systems": {name: _metrics(ranking, relevant, k) for name, ranking in rankings.items()},
        "confidence": {
            "level": _interval(sure - right),
            "brier": float(np.mean((sure - right) ** 2)),
            "reliability": reliability(sure, right),
        },
    }


def _metrics(
    ranking: Sequence[Sequence[str]], relevant: Sequence[set[str]], k: int
) -> dict[str, list[float]]:
    """Compute recall, nDCG and reciprocal rank of the answerable questions with ir-measures."""
    import ir_measures

    measures = [ir_measures.R @ k, ir_measures.nDCG @ k, ir_measures.RR @ k]
    qrels = {str(row): dict.fromkeys(ids, 1) for row, ids in enumerate(relevant) if ids}
    run = {
        str(row): {id_: -float(rank) for rank, id_ in enumerate(hits)}
        for row, hits in enumerate(ranking)
    }
    values = {str(measure): dict.fromkeys(qrels, 0.0) for measure in measures}
    for result in ir_measures.iter_calc(measures, qrels, run):
        values[str(result.measure)][result.query_id] = result.value
    return {name: _interval(np.array([*each.values()])) for name, each in values.items()}


def _interval(values: Floats) -> list[float]:
    """Estimate a mean and its 95 % interval by a bootstrap over the questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(values), size=(_DRAWS, len(values)))
    means = values[drawn].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def search_by_each_member(
    retriever: Retriever, queries: Sequence[str], k: int
) -> dict[str, SearchResult]:
    """Search by each encoder's similarity alone.

    Returns
    -------
    dict of str to SearchResult
        Searches by the encoder's name; empty if there is a single block of vectors.
    """
    names, members = retriever.uec.names, dict[str, SearchResult]()
    for name in names if len(retriever.uec.fitted.block_names) > 1 else ():
        view = retriever.with_weights({other: float(other == name) for other in names})
        view.uec.fitted = replace(
            view.uec.fitted, options=replace(view.uec.fitted.options, beta=0.0)
        )
        members[name] = view.search(queries, k)  # by this encoder's similarity, which is then `mu`
    return members
