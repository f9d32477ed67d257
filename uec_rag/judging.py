"""What to make of hits: how relevant each is, whether the query is answered, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.coefficients import softmax
from uec_rag.confidence import ConfidenceModel, Decision, Signals, decide, summarise
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.stores.base import Found, Passage, Store

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is made of the hits of n queries.

    Attributes
    ----------
    relevance : array, shape (n, k)
    confidence : array, shape (n,)
    decisions : list of Decision
    """

    relevance: FloatArray
    confidence: FloatArray
    decisions: list[Decision]


def judge(
    uec: UEC,
    model: ConfidenceModel | None,
    store: Store,
    parts: Sequence[Gaussian],
    coefficients: FloatArray,
    similarities: FloatArray,
    found: Found,
) -> Judgement:
    """Turn similarities into probabilities and a decision.

    Parameters
    ----------
    uec : UEC
    model : ConfidenceModel or None
        None where nothing was learned: relevance is then the similarity itself, from 0.
    store : Store
        What was searched, N passages.
    parts : sequence of Gaussian
        Each encoder's Gaussians of the n queries.
    coefficients : array, shape (n, K)
    similarities : array, shape (n, N)
        The ensemble's, to everything that was searched.
    found : Found
    """
    if not found.scores.shape[1]:
        return _unjudged(found, Decision("abstain", "nothing was found"))
    if model is None:
        reason = "nothing is known of how far to trust it: fit the ensemble or calibrate"
        return _unjudged(found, Decision("answer", reason))
    summary = summarise(uec.logits(similarities, coefficients), model.temperature)
    logits, variance = uec.logits(found.mu, coefficients), uec.logit_variance(found.sigma2)
    signals = Signals(
        logits=logits,
        logit_variance=variance,
        log_normaliser=summary.log_normaliser,
        member_posterior=_member_shares(uec, store, parts, found.passages),
        size=len(store),
    )
    confidence = model.query_confidence(summary)
    ids = [[passage.id for passage in row] for row in found.passages]
    return Judgement(
        model.hit_relevance(logits, variance, summary),
        confidence,
        decide(signals, ids, confidence),
    )


def _unjudged(found: Found, decision: Decision) -> Judgement:
    relevance = np.clip(found.mu, 0, 1)
    best = relevance.max(axis=1, initial=0.0)
    return Judgement(relevance, best, [decision] * len(found.passages))


def _member_shares(
    uec: UEC, store: Store, parts: Sequence[Gaussian], hits: list[list[Passage]]
) -> FloatArray:
    """Each encoder's softmax over the hits of a query, shape (n, K, k)."""
    count, k = len(hits), len(hits[0]) if hits else 0
    if uec.space == "shared" or not k:
        return np.full((count, len(parts), k), 1 / max(k, 1), dtype=np.float32)
    means = store.vectors([passage.id for row in hits for passage in row]).mean
    means = means.reshape(count, k, -1)
    out = np.empty((count, len(parts), k), dtype=np.float32)
    start = 0
    for i, (part, slope) in enumerate(zip(parts, uec.slopes, strict=True)):
        stop = start + part.dimension
        own = np.einsum("nd,nkd->nk", part.mean, means[:, :, start:stop])
        out[:, i] = softmax(np.float32(slope / np.sqrt(uec.weights[i] / len(parts))) * own)
        start = stop
    return out
