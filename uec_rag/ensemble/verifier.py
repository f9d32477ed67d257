"""A verifier beside the encoders: it reads query and passage together, the first hits' alone.

It has no vectors: what it says of the first v hits joins the direct sum there. Its logit
``a s + b`` counts as much as an encoder's, with the coefficient 1 / K. Passages that it has not
read are taken to be no better than the worst that it has: relative to that one, every hit that was
read only gains similarity, so that the others stay as they are, below them; and what the worst has
is added to the logits of the whole corpus.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.spans import span
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import unique_names
from uec_rag.encoders.verifier import Scored, Verifier
from uec_rag.ensemble.faults import OnError
from uec_rag.laplace.posterior import Posterior

VERIFY_K = 20
"""Hits that a verifier reads, unless told otherwise."""

_log = logging.getLogger(__name__)


def verifier_name(names: Sequence[str], verifier: Verifier) -> str:
    """A verifier's name, unique beside the encoders'."""
    return unique_names([*names, verifier.name])[-1]


@dataclass(frozen=True, eq=False)
class FittedVerifier:
    """What fitting found for a verifier.

    Attributes
    ----------
    name : str
    k : int
        How many hits it reads.
    weight : float
        Its coefficient: 1 / K beside K encoders.
    posterior : Posterior
        Slope and intercept of its score, and the posterior over the layer that gives it.
    confidence_model : ConfidenceModel
        What turns logits into relevance and confidence where it has read the first hits.
    """

    name: str
    k: int
    weight: float
    posterior: Posterior
    confidence_model: ConfidenceModel


@dataclass(frozen=True, eq=False)
class Verified:
    """What a verifier says of v hits of each of n queries.

    Attributes
    ----------
    scores : array, shape (n, v)
        Its own, on its own scale.
    gain, variance : array, shape (n, v)
        Logits that a hit has more than one that was not read, at least 0, and their variance.
    floor : array, shape (n,)
        Logits that every passage has: what the worst that was read has.
    """

    scores: FloatArray
    gain: FloatArray
    variance: FloatArray
    floor: FloatArray

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        weight: float,
        scored: Scored,
        shape: tuple[int, int],
        hidden: NDArray[np.bool_] | None = None,
    ) -> Verified:
        """From scores of all pairs, one query after the other.

        Parameters
        ----------
        posterior : Posterior
        weight : float
        scored : Scored
        shape : (n, v)
        hidden : array of bool, shape (n, v), optional
            Hits that count as not read.
        """
        summary = posterior.summary
        gaussian = posterior.gaussian(scored.scores[:, None], scored.features)
        scores = scored.scores.reshape(shape)
        logits = np.float32(weight) * (
            np.float32(summary.slope) * scores + np.float32(summary.intercept)
        )
        variance = np.float32(weight * summary.slope) ** 2 * gaussian.variance.reshape(shape)
        read = np.ones(shape, dtype=bool) if hidden is None else ~hidden
        floor = np.where(read, logits, np.inf).min(axis=1, initial=np.inf)
        floor = np.where(np.isfinite(floor), floor, 0).astype(np.float32)
        gain = np.where(read, logits - floor[:, None], np.float32(0))
        return cls(scores, gain, np.where(read, variance, np.float32(0)), floor)

    def ranks(self) -> NDArray[np.int64]:
        """Places by the verifier's own score among the hits that it has read, from 1."""
        order = np.argsort(-self.scores, axis=1, kind="stable")
        return np.argsort(order, axis=1, kind="stable") + 1


@dataclass(frozen=True, eq=False)
class Verification:
    """A verifier with what was fitted of it.

    Attributes
    ----------
    verifier : Verifier
    fitted : FittedVerifier
    on_error : {"raise", "drop"}
    """

    verifier: Verifier
    fitted: FittedVerifier
    on_error: OnError

    @property
    def fingerprint(self) -> str:
        """Hash of what its logits depend on."""
        posterior = self.fitted.posterior
        state = [self.verifier.revision or self.fitted.name, self.fitted.k, self.fitted.weight]
        digest = hashlib.sha256(json.dumps([*state, posterior.metadata()]).encode())
        digest.update(np.ascontiguousarray(posterior.covariance).tobytes())
        return digest.hexdigest()[:32]

    def verify(
        self,
        queries: Sequence[str],
        passages: Sequence[Sequence[str]],
        hidden: NDArray[np.bool_] | None = None,
    ) -> Verified | None:
        """Read v passages of each of n queries, all in one call; None where it fails and may.

        Parameters
        ----------
        queries : sequence of n str
        passages : sequence of n sequences of v str
        hidden : array of bool, shape (n, v), optional
            Hits that count as not read.
        """
        shape = len(queries), len(passages[0]) if passages else 0
        try:
            with span("verify", queries=shape[0], passages=shape[1]):
                scored = self.verifier.score(queries, passages)
        except Exception as error:
            if self.on_error == "raise":
                raise
            _log.warning(
                "verifier %r does not count in %d queries: %s: %s",
                self.fitted.name,
                shape[0],
                type(error).__name__,
                error,
            )
            return None
        return Verified.of(self.fitted.posterior, self.fitted.weight, scored, shape, hidden)
