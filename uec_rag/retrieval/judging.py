"""What to make of hits: how relevant each is, whether the query is answered, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.model import (
    ConfidenceModel,
    CorpusSummary,
    Decision,
    Reading,
    Signals,
    decide,
    readings,
)
from uec_rag.ensemble.convolution import blocks
from uec_rag.retrieval.asking import Asked
from uec_rag.stores.base import Found, Store

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is made of the hits of n queries.

    Attributes
    ----------
    relevance : array, shape (n, k)
    confidence : array, shape (n,)
    ambiguous : list of Reading or None
    decisions : list of Decision
    """

    relevance: FloatArray
    confidence: FloatArray
    ambiguous: list[Reading | None]
    decisions: list[Decision]


def judge(
    uec: UEC,
    model: ConfidenceModel | None,
    store: Store,
    asked: Asked,
    found: Found,
) -> Judgement:
    """Turn similarities into probabilities and a decision.

    Parameters
    ----------
    uec : UEC
    model : ConfidenceModel or None
        None where nothing was learned: relevance is then the similarity itself, from 0.
    store : Store
        What was searched.
    asked : Asked
    found : Found
    """
    if not found.scores.size:
        return _unjudged(found, Decision("abstain", "nothing was found"))
    if model is None:
        reason = "nothing is known of how far to trust it: fit the ensemble or calibrate"
        return _unjudged(found, Decision("answer", reason))
    pi = asked.coefficients
    # Logits are slope * mu_s + offset: their sums are those of mu_s, so they need not be written.
    offset = uec.logits(np.zeros((len(pi), 1), np.float32), pi)[:, 0]
    summary = CorpusSummary.of(asked.sums(uec.slope / model.temperature)).shifted(
        offset / np.float32(model.temperature)
    )
    logits, variance = uec.logits(found.mu, pi), uec.logit_variance(found.sigma2)
    signals = Signals(
        logits=logits / np.float32(model.temperature),
        logit_variance=variance / np.float32(model.temperature**2),
        log_normaliser=summary.log_normaliser,
        member_posterior=_member_posterior(uec, store, asked, found),
        size=len(store),
    )
    confidence = model.query_confidence(summary)
    ids = [[passage.id for passage in row] for row in found.passages]
    ambiguous = readings(signals, ids)
    relevance = model.hit_relevance(logits, variance, summary)
    return Judgement(relevance, confidence, ambiguous, decide(confidence, ambiguous))


def _unjudged(found: Found, decision: Decision) -> Judgement:
    relevance = np.clip(found.mu, 0, 1)
    best = relevance.max(axis=1, initial=0.0)
    count = len(found.passages)
    return Judgement(relevance, best, [None] * count, [decision] * count)


def _member_posterior(uec: UEC, store: Store, asked: Asked, found: Found) -> FloatArray:
    """Each encoder's softmax over the corpus, at the hits, shape (n, K, k); 0 where unknown."""
    count, k = found.mu.shape
    out = np.zeros((count, len(asked.parts), k), dtype=np.float32)
    if asked.own_normalisers is None:
        return out
    ids = [passage.id for row in found.passages for passage in row]
    means = store.vectors(ids).mean.reshape(count, k, -1)
    members = blocks(means, [part.dimension for part in asked.parts], uec.weights)
    for i, (part, hits) in enumerate(zip(asked.parts, members, strict=True)):
        logits = np.float32(uec.slopes[i]) * np.einsum("nd,nkd->nk", part.mean, hits)
        out[:, i] = np.exp(np.minimum(logits - asked.own_normalisers[:, i, None], 0))
    return out
