"""Evaluate an index with labelled questions, beside plainer searches of it.

These are each encoder alone, their fusion, and what they would decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import require
from uec_rag.confidence.model import JUDGED, fit_calibrator
from uec_rag.confidence.risk import reliability
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever

Floats: TypeAlias = NDArray[np.float64]

_DEPTH = 100  # hits that are searched for an answer
_DRAWS = 2_000
_C = 60  # the constant of Cormack et al.


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes
    ----------
    facts : dict
        questions, answerable, asked_back, passages, members and k.
    systems : dict of str to dict
        Metrics of the ensemble, each member alone, and their reciprocal rank fusion: means over the
        answerable questions with a 95 % interval, as [mean, low, high].
    confidence : dict
        Of the questions that are not asked back, as are `baselines`: level (mean confidence minus
        the share of right answers) as [mean, low, high], brier, and the bins of `reliability`.
    baselines : dict of str to dict
        What plainer searches would decide, see the function `baselines`.
    ndcg : list of float
        nDCG of each answerable question, to compare two indexes.
    answers : list of str
        The questions of `ndcg`.
    """

    facts: dict[str, Any]
    systems: dict[str, dict[str, list[float]]]
    confidence: dict[str, Any]
    baselines: dict[str, dict[str, float]]
    ndcg: list[float]
    answers: list[str]


def evaluate(
    retriever: Retriever,
    labels: Mapping[str, Collection[str]],
    *,
    k: int = 10,
) -> Evaluation:
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
    result = view.search(queries, depth)
    relevant = [one.merge_copies(ids) for one, ids in zip(result, wanted, strict=True)]
    rankings = {"ensemble": result.ids}
    members = search_by_each_member(view, queries, depth)
    rankings |= {name: outcome.ids for name, outcome in members.items()}
    if members:
        rankings["reciprocal rank fusion"], _ = fuse([*members.values()], reciprocal_ranks)
    scores = {name: _metrics(ranking, relevant, k) for name, ranking in rankings.items()}
    asked = np.array([decision.action == "clarify" for decision in result.decisions])
    kept = np.flatnonzero(~asked | asked.all()).tolist()
    members = {name: SearchResult([one[at] for at in kept]) for name, one in members.items()}
    found, answers = SearchResult([result[at] for at in kept]), [relevant[at] for at in kept]
    confidence = np.array([one.confidence_at(JUDGED) for one in found], dtype=np.float64)
    right = finds(found.ids, answers, JUDGED)
    return Evaluation(
        facts={
            "questions": len(queries),
            "answerable": sum(map(bool, relevant)),
            "asked_back": int(asked.sum()),
            "passages": len(view.store),
            "members": list(view.uec.names),
            "k": k,
        },
        systems={
            name: {metric: _interval(values) for metric, values in of.items()}
            for name, of in scores.items()
        },
        confidence={
            "level": _interval(confidence - right),
            "brier": float(np.mean((confidence - right) ** 2)),
            "reliability": reliability(confidence, right),
        },
        baselines=baselines(members, found, confidence, answers),
        ndcg=scores["ensemble"][f"nDCG@{k}"].tolist(),
        answers=[query for query, ids in zip(queries, relevant, strict=True) if ids],
    )


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


def _interval(values: Floats) -> list[float]:
    """Estimate a mean and its 95 % interval by a bootstrap over the questions."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(values), size=(_DRAWS, len(values)))
    means = values[drawn].mean(axis=1)
    return [float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def compare(evaluation: Evaluation, other: Evaluation) -> dict[str, Any]:
    """Compare two evaluations on the same questions, by paired differences of nDCG.

    Returns the mean difference (`one` minus `other`) with its interval, and the number of
    questions. Raises ValueError if the questions differ.
    """
    if evaluation.answers != other.answers:
        raise ValueError(
            "against: to compare two indexes, evaluate both with the same labelled questions, and "
            "with answers in both."
        )
    difference = np.array(evaluation.ndcg) - np.array(other.ndcg)
    return {"difference": _interval(difference), "questions": len(difference)}


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
        view.uec.fitted = replace(view.uec.fitted, beta=0.0)
        members[name] = view.search(queries, k)  # by this encoder's similarity, which is then `mu`
    return members


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


def plain_scores(
    members: Mapping[str, SearchResult],
) -> dict[str, tuple[Sequence[Sequence[str]], Floats]]:
    """Return the hits of each plainer search, and its best score for each question.

    They are each member's similarity and, if there are several, rank fusion and relative scores.
    """
    scores: dict[str, tuple[Sequence[Sequence[str]], Floats]] = {
        name: (found.ids, found.mu.max(axis=1, initial=-1.0).astype(np.float64))
        for name, found in members.items()
    }
    if len(members) > 1:
        both = [*members.values()]
        scores["reciprocal rank fusion"] = fuse(both, reciprocal_ranks)
        scores["relative scores"] = fuse(both, relative_scores)
    return scores


def best_threshold(score: Floats, right: NDArray[np.bool_], absent: NDArray[np.bool_]) -> float:
    """Find the threshold of a score above which most decisions on n questions are right.

    Parameters
    ----------
    score : array, shape (n,)
    right : bool array, shape (n,)
        Whether an answer would be right.
    absent : bool array, shape (n,)
        Whether no answer is right.
    """
    thresholds: list[float] = [-np.inf, *np.unique(score).tolist()]
    return max(
        thresholds,
        key=lambda least: float(np.mean(np.where(score > least, right, absent))),
    )


def baselines(
    members: Mapping[str, SearchResult],
    result: SearchResult,
    confidence: Floats,
    relevant: Sequence[set[str]],
) -> dict[str, dict[str, float]]:
    """Measure decisions by the scores that other retrievers have.

    Parameters
    ----------
    members : mapping of str to SearchResult
        The search of n questions by each encoder's similarity alone.
    result : SearchResult
        The search by the ensemble.
    confidence : array, shape (n,)
    relevant : sequence of n sets of str
        Ids of the passages that answer each question.

    Returns
    -------
    dict of str to dict
        For each member's similarity, rank fusion, relative scores and a logistic model of the
        members' best scores, the share of right decisions (an answer with a relevant hit, or none
        if nothing is relevant), the share of wrong answers, and the AUROC of the score for the
        former hits. The threshold of each is the best one for these very labels; so is that of
        "confidence". "confidence above 0.5" has not seen a label.
    """
    scores = plain_scores(members)
    if len(members) > 1:
        ids = scores["relative scores"][0]
        features = np.stack([scores[name][1] for name in members], axis=1).astype(np.float32)
        right = finds(ids, relevant, JUDGED)
        if right.any() and not right.all():
            model = fit_calibrator(features, right)
            scores["logistic model"] = ids, model.predict(features).astype(np.float64)
    ours = result.ids, confidence
    scores["confidence"] = ours
    measured = {name: _measure(*item, relevant) for name, item in scores.items()}
    return measured | {"confidence above 0.5": _measure(*ours, relevant, threshold=0.5)}


def _measure(
    ids: Sequence[Sequence[str]],
    score: Floats,
    relevant: Sequence[set[str]],
    threshold: float | None = None,
) -> dict[str, float]:
    """Measure answers above a threshold; by default, above the best one for these labels."""
    right, absent = finds(ids, relevant, JUDGED), np.array([not wanted for wanted in relevant])
    if threshold is None:
        threshold = best_threshold(score, right, absent)
    gaps = score[right][:, None] - score[~right]
    auroc = float(np.mean((gaps > 0) + (gaps == 0) / 2)) if gaps.size else float("nan")
    decided = float(np.mean(np.where(score > threshold, right, absent)))
    wrong = float(np.mean((score > threshold) & ~right))
    return {"right": decided, "wrong": wrong, "auroc": auroc}
