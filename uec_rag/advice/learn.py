"""Learning, without labels, how far to trust an advisor's probabilities."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.advice.ask import Advisor, ask_advisor
from uec_rag.advice.decision_models import Case
from uec_rag.advice.opinion import OpinionModel, odds_of
from uec_rag.base.loops import run_to_end

FEWEST = 20
"""The smallest number of questions to learn from."""

_SAID = 4  # bytes of a request for a token, about
_log = logging.getLogger("uec_rag")


@dataclass(frozen=True)
class OwnCase:
    """A question made of an index's passages, with what was found for it.

    Attributes
    ----------
    case : Case
    confidence : float
    is_answered : bool
        Whether a passage that answers it is among what was found.
    """

    case: Case
    confidence: float
    is_answered: bool


def fit_opinion(
    model: OpinionModel, advisor: Advisor, own: Sequence[OwnCase], timeout: float
) -> OpinionModel:
    """Learn how confidence and an advisor's probability become one, as `Gate.fit_from` says.

    `model`: its other weights are kept.
    """
    cases = [one.case for one in own]
    _log.warning(
        "uec_rag: asking the advisor %s times about %s questions made of the passages: about %s "
        "tokens, once.",
        len(cases),
        len(cases) // 2,
        f"{sum(case.size for case in cases) // _SAID:,}",
    )
    opinions = run_to_end(ask_advisor(advisor, cases, timeout))
    pairs = [
        (one, said.contains)
        for one, said in zip(own, opinions, strict=True)
        if said.contains is not None and not said.verdict
    ]
    truth = np.array([one.is_answered for one, _ in pairs], dtype=bool)
    if min(truth.sum(), (~truth).sum()) < FEWEST:
        failures = [said.failure for said in opinions if said.failure]
        raise ValueError(
            f"advisor: expected probabilities for {FEWEST} questions with and without their answer "
            f"or more, got them for {len(pairs)} of {len(cases)}"
            + (f" (most recently: {failures[-1]})" if failures else "")
            + ". Pass a decision model, or a function that returns a number from 0 to 1."
        )
    sure = np.array([one.confidence for one, _ in pairs])
    heard = np.array([odds_of(contains) for _, contains in pairs])
    made = model.fit(heard, truth)
    scores = {"before": sure, "after": made.log_odds(sure, heard)}
    told = {name: round(auroc(score, truth), 4) for name, score in scores.items()}
    return replace(made, questions=len(pairs) // 2, **told)


def auroc(score: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Compute the area under the ROC curve: P(a positive one has the higher score).

    Examples
    --------
    >>> auroc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    from scipy.stats import mannwhitneyu

    count = float(positive.sum() * (~positive).sum())
    return float(mannwhitneyu(score[positive], score[~positive]).statistic) / count
