"""Clustering: k-means on the embeddings against the known classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from uec_rag.encoders import Role
from uec_rag.paper.labelled import LabelledTexts
from uec_rag.paper.systems import System

_EXPERIMENTS = 5
_BATCH = 512


@dataclass(frozen=True)
class Clustering:
    """V-measure, mean over five mini-batch k-means on samples with replacement, as mteb does.

    Attributes
    ----------
    labelled : LabelledTexts
    small : bool
    seed : int
        Of the samples and the k-means; all systems see the same.
    """

    labelled: LabelledTexts
    small: bool = False
    seed: int = 42
    kind: ClassVar[str] = "clustering"
    metrics: ClassVar[tuple[str, ...]] = ("v_measure",)

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.labelled.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """The texts, as passages."""
        return [("passage", self.labelled.texts)]

    def evaluate(self, system: System) -> dict[str, float]:
        """Cluster five samples."""
        return {"v_measure": self._mean_score(system, _EXPERIMENTS)}

    def selection(self, system: System) -> float:
        """V-measure on one sample."""
        return self._mean_score(system, 1)

    def _mean_score(self, system: System, experiments: int) -> float:
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import v_measure_score

        embedding = system.embed(self.labelled.texts, "passage").mean
        labels = np.array(self.labelled.labels)
        rng = np.random.default_rng(self.seed)
        scores = []
        for _ in range(experiments):
            rows = rng.integers(0, len(labels), len(labels))
            clusters = MiniBatchKMeans(
                n_clusters=len(np.unique(labels[rows])),
                batch_size=_BATCH,
                n_init=1,
                random_state=self.seed,
            ).fit_predict(embedding[rows])
            scores.append(v_measure_score(labels[rows], clusters))
        return float(np.mean(scores))
