"""Bitext mining: find each sentence's translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uec_rag.encoders import Role
from uec_rag.paper.labelled import Bitext
from uec_rag.paper.systems import System


@dataclass(frozen=True)
class BitextMining:
    """Weighted F1 of the most similar sentence, as mteb computes it.

    Attributes
    ----------
    bitext : Bitext
    small : bool
    """

    bitext: Bitext
    small: bool = False
    kind: ClassVar[str] = "bitext"
    metrics: ClassVar[tuple[str, ...]] = ("f1",)

    @property
    def name(self) -> str:
        """Name of the set and its language."""
        return self.bitext.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Both sides; the one that is looked up is a query."""
        return [("query", self.bitext.first), ("passage", self.bitext.second)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Match the sentences."""
        return {"f1": self.selection(system)}

    def selection(self, system: System) -> float:
        """F1."""
        from sklearn.metrics import f1_score

        scores = system.similarities(self.bitext.first, self.bitext.second)
        gold = np.arange(len(self.bitext.first))
        return float(f1_score(gold, scores.argmax(axis=1), average="weighted", zero_division=0))
