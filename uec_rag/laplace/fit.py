"""Fitting a posterior: pairs of one encoder -> MAP, curvature, prior precision, scale.

Prior precision and scale of the variance are tuned on held-out pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import Encoded
from uec_rag.laplace.curvature import BATCH, Curvature, Layer, accumulate
from uec_rag.laplace.likelihood import (
    Likelihood,
    bernoulli_map,
    decided_by_prior,
    fitting_intercept,
    in_batch_map,
    predictive_nll,
    variance_scale,
)
from uec_rag.laplace.pairs import (
    LabelledPairs,
    Negatives,
    OfTerms,
    OfVectors,
    Pairs,
    Similarities,
    held_out_pairs,
    split_queries,
    training_pairs,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure


def fit_posterior(
    pairs: Pairs,
    queries: Encoded,
    passages: Encoded,
    gain: FloatArray,
    *,
    structure: Structure = "kron",
    likelihood: Likelihood = "pairs",
    negatives: Negatives = "hard",
    scaled: bool = True,
    seed: int = 0,
    curvature: Callable[[Layer], Curvature] = accumulate,
) -> Posterior:
    """Fit the Laplace posterior over one encoder's last layer.

    A fifth of the queries is held out. On the others: negatives are mined, the slope and the
    intercept are put at their MAP, and the GGN is accumulated in closed form. On the held-out ones,
    shown their best wrong hits as a user would be: the scale of the variance minimises the negative
    log-likelihood of the probit predictive for every prior precision on a grid, and the smallest
    precision within one standard error of the best is taken (the one-standard-error rule of Breiman
    et al., 1984): the posterior that says the most about what it has not seen, among those the data
    do not contradict.

    Parameters
    ----------
    pairs : Pairs
    queries, passages : Encoded
        Embeddings and last-layer features of `pairs.queries` and `pairs.passages`; of terms, which
        have no layer of weights, the slope and the intercept alone are fitted.
    gain : array, shape (d,)
        See `uec_rag.encoders.Encoder`.
    structure : {"kron", "diag"}
    likelihood : {"pairs", "in_batch"}
    negatives : {"hard", "random"}
        As in `training_pairs`.
    scaled : bool
        Whether the variance is scaled to the held-out pairs; else it is what Laplace gives, as in
        the paper, and only the prior precision is chosen.
    seed : int
        Of the split and the mining.
    curvature : callable
        What accumulates the curvature, here or in parts elsewhere.
    """
    fitting, held_out = split_queries(pairs, seed)
    similar: Similarities = OfVectors(queries.embedding, passages.embedding)
    if queries.terms is not None and passages.terms is not None:
        similar, likelihood, negatives = OfTerms(queries.terms, passages.terms), "pairs", "hard"
    train = training_pairs(pairs, fitting, similar, seed, negatives)
    similarity = similar.of_pairs(train)
    if likelihood == "pairs":
        slope, intercept = bernoulli_map(similarity, train.labels)
        plain, _ = bernoulli_map(similarity, train.labels, prior=False)
    else:
        positives = _whole_batches(train, seed)
        own = _batch_similarities(queries, passages, positives)
        slope, plain = in_batch_map(own), in_batch_map(own, prior=False)
        slope, intercept = bernoulli_map(similarity, train.labels, slope)
        train = positives
    test = held_out_pairs(pairs, held_out, similar)
    similarity, nothing = similar.of_pairs(test), np.zeros(len(test))
    _, free = bernoulli_map(similarity, test.labels, slope)
    deterministic = predictive_nll(similarity, nothing, test.labels, slope, free)
    summary = PosteriorSummary(
        slope=slope,
        intercept=intercept,
        pairs=len(train),
        held_out=len(test),
        nll=float(deterministic.mean()),
        nll_deterministic=float(deterministic.mean()),
        by_prior=("slope",) if decided_by_prior(slope, plain) else (),
    )
    if isinstance(similar, OfTerms):
        empty = np.zeros((0, 0), dtype=np.float32)
        return Posterior(structure, empty, empty.reshape(int(structure == "kron"), 0), summary)

    layer = Layer(queries, passages, train, gain, slope, intercept, structure, likelihood)
    found = curvature(layer)
    sides = Side.of(queries, test.query_index), Side.of(passages, test.passage_index)
    trials = candidates(found, gain, *sides)
    best, scale, nll = tune(trials, similarity, test, slope, scaled=scaled)
    summary = replace(
        summary,
        prior_precision=best.prior_precision,
        scale=scale,
        nll=nll,
        log_marginal_likelihood=found.log_marginal_likelihood(best.prior_precision),
    )
    if scaled:
        plain, _ = variance_scale(
            similarity, best.single, best.double, test.labels, slope, prior=False
        )
        if decided_by_prior(scale, plain):
            summary = replace(summary, by_prior=(*summary.by_prior, "variance"))
    posterior = Posterior(structure, best.covariance, best.profile, summary)
    return _standardised(posterior, queries.embedding[held_out], queries.features[held_out])


def _standardised(posterior: Posterior, embedding: FloatArray, features: FloatArray) -> Posterior:
    """Standardise the posterior's trace by that of texts it was not fitted on."""
    log_trace = np.log(np.maximum(posterior.gaussian(embedding, features).trace, 1e-30))
    summary = replace(
        posterior.summary,
        log_trace_mean=float(log_trace.mean()),
        log_trace_sd=max(float(log_trace.std()), 1e-4),
    )
    return replace(posterior, summary=summary)


def _whole_batches(train: LabelledPairs, seed: int) -> LabelledPairs:
    """Shuffle the positives so that in each batch a passage answers its own query only."""
    size = BATCH["in_batch"]
    keep = np.random.default_rng(seed).permutation(np.flatnonzero(train.labels == 1))
    full = keep[: len(keep) - len(keep) % size] if len(keep) > size else keep
    return LabelledPairs(train.query_index[full], train.passage_index[full], train.labels[full])


def _batch_similarities(queries: Encoded, passages: Encoded, pairs: LabelledPairs) -> FloatArray:
    size = min(BATCH["in_batch"], len(pairs))
    q = queries.embedding[pairs.query_index].reshape(-1, size, queries.embedding.shape[1])
    p = passages.embedding[pairs.passage_index].reshape(q.shape)
    return q @ p.transpose(0, 2, 1)


# sqrt(delta) over the mean eigenvalue of a factor (kron), delta over the mean of H (diag).
_KRON_DAMPING = np.logspace(-2, 2, 9)
_DIAG_DAMPING = np.logspace(-4, 4, 9)
# Pairs that count as seen before in every direction of a Kronecker factor. Without them what a few
# pairs of one mould have never seen was given a thousand times the variance of what they have.
_SEEN_BEFORE = 24

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


@dataclass(frozen=True, eq=False)
class Side:
    """The distinct texts of one side of n pairs, each computed once and not once per pair.

    Attributes
    ----------
    embedding, features : array, shapes (t, d) and (t, m)
    place : int array, shape (n,)
        Which text each pair has.
    """

    embedding: FloatArray
    features: FloatArray
    place: NDArray[np.int64]

    @classmethod
    def of(cls, encoded: Encoded, index: NDArray[np.int64]) -> Self:
        """Return the texts that pairs point to."""
        texts, place = np.unique(index, return_inverse=True)
        return cls(encoded.embedding[texts], encoded.features[texts], place)


def candidates(
    found: Curvature, gain: FloatArray, query: Side, passage: Side
) -> Iterator[Candidate]:
    """Make posteriors over a grid of prior precisions, smallest first.

    `gain`: array, shape (d,). `query`, `passage`: of the held-out pairs.
    """
    return (_diag if len(found.factors) == 1 else _kron)(found, gain, query, passage)


def tune(
    trials: Iterator[Candidate],
    similarity: Floats,
    test: LabelledPairs,
    slope: float,
    *,
    scaled: bool = True,
) -> tuple[Candidate, float, float]:
    """Choose by the one-standard-error rule; see `uec_rag.laplace.fit.fit_posterior`.

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
        Whether the scale of the variance is tuned, too; else it is 1.

    Returns
    -------
    candidate : Candidate
    scale, nll : float
        Of its variance; its mean negative log-likelihood of a held-out pair.
    """
    seen = []
    for trial in trials:
        if scaled:
            scale, intercept = variance_scale(
                similarity, trial.single, trial.double, test.labels, slope
            )
            variance = scale * trial.single + scale**2 * trial.double
        else:
            scale, variance = 1.0, trial.single + trial.double
            intercept = fitting_intercept(similarity, variance, test.labels, slope)
        seen.append(
            (trial, scale, predictive_nll(similarity, variance, test.labels, slope, intercept))
        )
    trial, scale, nll = seen[first_as_good([nll for *_, nll in seen])]
    return trial, scale, float(nll.mean())


def first_as_good(nlls: Sequence[Floats]) -> int:
    """Return the first of several posteriors that is as good for pairs as the best of all.

    No worse: by at most one standard error of the paired difference. With the smallest prior
    precision first this is the posterior that owes the most to the data, among those that the
    held-out pairs do not contradict.

    `nlls`, sequence of arrays, shape (n,): negative log-likelihood of each held-out pair.
    """
    best = min(nlls, key=lambda nll: float(nll.mean()))
    worse = (nll - best for nll in nlls)
    return next(
        row
        for row, gap in enumerate(worse)
        if float(gap.mean()) <= float(gap.std()) / math.sqrt(len(gap))
    )


def _kron(found: Curvature, gain: FloatArray, query: Side, passage: Side) -> Iterator[Candidate]:
    """Make the candidates of a Kronecker-factored posterior.

    The factors are rescaled to one mean eigenvalue before sqrt(delta) is added to both (the pi
    correction of Martens and Grosse, 2015), which leaves their product as it is. Features are
    turned into the eigenbasis of A once: all prior precisions share it.
    """
    (eigenvalues_g, basis_g), (eigenvalues_a, basis_a) = found.eigenvalues
    size = float(np.sqrt(eigenvalues_g.mean() * eigenvalues_a.mean()))
    size = max(size, 1e-12)
    unit_g = eigenvalues_g * (size / max(eigenvalues_g.mean(), 1e-24))
    unit_a = eigenvalues_a * (size / max(eigenvalues_a.mean(), 1e-24))
    sides = [
        ((side.features @ basis_a.astype(np.float32)) ** 2, side.embedding**2, side.place)
        for side in (query, passage)
    ]
    least = _SEEN_BEFORE / found.pairs
    for damping in np.unique(np.maximum(_KRON_DAMPING, least)) * size:
        inverse = 1 / (unit_a + damping)
        profile = gain**2 * (basis_g**2 @ (1 / (unit_g + damping)))
        # var = leverage * profile: each text's own part of a pair's variance is a number or two.
        (leverage_q, along_q), (leverage_p, along_p) = (
            ((turned @ inverse.astype(np.float32))[place], (square @ profile)[place])
            for turned, square, place in sides
        )
        yield Candidate(
            float(damping**2),
            # As a saved one is read: rows, so that products round the same.
            np.ascontiguousarray(basis_a * np.sqrt(inverse), dtype=np.float32),
            profile[None].astype(np.float32),
            leverage_p * along_q + leverage_q * along_p,
            leverage_q * leverage_p * float(profile @ profile),
        )


def _diag(found: Curvature, gain: FloatArray, query: Side, passage: Side) -> Iterator[Candidate]:
    """Make the candidates of a diagonal posterior."""
    curvature = np.ascontiguousarray(found.factors[0].T)
    sides = [(side.features**2, (side.embedding**2)[side.place]) for side in (query, passage)]
    for prior_precision in _DIAG_DAMPING * max(float(curvature.mean()), 1e-12):
        covariance = (gain**2 / (curvature + prior_precision)).astype(np.float32)
        variance_q, variance_p = (
            (square @ covariance)[side.place]
            for (square, _), side in zip(sides, (query, passage), strict=True)
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
