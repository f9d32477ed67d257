"""The features of a question's best hits: all that relevance and confidence rest on.

No other passage is looked at, so the numbers are the same from every store (but for the rounding of
dtype "int8"), and do not depend on how many hits a user asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray, probit

NEAREST = 30
"""The number of best passages, of different texts, that shares are taken among."""

VERSION = 2
"""Of the features: a model that was learned on others is not used."""

_LEAST_SHARE = 1e-4


@dataclass(frozen=True, eq=False)
class Features:
    """The features of n questions and their k hits; of a hit that is not there, those of the last.

    Attributes
    ----------
    in_corpus : array, shape (n, 3)
        Whether the corpus has an answer: the log of the first hit's share of the softmax at three
        times the temperature; the highest and the mean of the members' logits of the first hit,
        over the temperature.
    found : array, shape (n, k, 2)
        Whether an answer is among the first 1, 2, ... k hits: the log odds of their share of the
        softmax at twice the temperature, and the log of their number.
    relevance : array, shape (n, k, 2)
        Whether a hit is relevant: its probit logit, and the log of its share of the softmax.
    doubt : array, shape (n,)
        What to take off the log odds that the corpus has an answer, for what no logit shows.
    """

    in_corpus: FloatArray
    found: FloatArray
    relevance: FloatArray
    doubt: FloatArray

    @property
    def posterior(self) -> FloatArray:
        """The share of each hit in the softmax, shape (n, k)."""
        shares: FloatArray = np.exp(self.relevance[..., 1])
        return shares

    def first(self, k: int) -> Features:
        """Return the features of the first k hits; shares stay those among the `NEAREST`."""
        return Features(self.in_corpus, self.found[:, :k], self.relevance[:, :k], self.doubt)


def features(
    logits: FloatArray,
    variance: FloatArray,
    members: FloatArray,
    temperature: float = 1.0,
    doubt: FloatArray | None = None,
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
    members : array, shape (n, K)
        Each member's own logit of the first hit, ``a_k s_k + b_k``, as evidence of an answer: what
        words say counts as far as they are whole. The ensemble's if it was not fitted: its members
        have no logits.
    temperature : float
        T of the softmax over ``logits / T``; above 0.
    doubt : array, shape (n,), optional
        See `Features`; none by default.

    Raises
    ------
    ValueError
        If a shape is not as above, the temperature is not above 0, or a question has no hit.

    Examples
    --------
    >>> hits, members = np.float32([[2.0, -np.inf]]), np.float32([[3.0, 1.0]])
    >>> features(hits, np.zeros_like(hits), members).in_corpus.tolist()
    [[0.0, 3.0, 2.0]]
    """
    _check(logits, variance, members, temperature)
    scaled = logits.astype(np.float64) / temperature
    highest = scaled[:, :1]
    near = scaled[:, :NEAREST] - highest
    normaliser, soft, softest = (np.exp(near / t).sum(axis=1, keepdims=True) for t in (1, 2, 3))
    among = (np.exp((scaled - highest) / 2) / soft).cumsum(axis=1)
    among = np.clip(among, _LEAST_SHARE, 1 - _LEAST_SHARE)
    counts = np.isfinite(scaled).cumsum(axis=1)
    each = np.stack([probit(logits, variance), scaled - highest - np.log(normaliser)], axis=-1)
    each = np.take_along_axis(each, counts[..., None] - 1, axis=1)
    best, mean = members.max(axis=1) / temperature, members.mean(axis=1) / temperature
    single = np.float32
    return Features(
        in_corpus=np.stack([np.log(1 / softest[:, 0]), best, mean], axis=1).astype(single),
        found=np.stack([np.log(among) - np.log1p(-among), np.log(counts)], axis=-1).astype(single),
        relevance=each.astype(single),
        doubt=np.zeros(len(logits), single) if doubt is None else doubt.astype(single),
    )


def _check(
    logits: FloatArray, variance: FloatArray, members: FloatArray, temperature: float
) -> None:
    if logits.ndim != 2 or not logits.shape[1] or not np.isfinite(logits[:, 0]).all():
        raise ValueError(
            "logits: expected shape (n, k) with a first hit for every question, got shape "
            f"{logits.shape} or no first hit; leave out questions without hits."
        )
    if variance.shape != logits.shape:
        raise ValueError(f"variance: expected shape {logits.shape}, got {variance.shape}.")
    if members.ndim != 2 or len(members) != len(logits) or not members.shape[1]:
        raise ValueError(
            f"members: expected shape ({len(logits)}, K) with K >= 1, got {members.shape}."
        )
    if not temperature > 0:
        raise ValueError(f"temperature: expected a number > 0, got {temperature}.")
