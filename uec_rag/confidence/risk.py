"""When to answer: the lowest confidence at which the risk stays below a target, guaranteed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class RiskThreshold:
    """A confidence to answer above, and what it was learned from.

    Attributes
    ----------
    threshold : float
        Answer where confidence is above it; infinity: never.
    risk, delta : float
        With probability 1 - delta, at most a share `risk` of the answered queries is wrong.
    queries : int
        Calibration queries.
    answered, wrong : int
        How many of them are above the threshold, and how many of those are wrong.
    needed : int
        The least number of answered calibration queries, all right, that could show the target.
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
                f"calibration queries {self.answered} are answered, {self.wrong} of them wrongly."
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

    def metadata(self) -> dict[str, float | int | None]:
        """JSON-able state, for saving; a threshold of infinity as None."""
        state = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return state | {"threshold": self.threshold if self.is_controlled else None}

    @classmethod
    def restore(cls, metadata: Mapping[str, float | int | None]) -> Self:
        """Rebuild from `metadata`."""
        given = {name: value for name, value in metadata.items() if value is not None}
        return cls(**({"threshold": math.inf} | given))  # type: ignore[arg-type]


def queries_needed(risk: float, delta: float) -> int:
    """Fewest answered queries, all right, that show a risk of at most `risk`.

    Examples
    --------
    >>> queries_needed(risk=0.05, delta=0.05)
    80
    """
    _check_share("risk", risk)
    _check_share("delta", delta)
    # Another risk * n right answers about halve the p-value of n, so this is far enough to look.
    count = np.arange(1, math.ceil((2 - math.log2(delta)) / risk) + 2)
    return int(count[np.argmax(_p_value(np.zeros_like(count), count, risk) <= delta)])


def risk_threshold(
    confidence: ArrayLike, correct: ArrayLike, risk: float = 0.05, delta: float = 0.05
) -> RiskThreshold:
    """Lowest confidence threshold at which wrong answers stay below a target.

    Learn then Test (Angelopoulos et al., https://arxiv.org/abs/2110.01052) with a fixed sequence:
    thresholds are tried downwards, each with the exact p-value of "more than `risk` of the answered
    are wrong", until one cannot be rejected at level `delta`. The first one answers a quarter of
    the queries, or as many as could pass: on fewer, one chance error would end the sequence.

    The claim is made of the risk itself, and of the share that turns out wrong among the next
    answered queries, if they are as many as these: the larger of the binomial and the two-sample
    (hypergeometric) p-value counts.

    Parameters
    ----------
    confidence : array_like, shape (n,)
        Of calibration queries, drawn as the queries to come are.
    correct : array_like of bool, shape (n,)
        Whether each one is answered by its hits.
    risk : float
        Highest share of wrong ones among the answered, in (0, 1).
    delta : float
        Probability with which the guarantee may fail, in (0, 1).

    Raises
    ------
    ValueError
        If a target is outside (0, 1), the two differ in length, are empty, or a confidence is not
        a number.

    Notes
    -----
    A threshold is a calibration query's confidence, and a query answers only strictly above it:
    given that confidence, the queries above are an independent sample of the answered ones. The
    guarantee takes it that the risk does not fall as the threshold is lowered, that is, that
    confidence means something. Ties are safe, and any increasing transformation of the confidence
    leaves the decisions as they are.

    Examples
    --------
    >>> import numpy as np
    >>> confidence = np.linspace(0, 1, 200)
    >>> found = risk_threshold(confidence, confidence > 0.5)
    >>> 0.4 < found.threshold < 0.6, found.wrong
    (True, 0)
    """
    needed = queries_needed(risk, delta)
    sure = np.asarray(confidence, dtype=np.float64)
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
    above = above[above >= max(needed, len(sure) // 4)]
    limits = np.append(sure, np.nextafter(sure[-1], -np.inf))[above]
    passed = _p_value(wrong[above - 1], above, risk) <= delta
    steps = len(passed) if passed.all() else int(np.argmin(passed))
    if not steps:
        return RiskThreshold(math.inf, risk, delta, len(sure), 0, 0, needed)
    answered = int(above[steps - 1])
    return RiskThreshold(
        threshold=float(limits[steps - 1]),
        risk=risk,
        delta=delta,
        queries=len(sure),
        answered=answered,
        wrong=int(wrong[answered - 1]),
        needed=needed,
    )


def _p_value(
    wrong: NDArray[np.integer], answered: NDArray[np.integer], risk: float
) -> NDArray[np.float64]:
    """Of seeing so few wrong ones, were the risk above its target.

    The binomial one is about the risk itself. The other is about the realised risk of the next
    batch of as many: were more than `risk` of them wrong, the pooled wrong ones would be at least
    K, and so few of them among the calibration queries unlikely, whatever the risk is.
    """
    from scipy.stats import binom, hypergeom

    pooled = wrong + np.floor(risk * answered).astype(np.int64) + 1
    p: NDArray[np.float64] = np.maximum(
        binom.cdf(wrong, answered, risk), hypergeom.cdf(wrong, 2 * answered, pooled, answered)
    )
    return p


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name}: expected a number between 0 and 1, both excluded, got {value}.")
