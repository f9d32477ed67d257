"""What the best hits of a question show: all that relevance and confidence rest on.

No other passage is looked at, so the numbers are the same from every store, exact or approximate,
and do not depend on how many hits a user asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray, probit

NEAREST = 30
"""How many of the best passages, of different texts, the shares are taken among."""

_LEAST_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Features:
    """The features of n questions and their k hits.

    Attributes
    ----------
    in_corpus : array, shape (n, 3)
        Whether the corpus has an answer: minus the entropy of the softmax, in nats; the log of the
        first hit's share of the softmax at twice the temperature; the best member's logit of the
        first hit.
    found : array, shape (n, k, 2)
        Whether an answer is among the first 1, 2, ... k hits: the log odds of their share of the
        softmax at twice the temperature, and the log of their number.
    relevance : array, shape (n, k, 2)
        Whether a hit is relevant: its probit logit, and the log of its share of the softmax.
    """

    in_corpus: FloatArray
    found: FloatArray
    relevance: FloatArray

    @property
    def posterior(self) -> FloatArray:
        """Each hit's share of the softmax, shape (n, k)."""
        shares: FloatArray = np.exp(self.relevance[..., 1])
        return shares

    def first(self, k: int) -> Features:
        """The features of the first k hits; shares stay those among the `NEAREST`."""
        return Features(self.in_corpus, self.found[:, :k], self.relevance[:, :k])


def features(
    logits: FloatArray, variance: FloatArray, best: FloatArray, temperature: float = 1.0
) -> Features:
    """Compute the features of hits from their own logits alone.

    Parameters
    ----------
    logits : array, shape (n, k)
        The ensemble's logit of each hit, best first, of different texts; -inf after the last
        passage of a corpus that has fewer. k is at least 1. Shares are among the first `NEAREST`:
        with fewer columns of a larger corpus they are other numbers.
    variance : array, shape (n, k)
        Of these logits.
    best : array, shape (n,)
        The highest logit that a member gives the first hit.
    temperature : float
        T of the softmax over ``logits / T``; above 0.

    Raises
    ------
    ValueError
        If a shape is not as above, the temperature is not above 0, or a question has no hit.

    Examples
    --------
    >>> one = features(np.float32([[2.0, -np.inf]]), np.zeros((1, 2), "f4"), np.float32([3.0]))
    >>> one.in_corpus.tolist()
    [[0.0, 0.0, 3.0]]
    """
    _check(logits, variance, best, temperature)
    scaled = logits.astype(np.float64) / temperature
    highest = scaled[:, :1]
    near = scaled[:, :NEAREST] - highest
    mass, soft = np.exp(near), np.exp(near / 2)
    normaliser = highest + np.log(mass.sum(axis=1, keepdims=True))
    share = mass / mass.sum(axis=1, keepdims=True)
    entropy = -(share * np.log(np.maximum(share, np.finfo(np.float64).tiny))).sum(axis=1)
    log_soft_normaliser = np.log(soft.sum(axis=1))
    among = np.exp((scaled - highest) / 2 - log_soft_normaliser[:, None]).cumsum(axis=1)
    among = np.clip(among, _LEAST_SHARE, 1 - _LEAST_SHARE)
    counts = np.isfinite(scaled).cumsum(axis=1)
    single = np.float32
    return Features(
        in_corpus=np.stack([-entropy, -log_soft_normaliser, best / temperature], 1).astype(single),
        found=np.stack([np.log(among) - np.log1p(-among), np.log(counts)], -1).astype(single),
        relevance=np.stack([probit(logits, variance), scaled - normaliser], -1).astype(single),
    )


def _check(logits: FloatArray, variance: FloatArray, best: FloatArray, temperature: float) -> None:
    if logits.ndim != 2 or not logits.shape[1] or not np.isfinite(logits[:, 0]).all():
        raise ValueError(
            "logits: expected shape (n, k) with a first hit for every question, got shape "
            f"{logits.shape} or no first hit; leave out questions without hits."
        )
    if variance.shape != logits.shape or best.shape != logits.shape[:1]:
        raise ValueError(
            f"variance, best: expected shapes {logits.shape} and {logits.shape[:1]}, got "
            f"{variance.shape} and {best.shape}."
        )
    if not temperature > 0:
        raise ValueError(f"temperature: expected a number > 0, got {temperature}.")
