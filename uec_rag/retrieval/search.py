"""One search: similarities to the corpus, coefficients, hits, and what to make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.softmax_sums import Digest, SoftmaxSums
from uec_rag.base.tiles import weighted_sum
from uec_rag.confidence.decision import Action, Ambiguity, Decision, ambiguities, decide
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.coefficients import Uniform
from uec_rag.ensemble.convolution import block_scales, blocks
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.similarity_summary import Rest, SimilaritySummary
from uec_rag.stores.base import Found, Store

_BLOCK = 2**26  # similarities held at a time, over queries, passages and encoders
_CANDIDATES = 256  # of an approximate search, that stand for what is near a query
_SAMPLE = 4096  # passages that stand for the corpus


@dataclass(frozen=True, eq=False)
class Asked:
    """What n queries and a corpus of N passages say of each other.

    Attributes
    ----------
    parts : sequence of Gaussian
        Each encoder's Gaussians of the queries.
    own_normalisers : array, shape (n, K), or None
        log sum over the corpus of exp(slope_k * cosine), of each encoder; None where the
        coefficients do not need the encoders' own similarities.
    coefficients : array, shape (n, K)
    query : Gaussian
        The ensemble's.
    similarities : array, shape (n, N) or (n, C)
        The ensemble's mu_s to the whole corpus, or to candidates.
    rest : Rest or None
        What is known of the corpus where `similarities` are those of candidates.
    """

    parts: Sequence[Gaussian]
    own_normalisers: FloatArray | None
    coefficients: FloatArray
    query: Gaussian
    similarities: FloatArray
    rest: Rest | None = None

    def sums(self, slope: float) -> SoftmaxSums:
        """Sums of the softmax of ``slope * mu_s`` over the corpus."""
        if self.rest is None:
            return Digest.of(self.similarities).softmax(slope)
        return self.rest.sums(self.similarities, slope)


def queries_at_once(passages: int, encoders: int) -> int:
    """How many queries to ask at a time, so that their similarities take bounded memory."""
    return max(1, _BLOCK // max(1, passages * (encoders + 1)))


def ask(
    fitted: Fitted, weights: EvidenceWeights | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """Compare encoded queries with everything in a store.

    With evidence weights the encoders' own similarities come first, which costs what one search
    does, and the ensemble's are their weighted sum.

    Parameters
    ----------
    fitted : Fitted
    weights : EvidenceWeights or None
    store : Store
    parts : sequence of Gaussian
        Each encoder's Gaussians of the queries.
    """
    if weights is None or not len(store):
        pi = fitted.coefficients(parts, "query")
        query = fitted.combine(parts, pi)
        return Asked(parts, None, pi, query, store.similarities([query.mean])[0])
    own = own_similarities(fitted, store, parts)
    summaries = [
        SimilaritySummary.of(s, slope) for s, slope in zip(own, fitted.slopes, strict=True)
    ]
    pi = fitted.weigh(weights, parts, summaries)
    fused = weighted_sum(own, pi * fitted.weights)
    return Asked(parts, _normalisers(summaries), pi, fitted.combine(parts, pi), fused)


def ask_nearest(
    fitted: Fitted, weights: EvidenceWeights | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """`ask` of a store that searches approximately: candidates and a sample stand for the corpus.

    With evidence weights the candidates are those of uniform coefficients. The sample's mean and
    deviation tell what the passages that are no candidates add to a softmax.
    """
    plain = fitted.coefficients(parts, "query") if weights is None else Uniform()(parts)
    query, size = fitted.combine(parts, plain), len(store)
    if not size or not len(query):
        return ask(fitted, weights, store, parts)
    means, sample = _near(store, query.mean), store.sample(_SAMPLE).mean
    if weights is None:
        mu, everywhere = np.einsum("nd,ncd->nc", query.mean, means), query.mean @ sample.T
        return Asked(parts, None, plain, query, mu, Rest.of(everywhere, size))
    dimensions = [part.dimension for part in parts]
    own = [
        np.einsum("nd,ncd->nc", part.mean, block)
        for part, block in zip(parts, blocks(means, dimensions, fitted.weights), strict=True)
    ]
    sampled = [
        part.mean @ block.T
        for part, block in zip(parts, blocks(sample, dimensions, fitted.weights), strict=True)
    ]
    rests = [Rest.of(similarities, size) for similarities in sampled]
    summaries = [
        SimilaritySummary.of_candidates(s, rest, slope)
        for s, rest, slope in zip(own, rests, fitted.slopes, strict=True)
    ]
    pi = fitted.weigh(weights, parts, summaries)
    query = fitted.combine(parts, pi)
    return Asked(
        parts,
        _normalisers(summaries),
        pi,
        query,
        np.einsum("nd,ncd->nc", query.mean, _near(store, query.mean)),
        Rest.of(weighted_sum(sampled, pi * fitted.weights), size),
    )


def _normalisers(summaries: Sequence[SimilaritySummary]) -> FloatArray:
    return np.stack([summary.sums.log_normaliser for summary in summaries], axis=1)


def _near(store: Store, mean: FloatArray) -> FloatArray:
    """Means of the candidates of each query, shape (n, C, d)."""
    found = store.nearest(mean, _CANDIDATES)
    count = min(map(len, found))
    near = store.vectors([id_ for row in found for id_ in row[:count]])
    return near.mean.reshape(len(mean), count, -1)


def own_similarities(fitted: Fitted, store: Store, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Each encoder's cosines of the queries to the corpus of a direct sum, shape (n, N)."""
    # Rather the queries are scaled than their similarities to everything.
    scales = block_scales(fitted.weights)
    return store.similarities([p.mean / scale for p, scale in zip(parts, scales, strict=True)])


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is made of the hits of n queries.

    Attributes
    ----------
    relevance : array, shape (n, k)
    confidence : array, shape (n,)
    ambiguous : list of Ambiguity or None
    decisions : list of Decision
    """

    relevance: FloatArray
    confidence: FloatArray
    ambiguous: list[Ambiguity | None]
    decisions: list[Decision]


def judge(
    fitted: Fitted,
    model: ConfidenceModel | None,
    store: Store,
    asked: Asked,
    found: Found,
) -> Judgement:
    """Turn similarities into probabilities and a decision.

    Parameters
    ----------
    fitted : Fitted
    model : ConfidenceModel or None
        None where nothing was learned: relevance is then the similarity itself, from 0.
    store : Store
        What was searched.
    asked : Asked
    found : Found
    """
    if not found.scores.size:
        return unjudged(found, "abstain", "nothing was found")
    if model is None:
        reason = "nothing is known of how far to trust it: fit the ensemble or calibrate"
        return unjudged(found, "answer", reason)
    pi = asked.coefficients
    sums = asked.sums(fitted.slope / model.temperature)
    summary = fitted.corpus_summary(sums, pi, model.temperature)
    logits, variance = fitted.logits(found.mu, pi), fitted.logit_variance(found.sigma2)
    posterior: FloatArray = np.exp(
        logits / np.float32(model.temperature) - summary.log_normaliser[:, None]
    )
    ids = [[passage.id for passage in row] for row in found.passages]
    ambiguous = ambiguities(posterior, _member_posterior(fitted, store, asked, found), ids)
    confidence = model.query_confidence(summary)
    relevance = model.hit_relevance(logits, variance, summary)
    return Judgement(relevance, confidence, ambiguous, decide(confidence, ambiguous))


def unjudged(found: Found, action: Action, reason: str) -> Judgement:
    """What is made of hits where nothing was learned: relevance is the similarity, from 0."""
    relevance = np.clip(found.mu, 0, 1)
    best = relevance.max(axis=1, initial=0.0)
    decisions = [Decision(action, reason, (), float(sure)) for sure in best]
    return Judgement(relevance, best, [None] * len(best), decisions)


def _member_posterior(fitted: Fitted, store: Store, asked: Asked, found: Found) -> FloatArray:
    """Each encoder's softmax over the corpus, at the hits, shape (n, K, k); 0 where unknown."""
    count, k = found.mu.shape
    out = np.zeros((count, len(asked.parts), k), dtype=np.float32)
    if asked.own_normalisers is None:
        return out
    ids = [passage.id for row in found.passages for passage in row]
    means = store.vectors(ids).mean.reshape(count, k, -1)
    members = blocks(means, [part.dimension for part in asked.parts], fitted.weights)
    for i, (part, hits) in enumerate(zip(asked.parts, members, strict=True)):
        logits = np.float32(fitted.slopes[i]) * np.einsum("nd,nkd->nk", part.mean, hits)
        out[:, i] = np.exp(np.minimum(logits - asked.own_normalisers[:, i, None], 0))
    return out
