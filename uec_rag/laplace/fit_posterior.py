"""Fit the posterior of one encoder to pairs: MAP, curvature, prior precision and scale.

The prior precision and the scale of the variance are tuned on held-out pairs.

The curvature is the generalised Gauss-Newton matrix of a pair likelihood over the last layer, in
closed form: y ~ Bernoulli(sigmoid(a z.z' + b)) on labelled pairs.

With z = z0 + gain * (dW h), the Jacobian of a logit is a sum of two outer products, so the
diagonal and the Kronecker factors of the GGN take a few matrix products. No Jacobian is formed.
tests/laplace/test_curvature.py compares the results with those of laplace-torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import Encoded
from uec_rag.laplace.likelihood import (
    bernoulli_map,
    fitting_intercept,
    predictive_nll,
    variance_scale,
)
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Negatives,
    Pairs,
    held_out_pairs,
    pair_similarities,
    similarities,
    split_queries,
    training_pairs,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure

BATCH = 1024
"""Pairs whose curvature is computed at once."""

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
    """

    queries: Encoded
    passages: Encoded
    pairs: LabelledPairs
    gain: FloatArray
    slope: float
    intercept: float
    structure: Structure


def distinct(encoded: Encoded, index: NDArray[np.int64]) -> Side:
    """Return the distinct texts that pairs index, and the index of each pair's text in them."""
    texts, positions = np.unique(index, return_inverse=True)
    return encoded[texts], positions


def accumulate(layer: Layer) -> Factors:
    """Compute the curvature over all pairs of a layer, batch by batch."""
    batches = (slice(at, at + BATCH) for at in range(0, len(layer.pairs), BATCH))
    curvatures = (_batch_curvature(layer, batch) for batch in batches)
    return reduce(lambda total, factors: tuple(map(np.add, total, factors)), curvatures)


def _batch_curvature(layer: Layer, batch: slice) -> Factors:
    """Compute the curvature of a batch with features h, h' (n, m) and embeddings z, z' (n, d).

    With ``w = p (1 - p) a^2`` and the Jacobian ``a gain_j (z'_j h_i + z_j h'_i)``::

        H_ji = gain_j^2 [ (w z'^2)' h^2 + 2 (w z z')' (h h') + (w z^2)' h'^2 ]_ji
        G    = sum_n w (gain z')(gain z')' + w (gain z)(gain z)'
    """
    pairs = layer.pairs
    q, c = pairs.query_index[batch], pairs.passage_index[batch]
    h, h2 = layer.queries.features[q], layer.passages.features[c]
    z, z2 = layer.queries.embedding[q], layer.passages.embedding[c]
    slope, gain = layer.slope, layer.gain[:, None]
    diagonal = layer.structure == "diag"
    yes = expit(slope * (z * z2).sum(axis=1) + layer.intercept)
    w = (yes * (1 - yes))[:, None]
    factor: Matrix
    if diagonal:
        factor = (w * z2**2).T @ h**2 + 2 * (w * z * z2).T @ (h * h2) + (w * z**2).T @ h2**2
    else:
        factor = (w * z2).T @ z2 + (w * z).T @ z
    factor = slope**2 * gain * factor * (gain if diagonal else gain.T)
    factors = (factor,) if diagonal else (factor, h.T @ h + h2.T @ h2)
    return tuple(f.astype(np.float64) for f in factors)


def fit_posterior(
    pairs: Pairs,
    queries: Encoded,
    passages: Encoded,
    gain: FloatArray,
    *,
    structure: Structure = "kron",
    negatives: Negatives = "hard",
    scaled: bool = True,
    seed: int = 0,
) -> Posterior:
    """Fit the Laplace posterior over one encoder's last layer.

    Negatives, the MAP estimates of slope and intercept, and the GGN (in closed form) come from 80 %
    of the queries. The other 20 % are held out, with their best wrong hits as negatives. For each
    prior precision of a grid, the scale of the variance minimises the negative log-likelihood of
    the probit predictive on them. The smallest precision within one standard error of the best is
    chosen (the one-standard-error rule of Breiman et al., 1984): of the posteriors that the data do
    not contradict, it has the largest variance for unfamiliar inputs.

    Parameters
    ----------
    pairs : Pairs
    queries, passages : Encoded
        Embeddings and last-layer features of `pairs.queries` and `pairs.passages`. For terms, which
        have no layer of weights, only the slope and the intercept are fitted.
    gain : array, shape (d,)
        See `uec_rag.encoders.Encoder`.
    structure : {"kron", "diag"}
    negatives : {"hard", "random"}
        As in `training_pairs`.
    scaled : bool
        Whether to scale the variance to the held-out pairs. If False, the Laplace variance is not
        scaled, as in the paper, and only the prior precision is chosen.
    seed : int
        Random seed of the split and of the mined negatives.
    """
    fitting, held_out = split_queries(pairs, seed)
    similar, are_words = similarities(queries, passages), queries.terms is not None
    if are_words:
        negatives = "hard"
    train = training_pairs(pairs, fitting, similar, seed, negatives)
    similarity = pair_similarities(queries, passages, train)
    slope, intercept = bernoulli_map(similarity, train.labels)
    test = held_out_pairs(pairs, held_out, similar)
    similarity = pair_similarities(queries, passages, test)
    free = fitting_intercept(similarity, 0.0, test.labels, slope)
    plain = predictive_nll(similarity, np.zeros(len(test)), test.labels, slope, free)
    nll = float(plain.mean())
    summary = PosteriorSummary(slope, intercept, len(train), len(test), nll, nll)
    if are_words:
        empty = np.zeros((0, 0), dtype=np.float32)
        return Posterior(structure, empty, empty.reshape(int(structure == "kron"), 0), summary)

    layer = Layer(queries, passages, train, gain, slope, intercept, structure)
    sides = distinct(queries, test.query_index), distinct(passages, test.passage_index)
    trials = candidates(layer, accumulate(layer), *sides)
    best, scale, nll = tune(trials, similarity, test, slope, scaled=scaled)
    summary = replace(summary, prior_precision=best.prior_precision, scale=scale, nll=nll)
    posterior = Posterior(structure, best.covariance, best.profile, summary)
    # Standardised by texts that were not fitted on.
    log_trace = np.log(np.maximum(posterior.gaussian(queries[held_out]).trace, 1e-30))
    mean, deviation = float(log_trace.mean()), max(float(log_trace.std()), 1e-4)
    summary = replace(summary, log_trace_mean=mean, log_trace_sd=deviation)
    return replace(posterior, summary=summary)


# Grids of sqrt(delta) / mean eigenvalue of a factor (kron), and of delta / mean of H (diag).
_KRON_DAMPING = np.logspace(-2, 2, 9)
_DIAG_DAMPING = np.logspace(-4, 4, 9)
# Pseudo-count of pairs in every direction of a Kronecker factor. Without it, a few similar pairs
# gave directions that they do not cover a thousand times the variance of others.
_PSEUDO_PAIRS = 24

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A posterior of unit scale, and its predictions for the held-out pairs.

    Attributes
    ----------
    prior_precision : float
    covariance, profile : array
        As in `uec_rag.laplace.posterior.Posterior`.
    single, double : array, shape (n,)
        The variance of a pair's similarity at scale s is ``s * single + s^2 * double``.
    """

    prior_precision: float
    covariance: FloatArray
    profile: FloatArray
    single: Floats
    double: Floats


def candidates(layer: Layer, factors: Factors, query: Side, passage: Side) -> Iterator[Candidate]:
    """Compute posteriors for a grid of prior precisions, smallest first.

    `factors`: the curvature. `query`, `passage`: the two sides of the held-out pairs.
    """
    return (_diag if layer.structure == "diag" else _kron)(layer, factors, query, passage)


def tune(
    trials: Iterator[Candidate],
    similarity: Floats,
    test: LabelledPairs,
    slope: float,
    *,
    scaled: bool = True,
) -> tuple[Candidate, float, float]:
    """Choose a posterior by the one-standard-error rule; see `fit_posterior`.

    Parameters
    ----------
    trials : iterator of Candidate
        Smallest prior precision first.
    similarity : array, shape (n,)
        Cosines of the held-out pairs.
    test : LabelledPairs
        The held-out pairs.
    slope : float
    scaled : bool
        Whether to tune the scale of the variance, too; if False, it is 1.

    Returns
    -------
    candidate : Candidate
    scale : float
        Scale of its variance.
    nll : float
        Mean negative log-likelihood of the held-out pairs.
    """
    results = []
    for trial in trials:
        if scaled:
            scale, intercept = variance_scale(
                similarity, trial.single, trial.double, test.labels, slope
            )
            variance = scale * trial.single + scale**2 * trial.double
        else:
            scale, variance = 1.0, trial.single + trial.double
            intercept = fitting_intercept(similarity, variance, test.labels, slope)
        results.append(
            (trial, scale, predictive_nll(similarity, variance, test.labels, slope, intercept))
        )
    trial, scale, nll = results[first_as_good([nll for *_, nll in results])]
    return trial, scale, float(nll.mean())


def first_as_good(nlls: Sequence[Floats]) -> int:
    """Return the index of the first posterior that is within one standard error of the best.

    The standard error is that of the paired difference. If the smallest prior precision is first,
    this posterior depends least on the prior among those that the held-out pairs do not contradict.

    `nlls`, sequence of arrays, shape (n,): negative log-likelihood of each held-out pair.
    """
    best = min(nlls, key=lambda nll: float(nll.mean()))
    worse = (nll - best for nll in nlls)
    return next(
        row
        for row, gap in enumerate(worse)
        if float(gap.mean()) <= float(gap.std()) / math.sqrt(len(gap))
    )


def _kron(layer: Layer, factors: Factors, query: Side, passage: Side) -> Iterator[Candidate]:
    """Compute the candidates of a Kronecker-factored posterior.

    The factors are rescaled to the same mean eigenvalue before sqrt(delta) is added to both (the pi
    correction of Martens and Grosse, 2015), which preserves their product. Features are transformed
    to the eigenbasis of A once, since all prior precisions share it.
    """
    (output, features), pairs, gain = factors, len(layer.pairs), layer.gain
    (eigenvalues_g, basis_g), (eigenvalues_a, basis_a) = (
        np.linalg.eigh(factor) for factor in (output, features / (2 * pairs))
    )
    eigenvalues_g, eigenvalues_a = np.maximum(eigenvalues_g, 0), np.maximum(eigenvalues_a, 0)
    size = float(np.sqrt(eigenvalues_g.mean() * eigenvalues_a.mean()))
    size = max(size, 1e-12)
    unit_g = eigenvalues_g * (size / max(eigenvalues_g.mean(), 1e-24))
    unit_a = eigenvalues_a * (size / max(eigenvalues_a.mean(), 1e-24))
    sides = [
        ((texts.features @ basis_a.astype(np.float32)) ** 2, texts.embedding**2, positions)
        for texts, positions in (query, passage)
    ]
    floor = _PSEUDO_PAIRS / pairs
    for damping in np.unique(np.maximum(_KRON_DAMPING, floor)) * size:
        inverse = 1 / (unit_a + damping)
        profile = gain**2 * (basis_g**2 @ (1 / (unit_g + damping)))
        # var = leverage * profile, so a text contributes one or two scalars to a pair's variance.
        (leverage_q, along_q), (leverage_p, along_p) = (
            ((turned @ inverse.astype(np.float32))[positions], (square @ profile)[positions])
            for turned, square, positions in sides
        )
        yield Candidate(
            float(damping**2),
            # Contiguous rows, as in a loaded posterior, so that products round identically.
            np.ascontiguousarray(basis_a * np.sqrt(inverse), dtype=np.float32),
            profile[None].astype(np.float32),
            leverage_p * along_q + leverage_q * along_p,
            leverage_q * leverage_p * float(profile @ profile),
        )


def _diag(layer: Layer, factors: Factors, query: Side, passage: Side) -> Iterator[Candidate]:
    """Compute the candidates of a diagonal posterior."""
    curvature = np.ascontiguousarray(factors[0].T)
    sides = [
        (texts.features**2, (texts.embedding**2)[positions], positions)
        for texts, positions in (query, passage)
    ]
    for prior_precision in _DIAG_DAMPING * max(float(curvature.mean()), 1e-12):
        covariance = (layer.gain**2 / (curvature + prior_precision)).astype(np.float32)
        variance_q, variance_p = (
            (square @ covariance)[positions] for square, _, positions in sides
        )
        yield Candidate(
            float(prior_precision),
            covariance,
            np.zeros((0, 0), np.float32),
            _dot(variance_p, sides[0][1]) + _dot(variance_q, sides[1][1]),
            _dot(variance_q, variance_p),
        )


def _dot(x: FloatArray, y: FloatArray) -> NDArray[np.float64]:
    """Compute the inner products of rows, shape (n,)."""
    product: NDArray[np.float64] = np.einsum("nd,nd->n", x, y).astype(np.float64)
    return product
