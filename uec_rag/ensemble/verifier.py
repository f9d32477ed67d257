"""The verifier: a reranker in the ensemble that reads the query together with each first hit.

It has no vectors. For the first v hits, its logit ``a s + b`` is added to the direct sum with the
coefficient 1 / K, as that of an encoder. Passages that it has not read are assumed to score no
higher than the worst that it has read. Each hit that was read gains the difference from the worst,
so the order of the others does not change and they stay below; the logit of the worst is added to
every passage of the corpus.
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
"""The default number of hits that a verifier reads."""

_LOGIT_LIMIT = 100.0
"""The limit of a verifier's log odds. In single precision the probability is 1 above 17 and 0 below
-87, so that clipping loses nothing, while the sum of unbounded logits may be NaN."""

_log = logging.getLogger(__name__)


def verifier_name(names: Sequence[str], verifier: Verifier) -> str:
    """Return a name for a verifier that differs from those of the encoders."""
    return unique_names([*names, verifier.name])[-1]


@dataclass(frozen=True, eq=False)
class FittedVerifier:
    """The fitted weights of a verifier.

    Attributes
    ----------
    k : int
        Number of hits that it reads.
    weight : float
        Its coefficient: 1 / K in an ensemble of K encoders.
    summary : PosteriorSummary
        Slope and intercept of its score, and the quality of their fit.
    confidence_model : ConfidenceModel
        Maps logits to relevance and confidence if the verifier has read the first hits.
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
        Raw scores, on the verifier's own scale.
    gain : array, shape (n, v)
        Weighted logit of each hit minus `floor`, at least 0.
    floor : array, shape (n,)
        Weighted logit of the worst hit that was read, which is added to every passage.
    """

    scores: FloatArray
    gain: FloatArray
    floor: FloatArray

    @classmethod
    def of(
        cls, summary: PosteriorSummary, weight: float, scores: FloatArray, shape: tuple[int, int]
    ) -> Verified:
        """Convert the scores of all pairs, query by query, to logits, which are clipped to +-100.

        `scores`: array, shape (n * v,). `shape`: n and v.
        """
        scores = scores.reshape(shape)
        logits = np.float32(weight) * np.clip(
            np.float32(summary.slope) * scores + np.float32(summary.intercept),
            -_LOGIT_LIMIT,
            _LOGIT_LIMIT,
        )
        floor = logits.min(axis=1) if shape[1] else np.zeros(shape[0], dtype=np.float32)
        return cls(scores, logits - floor[:, None], floor)


@lru_cache(maxsize=8)
def _fingerprint(name: str, fitted: FittedVerifier) -> str:
    """Hash a fit; cached, since every search needs it."""
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
        """The hash of everything that its logits depend on."""
        return _fingerprint(self.verifier.revision or self.fitted.name, self.fitted)

    def verify(self, queries: Sequence[str], passages: Sequence[Sequence[str]]) -> Verified | None:
        """Score v passages of each of n queries in one call; None if it fails under "drop"."""
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
