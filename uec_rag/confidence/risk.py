"""When to answer: the lowest confidence at which the risk stays below a target, guaranteed.

`conformal_threshold` keeps a share of all questions, on average over the draws of labels, from
about a hundred of them; `risk_threshold` a share of the answers, with a given certainty, from more.
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

_SMALLEST = 1e-5  # share to show, with ever so many queries
_AROUND = (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class RiskThreshold(Record):
    """A threshold of confidence, and the labels that it was learned from.

    Attributes
    ----------
    threshold : float
        Answer where confidence is above it; infinity: never.
    risk : float
        Largest share of wrong answers: of those given, or of all questions if `delta` is None.
    delta : float or None
        The share is kept with probability 1 - delta, over all draws of calibration queries, before
        it is known whether these abstain on everything. None: it is kept on average over them.
    queries : int
        Calibration queries.
    answered, wrong : int
        How many of them are above the threshold, and how many of those are wrong.
    needed : int
        The least number of calibration queries, all right, of which all could be answered.

    Raises
    ------
    TypeError, ValueError
        If a number is not what it stands for.
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
                "queries, answered, wrong, needed: expected counts, of which each of the first "
                f"three holds the next, got {self.queries}, {self.answered}, {self.wrong}, "
                f"{self.needed}."
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

    def _report_of_all(self, target: str) -> str:
        if not self.is_controlled:
            return (
                f"Abstaining on every query: {target} takes at least {self.needed} calibration "
                f"queries, got {self.queries}. Give more, or allow more."
            )
        return (
            f"Answering above confidence {self.threshold:.3f}: {target}, on average over the draws "
            f"of calibration queries. Of these {self.queries}, {self.answered / self.queries:.0%} "
            f"are answered, and {self.wrong / self.queries:.1%} wrongly."
        )

    def metadata(self) -> dict[str, object]:
        """Return the state in JSON's types, for saving; a threshold of infinity as None."""
        return super().metadata() | {"threshold": self.threshold if self.is_controlled else None}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        never = metadata.get("threshold", 0.0) is None
        found = super().restore({**metadata, "threshold": 0.0} if never else metadata)
        return replace(found, threshold=math.inf) if never else found


class Drift:
    """A test of whether confidences are still distributed as those of a calibration.

    A guarantee holds for questions from where the calibration's came. That others come now shows
    without labels: at 32, 64, 128, ... questions the two samples of confidences are compared
    (Kolmogorov and Smirnov), at levels that together warn of one unchanged stream in a hundred.
    After `LONGEST` questions it begins anew, so that what changes late is seen as well.

    Parameters
    ----------
    calibration : sequence of float
        Confidences, at least one.

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
        """Record confidences; return a warning if they show that the questions have changed."""
        from scipy.stats import ks_2samp

        for confidence in confidences:
            self._asked.append(round(float(confidence), 4))
            if len(self._asked) < _FIRST_LOOK << self._looks:
                continue
            asked = np.array(self._asked)
            self._looks += 1
            # 1 / (m (m + 1)) sums up to 1.
            level = _FALSE_ALARMS / (self._looks * (self._looks + 1))
            changed = ks_2samp(self.calibration, asked).pvalue < level
            if changed or len(asked) >= self.LONGEST:
                self._asked, self._looks = [], 0
            if changed:
                return (
                    f"The last {len(asked)} questions are not like those that the gate was made "
                    f"with: their confidence is {asked.mean():.2f} on average, it was "
                    f"{self.calibration.mean():.2f}. The guarantee does not hold for them; make "
                    "the gate again, with questions as they are asked now."
                )
        return None


_FIRST_LOOK = 32
_FALSE_ALARMS = 0.01


def queries_needed(risk: float, delta: float) -> int:
    """Compute the fewest calibration queries, all right, of which all may be answered.

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
    most `delta`. What that answers: docs/measurements/confidence.md, "The gate".

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 200)
    >>> found = risk_threshold(confidence, confidence > 0.5)
    >>> 0.4 < found.threshold < 0.6, found.wrong
    (True, 0)
    """
    needed = queries_needed(risk, delta)
    sure, right = _vectors(confidence=confidence, correct=correct)
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


def conformal_threshold(score: ArrayLike, harmful: ArrayLike, share: float = 0.1) -> RiskThreshold:
    """Find the lowest threshold that harms at most a share of all questions, on average.

    Conformal risk control (Angelopoulos et al., 2024, https://arxiv.org/abs/2208.02814): the lowest
    threshold at which the share R of n labelled questions that are harmful and above it satisfies
    ``n/(n+1) R + 1/(n+1) <= share``. A question to come, drawn as these are, is then harmful and
    above it with a probability of at most `share`, over the draws of the labels and of the question
    together. Harmful is a wrong answer, or a needless question back.

    Parameters
    ----------
    score : array_like, shape (n,)
        What is compared with the threshold; -infinity if a question is never above it, such as one
        that is asked back.
    harmful : array_like of bool, shape (n,)
        Whether it does harm if a question is above the threshold.
    share : float
        Largest share of all questions that are harmed, in (0, 1).

    Returns
    -------
    RiskThreshold
        `answered` and `wrong` count what is above the threshold; `delta` is None.

    Raises
    ------
    ValueError
        If the share is outside (0, 1) or below 1e-5, the two differ in length, are empty, or a
        score is not a number.

    Notes
    -----
    `risk_threshold` bounds the wrong share of the answers with high probability. That takes so many
    labels that a hundred often answer nothing; this bound is of an average, and of a share of all
    questions, which falls as fewer are answered: ``1 / share - 1`` labels are enough to begin with.
    Ties are safe, and any increasing transformation of the scores leaves the decisions as they are.

    Examples
    --------
    >>> import numpy as np
    >>> score = np.linspace(0, 1, 100)
    >>> found = conformal_threshold(score, score < 0.5, share=0.1)
    >>> found.answered, found.wrong
    (59, 9)
    """
    _check_share("share", share)
    sure, harm = _vectors(score=score, harmful=harmful)
    # The share of a count is rounded: .07 of 100 are 7, and not a hair more.
    allowed = math.floor(share * (len(sure) + 1) - 1 + 1e-9)
    needed = math.ceil(1 / share - 1e-9) - 1
    bad, some = np.sort(sure[harm & (sure > -np.inf)])[::-1], sure[sure > -np.inf]
    if allowed < 0 or not len(some):
        threshold = math.inf
    elif len(bad) > allowed:
        threshold = float(bad[allowed])
    else:
        threshold = float(np.nextafter(some.min(), -np.inf))
    above = sure > threshold
    return RiskThreshold(
        threshold, share, None, len(sure), int(above.sum()), int((above & harm).sum()), needed
    )


def _lowest_passed(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float, delta: float
) -> int | None:
    """Find the place of the lowest threshold that keeps the risk; None if none does.

    `wrong`, `answered`, array of int, shape (m,): counts above each threshold, downwards; the last
    one answers all.
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
    """Count the queries, all right, that show the risk at a single threshold."""
    return math.log(delta) / math.log1p(-risk)


def _share(
    done: float, count: NDArray[np.integer], risk: float, delta: float
) -> NDArray[np.float64]:
    """Compute the share of delta for each threshold below the first `done` of `count` queries.

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
    """Compute the exact p-value of so few wrong ones if the risk were above its target."""
    from scipy.special import bdtr

    p: NDArray[np.float64] = bdtr(wrong, answered, risk)
    return p


def _of_next_batch(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """Compute P(so few wrong ones now, and more than allowed in the next batch of as many).

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


def _vectors(**given: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Check two arguments, numbers and truth values, and return them as arrays."""
    (name, numbers), (other, truths) = given.items()
    try:
        values = np.asarray(numbers, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{name}: expected numbers that a float holds ({error}).") from error
    true = np.asarray(truths, dtype=bool)
    if values.ndim != 1 or not len(values) or values.shape != true.shape:
        raise ValueError(
            f"{name}, {other}: expected vectors of one length, at least 1, got shapes "
            f"{values.shape} and {true.shape}."
        )
    if np.isnan(values).any():
        raise ValueError(f"{name}: holds NaN; expected numbers.")
    return values, true


_BINS = 10
_Z = 1.96  # of an interval that holds its share with probability .95


@dataclass(frozen=True)
class Bin:
    """Questions of about the same confidence.

    Attributes
    ----------
    count : int
    confidence : float
        Their mean.
    right : float
        Share that is answered by its hits.
    low, high : float
        Between which the share lies with probability .95 (Wilson's interval).
    """

    count: int
    confidence: float
    right: float
    low: float
    high: float


def risk_over_coverage(
    score: ArrayLike, right: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute coverage and risk of answering only the questions of the highest scores.

    Parameters
    ----------
    score : array_like, shape (n,)
    right : array_like of bool, shape (n,)

    Returns
    -------
    coverage, risk : array, shape (n,)
        Of the first 1, 2, ... questions: their share of all, and the share of them that is wrong.

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
    """Compare confidence with what came true, in up to ten bins of as many questions each.

    Parameters
    ----------
    confidence : array_like, shape (n,)
    correct : array_like of bool, shape (n,)

    Examples
    --------
    >>> [(one.count, one.right) for one in reliability([0.1, 0.9, 0.8], [False, True, True])]
    [(1, 0.0), (1, 1.0), (1, 1.0)]
    """
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    bins = []
    for rows in np.array_split(np.argsort(sure, kind="stable"), min(_BINS, max(len(sure), 1))):
        if not len(rows):
            continue
        n, share = len(rows), float(right[rows].mean())
        extra = _Z**2 / n
        half = math.sqrt(extra * (share * (1 - share) + extra / 4))
        low, high = ((share + extra / 2 + side) / (1 + extra) for side in (-half, half))
        bins.append(Bin(n, float(sure[rows].mean()), share, max(low, 0.0), min(high, 1.0)))
    return bins
