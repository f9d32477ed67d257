"""Thresholds of confidence with a guaranteed risk of wrong answers.

`conformal_threshold` limits wrong answers as a share of all questions, on average over random
calibration sets, and needs about a hundred labels. `risk_threshold` limits them as a share of the
answers, with a given certainty, and needs more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.checks import check_share
from uec_rag.base.records import Record

_SMALLEST = 1e-5  # smallest target that is accepted
_GRID = (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)  # in standard deviations, see `_of_next_batch`


@dataclass(frozen=True)
class RiskThreshold(Record):
    """A threshold of confidence with its guarantee and the counts of its calibration.

    Attributes
    ----------
    threshold : float
        Answer if confidence is above this; infinity means never.
    risk : float
        Largest share of wrong answers: of those given, or of all questions if `delta` is None.
    delta : float or None
        The share is kept with probability 1 - delta over random calibration sets, including those
        that lead to no answers at all. If None, it is kept on average over them.
    queries : int
        Number of calibration queries.
    answered, wrong : int
        Number of them above the threshold, and number of wrong ones among these.
    needed : int
        Smallest number of calibration queries that would suffice if all answers were right.

    Raises
    ------
    TypeError, ValueError
        If a number is out of range.
    """

    threshold: float
    risk: float
    delta: float | None
    queries: int
    answered: int
    wrong: int
    needed: int

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise ValueError("threshold: expected a confidence, or infinity, got NaN.")
        for name in ("risk", "delta"):
            if name == "risk" or self.delta is not None:
                check_share(getattr(self, name), name, "a number from 0 to 1")
        counts = (0, self.wrong, self.answered, self.queries)
        if any(low > high for low, high in pairwise(counts)) or self.needed < 0:
            raise ValueError(
                "queries, answered, wrong, needed: expected counts, of which the first three do "
                f"not increase, got {self.queries}, {self.answered}, {self.wrong}, {self.needed}."
            )

    @property
    def is_controlled(self) -> bool:
        """True if any query is answered."""
        return math.isfinite(self.threshold)

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if self.delta is None:
            return self._report_of_all(f"at most {self.risk:.1%} of all questions answered wrongly")
        target = f"at most {self.risk:.1%} wrong answers with {1 - self.delta:.0%} certainty"
        if self.is_controlled:
            return (
                f"Answering above confidence {self.threshold:.3f}: {target}. Of {self.queries} "
                f"calibration queries that get no clarifying question, {self.answered} are "
                f"answered, {self.wrong} of them wrongly. "
                "The certainty is over random sets of calibration queries, including those that "
                "would lead to abstaining on every query."
            )
        if self.queries < self.needed:
            return (
                f"Abstaining on every query: {target} takes at least {self.needed} calibration "
                f"queries, got {self.queries}. Provide more, or allow a higher risk."
            )
        return (
            f"Abstaining on every query: no threshold shows {target} on the "
            f"{self.queries} calibration queries that are not asked back. Provide more, allow a "
            "higher risk, or improve retrieval."
        )

    def _report_of_all(self, target: str) -> str:
        if not self.is_controlled:
            return (
                f"Abstaining on every query: {target} takes at least {self.needed} calibration "
                f"queries, got {self.queries}. Provide more, or allow a larger share."
            )
        return (
            f"Answering above confidence {self.threshold:.3f}: {target}, on average over random "
            f"sets of calibration queries. Of these {self.queries}, "
            f"{self.answered / self.queries:.0%} are answered, {self.wrong / self.queries:.1%} "
            "wrongly."
        )

    def metadata(self) -> dict[str, object]:
        """Return the state as a JSON object; a threshold of infinity becomes None."""
        return super().metadata() | {"threshold": self.threshold if self.is_controlled else None}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        never = metadata.get("threshold", 0.0) is None
        found = super().restore({**metadata, "threshold": 0.0} if never else metadata)
        return replace(found, threshold=math.inf) if never else found


class Drift:
    """A test of whether confidences are still distributed as at calibration.

    A guarantee holds for questions from the same distribution as those of the calibration. A shift
    can be detected without labels: after 32, 64, 128, ... questions, the confidences are compared
    with those of the calibration by a Kolmogorov-Smirnov test, at levels whose sum is 1 %, which
    bounds the false alarms on an unchanged stream. After `LONGEST` questions, the test restarts, so
    that later shifts are detected, too.

    Parameters
    ----------
    calibration : sequence of float
        Confidences of the calibration queries, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> drift = Drift(rng.uniform(0.2, 1.0, 200))
    >>> drift.seen(rng.uniform(0.2, 1.0, 64))
    >>> drift.seen(rng.uniform(0.0, 0.5, 64)) is None
    False
    """

    LONGEST = 4096

    def __init__(self, calibration: Sequence[float]) -> None:
        self.calibration = np.asarray(calibration, dtype=np.float64)
        self._asked: list[float] = []
        self._looks = 0

    def seen(self, confidences: Sequence[float]) -> str | None:
        """Record confidences; return a warning if they show a shift, else None."""
        from scipy.stats import ks_2samp

        for confidence in confidences:
            self._asked.append(round(float(confidence), 4))
            if len(self._asked) < _FIRST_LOOK << self._looks:
                continue
            asked = np.array(self._asked)
            self._looks += 1
            # The sum of 1 / (m (m + 1)) is 1.
            level = _FALSE_ALARMS / (self._looks * (self._looks + 1))
            changed = ks_2samp(self.calibration, asked).pvalue < level
            if changed or len(asked) >= self.LONGEST:
                self._asked, self._looks = [], 0
            if changed:
                return (
                    f"The last {len(asked)} questions are not like those that the gate was made "
                    f"with: their mean confidence is {asked.mean():.2f} instead of "
                    f"{self.calibration.mean():.2f}. The guarantee does not hold for them; make "
                    "the gate again, with recent questions."
                )
        return None


_FIRST_LOOK = 32
_FALSE_ALARMS = 0.01


def queries_needed(risk: float, delta: float) -> int:
    """Compute the smallest number of calibration queries that suffices if all answers are right.

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
    """Find the lowest confidence threshold at which wrong answers stay below a target.

    The method is Learn then Test (Angelopoulos et al., https://arxiv.org/abs/2110.01052), applied
    to all thresholds at once. For each threshold, the exact p-value of the hypothesis "more than
    `risk` of the answers are wrong" is compared with one level. The lowest threshold that passes is
    chosen even if higher ones fail, since a threshold that is safe is also safe if raised. The
    level is such that, if the risk were at the target, any threshold would pass with a probability
    of at most `delta`. The counts of neighbouring thresholds are highly correlated, so the level is
    far higher than that of a Bonferroni correction. Thresholds below the chosen one are then tested
    again at the higher level that their smaller number allows (Romano and Wolf, 2005,
    https://doi.org/10.1198/016214504000000539), until none passes. A single wrong answer of high
    confidence therefore does not end the search, and a higher `risk` never answers fewer queries.

    The guarantee covers the risk itself and the share of wrong answers among the next answered
    queries, if there are as many of them.

    Parameters
    ----------
    confidence : array_like, shape (n,)
        Confidences of calibration queries from the same distribution as later queries.
    correct : array_like of bool, shape (n,)
        Whether each query is answered by its hits.
    risk : float
        Largest share of wrong answers among those given, in (0, 1).
    delta : float
        Probability with which the guarantee may fail, in (0, 1), over random calibration sets,
        including those that lead to no answers at all.

    Raises
    ------
    ValueError
        If a target is outside (0, 1) or below 1e-5, the arrays differ in length or are empty, or a
        confidence is NaN.

    Notes
    -----
    A threshold is the confidence of a calibration query, and only queries strictly above it are
    answered: given that confidence, the queries above are an independent sample of the answered
    ones. The guarantee assumes that the risk does not fall as the threshold is lowered, that is,
    that confidence is informative. Ties are safe, and an increasing transformation of the
    confidence does not change the decisions.

    The worst case is a risk exactly at the target at every threshold: by exact recursion over the
    counts (tests/confidence/test_risk.py), the probability of passing is then at most `delta`. For
    measured coverage, see docs/measurements/confidence.md, "The gate".

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 200)
    >>> found = risk_threshold(confidence, confidence > 0.5)
    >>> 0.4 < found.threshold < 0.6, found.wrong
    (True, 0)
    """
    needed = queries_needed(risk, delta)
    values, right = _vectors(confidence=confidence, correct=correct)
    order = np.argsort(-values, kind="stable")
    values, wrong = values[order], np.cumsum(~right[order])
    # The number of queries strictly above each distinct confidence; below the lowest, all of them.
    above = np.append(np.flatnonzero(np.diff(values) < 0) + 1, len(values))
    limits = np.append(values, np.nextafter(values[-1], -np.inf))[above]
    last = _lowest_passed(wrong[above - 1], above, risk, delta)
    if last is None:
        return RiskThreshold(math.inf, risk, delta, len(values), 0, 0, needed)
    return RiskThreshold(
        threshold=float(limits[last]),
        risk=risk,
        delta=delta,
        queries=len(values),
        answered=int(above[last]),
        wrong=int(wrong[above[last] - 1]),
        needed=needed,
    )


def conformal_threshold(score: ArrayLike, harmful: ArrayLike, share: float = 0.1) -> RiskThreshold:
    """Find the lowest threshold at which a bounded share of all questions is harmful, on average.

    The method is conformal risk control (Angelopoulos et al., 2024,
    https://arxiv.org/abs/2208.02814): choose the lowest threshold at which the share R of n
    labelled questions that are harmful and above it satisfies ``n/(n+1) R + 1/(n+1) <= share``. A
    new question from the same distribution is then harmful and above it with a probability of at
    most `share`, over random labels and questions. A harm is, for instance, a wrong answer, or
    asking back without need.

    Parameters
    ----------
    score : array_like, shape (n,)
        Scores to compare with the threshold; -infinity for a question that is never above it, such
        as one that is asked back.
    harmful : array_like of bool, shape (n,)
        Whether a question would be harmful above the threshold.
    share : float
        Largest share of all questions that are harmful and above the threshold, in (0, 1).

    Returns
    -------
    RiskThreshold
        `answered` counts the questions above the threshold and `wrong` the harmful ones among them;
        `delta` is None.

    Raises
    ------
    ValueError
        If the share is outside (0, 1) or below 1e-5, the arrays differ in length or are empty, or a
        score is NaN.

    Notes
    -----
    `risk_threshold` bounds the share of wrong answers with high probability, for which a hundred
    labels are often too few. This bound is on an average, and on a share of all questions, which
    falls if fewer are answered; it can be met from ``1 / share - 1`` labels on. Ties are safe, and
    an increasing transformation of the scores does not change the decisions.

    Examples
    --------
    >>> import numpy as np
    >>> score = np.linspace(0, 1, 100)
    >>> found = conformal_threshold(score, score < 0.5, share=0.1)
    >>> found.answered, found.wrong
    (59, 9)
    """
    _check_share("share", share)
    values, harm = _vectors(score=score, harmful=harmful)
    # The tolerance absorbs rounding errors: 7 % of 100 is 7.
    allowed = math.floor(share * (len(values) + 1) - 1 + 1e-9)
    needed = math.ceil(1 / share - 1e-9) - 1
    finite = values > -np.inf
    bad = np.sort(values[harm & finite])[::-1]
    if allowed < 0 or not finite.any():
        threshold = math.inf
    elif len(bad) > allowed:
        threshold = float(bad[allowed])
    else:
        threshold = float(np.nextafter(values[finite].min(), -np.inf))
    above = values > threshold
    return RiskThreshold(
        threshold, share, None, len(values), int(above.sum()), int((above & harm).sum()), needed
    )


def _lowest_passed(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float, delta: float
) -> int | None:
    """Find the index of the lowest threshold that keeps the risk; None if none does.

    `wrong`, `answered`, array of int, shape (m,): counts above each threshold, in descending order
    of thresholds; at the last one, all are answered.
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
    """Compute the number of right answers that prove the risk at a single threshold."""
    return math.log(delta) / math.log1p(-risk)


def _share(
    done: float, count: NDArray[np.integer], risk: float, delta: float
) -> NDArray[np.float64]:
    """Compute the share of delta for each threshold below the first `done` of `count` queries.

    If the risk is at the target, the probability that any of these thresholds passes grows with the
    logarithm of the range of counts. The polynomial is an upper bound of the exact recursion for
    `done` up to half of `count`, beyond which the level stays constant. The level falls more slowly
    with the risk than p-values do, so a threshold that passes also passes at a higher risk.
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
    """Compute the exact p-value of so few wrong answers under a risk above the target."""
    from scipy.special import bdtr

    p: NDArray[np.float64] = bdtr(wrong, answered, risk)
    return p


def _of_next_batch(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """Compute P(so few wrong answers now, and too many in the next batch of the same size).

    The true risk is that which maximises the probability. The result does not increase with the
    risk that is allowed.
    """
    from scipy.special import bdtr, bdtrc

    allowed = np.floor(risk * answered)
    p: NDArray[np.float64] = np.zeros(len(answered))
    # The product has one peak, near the mean of the two counts. The grid depends on the counts
    # only, so that the same counts give the same result at any risk.
    middle = np.minimum((wrong + allowed + 1) / (2 * answered), 1)
    spread = np.sqrt(middle * (1 - middle) / answered)
    for steps in _GRID:
        true = np.clip(middle + steps * spread, 0, 1)
        p = np.maximum(p, bdtr(wrong, answered, true) * bdtrc(allowed, answered, true))
    return p


def _check_share(name: str, value: float) -> None:
    if not _SMALLEST <= value < 1:
        raise ValueError(
            f"{name}: expected a number between 0 and 1, both excluded, and not below {_SMALLEST}, "
            f"got {value}."
        )


def _vectors(**given: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Check two arguments, numbers and booleans, and return them as arrays."""
    (name, numbers), (other, truths) = given.items()
    try:
        values = np.asarray(numbers, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{name}: expected numbers that a float holds ({error}).") from error
    true = np.asarray(truths, dtype=bool)
    if values.ndim != 1 or not len(values) or values.shape != true.shape:
        raise ValueError(
            f"{name}, {other}: expected vectors of the same length, at least 1, got shapes "
            f"{values.shape} and {true.shape}."
        )
    if np.isnan(values).any():
        raise ValueError(f"{name}: expected numbers, got NaN.")
    return values, true


_BINS = 10
_Z = 1.96  # normal quantile of a 95 % interval


@dataclass(frozen=True)
class Bin:
    """A bin of questions of similar confidence.

    Attributes
    ----------
    count : int
    confidence : float
        Mean confidence.
    right : float
        Share of the questions that are answered by their hits.
    low, high : float
        95 % confidence interval of that share (Wilson).
    """

    count: int
    confidence: float
    right: float
    low: float
    high: float


def risk_over_coverage(
    score: ArrayLike, right: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute coverage and risk if only the questions of the highest scores are answered.

    Parameters
    ----------
    score : array_like, shape (n,)
    right : array_like of bool, shape (n,)

    Returns
    -------
    coverage, risk : array, shape (n,)
        For the first 1, 2, ... questions, their share of all, and the wrong share among them.

    Examples
    --------
    >>> coverage, risk = risk_over_coverage([0.9, 0.2], [True, False])
    >>> coverage.tolist(), risk.tolist()
    ([0.5, 1.0], [0.0, 0.5])
    """
    order = np.argsort(-np.asarray(score), kind="stable")
    wrong = np.cumsum(~np.asarray(right, dtype=bool)[order])
    count = np.arange(1, len(wrong) + 1)
    return count / len(wrong), wrong / count


def reliability(confidence: ArrayLike, correct: ArrayLike) -> list[Bin]:
    """Compare confidence with the share of right answers, in up to ten bins of equal size.

    Parameters
    ----------
    confidence : array_like, shape (n,)
    correct : array_like of bool, shape (n,)

    Examples
    --------
    >>> [(bin.count, bin.right) for bin in reliability([0.1, 0.9, 0.8], [False, True, True])]
    [(1, 0.0), (1, 1.0), (1, 1.0)]
    """
    values, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    bins = []
    for rows in np.array_split(np.argsort(values, kind="stable"), min(_BINS, max(len(values), 1))):
        if not len(rows):
            continue
        n, share = len(rows), float(right[rows].mean())
        extra = _Z**2 / n
        half = math.sqrt(extra * (share * (1 - share) + extra / 4))
        low, high = ((share + extra / 2 + side) / (1 + extra) for side in (-half, half))
        bins.append(Bin(n, float(values[rows].mean()), share, max(low, 0.0), min(high, 1.0)))
    return bins
