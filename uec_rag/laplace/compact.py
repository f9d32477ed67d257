"""A posterior in a few kilobytes: its best known directions in 8 bits, and one number for the rest.

Of ``R R' = A^-1`` the directions of high curvature are kept, in which the pairs said most, and the
others, about which they said little, are made alike: ``R = c I - W W'``, the symmetric root. What
it costs is printed by `benchmarks/quality/shipped_fit.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.laplace.posterior import Posterior, PosteriorSummary

_LARGEST = 127  # of 8 bits


@dataclass(frozen=True, eq=False)
class CompactPosterior:
    """A "kron" posterior of a layer as wide as its input, to be shipped.

    Attributes
    ----------
    directions : array of int8, shape (m, r)
        W, in units of `step`.
    step, rest : float
        Of the directions, and c.
    profile : float
        Mean of the posterior's: the variance is the same in every dimension.
    summary : PosteriorSummary
    """

    directions: NDArray[np.int8]
    step: float
    rest: float
    profile: float
    summary: PosteriorSummary

    def posterior(self) -> Posterior:
        """The posterior that it stands for, the same to the last bit on every machine.

        Products of small whole numbers are exact in whatever order a processor adds them: stores
        refuse the vectors of an ensemble whose posterior differs at all.
        """
        whole = self.directions.astype(np.float64)
        covariance = -(whole @ whole.T) * self.step**2
        covariance[np.diag_indices(len(covariance))] += self.rest
        profile = np.full((1, len(covariance)), self.profile, dtype=np.float32)
        return Posterior("kron", covariance.astype(np.float32), profile, self.summary)


def compact(posterior: Posterior, rank: int) -> CompactPosterior:
    """Keep what a "kron" posterior says of its `rank` best known directions.

    Parameters
    ----------
    posterior : Posterior
    rank : int
        From 0, one variance for every text, to m.

    Raises
    ------
    ValueError
        If its structure is another, or its layer is not as wide as its input.
    """
    width = posterior.profile.shape[-1]
    if posterior.structure != "kron" or posterior.covariance.shape != (width, width):
        raise ValueError(
            "posterior: expected a 'kron' one of a layer as wide as its input, got "
            f"{posterior.structure!r} of shape {posterior.covariance.shape} and {width}."
        )
    root = posterior.covariance.astype(np.float64)
    variances, vectors = np.linalg.eigh(root @ root.T)  # the best known direction first
    deviations = np.sqrt(np.maximum(variances, 0))
    # An encoder without vectors has no directions at all.
    rest = np.sqrt(variances[min(rank, len(root) - 1) :].mean()) if len(root) else 0.0
    kept = vectors[:, :rank] * np.sqrt(np.maximum(rest - deviations[:rank], 0))
    step = float(np.abs(kept).max(initial=0)) / _LARGEST or 1.0
    return CompactPosterior(
        directions=np.round(kept / step).astype(np.int8),
        step=step,
        rest=float(rest),
        profile=float(posterior.profile.mean()) if len(root) else 0.0,
        summary=posterior.summary,
    )
