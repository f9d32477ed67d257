"""When to answer: the lowest confidence at which the risk stays below a target, guaranteed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.records import Record

_STARTS = (1 / 8, 1 / 4, 1 / 2, 1)
# Shares of delta. A third is for answering everything: 80 right of 80 show 5 % at 95 % certainty.
_SHARES = (2 / 9, 2 / 9, 2 / 9, 1 / 3)
_SMALLEST = 1e-5  # share to show, with ever so many queries
_AROUND = (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class RiskThreshold(Record):
    """A confidence to answer above, and what it was learned from.

    Attributes
    ----------
    threshold : float
        Answer where confidence is above it; infinity: never.
    risk, delta : float
        With probability 1 - delta, at most a share `risk` of the answered queries is wrong. The
        probability is over all draws of calibration queries, before it is known whether these
        abstain on everything.
    queries : int
        Calibration queries.
    answered, wrong : int
        How many of them are above the threshold, and how many of those are wrong.
    needed : int
        The least number of calibration queries, all right, of which all could be answered.
    """

    threshold: float
    risk: float
    delta: float
    queries: int
    answered: int
    wrong: int
    needed: int

    @property
    def is_controlled(self) -> bool:
        """Whether any query is answered."""
        return math.isfinite(self.threshold)

    @property
    def report(self) -> str:
        """What was found, in plain words."""
        target = f"at most {self.risk:.1%} wrong answers with {1 - self.delta:.0%} certainty"
        if self.is_controlled:
            return (
                f"Answering above confidence {self.threshold:.3f}: {target}. Of {self.queries} "
                f"calibration queries {self.answered} are answered, {self.wrong} of them wrongly. "
                "The certainty is over all draws of calibration queries, those that would have led "
                "to abstaining among them."
            )
        if self.queries < self.needed:
            return (
                f"Abstaining on every query: {target} takes at least {self.needed} calibration "
                f"queries, got {self.queries}. Give more, or allow a higher risk."
            )
        return (
            f"Abstaining on every query: no threshold shows {target} on {self.queries} "
            "calibration queries. Give more queries, allow a higher risk, or improve retrieval."
        )

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving; a threshold of infinity as None."""
        return super().metadata() | {"threshold": self.threshold if self.is_controlled else None}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        never = metadata.get("threshold", 0.0) is None
        found = super().restore({**metadata, "threshold": 0.0} if never else metadata)
        return replace(found, threshold=math.inf) if never else found


def queries_needed(risk: float, delta: float) -> int:
    """Fewest calibration queries, all right, of which all may be answered.

    Examples
    --------
    >>> queries_needed(risk=0.05, delta=0.05)
    80
    """
    _check_share("risk", risk)
    _check_share("delta", delta)
    # (1 - risk)^n <= delta / 3 from here on, at the earliest: the next batch may ask for more.
    start = max(1, math.floor(math.log(delta * _SHARES[-1]) / math.log1p(-risk)))
    while True:
        count = np.arange(start, 2 * start + math.ceil(2 / risk))
        passed = _p_value(np.zeros_like(count), count, risk) <= delta * _SHARES[-1]
        if passed.any():
            return int(count[np.argmax(passed)])
        start += len(count)


def risk_threshold(
    confidence: ArrayLike, correct: ArrayLike, risk: float = 0.05, delta: float = 0.05
) -> RiskThreshold:
    """Lowest confidence threshold at which wrong answers stay below a target.

    Learn then Test (Angelopoulos et al., https://arxiv.org/abs/2110.01052) with fixed sequences of
    several starts: thresholds are tried downwards, each with the exact p-value of "more than `risk`
    of the answered are wrong", until one cannot be rejected. Sequences start where an eighth, a
    quarter, half and all of the queries are answered and share delta between them; one that gets
    through to the start of the next leaves its share to it. So neither one wrong answer given with
    confidence nor few queries end the search at once, and since nothing but the p-values depends on
    `risk`, more allowed risk never answers fewer.

    The claim is made of the risk itself, and of the share that turns out wrong among the next
    answered queries, if they are as many as these.

    Parameters
    ----------
    confidence : array_like, shape (n,)
        Of calibration queries, drawn as the queries to come are.
    correct : array_like of bool, shape (n,)
        Whether each one is answered by its hits.
    risk : float
        Highest share of wrong ones among the answered, in (0, 1).
    delta : float
        Probability with which the guarantee may fail, in (0, 1): over all sets of calibration
        queries, those that lead to abstaining on everything among them.

    Raises
    ------
    ValueError
        If a target is outside (0, 1) or below 1e-5, the two differ in length, are empty, or a
        confidence is not a number.

    Notes
    -----
    A threshold is a calibration query's confidence, and a query answers only strictly above it:
    given that confidence, the queries above are an independent sample of the answered ones. The
    guarantee takes it that the risk does not fall as the threshold is lowered, that is, that
    confidence means something. Ties are safe, and any increasing transformation of the confidence
    leaves the decisions as they are.

    Simulated by `benchmarks/quality/gate.py` (logistic confidence of three accuracies and two
    strengths, 100 to 1,000 queries), at risk .05, .1 and .2: .14, .44 and .73 of what an oracle
    answers, the target exceeded in at most 2 % of the draws. Betting (Waudby-Smith and Ramdas) in
    place of the exact tail answers .06, .29 and .59. One start at a quarter answers more where
    confidence is that regular, .23, .48 and .78 (exceeded: up to 4 %), and nothing where 100
    queries must show a risk of .1 (.06 here).

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 200)
    >>> found = risk_threshold(confidence, confidence > 0.5)
    >>> 0.4 < found.threshold < 0.6, found.wrong
    (True, 0)
    """
    needed = queries_needed(risk, delta)
    try:
        sure = np.asarray(confidence, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"confidence: expected numbers that a float holds ({error}).") from error
    right = np.asarray(correct, dtype=bool)
    if sure.ndim != 1 or not len(sure) or sure.shape != right.shape:
        raise ValueError(
            "confidence, correct: expected vectors of one length, at least 1, "
            f"got shapes {sure.shape} and {right.shape}."
        )
    if np.isnan(sure).any():
        raise ValueError("confidence: holds NaN; expected numbers.")
    order = np.argsort(-sure, kind="stable")
    sure, wrong = sure[order], np.cumsum(~right[order])
    # How many are strictly above each distinct confidence; below the lowest, all of them.
    above = np.append(np.flatnonzero(np.diff(sure) < 0) + 1, len(sure))
    limits = np.append(sure, np.nextafter(sure[-1], -np.inf))[above]
    last = _last_rejected(_p_value(wrong[above - 1], above, risk), above / len(sure), delta)
    if last is None:
        return RiskThreshold(math.inf, risk, delta, len(sure), 0, 0, needed)
    return RiskThreshold(
        threshold=float(limits[last]),
        risk=risk,
        delta=delta,
        queries=len(sure),
        answered=int(above[last]),
        wrong=int(wrong[above[last] - 1]),
        needed=needed,
    )


def _last_rejected(
    p: NDArray[np.float64], answered: NDArray[np.float64], delta: float
) -> int | None:
    """Place of the lowest threshold that the fixed sequences reach, None where they reach none.

    Parameters
    ----------
    p : array, shape (m,)
        Of the thresholds, downwards.
    answered : array, shape (m,)
        Share of the queries above each one, rising to 1.
    delta : float
    """
    edges = [*np.searchsorted(answered, _STARTS).tolist(), len(p)]
    last, level = None, 0.0
    for start, end, share in zip(edges[:-1], edges[1:], _SHARES, strict=True):
        level += share * delta
        failed = np.flatnonzero(p[start:end] > level)
        reached = start + int(failed[0]) if len(failed) else end
        if reached > start:
            last = reached - 1
        if reached < end:
            level = 0.0
    return last


def _p_value(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """Of seeing so few wrong ones, were the risk above its target.

    The binomial one is about the risk itself. The other is about what the next batch of as many
    shows: the probability of so few wrong ones here and more than allowed there, at whatever risk
    makes it largest. Neither rises as more risk is allowed.
    """
    from scipy.special import bdtr, bdtrc

    allowed = np.floor(risk * answered)
    p: NDArray[np.float64] = bdtr(wrong, answered, risk)
    # The product has one peak, beside the middle of the two counts. The places looked at depend on
    # the counts alone, so that the same counts give the same at any risk.
    middle = np.minimum((wrong + allowed + 1) / (2 * answered), 1)
    spread = np.sqrt(middle * (1 - middle) / answered)
    for steps in _AROUND:
        true = np.clip(middle + steps * spread, 0, 1)
        p = np.maximum(p, bdtr(wrong, answered, true) * bdtrc(allowed, answered, true))
    return p


def _check_share(name: str, value: float) -> None:
    if not _SMALLEST <= value < 1:
        raise ValueError(
            f"{name}: expected a number between 0 and 1, both excluded, and not below {_SMALLEST}, "
            f"got {value}."
        )
