"""Asking a corpus: every encoder's similarities to it, the coefficients, the ensemble's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.softmax_sums import Digest, SoftmaxSums
from uec_rag.base.tiles import weighted_sum
from uec_rag.ensemble.coefficients import Uniform
from uec_rag.ensemble.convolution import block_scales, blocks
from uec_rag.ensemble.evidence import EvidenceGate, evidence_of
from uec_rag.ensemble.similarity_summary import Landscape, Rest
from uec_rag.stores.base import Store

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC

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


def ask(uec: UEC, gate: EvidenceGate | None, store: Store, parts: Sequence[Gaussian]) -> Asked:
    """Compare encoded queries with everything in a store.

    With a gate the encoders' own similarities come first, which costs what one search does, and
    the ensemble's are their weighted sum.

    Parameters
    ----------
    uec : UEC
    gate : EvidenceGate or None
    store : Store
    parts : sequence of Gaussian
        Each encoder's Gaussians of the queries.
    """
    if gate is None or not len(store):
        pi = uec.coefficients(parts, "query")
        query = uec.combine(parts, pi)
        return Asked(parts, None, pi, query, store.similarities([query.mean])[0])
    own = own_similarities(uec, store, parts)
    landscapes = [Landscape.of(s, slope) for s, slope in zip(own, uec.slopes, strict=True)]
    pi = _weighed(uec, gate, parts, landscapes)
    fused = weighted_sum(own, pi * uec.weights)
    return Asked(parts, _normalisers(landscapes), pi, uec.combine(parts, pi), fused)


def ask_nearest(
    uec: UEC, gate: EvidenceGate | None, store: Store, parts: Sequence[Gaussian]
) -> Asked:
    """`ask` of a store that searches approximately: candidates and a sample stand for the corpus.

    With a gate the candidates are those of uniform coefficients. The sample's mean and deviation
    tell what the passages that are no candidates add to a softmax.
    """
    plain = uec.coefficients(parts, "query") if gate is None else Uniform()(parts)
    query, size = uec.combine(parts, plain), len(store)
    if not size or not len(query):
        return ask(uec, gate, store, parts)
    means, sample = _near(store, query.mean), store.sample(_SAMPLE).mean
    if gate is None:
        mu, everywhere = np.einsum("nd,ncd->nc", query.mean, means), query.mean @ sample.T
        return Asked(parts, None, plain, query, mu, Rest.of(everywhere, size))
    dimensions = [part.dimension for part in parts]
    own = [
        np.einsum("nd,ncd->nc", part.mean, block)
        for part, block in zip(parts, blocks(means, dimensions, uec.weights), strict=True)
    ]
    sampled = [
        part.mean @ block.T
        for part, block in zip(parts, blocks(sample, dimensions, uec.weights), strict=True)
    ]
    rests = [Rest.of(similarities, size) for similarities in sampled]
    landscapes = [
        Landscape.of_candidates(s, rest, slope)
        for s, rest, slope in zip(own, rests, uec.slopes, strict=True)
    ]
    pi = _weighed(uec, gate, parts, landscapes)
    query = uec.combine(parts, pi)
    return Asked(
        parts,
        _normalisers(landscapes),
        pi,
        query,
        np.einsum("nd,ncd->nc", query.mean, _near(store, query.mean)),
        Rest.of(weighted_sum(sampled, pi * uec.weights), size),
    )


def _weighed(
    uec: UEC, gate: EvidenceGate, parts: Sequence[Gaussian], landscapes: Sequence[Landscape]
) -> FloatArray:
    traces = uec.standardised_traces(parts)
    return gate.coefficients(evidence_of(landscapes, uec.slopes, uec.intercepts, traces))


def _normalisers(landscapes: Sequence[Landscape]) -> FloatArray:
    return np.stack([landscape.sums.log_normaliser for landscape in landscapes], axis=1)


def _near(store: Store, mean: FloatArray) -> FloatArray:
    """Means of the candidates of each query, shape (n, C, d)."""
    found = store.nearest(mean, _CANDIDATES)
    count = min(map(len, found))
    near = store.vectors([id_ for row in found for id_ in row[:count]])
    return near.mean.reshape(len(mean), count, -1)


def own_similarities(uec: UEC, store: Store, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Each encoder's cosines of the queries to the corpus of a direct sum, shape (n, N)."""
    # Rather the queries are scaled than their similarities to everything.
    scales = block_scales(uec.weights)
    return store.similarities([p.mean / scale for p, scale in zip(parts, scales, strict=True)])
