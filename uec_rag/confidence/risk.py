"""Thresholds of confidence with a guarantee on wrong answers.

`conformal_threshold` limits wrong answers as a share of all questions, on average over random
calibration sets, and needs about a hundred labels. `risk_threshold` limits them as a share of the
answers, with a given certainty, and needs several hundred. In the literature, the share is the
risk, its limit alpha, and the share of questions that are answered the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.checks import check_share
from uec_rag.base.logistic import read_learned
from uec_rag.base.records import Record

_STEP = 1.1  # ratio of the numbers of answers that `risk_threshold` tests one after the other


@dataclass(frozen=True)
class Guarantee(Record):
    """A limit on wrong answers, the threshold that keeps it, and the counts of its calibration.

    Attributes
    ----------
    threshold : float
        Answer if confidence is above this; infinity means never.
    risk : float
        Largest share of wrong answers (alpha): of those given, or of all questions if `delta` is
        None.
    delta : float or None
        The share is kept with probability 1 - delta over random calibration sets, including those
        that lead to no answers at all. If None, it is kept on average over them.
    queries : int
        Number of calibration queries.
    answered, wrong : int
        Number of them that are answered, and number of wrong ones among these.
    needed : int
        Smallest number of calibration queries that would suffice if all answers were right.
    """

    threshold: float
    risk: float
    delta: float | None
    queries: int
    answered: int
    wrong: int
    needed: int

    @property
    def is_controlled(self) -> bool:
        """True if any query is answered."""
        return math.isfinite(self.threshold)

    @property
    def target(self) -> str:
        """The limit, in words."""
        if self.delta is None:
            return f"at most {self.risk:.1%} of all questions answered wrongly"
        return f"at most {self.risk:.1%} wrong answers with {1 - self.delta:.0%} certainty"

    @property
    def report(self) -> str:
        """The result of the calibration, in plain words."""
        if self.is_controlled:
            over = "on average over" if self.delta is None else "over"
            right, share = self.answered - self.wrong, ""
            if self.answered:
                low, high = interval_of(right, self.answered)
                share = f" ({right / self.answered:.0%}; 95% interval: {low:.0%} to {high:.0%})"
            return (
                f"Of {self.queries} questions, {self.answered} answered: {right} right{share}, "
                f"{self.wrong} wrong. Answering above confidence {self.threshold:.3f}: "
                f"{self.target}, {over} random sets of such questions."
            )
        return (
            f"Abstaining on every question: no threshold shows {self.target} on the "
            f"{self.queries} calibration questions, of which it takes at least {self.needed}. "
            "Provide more, allow a higher share, or improve retrieval."
        )

    @property
    def caution(self) -> str:
        """Advice if the labels do not show that half of the answers are right; "" if they do.

        A limit on wrong answers to all questions is also kept by a gate whose few answers are
        wrong.
        """
        right = self.answered - self.wrong
        if not self.answered or interval_of(right, self.answered)[0] >= _HALF:
            return ""
        is_worse = right < _HALF * self.answered
        note = "fewer than half of them" if is_worse else "too few to tell whether half of all"
        return (
            f"Of {self.answered} answered questions, {right} are answered rightly: {note}. Check "
            "that the labels name the passages that answer, label more questions, or limit the "
            "share of wrong answers themselves (max_risk); if the labels are right, pass an "
            "advisor, or fit the ensemble on pairs of your own."
        )

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        never = metadata.get("threshold", 0.0) is None
        guarantee = super().restore({**metadata, "threshold": 0.0} if never else metadata)
        return replace(guarantee, threshold=math.inf) if never else guarantee


def drift(calibration: Sequence[float], confidences: Sequence[float | None]) -> str | None:
    """Return a warning if confidences are distributed otherwise than at calibration, else None.

    A guarantee holds for questions from the same distribution as those of the calibration. A shift
    can be detected without labels, by a Kolmogorov-Smirnov test of 32 questions or more, at a level
    of 1 %. NaN and None, as of questions that were not searched, are left out.

    Examples
    --------
    >>> import numpy as np
    >>> known = np.linspace(0.2, 1.0, 200)
    >>> drift(known, known[::4]) is None, drift(known, known[::4] / 2) is None
    (True, False)
    """
    from scipy.stats import ks_2samp

    numbers = [number for number in confidences if number is not None and number == number]
    if len(numbers) < _FEWEST or ks_2samp(calibration, numbers).pvalue >= _FALSE_ALARMS:
        return None
    lost = len(confidences) - len(numbers)
    without = f" (and {lost} without a confidence, which are left out)" if lost else ""
    return (
        f"The last {len(numbers)} questions{without} are not like those that the gate was made "
        f"with: their mean confidence is {np.mean(numbers):.2f} instead of "
        f"{np.mean(calibration):.2f}. The guarantee does not hold for them; recalibrate with "
        "recent questions."
    )


_HALF = 0.5  # of the answers, which a gate that is of use has right
_FEWEST, _FALSE_ALARMS = 32, 0.01  # questions, and share of unchanged samples that look shifted


def queries_needed(risk: float, delta: float, wrong: int = 0) -> int:
    """Compute the smallest number of answers, some of them wrong, that proves a risk.

    Examples
    --------
    >>> queries_needed(risk=0.05, delta=0.05), queries_needed(risk=0.05, delta=0.05, wrong=1)
    (59, 93)
    """
    from scipy.stats import nbinom

    for name, value in (("risk", risk), ("delta", delta)):
        check_share(value, name, "a number in (0, 1)")
    # As many answers as it takes, with probability 1 - delta, to see one more wrong one.
    return wrong + 1 + int(nbinom.isf(delta, wrong + 1, risk))


def risk_threshold(
    confidence: ArrayLike, correct: ArrayLike, risk: float = 0.05, delta: float = 0.05
) -> Guarantee:
    """Find the lowest confidence threshold at which wrong answers stay below a target.

    The method is Learn then Test (Angelopoulos et al., https://arxiv.org/abs/2110.01052) by
    fixed-sequence testing. A grid of thresholds is tested from above: each by the exact binomial
    p-value of the hypothesis "more than `risk` of the answers are wrong", at level `delta`. The
    last threshold before the first that fails is chosen.

    Parameters
    ----------
    confidence : array_like, shape (n,)
        Confidences of calibration queries from the same distribution as later queries.
    correct : array_like of bool, shape (n,)
        Whether each query is answered by its hits.
    risk : float
        Largest share of wrong answers among those given, in (0, 1): the paper's alpha, and 1 -
        `target_level` of MAPIE's `BinaryClassificationController` for "precision".
    delta : float
        Probability with which the guarantee may fail, in (0, 1), over random calibration sets,
        including those that lead to no answers at all.

    Raises
    ------
    ValueError
        If a target is outside (0, 1), the arrays differ in length or are empty, or a confidence is
        NaN.

    Notes
    -----
    The grid depends neither on the labels nor on the risk: the number of answers grows by a tenth.
    The first test is at the fewest answers that prove the risk if one of them is wrong. If these
    are more than a quarter of the queries, it is at a quarter or, if those are more, at the fewest
    that prove the risk if none is wrong; then none may be. So a higher risk never answers fewer
    queries. A threshold is the confidence of a calibration query, and only queries strictly above
    it are answered: given that confidence, the queries above are an independent sample of the
    answered ones. Ties are answered all or none, and an increasing transformation of the confidence
    does not change the decisions. For measured coverage, see docs/measurements/confidence.md, "The
    gate".

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 200)
    >>> found = risk_threshold(confidence, confidence > 0.5)
    >>> 0.4 < found.threshold < 0.6, found.wrong
    (True, 0)
    """
    minimum = queries_needed(risk, delta)
    values, right = _vectors("confidence", confidence, correct)
    order = np.argsort(-values)
    values, wrong = values[order], np.cumsum(~right[order])
    # The number of queries strictly above each distinct confidence; below the lowest, all of them.
    above = np.append(np.flatnonzero(np.diff(values) < 0) + 1, len(values))
    limits = np.append(values, np.nextafter(values[-1], -np.inf))[above]
    index = _lowest_passed(wrong[above - 1], above, risk, delta)
    if index is None:
        return Guarantee(math.inf, risk, delta, len(values), 0, 0, minimum)
    answered = int(above[index])
    threshold, bad = float(limits[index]), int(wrong[answered - 1])
    return Guarantee(threshold, risk, delta, len(values), answered, bad, minimum)


def _lowest_passed(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float, delta: float
) -> int | None:
    """Return the index of the last threshold of the fixed sequence that passes; None if none does.

    A higher risk begins no later, with no fewer errors allowed, so it passes all that a lower one
    does.

    `wrong`, `answered`, array of int, shape (m,): counts above each threshold, in descending order
    of thresholds; at the last one, all are answered.
    """
    from scipy.special import bdtr

    grid = _grid(answered)
    counts, bad, errors = answered[grid], wrong[grid], 1
    holds = bdtr(bad, counts, risk) <= delta
    start, quarter = np.searchsorted(counts, [queries_needed(risk, delta, 1), counts[-1] / 4])
    if start > quarter:
        start, errors = max(quarter, np.searchsorted(counts, queries_needed(risk, delta))), 0
    if start > 0:  # ties may skip numbers of answers that a higher risk begins with
        holds[start:][:1] &= bad[start:][:1] <= errors
    failed = np.append(np.flatnonzero(~holds[start:]), len(holds[start:]))
    return int(grid[start + failed[0] - 1]) if failed[0] else None


def _grid(answered: NDArray[np.integer]) -> NDArray[np.intp]:
    """Choose the thresholds to test, whatever the risk: each answers a tenth more than the last."""
    places, target, count = list[int](), 1, int(answered[-1])
    while (position := int(np.searchsorted(answered, target))) < len(answered):
        places.append(position)
        target = max(int(answered[position]) + 1, min(math.ceil(_STEP * answered[position]), count))
    return np.array(places, dtype=np.intp)


def conformal_threshold(score: ArrayLike, harmful: ArrayLike, share: float = 0.1) -> Guarantee:
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
        Largest share of all questions that are harmful and above the threshold, in (0, 1): the
        paper's alpha.

    Returns
    -------
    Guarantee
        `answered` counts the questions above the threshold and `wrong` the harmful ones among them;
        `delta` is None.

    Raises
    ------
    ValueError
        If the share is outside (0, 1), the arrays differ in length or are empty, or a score is NaN.

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
    check_share(share, "share", "a number in (0, 1)")
    values, harm = _vectors("score", score, harmful)
    # The tolerance absorbs rounding errors: 7 % of 100 is 7.
    budget = math.floor(share * (len(values) + 1) - 1 + 1e-9)
    minimum = math.ceil(1 / share - 1e-9) - 1
    finite = values > -np.inf
    bad = np.sort(values[harm & finite])[::-1]
    if budget < 0 or not finite.any():
        threshold = math.inf
    elif len(bad) > budget:
        threshold = float(bad[budget])
    else:
        threshold = float(np.nextafter(values[finite].min(), -np.inf))
    above = values > threshold
    return Guarantee(
        threshold, share, None, len(values), int(above.sum()), int((above & harm).sum()), minimum
    )


def lowest_threshold(harm: NDArray[np.float64], share: float) -> tuple[float, Guarantee]:
    """Find the threshold from 0 to 1 above which a share of all questions is harmful at most.

    `harm`: the scores below which each question is harmful; -infinity if it never is.
    """
    is_harmful = np.isfinite(harm)
    guarantee = conformal_threshold(harm, is_harmful, share)
    if guarantee.wrong == np.count_nonzero(is_harmful) and len(harm) >= guarantee.needed:
        return 0.0, guarantee  # all that is harmful is allowed
    return min(max(guarantee.threshold, 0.0), 1.0), guarantee


def _vectors(
    name: str, numbers: ArrayLike, truths: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Check numbers and as many booleans, and return them as arrays."""
    values, true = np.asarray(numbers, dtype=np.float64), np.asarray(truths, dtype=bool)
    if values.ndim != 1 or not len(values) or values.shape != true.shape:
        raise ValueError(
            f"{name}: expected a vector of at least one number, and as many labels, got shapes "
            f"{values.shape} and {true.shape}."
        )
    if np.isnan(values).any():
        raise ValueError(f"{name}: expected numbers, got NaN.")
    return values, true


_BINS = 10


def interval_of(right: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson).

    Examples
    --------
    >>> [round(end, 3) for end in interval_of(8, 10)]
    [0.49, 0.943]
    """
    share, z = right / count, NormalDist().inv_cdf(0.975)
    middle, weight = share + z * z / (2 * count), 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max((middle - half) / weight, 0.0), min((middle + half) / weight, 1.0)


def risk_curve(
    confidence: ArrayLike, correct: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many answers each threshold gives, the surest first, and the share that is wrong.

    Answers of the same confidence are given all or none.

    Examples
    --------
    >>> count, wrong = risk_curve([0.9, 0.5, 0.5], [True, True, False])
    >>> count.tolist(), wrong.round(2).tolist()
    ([1, 3], [0.0, 0.33])
    """
    values, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.diff(values[order]) < 0, [True] * bool(len(values))).nonzero()[0]
    return ends + 1, np.cumsum(~right[order])[ends] / (ends + 1)


def reliability(confidence: ArrayLike, correct: ArrayLike) -> list[dict[str, float]]:
    """Compare confidence with the share of right answers, in up to ten bins of about equal size.

    They end at the tenths of the confidences, as those of scikit-learn's `calibration_curve` with
    `strategy="quantile"` do, so that equal confidences are in one bin.

    Parameters
    ----------
    confidence : array_like, shape (n,)
    correct : array_like of bool, shape (n,)

    Returns
    -------
    list of dict
        For each bin, the count of questions, the mean confidence, and the share that is right, with
        the bounds low and high of its 95 % interval (Wilson).

    Examples
    --------
    >>> [(bin["count"], bin["right"]) for bin in reliability([0.1, 0.9, 0.8], [False, True, True])]
    [(1, 0.0), (1, 1.0), (1, 1.0)]
    """
    values, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    bins = []
    ends = np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]) if len(values) else ()
    bin_of = np.searchsorted(ends, values)
    for number in np.unique(bin_of):
        rows = bin_of == number
        count, hits = int(rows.sum()), int(right[rows].sum())
        low, high = interval_of(hits, count)
        shares = {"right": hits / count, "low": low, "high": high}
        bins.append({"count": count, "confidence": float(values[rows].mean()), **shares})
    return bins


def expected_threshold(wrong: float) -> float:
    """Return the threshold at which a share of all questions is expected to be wrong at most.

    It is that which kept the share on four of five collections (`benchmarks/quality/level.py`),
    interpolated, and 1 for a share of 0.
    """
    level = read_learned("uec_rag.confidence", "shipped.json")["level"]
    return float(np.interp(wrong, (0.0, *level["wrong"]), (1.0, *level["thresholds"])))
