"""Evaluate an index with labelled questions, or with questions made from its passages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.environment import require
from uec_rag.confidence.model import JUDGED
from uec_rag.confidence.risk import reliability, risk_over_coverage, risk_threshold
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble.known_vectors import with_caches
from uec_rag.evaluation.labels import doubtful_labels
from uec_rag.evaluation.simpler import (
    Floats,
    baselines,
    finds,
    fuse,
    reciprocal_ranks,
    search_by_each_member,
    search_by_member,
)
from uec_rag.retrieval.labelled import (
    confidence_at,
    questions_from_passages,
)
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever

RISKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
_DEPTH = 100  # hits that are searched for an answer
_DRAWS = 2_000


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes
    ----------
    facts : dict
        questions, answerable, asked_back, made_up, passages, members, compared and k.
    systems : dict of str to dict
        Metrics of the ensemble, each member alone, and their reciprocal rank fusion: means over the
        answerable questions with a 95 % interval, as [mean, low, high].
    confidence : dict
        Of the questions that are not asked back, as are `risks`: level (mean confidence minus the
        share of right answers) as [mean, low, high], brier, and the bins of `reliability`.
    risks : list of dict
        For each risk, the share of questions answered by a gate with its guarantee, and by the best
        thresholds of confidence and of the best member's similarity on these questions.
    baselines : dict of str to dict
        What plainer searches would decide, see `uec_rag.evaluation.simpler`.
    ndcg : list of float
        nDCG of each answerable question, to compare two indexes.
    answers : list of str
        The questions of `ndcg`.
    doubtful : list of str
        What `doubtful_labels` says of the labels.
    """

    facts: dict[str, Any]
    systems: dict[str, dict[str, list[float]]]
    confidence: dict[str, Any]
    risks: list[dict[str, Any]]
    baselines: dict[str, dict[str, float]]
    ndcg: list[float]
    answers: list[str]
    doubtful: list[str]


def evaluate(
    retriever: Retriever,
    labels: Mapping[str, Collection[str]] | None = None,
    *,
    k: int = 10,
) -> Evaluation:
    """Evaluate an index.

    Confidence is in the first `JUDGED` hits, as in a search, whatever k is.

    Parameters
    ----------
    retriever : Retriever
        The retriever, which is not changed, nor is its store.
    labels : mapping of str to collection of str, optional
        Maps each question to the ids of the passages that answer it, which may be none. By default,
        questions are made from the passages, which are harder than those of users.
    k : int
        Number of hits that the ranking is measured on.

    Raises
    ------
    ValueError
        If there are no questions, none is answerable, or too few can be made from the passages.
    ImportError
        If ir-measures is not installed.
    """
    require("serve", "ir-measures")
    view = retriever.with_gate(None)
    if labels is None:
        queries, relevant, view = questions_from_passages(view)
    else:
        queries, relevant = list(labels), [set(ids) for ids in labels.values()]
    if not queries or not any(relevant):
        raise ValueError(
            f"questions: expected some with an answer in the index, got {len(queries)} questions, "
            f"{sum(map(bool, relevant))} with relevant_ids."
        )
    view.uec, depth = with_caches(view.uec), max(k, _DEPTH)
    result = view.search(queries, depth)
    relevant = [one.merge_copies(ids) for one, ids in zip(result, relevant, strict=True)]
    rankings = {"ensemble": result.ids}
    members = search_by_each_member(view, queries, depth)
    rankings |= {name: outcome.ids for name, outcome in members.items()}
    if members:
        rankings["reciprocal rank fusion"], _ = fuse([*members.values()], reciprocal_ranks)
    scores = {name: _metrics(ranking, relevant, k) for name, ranking in rankings.items()}
    best = _best_member(view, scores)
    members = members or {best: search_by_member(view, best, queries, JUDGED)}
    asked = np.array([decision.action == "clarify" for decision in result.decisions])
    kept = np.flatnonzero(~asked | asked.all()).tolist()
    members = {name: _rows(one, kept) for name, one in members.items()}
    found, wanted = _rows(result, kept), [relevant[row] for row in kept]
    confidence, right = confidence_at(found, JUDGED), finds(found.ids, wanted, JUDGED)
    return Evaluation(
        facts={
            "questions": len(queries),
            "answerable": sum(map(bool, relevant)),
            "asked_back": int(asked.sum()),
            "made_up": labels is None,
            "passages": len(view.store),
            "members": list(view.uec.names),
            "compared": best,
            "k": k,
        },
        systems={
            name: {metric: _interval(values) for metric, values in of.items()}
            for name, of in scores.items()
        },
        confidence={
            "level": _interval(confidence - right),
            "brier": float(np.mean((confidence - right) ** 2)),
            "reliability": [asdict(bin_) for bin_ in reliability(confidence, right)],
        },
        risks=_coverage_by_risk(confidence, right, members[best], wanted),
        baselines=baselines(members, found, confidence, wanted),
        ndcg=scores["ensemble"][f"nDCG@{k}"].tolist(),
        answers=[query for query, ids in zip(queries, relevant, strict=True) if ids],
        doubtful=[] if labels is None else doubtful_labels(result, relevant),
    )


def _rows(result: SearchResult, rows: Sequence[int]) -> SearchResult:
    return SearchResult([result[row] for row in rows])


def _metrics(
    ranking: Sequence[Sequence[str]], relevant: Sequence[set[str]], k: int
) -> dict[str, Floats]:
    """Compute recall, nDCG and reciprocal rank of each answerable question with ir-measures."""
    import ir_measures

    named = {f"Recall@{k}": ir_measures.R @ k, f"nDCG@{k}": ir_measures.nDCG @ k}
    named[f"MRR@{k}"] = ir_measures.RR @ k
    qrels = {str(row): dict.fromkeys(ids, 1) for row, ids in enumerate(relevant) if ids}
    run = {
        str(row): {id_: -float(rank) for rank, id_ in enumerate(hits)}
        for row, hits in enumerate(ranking)
    }
    values = {metric: dict.fromkeys(qrels, 0.0) for metric in named.values()}
    for result in ir_measures.iter_calc([*named.values()], qrels, run):
        values[result.measure][result.query_id] = result.value
    return {name: np.array([*values[metric].values()]) for name, metric in named.items()}


def _best_member(view: Retriever, scores: Mapping[str, Mapping[str, Floats]]) -> str:
    """Find the best dense member, or the best of all if none is, as a baseline."""
    named = zip(view.uec.names, view.uec.encoders, strict=True)
    dense = [name for name, encoder in named if not isinstance(encoder, TermEncoder)]
    names = dense or list(view.uec.names)
    return max(names, key=lambda name: float(np.mean([*scores.get(name, {"": [0.0]}).values()])))


def _interval(values: Floats) -> list[float]:
    """Estimate a mean and its 95 % interval by a bootstrap over the questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(values), size=(_DRAWS, len(values)))
    means = values[drawn].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def _coverage_by_risk(
    confidence: Floats,
    right: NDArray[np.bool_],
    similar: SearchResult,
    relevant: Sequence[set[str]],
) -> list[dict[str, Any]]:
    """Compute the share answered at each risk, by a gate and by the best thresholds."""
    cosine = similar.mu.max(axis=1, initial=-np.inf).astype(np.float64)
    of_cosine = finds(similar.ids, relevant, JUDGED)
    gates = {risk: risk_threshold(confidence, right, risk, 0.05) for risk in RISKS}
    return [
        {
            "risk": risk,
            "gate": gate.answered / gate.queries,
            "threshold": gate.threshold if gate.is_controlled else None,
            "confidence": _coverage(confidence, right, risk),
            "similarity": _coverage(cosine, of_cosine, risk),
        }
        for risk, gate in gates.items()
    ]


def _coverage(score: Floats, right: NDArray[np.bool_], risk: float) -> float:
    """Find the largest share of these questions that a threshold answers within the risk."""
    coverage, wrong = risk_over_coverage(score, right)
    last = np.append(np.diff(-np.sort(-score)) < 0, True)  # the last of equal scores
    within = np.flatnonzero((wrong <= risk) & last)
    return float(coverage[within[-1]]) if len(within) else 0.0


def compare(evaluation: Evaluation, other: Evaluation) -> dict[str, Any]:
    """Compare two evaluations on the same questions, by paired differences of nDCG.

    Returns the mean difference (`one` minus `other`) with its interval, and the number of
    questions. Raises ValueError if the questions differ.
    """
    if evaluation.answers != other.answers or evaluation.facts["made_up"]:
        raise ValueError(
            "against: to compare two indexes, evaluate both with the same labelled questions, and "
            "with answers in both."
        )
    difference = np.array(evaluation.ndcg) - np.array(other.ndcg)
    return {"difference": _interval(difference), "questions": len(difference)}
