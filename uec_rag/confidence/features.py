"""What relevance and confidence rest on: the fused posterior over the corpus in a few numbers.

The posterior is ``softmax_c(l_c / T)`` with the ensemble's logits l.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.similarity import probit
from uec_rag.base.softmax_sums import Digest, SoftmaxSums

_LEAST_SHARE = np.float32(1e-4)


@dataclass(frozen=True, eq=False)
class CorpusSummary:
    """What the fused logits l of n queries say over the whole corpus, at temperature T.

    Attributes
    ----------
    top : array, shape (n,)
        Highest l / T.
    log_normaliser : array, shape (n,)
        log sum_c exp(l_c / T).
    soft_normaliser : array, shape (n,)
        log sum_c exp(l_c / 2T).
    near_normaliser : array, shape (n,)
        The same of the `NEAREST` best passages alone.
    entropy : array, shape (n,)
        Of the softmax at T, in nats.
    """

    top: FloatArray
    log_normaliser: FloatArray
    soft_normaliser: FloatArray
    near_normaliser: FloatArray
    entropy: FloatArray

    @classmethod
    def of(cls, sums: SoftmaxSums) -> Self:
        """The summary that a softmax's sums make."""
        return cls(
            top=sums.top,
            log_normaliser=sums.log_normaliser,
            soft_normaliser=sums.soft_normaliser,
            near_normaliser=sums.near_normaliser,
            entropy=sums.log_normaliser - sums.mean_logit,
        )

    def shifted(self, offset: FloatArray) -> CorpusSummary:
        """The summary where every l / T of a query is higher by its offset, shape (n,)."""
        return CorpusSummary(
            top=self.top + offset,
            log_normaliser=self.log_normaliser + offset,
            soft_normaliser=self.soft_normaliser + offset / np.float32(2),
            near_normaliser=self.near_normaliser + offset / np.float32(2),
            entropy=self.entropy,
        )

    def features(self, best: FloatArray | None = None) -> FloatArray:
        """What tells whether the corpus answers at all, shape (n, 3).

        Minus the entropy and the log of the top's share at twice the temperature say whether one
        passage stands out; the top itself, whether it is near enough to be the answer, or instead
        what the member that thinks most of it says: words think little of any answer to a long
        question. Tried beside them on eleven collections, each by what ten others taught: the
        corpus's size, the words that query and hit share, the agreement of the members, the
        likeness of the hits, the top's distance from the mean. None bettered the level without
        answering more off-topic questions.

        Parameters
        ----------
        best : array, shape (n,), optional
            The highest of the members' l / T of the first hit.
        """
        near = self.top if best is None else best
        return np.stack([-self.entropy, self.top / 2 - self.soft_normaliser, near], axis=1)

    def found_features(
        self, logits: FloatArray, *, counted: bool = False, nearest: bool = False
    ) -> FloatArray:
        """What tells whether the answer, where the corpus has it, is among the first hits.

        Parameters
        ----------
        logits : array, shape (n, k)
            l / T of the hits, best first.
        counted : bool
            Whether the number of hits says something of its own.
        nearest : bool
            Whether the share is of the nearest passages alone: a crowd of far ones, each with next
            to nothing, says little of whether the answer is among the first hits.

        Returns
        -------
        array, shape (n, k, 2) or (n, k, 3)
            For the first 1, 2, ... k hits: the top, and the log odds of their share of the
            softmax at twice the temperature, which rises with every hit; then, if counted, the log
            of their number: where many passages are relevant each one's share is low.
        """
        normaliser = self.near_normaliser if nearest else self.soft_normaliser
        soft = np.exp(logits / np.float32(2) - normaliser[:, None])
        share = np.clip(np.cumsum(soft, axis=1), _LEAST_SHARE, 1 - _LEAST_SHARE)
        top = np.broadcast_to(self.top[:, None], share.shape)
        features = [top, np.log(share) - np.log1p(-share)]
        if counted:
            features.append(np.broadcast_to(np.log1p(np.arange(share.shape[1])), share.shape))
        return np.stack(features, axis=-1).astype(np.float32)


def summarise(logits: FloatArray, temperature: float = 1.0) -> CorpusSummary:
    """Sum up logits over a corpus.

    Parameters
    ----------
    logits : array, shape (n, N)
        N at least 1.
    temperature : float

    Examples
    --------
    >>> summary = summarise(np.zeros((1, 8), "f4"))
    >>> bool(np.isclose(summary.entropy[0], np.log(8)))
    True
    """
    if logits.ndim != 2 or not logits.shape[1]:
        raise ValueError(f"logits: expected shape (n, N) with N >= 1, got {logits.shape}.")
    return CorpusSummary.of(Digest.of(logits).softmax(1 / temperature))


def relevance_features(
    logits: FloatArray,
    variance: FloatArray,
    log_normaliser: FloatArray,
    temperature: float = 1.0,
) -> FloatArray:
    """What relevance rests on, shape (n, k, 2): the probit logit and the log posterior of each hit.

    Parameters
    ----------
    logits, variance : array, shape (n, k)
        Mean and variance of each hit's logit, ``slope * mu_s + intercept`` and
        ``slope^2 sigma_s^2``.
    log_normaliser : array, shape (n,)
        Of the `CorpusSummary`.
    temperature : float
    """
    share = logits / np.float32(temperature) - log_normaliser[:, None]
    return np.stack([probit(logits, variance), share], axis=-1)
