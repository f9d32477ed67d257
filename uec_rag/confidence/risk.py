"""When to answer: the lowest confidence at which the risk stays below a target, guaranteed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.records import Record

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
    59
    """
    _check_share("risk", risk)
    _check_share("delta", delta)
    start = max(1, math.floor(_first(risk, delta)))
    while True:
        count = np.arange(start, 2 * start + math.ceil(2 / risk))
        level = delta * _share(0.0, count, risk, delta)
        none = np.zeros_like(count)
        passed = _of_risk(none, count, risk) <= level
        passed &= _of_next_batch(none, count, risk) <= delta
        if passed.any():
            return int(count[np.argmax(passed)])
        start += len(count)


def risk_threshold(
    confidence: ArrayLike, correct: ArrayLike, risk: float = 0.05, delta: float = 0.05
) -> RiskThreshold:
    """Lowest confidence threshold at which wrong answers stay below a target.

    Learn then Test (Angelopoulos et al., https://arxiv.org/abs/2110.01052), all thresholds at once.
    Of each one the exact p-value of "more than `risk` of the answered are wrong" is compared with
    one level, and the lowest that is below it is taken, whatever those above it show: who may
    answer at a threshold may answer above it. The level is so small that a risk as high as the
    target would show less anywhere with probability `delta`; the counts of neighbouring thresholds
    are nearly the same, so that this costs far less than their number. What is left below the
    threshold found is then looked at again, at the higher level that fewer thresholds allow
    (Romano and Wolf, 2005, https://doi.org/10.1198/016214504000000539), until nothing is found.
    So neither one wrong answer given with confidence nor few queries end the search at once, and
    more allowed risk never answers fewer.

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

    Labels that are wrong at the very target, in whatever order, are the worst case: by exact
    recursion over the counts (tests/confidence/test_risk.py) they pass with a probability of at
    most `delta`. What that answers: docs/confidence.md, "The gate".

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
    last = _lowest_passed(wrong[above - 1], above, risk, delta)
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


def _lowest_passed(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float, delta: float
) -> int | None:
    """Place of the lowest threshold that keeps the risk, None where none does.

    Parameters
    ----------
    wrong, answered : array of int, shape (m,)
        Counts above each threshold, downwards; the last one answers all.
    risk, delta : float
    """
    p, count = _of_risk(wrong, answered, risk), answered[-1:]
    lasting = _of_next_batch(wrong, answered, risk) <= delta
    last, done = -1, 0
    while True:
        level = delta * _share(done, count, risk, delta)
        passed = np.flatnonzero((p[last + 1 :] <= level) & lasting[last + 1 :])
        if not len(passed):
            return None if last < 0 else last
        last += 1 + int(passed[-1])
        done = int(answered[last])


def _first(risk: float, delta: float) -> float:
    """How many queries, all right, show the risk at a single threshold."""
    return math.log(delta) / math.log1p(-risk)


def _share(
    done: float, count: NDArray[np.integer], risk: float, delta: float
) -> NDArray[np.float64]:
    """Share of delta that each threshold below the first `done` of `count` queries may have.

    The probability that any of them passes at the very target rises with the logarithm of how far
    they reach. The polynomial is no lower than what exact recursion gives; in the last half, where
    it would be, the level stays that of the whole half. It falls more slowly with the risk than
    p-values do: what passes goes on passing where more risk is allowed.
    """
    first = _first(risk, delta)
    reach = np.log(np.maximum(count / first, 1))
    behind = np.log(np.maximum(np.minimum(done, count / 2) / first, 1))
    rise = (reach - behind) / 3 + (reach**2 - behind**2) / 8
    certain = -math.log(delta)
    share: NDArray[np.float64] = 1 / (1 + min(certain + 1 / 4, 5 / 2 * certain) * rise)
    return share


def _of_risk(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """The exact p-value of so few wrong ones, were the risk above its target."""
    from scipy.special import bdtr

    p: NDArray[np.float64] = bdtr(wrong, answered, risk)
    return p


def _of_next_batch(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """Probability of so few wrong ones, and of more than allowed in the next batch of as many.

    At whatever risk makes it largest. It does not rise as more is allowed.
    """
    from scipy.special import bdtr, bdtrc

    allowed = np.floor(risk * answered)
    p: NDArray[np.float64] = np.zeros(len(answered))
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
