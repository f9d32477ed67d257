"""How likely a hit is relevant and a query answered, and what to do about it.

All of it rests on the fused posterior over the corpus, ``softmax_c(l_c / T)`` with the ensemble's
logits l.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.softmax_sums import Digest, SoftmaxSums
from uec_rag.confidence.calibrator import Calibrator

Action = Literal["answer", "clarify", "abstain"]


@dataclass(frozen=True)
class Decision:
    """What to do with a query's hits.

    Attributes
    ----------
    action : {"answer", "clarify", "abstain"}
    reason : str
        In plain words.
    candidates : tuple of str
        Ids of the hits that compete, where the action is "clarify".
    """

    action: Action
    reason: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Signals:
    """What a search knows about n queries over a corpus of N passages, for the k best hits.

    Attributes
    ----------
    logits : array, shape (n, k)
        Calibrated logit of each hit, ``slope * mu_s + intercept``.
    logit_variance : array, shape (n, k)
        ``slope^2 * sigma_s^2``.
    log_normaliser : array, shape (n,)
        log sum over the whole corpus of exp(logit).
    member_posterior : array, shape (n, K, k)
        Each encoder's own softmax over the corpus, at the hits.
    size : int
        N.
    """

    logits: FloatArray
    logit_variance: FloatArray
    log_normaliser: FloatArray
    member_posterior: FloatArray
    size: int

    @property
    def posterior(self) -> FloatArray:
        """Softmax of the logits over the whole corpus, at the hits, shape (n, k)."""
        posterior: FloatArray = np.exp(self.logits - self.log_normaliser[:, None])
        return posterior


@dataclass(frozen=True, eq=False)
class CorpusSummary:
    """What the fused logits l of n queries say over the whole corpus, at temperature T.

    Attributes
    ----------
    top : array, shape (n,)
        Highest l / T.
    log_normaliser : array, shape (n,)
        log sum_c exp(l_c / T).
    soft_normaliser : array, shape (n,)
        log sum_c exp(l_c / 2T).
    entropy : array, shape (n,)
        Of the softmax at T, in nats.
    """

    top: FloatArray
    log_normaliser: FloatArray
    soft_normaliser: FloatArray
    entropy: FloatArray

    @classmethod
    def of(cls, sums: SoftmaxSums) -> Self:
        """The summary that a softmax's sums make."""
        return cls(
            top=sums.top,
            log_normaliser=sums.log_normaliser,
            soft_normaliser=sums.soft_normaliser,
            entropy=sums.log_normaliser - sums.mean_logit,
        )

    def shifted(self, offset: FloatArray) -> CorpusSummary:
        """The summary where every l / T of a query is higher by its offset, shape (n,)."""
        return CorpusSummary(
            top=self.top + offset,
            log_normaliser=self.log_normaliser + offset,
            soft_normaliser=self.soft_normaliser + offset / np.float32(2),
            entropy=self.entropy,
        )

    def features(self) -> FloatArray:
        """What confidence rests on, shape (n, 3).

        Minus the entropy and the log of the top's share at twice the temperature say whether one
        passage stands out; the top itself, whether it is near enough to be the answer at all. On
        collections nothing was fitted on the first two order queries best by how well they are
        answered, and the third is what tells a query that the corpus does not answer; more
        features added nothing.
        """
        return np.stack([-self.entropy, self.top / 2 - self.soft_normaliser, self.top], axis=1)


def summarise(logits: FloatArray, temperature: float = 1.0) -> CorpusSummary:
    """Sum up logits over a corpus.

    Parameters
    ----------
    logits : array, shape (n, N)
        N at least 1.
    temperature : float

    Examples
    --------
    >>> summary = summarise(np.zeros((1, 8), "f4"))
    >>> bool(np.isclose(summary.entropy[0], np.log(8)))
    True
    """
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"logits: expected shape (n, N) with N >= 1, got {logits.shape}.")
    return CorpusSummary.of(Digest.of(logits).softmax(1 / temperature))


def relevance_features(
    logits: FloatArray,
    variance: FloatArray,
    log_normaliser: FloatArray,
    temperature: float = 1.0,
) -> FloatArray:
    """What relevance rests on, shape (n, k, 2): the probit logit and the log posterior of each hit.

    Parameters
    ----------
    logits, variance : array, shape (n, k)
        Mean and variance of each hit's logit, ``slope * mu_s + intercept`` and
        ``slope^2 sigma_s^2``.
    log_normaliser : array, shape (n,)
        Of the `CorpusSummary`.
    temperature : float
    """
    probit = logits / np.sqrt(1 + np.float32(np.pi / 8) * variance)
    share = logits / np.float32(temperature) - log_normaliser[:, None]
    return np.stack([probit, share], axis=-1)


@dataclass(frozen=True)
class ConfidenceModel:
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
        confidence_features : array, shape (n, 2)
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

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {
            "temperature": self.temperature,
            "relevance": self.relevance.metadata(),
            "confidence": self.confidence.metadata(),
        }

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing."""
        match metadata:
            case {
                "temperature": float(temperature),
                "relevance": dict(relevance),
                "confidence": dict(confidence),
            }:
                return cls(
                    temperature, Calibrator.restore(relevance), Calibrator.restore(confidence)
                )
        raise ValueError(f"confidence: no saved model looks like {dict(metadata)}.")


@dataclass(frozen=True)
class Reading:
    """Why a query is ambiguous.

    Attributes
    ----------
    reason : str
        In plain words.
    candidates : tuple of str
        Ids of the hits that compete.
    """

    reason: str
    candidates: tuple[str, ...]


def readings(signals: Signals, ids: list[list[str]]) -> list[Reading | None]:
    """Whether each query could mean one of several hits; None where it could not.

    It could where two encoders are each sure of another passage, or where a few passages, none far
    behind the best, share most of the posterior.

    Parameters
    ----------
    signals : Signals
    ids : list of list of str
        Ids of the hits.
    """
    return [
        _reading(hits, signals.posterior[row], signals.member_posterior[row])
        for row, hits in enumerate(ids)
    ]


def _reading(hits: list[str], posterior: FloatArray, members: FloatArray) -> Reading | None:
    best = members.argmax(axis=1)
    picks = sorted({int(hit) for hit, own in zip(best, members, strict=True) if own[hit] >= 0.5})
    if len(picks) > 1:
        return Reading("encoders are sure of different passages", tuple(hits[p] for p in picks))
    close = np.flatnonzero(posterior >= posterior.max() / 4)
    if len(close) > 1 and posterior[close].sum() >= 0.5:
        return Reading(f"{len(close)} passages compete", tuple(hits[row] for row in close))
    return None


def decide(
    confidence: FloatArray, ambiguous: Sequence[Reading | None], threshold: float = 0.5
) -> list[Decision]:
    """Answer above a threshold; below it ask back where the query is ambiguous, else abstain.

    Parameters
    ----------
    confidence : array, shape (n,)
    ambiguous : sequence of Reading or None
        As `readings` gives them.
    threshold : float
        For instance a `uec_rag.confidence.risk.RiskThreshold`'s.

    Examples
    --------
    >>> rivals = Reading("2 passages compete", ("a", "b"))
    >>> [d.action for d in decide(np.float32([0.9, 0.3, 0.3]), [None, rivals, None])]
    ['answer', 'clarify', 'abstain']
    """
    return [
        _decide_one(float(sure), reading, threshold)
        for sure, reading in zip(confidence, ambiguous, strict=True)
    ]


def _decide_one(sure: float, reading: Reading | None, threshold: float) -> Decision:
    found = f"confidence {sure:.2f}"
    if sure > threshold:
        return Decision("answer", f"{found} is above the threshold {threshold:.2f}")
    if reading is not None:
        return Decision("clarify", f"{found}; {reading.reason}", reading.candidates)
    return Decision("abstain", f"{found} is not above the threshold {threshold:.2f}")
