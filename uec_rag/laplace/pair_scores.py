"""Fitting a verifier: scores of pairs, and the last layer's input where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.laplace.likelihood import bernoulli_map, predictive_nll
from uec_rag.laplace.pairs import LabelledPairs
from uec_rag.laplace.posterior import Posterior, PosteriorSummary
from uec_rag.laplace.tuning import Candidate, tune

_HELD_OUT = 0.2
_DAMPING = np.logspace(-4, 4, 9)  # delta over the mean eigenvalue of the curvature


def fit_pair_scores(
    scores: FloatArray,
    features: FloatArray,
    labels: FloatArray,
    query: NDArray[np.int64],
    seed: int,
) -> Posterior:
    """Fit slope and intercept of a verifier's scores, and the posterior over its last layer.

    As `fit_posterior` does for an encoder, with one output instead of d: a fifth of the queries is
    held out; on the others slope and intercept of ``P(answer) = sigmoid(a s + b)`` are put at their
    MAP and the curvature of the layer, ``sum p (1 - p) a^2 h h'``, is accumulated; the held-out
    ones choose prior precision and scale of the variance.

    Parameters
    ----------
    scores : array, shape (n,)
        On any scale.
    features : array, shape (n, m)
        As in `uec_rag.encoders.verifier.Scored`; m = 0: the variance is 0.
    labels : array, shape (n,)
        1 for an answer.
    query : int array, shape (n,)
        Which query each pair is of.
    seed : int
        Of the split.

    Returns
    -------
    Posterior
        Of one output. The slope is that of the raw scores; 0 where these are all alike.
    """
    asked = np.unique(query)
    order = np.random.default_rng(seed).permutation(asked)
    held_out = np.isin(query, order[: round(len(asked) * _HELD_OUT)])
    fitting = ~held_out
    slope, intercept = _line(scores[fitting], labels[fitting])
    test = LabelledPairs(query[held_out], np.flatnonzero(held_out), labels[held_out])
    _, free = _line(scores[held_out], test.labels, slope)
    nothing = np.zeros(len(test), dtype=np.float32)
    nll = float(predictive_nll(scores[held_out], nothing, test.labels, slope, free).mean())
    summary = PosteriorSummary(
        slope=slope,
        intercept=intercept,
        prior_precision=0.0,
        scale=0.0,
        log_trace_mean=0.0,
        log_trace_sd=1.0,
        pairs=int(fitting.sum()),
        held_out=len(test),
        nll=nll,
        nll_deterministic=nll,
        log_marginal_likelihood=0.0,
    )
    width = features.shape[1]
    one = np.ones((1, 1), dtype=np.float32)
    posterior = Posterior("kron", np.zeros((width, 0), dtype=np.float32), one, summary)
    if not width or not slope:
        return posterior
    trials = _candidates(
        features[fitting], slope * scores[fitting] + intercept, slope, features[held_out]
    )
    best, scale, nll = tune(trials, scores[held_out], test, slope)
    summary = replace(summary, prior_precision=best.prior_precision, scale=scale, nll=nll)
    return replace(posterior, covariance=best.covariance, summary=summary)


def _line(
    scores: FloatArray, labels: FloatArray, slope: float | None = None
) -> tuple[float, float]:
    """`bernoulli_map` of scores on any scale."""
    centre, spread = float(scores.mean()), float(scores.std())
    if spread <= 1e-6 * max(1.0, abs(centre)):
        return 0.0, 0.0
    known = None if slope is None else slope * spread
    found, intercept = bernoulli_map((scores - centre) / np.float32(spread), labels, known)
    return found / spread, intercept - found * centre / spread


def _candidates(
    features: FloatArray, logits: FloatArray, slope: float, held_out: FloatArray
) -> Iterator[Candidate]:
    """Posteriors of one output over a grid of prior precisions, smallest first."""
    yes = 1 / (1 + np.exp(-logits.astype(np.float64)))
    h = features.astype(np.float64)
    curvature = slope**2 * (h.T * (yes * (1 - yes))) @ h
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 0)
    turned = held_out.astype(np.float64) @ vectors
    for damping in _DAMPING:
        delta = max(float(damping * values.mean()), 1e-12)
        root = 1 / np.sqrt(values + delta)
        yield Candidate(
            delta,
            (vectors * root).astype(np.float32),
            np.ones((1, 1), dtype=np.float32),
            ((turned * root) ** 2).sum(axis=1),
            np.zeros(len(turned)),
        )
