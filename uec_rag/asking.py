"""Asking a corpus: every encoder's similarities to it, the coefficients, the ensemble's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.convolution import block_scales
from uec_rag.evidence import EvidenceGate
from uec_rag.gaussian import FloatArray, Gaussian
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
    own : list of K arrays, shape (n, N), or None
        Each encoder's cosines to the corpus; None where the coefficients do not need them.
    coefficients : array, shape (n, K)
    query : Gaussian
        The ensemble's.
    similarities : array, shape (n, N)
        The ensemble's mu_s to the whole corpus.
    """

    parts: Sequence[Gaussian]
    own: list[FloatArray] | None
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
    pi = uec.weigh(gate, parts, own)
    return Asked(parts, own, pi, uec.combine(parts, pi), fused(own, pi * uec.weights))


def own_similarities(uec: UEC, store: Store, parts: Sequence[Gaussian]) -> list[FloatArray]:
    """Each encoder's cosines of the queries to the corpus of a direct sum, shape (n, N)."""
    products = store.similarities([part.mean for part in parts])
    return [p / scale for p, scale in zip(products, block_scales(uec.weights), strict=True)]


def fused(own: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Weighted sum of the encoders' similarities, ``sum_k weights_nk own_k``, shape (n, N)."""
    out = np.zeros_like(own[0])
    for similarities, weight in zip(own, weights.T, strict=True):
        out += weight[:, None] * similarities
    return out
