"""Asking a corpus: every encoder's similarities to it, the coefficients, the ensemble's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.convolution import block_scales
from uec_rag.evidence import EvidenceGate
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.passes import softmax_sums, weighted_sum
from uec_rag.stores.base import Store

if TYPE_CHECKING:
    from uec_rag.ensemble import UEC


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
    similarities : array, shape (n, N)
        The ensemble's mu_s to the whole corpus.
    """

    parts: Sequence[Gaussian]
    own_normalisers: FloatArray | None
    coefficients: FloatArray
    query: Gaussian
    similarities: FloatArray


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
    sums = [softmax_sums(s, slope) for s, slope in zip(own, uec.slopes, strict=True)]
    pi = uec.weigh(gate, parts, own, sums)
    normalisers = np.stack([s.log_normaliser for s in sums], axis=1)
    fused = weighted_sum(own, pi * uec.weights)
    return Asked(parts, normalisers, pi, uec.combine(parts, pi), fused)


def own_similarities(uec: UEC, store: Store, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Each encoder's cosines of the queries to the corpus of a direct sum, shape (n, N)."""
    # Rather the queries are scaled than their similarities to everything.
    scales = block_scales(uec.weights)
    return store.similarities([p.mean / scale for p, scale in zip(parts, scales, strict=True)])
