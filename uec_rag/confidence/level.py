"""Over- and underconfidence on a corpus without labels, from that on other corpora."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from uec_rag.base.records import Record


@dataclass(frozen=True)
class Level(Record):
    """The shares of right answers at a confidence, on corpora that it was not learned on.

    They were learned by `benchmarks/quality/level.py`.

    Attributes
    ----------
    collections : int
        Number of these corpora.
    unanswerable : float
        Share of the questions to them that have no answer.
    low, high : float
        Share of right answers at a confidence of 0.6: the bounds for 90 % of corpora.
    wrong, thresholds : tuple of float
        Shares of all questions that get a wrong answer, ascending, and for each the threshold of
        confidence that kept it on four of five collections.
    """

    collections: int
    unanswerable: float
    low: float
    high: float
    wrong: tuple[float, ...]
    thresholds: tuple[float, ...]

    def threshold(self, wrong: float) -> float:
        """Return the threshold at which a share of all questions is expected to be wrong at most.

        It is interpolated between those of the table, and is 1 for a share of 0.
        """
        return float(np.interp(wrong, (0.0, *self.wrong), (1.0, *self.thresholds)))

    @property
    def report(self) -> str:
        """The meaning of a confidence of 0.6, in words."""
        return (
            f"On a corpus like the {self.collections} English collections that UEC() was tried on, "
            f"with {self.unanswerable:.0%} of the questions unanswerable, 0.6 means "
            f"{self.low:.2f} to {self.high:.2f} (90% of such corpora)."
        )


@cache
def shipped_level() -> Level:
    """Return the level that comes with the package, of `UEC()`."""
    text = files("uec_rag.confidence").joinpath("shipped.json").read_text(encoding="utf-8")
    return Level.restore(json.loads(text)["level"])
