"""Decisions by plainer scores, with thresholds chosen on the same labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from uec_rag.confidence.model import JUDGED, fit_calibrator
from uec_rag.evaluation.inspection import Floats, finds, fuse, reciprocal_ranks, relative_scores
from uec_rag.retrieval.result import SearchResult

Scored: TypeAlias = tuple[list[list[str]], Floats]
"""The ids of the hits of n questions, and the score of each question."""


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
    scores = {name: (outcome.ids, _best(outcome)) for name, outcome in members.items()}
    if len(members) > 1:
        both = [*members.values()]
        scores["reciprocal rank fusion"] = fuse(both, reciprocal_ranks)
        scores["relative scores"] = ids, _ = fuse(both, relative_scores)
        features = np.stack([*map(_best, both)], axis=1).astype(np.float32)
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

    def share(least: float) -> float:
        return float(np.mean(np.where(score > least, right, absent)))

    if threshold is None:
        threshold = max([-np.inf, *np.unique(score).tolist()], key=share)
    gaps = score[right][:, None] - score[~right]
    auroc = float(np.mean((gaps > 0) + (gaps == 0) / 2)) if gaps.size else float("nan")
    wrong = float(np.mean((score > threshold) & ~right))
    return {"right": share(threshold), "wrong": wrong, "auroc": auroc}
