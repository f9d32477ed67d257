"""An encoder's similarities to a corpus in a few numbers, from all of them or from candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.softmax_sums import Digest, SoftmaxSums

LEADERS = 10
"""How many of the highest similarities evidence looks at."""

KEPT = 100
"""How many of them are kept, so that a hit's rank is known."""


@dataclass(frozen=True, eq=False)
class Rest:
    """The similarities of n queries to N passages of which candidates are known.

    What is not among the candidates is taken as normal, with the mean and deviation that the whole
    corpus leaves for it.

    Attributes
    ----------
    mean, deviation : array, shape (n,)
        Over the corpus, from a sample of it.
    size : int
        N.
    """

    mean: FloatArray
    deviation: FloatArray
    size: int

    @classmethod
    def of(cls, sample: FloatArray, size: int) -> Self:
        """What similarities to a sample, shape (n, S), say."""
        return cls(*Digest.of(sample).mean_and_deviation(), size)

    def sums(self, candidates: FloatArray, slope: float) -> SoftmaxSums:
        """Sums of the softmax over ``slope * similarity`` of the whole corpus.

        Parameters
        ----------
        candidates : array, shape (n, C)
        slope : float
        """
        seen, left = Digest.of(candidates).softmax(slope), self.size - candidates.shape[1]
        factor = np.float32(slope)
        centre, spread = rest_of(
            factor * candidates, factor * self.mean, factor * self.deviation, self.size
        )
        unseen, unseen_logit = normal_mass(centre, spread, seen.top, left)
        half = np.float32(0.5)
        soft, _ = normal_mass(half * centre, half * spread, half * seen.top, left)
        normaliser = np.logaddexp(seen.log_normaliser, unseen)
        mean_logit: FloatArray = np.add(
            np.exp(seen.log_normaliser - normaliser) * seen.mean_logit,
            np.exp(unseen - normaliser) * unseen_logit,
            dtype=np.float32,
        )
        return SoftmaxSums(
            top=seen.top,
            log_normaliser=normaliser,
            soft_normaliser=np.logaddexp(seen.soft_normaliser, soft),
            near_normaliser=seen.near_normaliser,
            mean_logit=mean_logit,
        )


@dataclass(frozen=True, eq=False)
class SimilaritySummary:
    """An encoder's similarities to the whole corpus, as far as evidence and confidence need them.

    Attributes
    ----------
    leaders : array, shape (n, m)
        The highest of each query, `KEPT` of them or more; all of fewer.
    mean, deviation : array, shape (n,)
    sums : SoftmaxSums
        At the encoder's slope.
    size : int
        N.
    """

    leaders: FloatArray
    mean: FloatArray
    deviation: FloatArray
    sums: SoftmaxSums
    size: int

    @classmethod
    def of(cls, similarities: FloatArray, slope: float) -> Self:
        """Of similarities to all passages, shape (n, N)."""
        digest = Digest.of(similarities)
        return cls(
            digest.leaders(KEPT),
            *digest.mean_and_deviation(),
            digest.softmax(slope),
            similarities.shape[1],
        )

    def ranks(self, similarities: FloatArray) -> NDArray[np.int64]:
        """Places of passages in the order of similarity, from 1; 0 beyond those that are kept.

        Parameters
        ----------
        similarities : array, shape (n, k)
        """
        # Those of a compressed store differ by its rounding from what passages are scored with.
        slack = np.float32(1e-6)
        above = self.leaders[:, None] > similarities[:, :, None] + slack
        places = above.sum(axis=2) + 1
        return np.where(places > self.leaders.shape[1], 0, places)

    @classmethod
    def of_candidates(cls, similarities: FloatArray, rest: Rest, slope: float) -> Self:
        """Of candidates' similarities, shape (n, C), where a search sees only those."""
        sums = rest.sums(similarities, slope)
        return cls(similarities, rest.mean, rest.deviation, sums, rest.size)


def rest_of(
    candidates: FloatArray, mean: FloatArray, deviation: FloatArray, size: int
) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of the passages that are not among the candidates, shape (n,) each.

    Parameters
    ----------
    candidates : array, shape (n, C)
    mean, deviation : array, shape (n,)
        Over the whole corpus.
    size : int
        N.
    """
    left = max(1, size - candidates.shape[1])
    centre = (size * mean - candidates.sum(axis=1)) / left
    square = (size * (deviation**2 + mean**2) - (candidates**2).sum(axis=1)) / left
    return centre, np.sqrt(np.maximum(square - centre**2, 0))


def normal_mass(
    mean: FloatArray, deviation: FloatArray, bound: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """What `count` normal logits below a bound add to a softmax.

    Parameters
    ----------
    mean, deviation, bound : array, shape (n,)
    count : int

    Returns
    -------
    log_mass : array, shape (n,)
        ``log(count * E[exp(l); l < bound])``, -inf where count is 0.
    mean_logit : array, shape (n,)
        Mean logit under the softmax within them.
    """
    from scipy.stats import norm

    if count <= 0:
        return np.full_like(mean, -np.inf), mean
    spread = np.maximum(deviation, 1e-6)
    # exp(l) times a normal density is a normal density with its mean moved by the variance.
    moved = mean + spread**2
    edge = (bound - moved) / spread
    log_share = norm.logcdf(edge)
    log_mass = np.log(count) + mean + spread**2 / 2 + log_share
    mean_logit = moved - spread * np.exp(norm.logpdf(edge) - log_share)
    return log_mass.astype(np.float32), mean_logit.astype(np.float32)
