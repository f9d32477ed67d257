"""The Laplace posterior over an encoder's last layer, which maps texts to Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.records import Record
from uec_rag.encoders.base import Encoded

Structure = Literal["kron", "diag"]


@dataclass(frozen=True)
class PosteriorSummary(Record):
    """The estimates and statistics of one encoder's fit.

    Attributes
    ----------
    slope, intercept : float
        P(answer) = sigmoid(slope * cosine + intercept) at the MAP.
    prior_precision : float
        Precision delta of the Gaussian prior on the change of a weight.
    scale : float
        Factor of the Laplace variance, tuned on held-out pairs, so that all encoders share a unit.
    log_trace_mean, log_trace_sd : float
        Mean and standard deviation of log tr(Sigma) over the held-out queries.
    pairs, held_out : int
        Number of labelled pairs that the posterior was fitted on, and that it was tuned on.
    nll, nll_deterministic : float
        Held-out negative log-likelihood per pair, with and without the variance.
    """

    slope: float
    intercept: float
    pairs: int
    held_out: int
    nll: float
    nll_deterministic: float
    prior_precision: float = 0.0
    scale: float = 0.0
    log_trace_mean: float = 0.0
    log_trace_sd: float = 1.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """The Gaussian posterior over a last layer's weights, in the form that prediction needs.

    Attributes
    ----------
    structure : {"kron", "diag"}
    covariance : array
        "kron": R of shape (m, m) with R R' = A^-1, so that |h R|^2 = h' A^-1 h.
        "diag": S of shape (m, d), the variance of each weight (times gain^2).
    profile : array, shape (1, d)
        "kron": diag(G^-1) (times gain^2). "diag": not used, empty.
    summary : PosteriorSummary
    """

    structure: Structure
    covariance: FloatArray
    profile: FloatArray
    summary: PosteriorSummary

    def gaussian(self, encoded: Encoded) -> Gaussian:
        """Compute the Gaussians of texts: embeddings with the last layer's predictive variance.

        ``kron``: ``var = (h' A^-1 h) diag(G^-1)``, one scalar per text; ``diag``: ``var = S h^2``.
        """
        mean, features, terms = encoded.embedding, encoded.features, encoded.blocks
        scale = np.float32(self.summary.scale)
        if self.structure == "diag":
            return Gaussian(mean, scale * (features**2 @ self.covariance), terms=terms)
        leverage = ((features @ self.covariance) ** 2).sum(axis=1, keepdims=True)
        scales = as_matrix(scale * leverage, "scales")
        return Gaussian.from_checked(as_matrix(mean, "mean"), scales, self.profile, terms=terms)
