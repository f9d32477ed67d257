"""Simpler searches of an index: each encoder alone, their fusion, and what they would decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.confidence.model import JUDGED, fit_calibrator
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


def plain_scores(
    members: Mapping[str, SearchResult],
) -> dict[str, tuple[Sequence[Sequence[str]], Floats]]:
    """Return the hits of each plainer search, and its best score for each question.

    They are each member's similarity and, if there are several, rank fusion and relative scores.
    """
    scores: dict[str, tuple[Sequence[Sequence[str]], Floats]] = {
        name: (found.ids, _best(found)) for name, found in members.items()
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


def _best(result: SearchResult) -> Floats:
    best: Floats = result.mu.max(axis=1, initial=-1.0).astype(np.float64)
    return best


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
