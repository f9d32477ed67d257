"""Semantic textual similarity: rank pairs as people do, and know how far off one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uec_rag.encoders import Role
from uec_rag.paper.labelled import ScoredPairs
from uec_rag.paper.metrics import var_ece
from uec_rag.paper.systems import System


@dataclass(frozen=True)
class SemanticSimilarity:
    """Spearman's correlation with the scores people gave, and Var-ECE.

    Attributes
    ----------
    pairs : ScoredPairs
    small : bool
    """

    pairs: ScoredPairs
    small: bool = False
    kind: ClassVar[str] = "sts"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "var_ece")

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.pairs.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides, as passages."""
        return [("passage", self.pairs.first), ("passage", self.pairs.second)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Spearman of the score; Var-ECE of the similarity's mean and variance (paper eq. 31)."""
        mu, sigma2 = system.pair_moments(self.pairs.first, self.pairs.second)
        return {
            "spearman": self.selection(system),
            "var_ece": var_ece(mu, sigma2, self.pairs.scores, bins=min(10, len(mu))),
        }

    def selection(self, system: System) -> float:
        """Spearman; 0 where all scores are alike."""
        from scipy.stats import spearmanr

        scores = system.pair_scores(self.pairs.first, self.pairs.second)
        if np.ptp(scores) == 0:
            return 0.0
        return float(spearmanr(scores, self.pairs.scores).statistic)
