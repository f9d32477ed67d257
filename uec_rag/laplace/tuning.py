"""Tuning a posterior on held-out pairs: its prior precision and the scale of its variance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import Encoded
from uec_rag.laplace.curvature import Curvature
from uec_rag.laplace.likelihood import fitting_intercept, predictive_nll, variance_scale
from uec_rag.laplace.pairs import LabelledPairs

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
