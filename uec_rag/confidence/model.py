"""How likely a hit is relevant, and a query answered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.confidence.calibrator import Calibrator
from uec_rag.confidence.features import CorpusSummary, relevance_features


@dataclass(frozen=True)
class ConfidenceModel(Record):
    """Relevance of hits and confidence in queries, from the fused logits.

    Attributes
    ----------
    temperature : float
        T of the posterior over the corpus.
    relevance, confidence : Calibrator
    """

    temperature: float
    relevance: Calibrator
    confidence: Calibrator

    def hit_relevance(
        self, logits: FloatArray, variance: FloatArray, summary: CorpusSummary
    ) -> FloatArray:
        """P(this hit is relevant), shape (n, k).

        Parameters
        ----------
        logits, variance : array, shape (n, k)
            As in `relevance_features`.
        summary : CorpusSummary
            At this model's temperature.
        """
        return self.relevance.predict(
            relevance_features(logits, variance, summary.log_normaliser, self.temperature)
        )

    def query_confidence(self, summary: CorpusSummary) -> FloatArray:
        """P(the query is answered by its hits), shape (n,)."""
        return self.confidence.predict(summary.features())

    def recalibrated(
        self,
        relevance_features: FloatArray,
        relevant: ArrayLike,
        confidence_features: FloatArray,
        answered: ArrayLike,
        weights: FloatArray,
    ) -> Self:
        """Return this model fitted to a user's own corpus.

        Parameters
        ----------
        relevance_features : array, shape (n, k, 2)
        relevant : array_like of bool, shape (n, k)
        confidence_features : array, shape (n, 3)
        answered : array_like of bool, shape (n,)
        weights : array, shape (n,)
            How much each query counts.
        """
        hits = np.broadcast_to(weights[:, None], np.shape(relevant))
        return replace(
            self,
            relevance=self.relevance.recalibrated(relevance_features, relevant, hits),
            confidence=self.confidence.recalibrated(confidence_features, answered, weights),
        )
