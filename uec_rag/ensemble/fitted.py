"""What fitting found, and what is computed from it; no encoder is needed for any of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.terms import Terms
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import Encoded, Role
from uec_rag.ensemble.coefficients import CoefficientRule, Evidence, StandardisedTrace, Uniform
from uec_rag.ensemble.convolution import Space, block_weights, direct_sum, shared
from uec_rag.ensemble.evidence import EvidenceWeights, evidence_of
from uec_rag.ensemble.familiar import Familiar
from uec_rag.ensemble.faults import present, without_missing
from uec_rag.ensemble.report import FitReport
from uec_rag.ensemble.similarity_summary import SimilaritySummary
from uec_rag.ensemble.verifier import FittedVerifier
from uec_rag.laplace.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Fitted:
    """An ensemble without its encoders: what searching, judging and calibrating take.

    Attributes
    ----------
    names : tuple of K str
        The encoders'.
    space : {"direct", "shared"}
    rule : CoefficientRule
    beta : float
        How strongly sigma_s^2 lowers a score.
    posteriors : tuple of K Posterior, or None
        None before `UEC.fit`: variances are 0 and slopes 1.
    confidence_model : ConfidenceModel or None
    report : FitReport or None
    familiar : Familiar or None
        What the fit's texts were like; None where that is not known.
    verifier : FittedVerifier or None
        Of a verifier beside the encoders.
    """

    names: tuple[str, ...]
    space: Space
    rule: CoefficientRule
    beta: float = 1.0
    posteriors: tuple[Posterior, ...] | None = None
    confidence_model: ConfidenceModel | None = None
    report: FitReport | None = None
    familiar: Familiar | None = None
    verifier: FittedVerifier | None = None

    @cached_property
    def slopes(self) -> list[float]:
        """Slope a_k of each encoder's logit a_k s_k + b_k; 1 before `UEC.fit`."""
        if self.posteriors is None:
            return [1.0] * len(self.names)
        return [posterior.summary.slope for posterior in self.posteriors]

    @cached_property
    def intercepts(self) -> list[float]:
        """Intercept b_k of each encoder's logit a_k s_k + b_k; 0 before `UEC.fit`."""
        if self.posteriors is None:
            return [0.0] * len(self.names)
        return [posterior.summary.intercept for posterior in self.posteriors]

    @cached_property
    def slope(self) -> float:
        """Logits per unit of the ensemble's similarity: the mean of the encoders' slopes."""
        return float(np.mean(self.slopes))

    @cached_property
    def weights(self) -> FloatArray:
        """Weight w_k of each encoder's cosine, mean 1: its slope over the mean slope."""
        return block_weights(self.slopes)

    @property
    def evidence_weights(self) -> EvidenceWeights | None:
        """What turns the corpus's evidence into coefficients, where the rule is "evidence"."""
        return self.rule.weights if isinstance(self.rule, Evidence) else None

    def among(self, members: Sequence[int]) -> Fitted:
        """What was fitted of some of the encoders, without what was learned for all together."""
        posteriors = self.posteriors
        return Fitted(
            tuple(self.names[member] for member in members),
            self.space,
            Uniform(),
            self.beta,
            None if posteriors is None else tuple(posteriors[member] for member in members),
        )

    def gaussians(self, encoded: Sequence[Encoded]) -> list[Gaussian]:
        """Each encoder's Gaussians of texts that it has encoded."""
        if self.posteriors is None:
            return [Gaussian.certain(e.embedding, blocks_of(e)) for e in encoded]
        return [
            posterior.gaussian(e.embedding, e.features).with_terms(blocks_of(e))
            for posterior, e in zip(self.posteriors, encoded, strict=True)
        ]

    def coefficients(self, parts: Sequence[Gaussian], role: Role) -> FloatArray:
        """Coefficients of texts of a role from the encoders' Gaussians alone, shape (n, K).

        In the direct sum passages are stored with uniform ones: coefficients of their own, which
        differ from the query's, were measured to hurt. For those that a corpus gives, see `weigh`.
        """
        if role == "passage" and self.space == "direct":
            # The others keep theirs: their blocks must stay as long as in every other passage.
            return np.where(present(parts), Uniform()(parts), np.float32(0))
        if role == "query" and isinstance(self.rule, StandardisedTrace) and self.posteriors:
            return without_missing(self.rule.of(self.standardised_traces(parts)), parts)
        return without_missing(self.rule(parts), parts)

    def weigh(
        self,
        weights: EvidenceWeights,
        parts: Sequence[Gaussian],
        summaries: Sequence[SimilaritySummary],
    ) -> FloatArray:
        """Coefficients of queries from what a corpus says of each encoder, shape (n, K).

        Parameters
        ----------
        weights : EvidenceWeights
        parts : sequence of Gaussian
            Each encoder's Gaussians of the queries.
        summaries : sequence of K SimilaritySummary
            Of each encoder's cosines to the corpus that is searched, at its slope.
        """
        traces = self.standardised_traces(parts)
        evidence = evidence_of(summaries, self.slopes, self.intercepts, traces)
        pi = without_missing(weights.coefficients(evidence), parts)
        known = [
            s.leaders.max(axis=1) > 0 if part.terms else np.ones(len(pi), dtype=bool)
            for s, part in zip(summaries, parts, strict=True)
        ]
        return without_silent(pi, np.stack(known, axis=1))

    def combine(self, parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
        """Gaussian convolution of the encoders' Gaussians with given coefficients."""
        if self.space == "shared":
            return shared(parts, coefficients)
        return direct_sum(parts, coefficients, self.weights)

    def logits(self, mu: FloatArray, coefficients: FloatArray) -> FloatArray:
        """Logits of similarities, ``sum_k pi_k (a_k s_k + b_k)``, shape (n, m) as `mu`."""
        offset: FloatArray = coefficients @ np.asarray(self.intercepts, dtype=np.float32)
        return np.float32(self.slope) * mu + offset[:, None]

    def best_logits(self, own: Sequence[FloatArray]) -> FloatArray:
        """The highest of the encoders' own logits ``a_k s_k + b_k``, of K arrays of cosines."""
        logits = [
            np.float32(slope) * similarities + np.float32(intercept)
            for slope, intercept, similarities in zip(
                self.slopes, self.intercepts, own, strict=True
            )
        ]
        best: FloatArray = np.max(logits, axis=0)
        return best

    def logit_variance(self, sigma2: FloatArray) -> FloatArray:
        """Variance of the logits of similarities of variance `sigma2`."""
        return np.float32(self.slope) ** 2 * sigma2

    def standardised_traces(self, parts: Sequence[Gaussian]) -> FloatArray:
        """How unusual each query's variance is to each encoder, in standard deviations, (n, K)."""
        if self.posteriors is None:
            return np.zeros((len(parts[0]), len(parts)), dtype=np.float32)
        return np.stack(
            [
                posterior.standardised_log_trace(part)
                for posterior, part in zip(self.posteriors, parts, strict=True)
            ],
            axis=1,
        )

    def shares(self, coefficients: FloatArray) -> FloatArray:
        """How much each encoder counted: ``pi_k w_k``, rows summing to 1, shape (n, K).

        In the direct sum a similarity is ``sum_k pi_k w_k s_k``: an encoder of slope 0 counts for
        nothing whatever its coefficient.
        """
        if self.space == "shared":
            return coefficients
        counted = coefficients * self.weights
        total = np.maximum(counted.sum(axis=1, keepdims=True), np.float32(1e-30))
        shares: FloatArray = counted / total
        return shares


def blocks_of(encoded: Encoded) -> tuple[Terms, ...]:
    """The sparse blocks of what an encoder made of texts."""
    return () if encoded.terms is None else (encoded.terms,)


def without_silent(coefficients: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Coefficients that leave out members which know nothing of a query, shape (n, K).

    Parameters
    ----------
    coefficients : array, shape (n, K)
    known : array of bool, shape (n, K)
        Whether any passage has a similarity to the query. Where no member has one the coefficients
        stay as they are.
    """
    left = np.where(known, coefficients, np.float32(0))
    total = left.sum(axis=1, keepdims=True)
    kept: FloatArray = np.where(total > 0, left / np.maximum(total, 1e-30), coefficients)
    return kept.astype(np.float32)
