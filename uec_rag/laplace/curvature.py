"""The generalised Gauss-Newton matrix of a pair likelihood over the last layer, in closed form.

Two likelihoods:

- "pairs", y ~ Bernoulli(sigmoid(a z.z' + b)) on labelled pairs;
- "in_batch", the softmax over the passages of a batch (the authors' code).

With z = z0 + gain * (dW h), the Jacobian of a logit is a sum of two outer products, so the
diagonal and the Kronecker factors of the GGN take a few matrix products. No Jacobian is formed.
tests/laplace/test_curvature.py compares the results with those of laplace-torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import Encoded
from uec_rag.laplace.likelihood import Likelihood
from uec_rag.laplace.pairs import LabelledPairs
from uec_rag.laplace.posterior import Structure

BATCH: dict[Likelihood, int] = {"pairs": 1024, "in_batch": 64}
"""Batch size by likelihood; for "in_batch", the other passages of a batch are the negatives."""

Matrix = NDArray[np.floating]
Factors: TypeAlias = tuple[NDArray[np.float64], ...]
"""The curvature of the loss of labelled pairs in the last layer's weights; that of parts adds up.

For "diag", the diagonal H (d, m) of the GGN. For "kron", G (d, d), and the sum of the features'
second moments over both texts of each pair (m, m).
"""
Side: TypeAlias = tuple[Encoded, NDArray[np.int64]]
"""The distinct texts of one side of n pairs, to compute each once, and the index of each pair's."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A last layer with labelled pairs, and the settings of the curvature.

    Attributes
    ----------
    queries, passages : Encoded
        The texts that the pairs index.
    pairs : LabelledPairs
    gain : array, shape (d,)
        Factor of each row of dW in the embedding (gamma of the LayerNorm for ``last_layer="ffn"``).
    slope, intercept : float
        MAP estimates of a and b.
    structure : {"kron", "diag"}
    likelihood : {"pairs", "in_batch"}
    """

    queries: Encoded
    passages: Encoded
    pairs: LabelledPairs
    gain: FloatArray
    slope: float
    intercept: float
    structure: Structure
    likelihood: Likelihood


def distinct(encoded: Encoded, index: NDArray[np.int64]) -> Side:
    """Return the distinct texts that pairs index, and the index of each pair's text in them."""
    texts, positions = np.unique(index, return_inverse=True)
    return encoded[texts], positions


def accumulate(layer: Layer) -> Factors:
    """Compute the curvature over all pairs of a layer, batch by batch."""
    size = BATCH[layer.likelihood]
    batches = (slice(at, at + size) for at in range(0, len(layer.pairs), size))
    each = (_batch_curvature(layer, batch) for batch in batches)
    return reduce(lambda total, factors: tuple(map(np.add, total, factors)), each)


def _batch_curvature(layer: Layer, batch: slice) -> Factors:
    """Compute the curvature of a batch with features h, h' (n, m) and embeddings z, z' (n, d).

    "pairs": with ``w = p (1 - p) a^2`` and the Jacobian ``a gain_j (z'_j h_i + z_j h'_i)``::

        H_ji = gain_j^2 [ (w z'^2)' h^2 + 2 (w z z')' (h h') + (w z^2)' h'^2 ]_ji
        G    = sum_n w (gain z')(gain z')' + w (gain z)(gain z)'

    "in_batch": for query i with probabilities p_ij, the GGN is ``sum_j p_ij J_ij J_ij' - Jbar_i
    Jbar_i'`` with ``J_ij = a (z'_j h_i + z_i h'_j)`` and its mean Jbar under p. It takes matrix
    products over the n texts and, for the term that mixes both sides, over the n^2 pairs.
    """
    pairs = layer.pairs
    q, c = pairs.query_index[batch], pairs.passage_index[batch]
    h, h2 = layer.queries.features[q], layer.passages.features[c]
    z, z2 = layer.queries.embedding[q], layer.passages.embedding[c]
    slope, gain = layer.slope, layer.gain[:, None]
    diagonal = layer.structure == "diag"
    factor: Matrix
    if layer.likelihood == "pairs":
        yes = expit(slope * (z * z2).sum(axis=1) + layer.intercept)
        w = (yes * (1 - yes))[:, None]
        if diagonal:
            factor = (w * z2**2).T @ h**2 + 2 * (w * z * z2).T @ (h * h2) + (w * z**2).T @ h2**2
        else:
            factor = (w * z2).T @ z2 + (w * z).T @ z
    else:
        p = softmax(slope * z @ z2.T, axis=1)
        mean = p @ z2
        if diagonal:
            mean_h2 = p @ h2
            factor = (p @ z2**2 - mean**2).T @ h**2 + (z**2).T @ (p @ h2**2 - mean_h2**2)
            # sum_ij p_ij (z_i z'_j) (h_i h'_j)' over all n^2 pairs of the batch: one product.
            left = (p[..., None] * z[:, None] * z2[None]).reshape(-1, z.shape[1])
            right = (h[:, None] * h2[None]).reshape(-1, h.shape[1])
            factor = factor + 2 * (left.T @ right - (mean * z).T @ (h * mean_h2))
            factor = np.maximum(factor, 0)
        else:
            weight = (p * (1 - p)).sum(axis=1)[:, None]
            factor = (z2 * p.sum(axis=0)[:, None]).T @ z2 - mean.T @ mean + (weight * z).T @ z
    factor = slope**2 * gain * factor * (gain if diagonal else gain.T)
    factors = (factor,) if diagonal else (factor, h.T @ h + h2.T @ h2)
    return tuple(f.astype(np.float64) for f in factors)
