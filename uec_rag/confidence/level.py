"""Over- and underconfidence on a corpus without labels, from that on other corpora."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from uec_rag.base.records import Record
from uec_rag.confidence.model import log_odds, sigmoid

_DEVIATIONS = 1.645  # of a Gaussian, on either side of its mean: 90 % are within


@dataclass(frozen=True)
class Level(Record):
    """Distribution of over- and underconfidence over corpora that confidence was not learned on.

    The log odds of a right answer are ``slope * x + offset``, where x are those of the confidence.
    Over corpora, slope and offset have a Gaussian distribution. It was learned by
    `benchmarks/quality/level.py`.

    Attributes
    ----------
    slope, offset : float
        Their means.
    slope_variance, offset_variance, covariance : float
    collections : int
        Number of collections that the distribution was learned on.
    unanswerable : float
        Share of the questions to them that have no answer.
    wrong, thresholds : tuple of float
        Shares of all questions that get a wrong answer, ascending, and for each the threshold of
        confidence that kept it on four of five collections.
    """

    slope: float
    offset: float
    slope_variance: float
    offset_variance: float
    covariance: float
    collections: int
    unanswerable: float
    wrong: tuple[float, ...]
    thresholds: tuple[float, ...]

    def share_right(self, confidence: float) -> tuple[float, float]:
        """Return the share of right answers at a confidence: the bounds for 90 % of corpora."""
        odds = float(log_odds(np.array(confidence)))
        mean = self.slope * odds + self.offset
        variance = self.slope_variance * odds**2 + 2 * self.covariance * odds
        width = _DEVIATIONS * math.sqrt(variance + self.offset_variance)
        low, high = sigmoid(np.array([mean - width, mean + width])).tolist()
        return low, high

    def threshold(self, wrong: float) -> float:
        """Return the threshold at which a share of all questions is expected to be wrong at most.

        It is interpolated between those of the table, and is 1 for a share of 0.
        """
        return float(np.interp(wrong, (0.0, *self.wrong), (1.0, *self.thresholds)))

    @property
    def report(self) -> str:
        """The meaning of a confidence of 0.6, in words."""
        low, high = self.share_right(0.6)
        return (
            f"On a corpus like the {self.collections} English collections that UEC() was tried on, "
            f"with {self.unanswerable:.0%} of the questions unanswerable, 0.6 means {low:.2f} to "
            f"{high:.2f} (90% of such corpora)."
        )


@cache
def shipped_level() -> Level:
    """Return the level that comes with the package, of `UEC()`."""
    text = files("uec_rag.confidence").joinpath("shipped.json").read_text(encoding="utf-8")
    return Level.restore(json.loads(text)["level"])
