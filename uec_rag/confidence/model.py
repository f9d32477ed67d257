"""Probabilities that a hit is relevant, that the corpus has an answer, and that the hits have one.

They are logistic functions of a few features of the best hits of a question. Other passages are
used only for an ensemble that was not fitted, to standardise similarities over a sample. The
probabilities of a fitted ensemble are therefore the same in every store, and none depends on the
number of hits that a user requests. A fit of the ensemble changes their order, but not their level
(`uec_rag.confidence.fit_view.with_level`), for which there is `Retriever.calibrate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.logistic import LEAST_SHARE, Calibrator, fit_line, read_learned, sigmoid
from uec_rag.base.records import Record
from uec_rag.base.similarity import probit

_Float = TypeVar("_Float", bound=np.floating[Any])

NEAREST = 30
"""The number of best passages with different texts over which the softmax is computed."""

READ = 12
"""The number of best different texts whose words, titles and readings are looked at.

By the questions to the manuals (`benchmarks.quality.golden`): of 10, 12, 14, 16 and 30, the mean of
their kinds is highest with 12, by 0.003 at most.
"""

WORDS = ("coverage", "names")
"""The names of the evidence of words with weights of its own, the first of `uec_rag.evidence`."""

UNLIKELY, SURE = 0.05, 0.85
"""The probabilities between which something is in doubt, so that one may ask whether it is so."""

ANSWER_ABOVE = 0.5
"""The confidence above which a question is answered, unless a gate says otherwise.

It is what a wrong answer costs: here as much as one that is handed over; of short statements, as
much as one and a half, which their evidence was learned with. On the twelve manuals a higher
one gains 0.002 at most, and loses follow-ups; see docs/decisions.md.
"""

PLAUSIBLE = 0.1
"""P(the corpus answers the query) below which nothing that was found is near.

Above it, a question whose passage was found in other words may be among those that get no answer.
"""

NEAR = 0.15
"""P(the corpus answers the query) down to which words lower it: they make an answer uncertain."""

FAR = -1.7
"""The standardised mean logit of the first hit below which a question without a word is refused.

Of 23 questions on other subjects to 77 small indexes, it refuses 0.91 and not 0.69; of 36 whose
passage is found in other words, and handed over, it takes one (`UEC()`).
"""
_OF_FAR = 0.6  # which part of its probability it keeps, so that `NEAR` is below `PLAUSIBLE`

_SOFTER = np.arange(1, 4)[:, None, None]  # factors of the temperature


@dataclass(frozen=True, eq=False)
class Features:
    """The features of n questions and their k hits, padded with those of the last hit.

    Attributes
    ----------
    in_corpus : array, shape (n, 3 + W)
        Evidence that the corpus has an answer: the log of the first hit's share of the softmax at
        three times the temperature, and the maximum and the mean of the members' logits of the
        first hit, divided by the temperature; then `WORDS`, each NaN if not known.
    found : array, shape (n, k, 2)
        Evidence that an answer is among the first 1, 2, ... k hits: the log odds of their share of
        the softmax at twice the temperature, and the log of their number.
    relevance : array, shape (n, k, 2)
        Evidence that a hit is relevant: its probit logit, and the log of its share of the softmax.
    against : array, shape (n,)
        What words add to the log odds that the corpus has an answer, see `uec_rag.evidence`.
    meant : array, shape (n,)
        P(the first hits are those that the question means), see there.
    """

    in_corpus: FloatArray
    found: FloatArray
    relevance: FloatArray
    against: FloatArray
    meant: FloatArray

    def of_question(self, row: int, k: int) -> Features:
        """Return the features of one question and its first k hits."""
        rows = slice(row, row + 1)
        of_hits = self.found[rows, :k], self.relevance[rows, :k]
        return Features(self.in_corpus[rows], *of_hits, self.against[rows], self.meant[rows])

    def first(self, k: int) -> Features:
        """Return the features of the first k hits, with unchanged shares of the softmax."""
        return replace(self, found=self.found[:, :k], relevance=self.relevance[:, :k])


def features(
    logits: FloatArray,
    variance: FloatArray,
    members: FloatArray,
    temperature: float = 1.0,
    words: FloatArray | None = None,
    rivals: FloatArray | None = None,
    against: FloatArray | None = None,
    meant: FloatArray | None = None,
) -> Features:
    """Compute the features of hits from their logits.

    Parameters
    ----------
    logits : array, shape (n, k)
        The ensemble's logits of hits with different texts, best first, padded with -inf if a corpus
        has fewer than k >= 1. The softmax is over the first `NEAREST`, so pass at least as many
        unless the corpus has fewer.
    variance : array, shape (n, k)
        Variances of these logits.
    members : array, shape (n, K)
        Logit of the first hit by each member, ``a_k s_k + b_k``, as evidence of an answer; for a
        lexical member, parts of words do not count. The ensemble's logit, shape (n, 1), if it was
        not fitted, since its members have none.
    temperature : float
        T > 0 of the softmax over ``logits / T``.
    words : array, shape (n, W), optional
        Evidence of the question's words (`WORDS`); not known by default.
    rivals : array, shape (n, m), optional
        Logits of what competes with the few passages of a filter, padded with -inf: they are
        evidence that what it selects has no answer, and none of where an answer is.
    against, meant : array, shape (n,), optional
        See `Features`; 0 and 1 by default.

    Examples
    --------
    >>> hits, members = np.float32([[2.0, -np.inf]]), np.float32([[3.0, 1.0]])
    >>> features(hits, np.zeros_like(hits), members).in_corpus.tolist()
    [[0.0, 3.0, 2.0, nan, nan]]
    """
    scaled = logits.astype(np.float64) / temperature
    highest = scaled[:, :1]
    offsets = scaled[:, :NEAREST] - highest
    normaliser, soft, softest = np.exp(offsets / _SOFTER).sum(axis=2, keepdims=True)
    if rivals is not None:
        apart = (rivals / temperature - highest) / _SOFTER[-1, 0]
        softest = softest + np.exp(apart).sum(axis=1, keepdims=True)
    among = (np.exp((scaled - highest) / 2) / soft).cumsum(axis=1)
    among = np.clip(among, LEAST_SHARE, 1 - LEAST_SHARE)
    counts = np.isfinite(scaled).cumsum(axis=1)
    of_hits = np.stack([probit(logits, variance), scaled - highest - np.log(normaliser)], axis=-1)
    of_hits = np.take_along_axis(of_hits, counts[..., None] - 1, axis=1)
    best, mean = members.max(axis=1) / temperature, members.mean(axis=1) / temperature
    single = np.float32
    if words is None:
        words = np.full((len(logits), len(WORDS)), np.nan)
    in_corpus = np.column_stack([np.log(1 / softest[:, 0]), best, mean, words])
    return Features(
        in_corpus=in_corpus.astype(single),
        found=np.stack([np.log(among) - np.log1p(-among), np.log(counts)], axis=-1).astype(single),
        relevance=of_hits.astype(single),
        against=np.zeros(len(logits), single) if against is None else against.astype(single),
        meant=np.ones(len(logits), single) if meant is None else meant.astype(single),
    )


JUDGED = 4
"""The number of first hits on which a decision is based, however many are returned."""

CUTOFFS = (1, JUDGED, 10)
"""The numbers of hits for which `found` is learned; others are inter- or extrapolated."""

_SMALLEST = np.float32(1e-7)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The probabilities of n questions and their first k different texts.

    Attributes
    ----------
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    confidence_at_k : array, shape (n, k)
        P(one of the first 1, 2, ... k texts answers it), the product of `in_corpus` and P(an answer
        in the corpus is among these texts). Does not decrease along a row.
    relevance : array, shape (n, k)
        P(this text is relevant). Does not increase along a row; starts with the first value of
        `confidence_at_k`, and its cumulative sum is at least `confidence_at_k`.
    """

    in_corpus: FloatArray
    confidence_at_k: FloatArray
    relevance: FloatArray

    def of_question(self, row: int, k: int) -> Probabilities:
        """Return the probabilities of one question and its first k texts."""
        at = slice(row, row + 1), slice(k)
        return Probabilities(self.in_corpus[at[:1]], self.confidence_at_k[at], self.relevance[at])

    @property
    def confidence(self) -> FloatArray:
        """P(one of the first `JUDGED` texts answers the question), shape (n,)."""
        return self.confidence_at_k[:, min(JUDGED, self.confidence_at_k.shape[1]) - 1]


@dataclass(frozen=True, eq=False)
class Examples:
    """The features and labels of n questions and their first k texts.

    Attributes
    ----------
    features : Features
        Features of k texts.
    relevant : array of bool, shape (n, k)
    answerable : array of bool, shape (n,)
        Whether the corpus answers the question, even if the answer was not found.
    weight : array, shape (n,)
        Weight of each question.
    """

    features: Features
    relevant: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weight: FloatArray

    @classmethod
    def concatenate(cls, parts: Sequence[Examples]) -> Examples:
        """Concatenate examples of several corpora; if one has fewer texts, repeat its last one."""
        width = max(part.relevant.shape[1] for part in parts)

        def pad(arrays: list[NDArray[Any]]) -> NDArray[Any]:
            columns = np.arange(width)
            return np.concatenate([a[:, np.minimum(columns, a.shape[1] - 1)] for a in arrays])

        blocks = [part.features for part in parts]
        return cls(
            Features(
                np.concatenate([block.in_corpus for block in blocks]),
                pad([block.found for block in blocks]),
                pad([block.relevance for block in blocks]),
                np.concatenate([block.against for block in blocks]),
                np.concatenate([block.meant for block in blocks]),
            ),
            pad([part.relevant for part in parts]),
            np.concatenate([part.answerable for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    @property
    def unanswerable(self) -> float:
        """The share of the queries that the corpus does not answer."""
        return float(1 - np.average(self.answerable, weights=self.weight))

    def at_cutoffs(self) -> tuple[list[int], FloatArray, NDArray[np.bool_], FloatArray]:
        """Return what `found` is learned from, of answerable questions.

        Numbers of hits, and for each question features (n, c, F), whether one of so many hits is
        relevant (n, c), and weights (n, c).
        """
        width, there = self.relevant.shape[1], self.answerable
        counts = sorted({min(cutoff, width) for cutoff in (*CUTOFFS, width)})
        columns = np.array(counts) - 1
        right = np.logical_or.accumulate(self.relevant, axis=1)
        weight = np.repeat(self.weight[there, None], len(counts), axis=1) / np.float32(len(counts))
        return counts, self.features.found[there][:, columns], right[there][:, columns], weight


@dataclass(frozen=True)
class ConfidenceModel(Record):
    """The model of relevance and confidence, from the fused logits.

    The model consists of H = P(the corpus answers) and, given that it does, F(k) = P(an answer is
    among the first k hits) and rho(i) = P(hit i is relevant). The confidence is C(k) = H F(k). The
    relevance r(i) of a hit is at least what the hit adds to C and at most the relevance of the hit
    before; r(1) is C(1). Hence ``max r <= C(k) <= min(H, sum r)`` over the first k hits, whatever
    was learned, and for any change of H.

    Attributes
    ----------
    temperature : float
        T of the softmax over the best hits.
    relevance : Calibrator
        Model of rho, the relevance of a hit if the corpus has an answer.
    in_corpus : Calibrator
        Model of H.
    found : Calibrator
        Model of F. Its weights are nonnegative, so that confidence grows with the number of hits.
    unanswerable : float
        Share of questions without an answer that `in_corpus` was learned with.
    standardised : bool
        Whether logits are the similarities of an unfitted ensemble, standardised over unrelated
        passages of the corpus, instead of the logits of a fitted ensemble.
    profile : tuple of `NEAREST` floats
        The mean logit of the first, second, ... hit of a question, divided by the temperature: what
        competes with the few passages of a filter. Empty if it is not known.
    per_count : float
        Nonnegative coefficient of the log of the number of hits in the log odds of `found`, fitted
        to the labels of a corpus together with the Platt scaling.
    """

    temperature: float
    relevance: Calibrator
    in_corpus: Calibrator
    found: Calibrator
    unanswerable: float
    standardised: bool = False
    per_count: float = 0.0
    profile: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature!r}.")

    def probabilities(self, features: Features, unanswerable: float | None = None) -> Probabilities:
        """Compute the probabilities of n questions and their hits.

        Parameters
        ----------
        features : Features
            Features at the temperature of this model.
        unanswerable : float, optional
            Share of the questions that the corpus does not answer, if known. The odds of
            `in_corpus` are shifted from the share that the model was learned with.
        """
        by_nearness = sigmoid(self.in_corpus.logits(features.in_corpus))
        in_any = sigmoid(self.in_corpus.logits(features.in_corpus, features.against))
        in_any = np.maximum(in_any, np.minimum(by_nearness, np.float32(NEAR)))
        of_far = np.float32(_OF_FAR) * np.maximum(in_any, np.float32(NEAR))
        in_any = np.where(self._are_far(features), np.minimum(in_any, of_far), in_any)
        if unanswerable is not None:
            in_any = shift_prior(in_any, self.unanswerable, unanswerable)
        logs: FloatArray = np.log(np.arange(1, features.found.shape[1] + 1, dtype=np.float32))
        odds = self.found.logits(features.found) + np.float32(self.per_count) * logs
        among = sigmoid(odds).astype(np.float64)
        # No hit may add more than the one before, or it would be more relevant than the first.
        gains = np.minimum.accumulate(np.diff(among, axis=1, prepend=0), axis=1)
        gains = np.maximum(gains, 0)
        alone = np.maximum(self.relevance.predict(features.relevance), gains)
        alone[:, 0] = gains[:, 0]
        sure = (in_any * features.meant)[:, None]
        at_k = sure * np.minimum(np.cumsum(gains, axis=1), 1)
        of_hits = sure * np.minimum.accumulate(alone, axis=1)
        single = np.float32
        return Probabilities(in_any.astype(single), at_k.astype(single), of_hits.astype(single))

    def _are_far(self, features: Features) -> NDArray[np.bool_]:
        """Return whether no hit has a word of a question, or is near it; False without a fit."""
        mean, coverage = features.in_corpus[:, 2], features.in_corpus[:, 3]
        bound = self.in_corpus.location[2] + FAR * self.in_corpus.spread[2]
        are_far: NDArray[np.bool_] = (coverage == 0) & (mean < bound) & (not self.standardised)
        return are_far

    def recalibrate(self, examples: Examples) -> Self:
        """Return this model recalibrated on the examples of a user's corpus.

        Raises
        ------
        ValueError
            If no hit is relevant.
        """
        if not examples.relevant.any():
            raise ValueError(
                "calibration: none of the hits is relevant, expected at least one; check that "
                "relevant ids are those of the index."
            )
        counts, inputs, right, weight = examples.at_cutoffs()
        there, log = examples.answerable, np.log(np.asarray(counts, dtype=np.float32))
        odds = self.found.logits(inputs) + np.float32(self.per_count) * log
        scores = np.stack([odds, np.broadcast_to(log, odds.shape)], axis=-1)
        (slope, per_count), offset = fit_line(scores, right, weight)
        relevance, behind = self.relevance, examples.relevant[there, 1:]
        if behind.size:  # the first hit has no part in it: its relevance is C(1)
            of_hits = np.broadcast_to(examples.weight[there, None], behind.shape)
            relevance = relevance.recalibrate(
                examples.features.relevance[there, 1:], behind, of_hits
            )
        return replace(
            self,
            relevance=relevance,
            in_corpus=self.in_corpus.recalibrate(
                examples.features.in_corpus, there, examples.weight, examples.features.against
            ),
            found=self.found.with_line(float(slope), offset),
            per_count=float(slope * self.per_count + per_count),
            unanswerable=examples.unanswerable,
        )


def log_odds(probability: NDArray[_Float]) -> NDArray[_Float]:
    """Compute ``log(p / (1 - p))``, clipped to be finite for 0 and 1."""
    inside = np.clip(probability, _SMALLEST, 1 - _SMALLEST)
    odds: NDArray[_Float] = np.log(inside) - np.log1p(-inside)
    return odds


def shift_prior(probability: FloatArray, learned: float, share: float) -> FloatArray:
    """Adapt probabilities of an answer to another share of questions without one.

    `learned`, `share`: the share that `probability` was learned with and the new one, both from
    `LEAST_SHARE` to what is left of 1.

    Examples
    --------
    >>> shift_prior(np.float32([0.5]), learned=0.5, share=0.2)
    array([0.8], dtype=float32)
    """
    before, after = np.clip((learned, share), LEAST_SHARE, 1 - LEAST_SHARE)
    factor = np.float32(float((1 - after) / after * before / (1 - before)))
    moved = factor * probability / (1 - probability + factor * probability)
    return moved.astype(np.float32)


@cache
def shipped_model(kind: str) -> ConfidenceModel:
    """Return the model that comes with the package.

    It was learned by `benchmarks/quality/shipped_confidence.py` on public collections of several
    domains: from questions to whole corpora, to small parts of them, to corpora without the
    answers, and to other collections.

    Parameters
    ----------
    kind : {"fitted", "words", "multilingual", "static", "unfitted"}
        The model for the logits of a fitted ensemble of dense encoders ("fitted") or one with a
        lexical member ("words"), to be used at the ensemble's own temperature; that of the preset
        "multilingual" or "static"; or the model for the standardised similarities of an unfitted
        ensemble ("unfitted").
    """
    return ConfidenceModel.restore(read_learned("uec_rag.confidence", "shipped.json")[kind])
