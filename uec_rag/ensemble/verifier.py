"""A verifier beside the encoders, which reads the query together with each of the first hits.

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
from functools import lru_cache

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.spans import span
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.encoders.base import unique_names
from uec_rag.encoders.verifier import Verifier, bounded
from uec_rag.ensemble.faults import OnError
from uec_rag.laplace.posterior import PosteriorSummary

VERIFY_K = 20
"""Hits that a verifier reads by default."""

_FURTHEST = 100.0
"""Log odds that a verifier's score may say, and their deviation: beyond 17 single precision knows
no other probability than 1, beyond -87 none but 0, but sums of what is unbounded are no numbers."""

_log = logging.getLogger(__name__)


def verifier_name(names: Sequence[str], verifier: Verifier) -> str:
    """Name a verifier, unlike any of the encoders."""
    return unique_names([*names, verifier.name])[-1]


@dataclass(frozen=True, eq=False)
class FittedVerifier:
    """The fitted weights of a verifier.

    Attributes
    ----------
    k : int
        How many hits it reads.
    weight : float
        Its coefficient: 1 / K beside K encoders.
    summary : PosteriorSummary
        Slope and intercept of its score, and how well they do.
    confidence_model : ConfidenceModel
        What turns logits into relevance and confidence if it has read the first hits.
    """

    name: str
    k: int
    weight: float
    summary: PosteriorSummary
    confidence_model: ConfidenceModel


@dataclass(frozen=True, eq=False)
class Verified:
    """The scores of a verifier for v hits of each of n queries.

    Attributes
    ----------
    scores : array, shape (n, v)
        Its own, on its own scale.
    gain : array, shape (n, v)
        Logits that a hit has more than the worst that was read, at least 0.
    floor : array, shape (n,)
        Logits that every passage has: what the worst that was read has.
    """

    scores: FloatArray
    gain: FloatArray
    floor: FloatArray

    @classmethod
    def of(
        cls,
        summary: PosteriorSummary,
        weight: float,
        scores: FloatArray,
        shape: tuple[int, int],
    ) -> Verified:
        """Make it from the scores of all pairs, one query after the other.

        Log odds that a score says are cut off at +-100: whatever a verifier returns, what rests on
        it is a number.

        `scores`: array, shape (n * v,). `shape`: n and v.
        """
        scores = scores.reshape(shape)
        logits = np.float32(weight) * np.clip(
            np.float32(summary.slope) * scores + np.float32(summary.intercept),
            -_FURTHEST,
            _FURTHEST,
        )
        floor = logits.min(axis=1) if shape[1] else np.zeros(shape[0], dtype=np.float32)
        return cls(scores, logits - floor[:, None], floor)


@lru_cache(maxsize=8)
def _fingerprint(name: str, fitted: FittedVerifier) -> str:
    """Hash a fit; cached, since every search asks for it."""
    state = [name, fitted.k, fitted.weight, fitted.summary.metadata()]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Verification:
    """A verifier with its fitted weights.

    Attributes
    ----------
    on_error : {"raise", "drop"}
    """

    verifier: Verifier
    fitted: FittedVerifier
    on_error: OnError

    @property
    def fingerprint(self) -> str:
        """The hash of all that its logits depend on."""
        return _fingerprint(self.verifier.revision or self.fitted.name, self.fitted)

    def verify(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Verified | None:
        """Read v passages of each of n queries in one call; None if it fails and may."""
        shape = len(queries), len(passages[0]) if passages else 0
        try:
            with span("verify", queries=shape[0], passages=shape[1]):
                scores = bounded(self.verifier.score(queries, passages))
        except Exception as error:
            if self.on_error == "raise":
                raise
            _log.warning(
                "verifier %r is left out for %d queries: %s: %s",
                self.fitted.name,
                shape[0],
                type(error).__name__,
                error,
            )
            return None
        return Verified.of(self.fitted.summary, self.fitted.weight, scores, shape)
