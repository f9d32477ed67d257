"""Fitting a posterior: pairs of one encoder -> MAP, curvature, prior precision, scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import Encoded
from uec_rag.laplace.curvature import BATCH, Curvature, Layer, accumulate
from uec_rag.laplace.likelihood import (
    Likelihood,
    bernoulli_map,
    decided_by_prior,
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
    held_out_pairs,
    split_queries,
    training_pairs,
)
from uec_rag.laplace.posterior import Posterior, PosteriorSummary, Structure
from uec_rag.laplace.tuning import Side, candidates, tune


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
    similar: OfTerms | OfVectors = OfVectors(queries.embedding, passages.embedding)
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
        prior_precision=0.0,
        scale=0.0,
        log_trace_mean=0.0,
        log_trace_sd=1.0,
        pairs=len(train),
        held_out=len(test),
        nll=float(deterministic.mean()),
        nll_deterministic=float(deterministic.mean()),
        log_marginal_likelihood=0.0,
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
