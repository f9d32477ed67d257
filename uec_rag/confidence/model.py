"""Probabilities that a hit is relevant, that the corpus holds an answer, and that the hits do.

All of it is logistic in a few features of a question's best hits. Only for an ensemble that was not
fitted other passages are looked at, a sample over which similarities are standardised. So the
numbers of a fitted one are the same from every store (but for the rounding of dtype "int8"), and
none depends on how many hits a user asks for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray, probit
from uec_rag.base.records import Outdated, Record

NEAREST = 30
"""The number of best passages, of different texts, that shares are taken among."""

VERSION = 2
"""Of the features: a model that was learned on others is not used."""

_LEAST_SHARE = 1e-4
_SOFTER = np.arange(1, 4)[:, None, None]  # factors on the temperature


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
    missing_name_penalty : array, shape (n,)
        Subtracted from the log odds that the corpus has an answer, before any calibration.
    foreign_script_penalty : array, shape (n,)
        Subtracted from these log odds, whatever was calibrated.
    """

    in_corpus: FloatArray
    found: FloatArray
    relevance: FloatArray
    missing_name_penalty: FloatArray
    foreign_script_penalty: FloatArray

    @property
    def posterior(self) -> FloatArray:
        """The share of each hit in the softmax, shape (n, k)."""
        shares: FloatArray = np.exp(self.relevance[..., 1])
        return shares

    def first(self, k: int) -> Features:
        """Return the features of the first k hits; shares stay those among the `NEAREST`."""
        return replace(self, found=self.found[:, :k], relevance=self.relevance[:, :k])


def features(
    logits: FloatArray,
    variance: FloatArray,
    members: FloatArray,
    temperature: float = 1.0,
    missing_name_penalty: FloatArray | None = None,
    foreign_script_penalty: FloatArray | None = None,
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
    missing_name_penalty, foreign_script_penalty : array, shape (n,), optional
        See `Features`; none by default.

    Examples
    --------
    >>> hits, members = np.float32([[2.0, -np.inf]]), np.float32([[3.0, 1.0]])
    >>> features(hits, np.zeros_like(hits), members).in_corpus.tolist()
    [[0.0, 3.0, 2.0]]
    """
    scaled = logits.astype(np.float64) / temperature
    highest = scaled[:, :1]
    near = scaled[:, :NEAREST] - highest
    normaliser, soft, softest = np.exp(near / _SOFTER).sum(axis=2, keepdims=True)
    among = (np.exp((scaled - highest) / 2) / soft).cumsum(axis=1)
    among = np.clip(among, _LEAST_SHARE, 1 - _LEAST_SHARE)
    counts = np.isfinite(scaled).cumsum(axis=1)
    each = np.stack([probit(logits, variance), scaled - highest - np.log(normaliser)], axis=-1)
    each = np.take_along_axis(each, counts[..., None] - 1, axis=1)
    best, mean = members.max(axis=1) / temperature, members.mean(axis=1) / temperature
    single, none = np.float32, np.zeros(len(logits), np.float32)
    return Features(
        in_corpus=np.stack([np.log(1 / softest[:, 0]), best, mean], axis=1).astype(single),
        found=np.stack([np.log(among) - np.log1p(-among), np.log(counts)], axis=-1).astype(single),
        relevance=each.astype(single),
        missing_name_penalty=none if missing_name_penalty is None else missing_name_penalty,
        foreign_script_penalty=none if foreign_script_penalty is None else foreign_script_penalty,
    )


_RANGE = 6.0


@dataclass(frozen=True)
class Calibrator(Record):
    """Logistic regression on a few features, and a line on top of it for a user's own corpus.

    Attributes
    ----------
    weights, location, spread : tuple of F floats
        Of the features, standardised; weights are at least 0: every feature is evidence *for*.
    slope, offset : float
        Of ``sigmoid(slope * score + offset)``; 1 and 0 before `recalibrated`.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    bias: float
    slope: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.location) == len(self.spread):
            raise ValueError("weights, location, spread: expected one of each per feature.")
        if not all(value > 0 for value in self.spread):
            raise ValueError(f"spread: expected numbers > 0, got {self.spread}.")

    def logits(self, features: FloatArray, penalty: FloatArray | float = 0) -> FloatArray:
        """Compute log odds, shape (...), of features (..., F); a penalty (...) lowers them."""
        location = np.asarray(self.location, np.float32)
        spread = np.asarray(self.spread, np.float32)
        standard = np.clip((features - location) / spread, -_RANGE, _RANGE)
        score = standard @ np.asarray(self.weights, np.float32) + np.float32(self.bias)
        logits: FloatArray = np.float32(self.slope) * (score - np.float32(penalty))
        return logits + np.float32(self.offset)

    def predict(self, features: FloatArray, penalty: FloatArray | float = 0) -> FloatArray:
        """Compute probabilities, shape (...); parameters as of `logits`."""
        return sigmoid(self.logits(features, penalty))

    def on_line(self, slope: float, offset: float) -> Self:
        """Return the same with log odds of ``slope * logits + offset``."""
        return replace(self, slope=slope * self.slope, offset=slope * self.offset + offset)

    def recalibrated(
        self,
        features: FloatArray,
        labels: ArrayLike,
        weights: ArrayLike | None = None,
        penalty: FloatArray | float = 0,
    ) -> Self:
        """Return the same order with probabilities that fit the labels (Platt scaling).

        A prior keeps slope and offset near what they are where labels are few, also where all
        labels are alike.

        Parameters
        ----------
        features : array, shape (..., F)
        labels : array_like of bool, shape (...)
        weights : array_like, shape (...), optional
            How much each example counts; 1 by default.
        penalty : array, shape (...), or float
            As of `logits`.
        """
        slope, offset = _line(self.logits(features, penalty)[..., None], labels, weights)
        return self.on_line(float(slope[0]), offset)


def fit_calibrator(
    features: FloatArray,
    labels: ArrayLike,
    penalty: float = 0.001,
    weights: ArrayLike | None = None,
) -> Calibrator:
    """Learn a `Calibrator`.

    scikit-learn's logistic regression cannot keep weights above 0, which is what keeps a
    probability from falling as the evidence grows.

    Parameters
    ----------
    features : array, shape (..., F)
    labels : array_like of bool, shape (...)
        Both kinds must be there.
    penalty : float
        Ridge on the weights of the standardised features, per example.
    weights : array_like, shape (...), optional
        How much each example counts; 1 by default.

    Raises
    ------
    ValueError
        If all labels are alike.
    """
    flat = features.reshape(-1, features.shape[-1]).astype(np.float64)
    right = _labels(labels)
    if right.all() or not right.any():
        raise ValueError(
            f"labels: expected some of either kind, got {len(right)} times {bool(right.any())}."
        )
    counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
    counts *= len(counts) / counts.sum()
    location = np.average(flat, axis=0, weights=counts)
    spread = np.sqrt(np.average((flat - location) ** 2, axis=0, weights=counts))
    spread = np.maximum(spread, 1e-3)
    standard = np.clip((flat - location) / spread, -_RANGE, _RANGE)
    strength = 2 * penalty * len(right)
    found, bias = _logistic(standard, right, counts, (0.0,) * flat.shape[1], strength, 0.0)
    return Calibrator(tuple(found.tolist()), tuple(location.tolist()), tuple(spread.tolist()), bias)


def sigmoid(logits: FloatArray) -> FloatArray:
    """Compute ``1 / (1 + exp(-logits))`` without overflow."""
    # Not scipy's: its import alone is a tenth of the time that a new process takes to answer.
    small = np.exp(-np.abs(logits))
    probability: FloatArray = np.where(logits >= 0, np.ones_like(small), small) / (1 + small)
    return probability


def _labels(labels: ArrayLike) -> NDArray[np.bool_]:
    flat = np.asarray(labels, dtype=bool).ravel()
    if not len(flat):
        raise ValueError("labels: expected at least one, got none.")
    return flat


def _line(
    scores: FloatArray, labels: ArrayLike, weights: ArrayLike | None
) -> tuple[NDArray[np.float64], float]:
    """Fit an offset and weights: of log odds, kept near 1; of others beside them, kept near 0.

    `scores`: array, shape (..., F), log odds first.
    """
    right, flat = _labels(labels), scores.reshape(-1, scores.shape[-1]).astype(np.float64)
    counts = np.ones(len(right)) if weights is None else np.ravel(weights).astype(np.float64)
    start = (1.0, *(0.0,) * (flat.shape[1] - 1))
    return _logistic(flat, right, counts, start, strength=1.0, offset_strength=0.5)


def _logistic(
    features: NDArray[np.float64],
    labels: NDArray[np.bool_],
    counts: NDArray[np.float64],
    start: tuple[float, ...],
    strength: float,
    offset_strength: float,
) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression with weights of at least 0 and a ridge towards `start`."""
    from scipy.optimize import minimize
    from scipy.special import expit

    origin = np.array([*start, 0.0])
    stiffness = np.array([strength] * len(start) + [offset_strength])

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = features @ parameters[:-1] + parameters[-1]
        moved = parameters - origin
        error = counts * (expit(logits) - labels)
        value = counts @ (np.logaddexp(0, logits) - logits * labels) + stiffness @ moved**2 / 2
        gradient = np.append(features.T @ error, error.sum()) + stiffness * moved
        return float(value) / len(labels), gradient / len(labels)

    bounds = [(0.0, None)] * len(start) + [(None, None)]
    found = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:-1], float(found[-1])


CUTOFFS = (1, 4, 10)
"""Numbers of hits that being found is learned for; others lie between or go on from there."""

JUDGED = 4
"""Hits that a decision is about, however many are handed on."""

_SHARE_RANGE = (1e-3, 1 - 1e-3)
_SMALLEST = np.float32(1e-7)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """The probabilities of n questions and their first k different texts.

    Attributes
    ----------
    in_corpus : array, shape (n,)
        P(the corpus answers the question).
    by_cutoff : array, shape (n, k)
        P(one of the first 1, 2, ... k texts answers it): `in_corpus`, times that it is found if it
        is there. Rises with every text.
    relevance : array, shape (n, k)
        P(this text is relevant): never more than that of the text before it, of the first one
        `by_cutoff`, and of the first 1, 2, ... k texts together at least that.
    """

    in_corpus: FloatArray
    by_cutoff: FloatArray
    relevance: FloatArray

    @property
    def confidence(self) -> FloatArray:
        """P(one of the first `JUDGED` texts answers the question), shape (n,)."""
        return self.by_cutoff[:, min(JUDGED, self.by_cutoff.shape[1]) - 1]

    def of(self, row: int) -> Probabilities:
        """Return the probabilities of one of the questions."""
        one = slice(row, row + 1)
        return Probabilities(self.in_corpus[one], self.by_cutoff[one], self.relevance[one])

    def mixed(self, in_corpus: FloatArray, share: float) -> Probabilities:
        """Mix the log odds of `in_corpus` with those of another search; the others change with it.

        Parameters
        ----------
        in_corpus : array, shape (n,)
            Of the other search.
        share : float
            How much that counts, from 0 to 1.
        """
        own = log_odds(self.in_corpus)
        held = sigmoid(own + share * (log_odds(in_corpus) - own)).astype(np.float32)
        factor = (held / np.maximum(self.in_corpus, _SMALLEST))[:, None]
        found, each = (
            np.minimum(numbers * factor, held[:, None])
            for numbers in (self.by_cutoff, self.relevance)
        )
        return Probabilities(held, found, each)


@dataclass(frozen=True, eq=False)
class Examples:
    """The features of n questions, and which of their first k texts are relevant.

    Attributes
    ----------
    features : Features
        Of k texts.
    relevant : array of bool, shape (n, k)
    answerable : array of bool, shape (n,)
        Whether the corpus answers the question, found or not.
    weight : array, shape (n,)
        How much each question counts.
    """

    features: Features
    relevant: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weight: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """Join examples of several corpora; if a corpus has fewer texts, its last one is repeated.

        A repeated text is not relevant once more, and its features are those of all the texts.
        """
        most = max(part.relevant.shape[1] for part in parts)

        def padded(values: NDArray[Any]) -> NDArray[Any]:
            missing = most - values.shape[1]
            return np.concatenate([values, np.repeat(values[:, -1:], missing, axis=1)], axis=1)

        own = [part.features for part in parts]
        return cls(
            Features(
                in_corpus=np.concatenate([one.in_corpus for one in own]),
                found=np.concatenate([padded(one.found) for one in own]),
                relevance=np.concatenate([padded(one.relevance) for one in own]),
                missing_name_penalty=np.concatenate([one.missing_name_penalty for one in own]),
                foreign_script_penalty=np.concatenate([one.foreign_script_penalty for one in own]),
            ),
            relevant=np.concatenate([padded(part.relevant) for part in parts]),
            answerable=np.concatenate([part.answerable for part in parts]),
            weight=np.concatenate([part.weight for part in parts]),
        )

    @property
    def unanswerable(self) -> float:
        """The share of the queries that the corpus does not answer."""
        return float(1 - np.average(self.answerable, weights=self.weight))

    @property
    def counts(self) -> list[int]:
        """The numbers of hits at which being found is learned."""
        last = self.features.found.shape[1]
        return sorted({min(cutoff, last) for cutoff in (*CUTOFFS, last)})

    def hits(self, first: int) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Return features, labels and weights of hits from a place on, if the corpus answers."""
        there = self.answerable
        relevant = self.relevant[there, first:]
        weight = np.broadcast_to(self.weight[there, None], relevant.shape)
        return self.features.relevance[there, first:], relevant, weight

    def cutoffs(self) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Return features, labels and weights of being found at `counts`, (n, c, F) and (n, c)."""
        at = self.counts
        columns = [cutoff - 1 for cutoff in at]
        right = np.logical_or.accumulate(self.relevant, axis=1)[:, columns]
        weight = np.repeat(self.weight[:, None], len(at), axis=1) / np.float32(len(at))
        return self.features.found[:, columns], right, weight


@dataclass(frozen=True)
class ConfidenceModel(Record):
    """The model of relevance and confidence, from the fused logits.

    Everything follows from H = P(the corpus answers) and, where it does, F(k) = P(an answer is
    among the first k hits) and rho(i) = P(hit i is relevant). Confidence is C(k) = H F(k). What a
    hit adds to it is the least that its relevance can be; the first one's is C(1), and no hit is
    more relevant than the one before. So ``max r <= C(k) <= min(H, sum r)`` over the first k, with
    r(i) the relevance, whatever was learned, and however H is moved.

    Attributes
    ----------
    temperature : float
        T of the softmax over the best hits.
    relevance : Calibrator
        Of a hit, where the corpus has an answer.
    in_corpus : Calibrator
        Of the corpus having an answer.
    found : Calibrator
        Of an answer that the corpus has being among the first hits. Its weights are at least 0:
        more hits, more confidence.
    unanswerable : float
        Share of questions without an answer that `in_corpus` was learned with.
    standardised : bool
        Whether logits are an unfitted ensemble's similarities, standardised over unrelated
        passages of the corpus, instead of a fitted one's.
    per_count : float
        What the log of the number of hits adds to the log odds of `found`, at least 0: labels of a
        corpus tell, beside its line.
    """

    temperature: float
    relevance: Calibrator
    in_corpus: Calibrator
    found: Calibrator
    unanswerable: float
    standardised: bool = False
    per_count: float = 0.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number > 0, got {self.temperature}.")
        if not 0 <= self.unanswerable <= 1:
            raise ValueError(f"unanswerable: expected a share, got {self.unanswerable}.")
        if not self.per_count >= 0:
            raise ValueError(f"per_count: expected a number >= 0, got {self.per_count}.")

    def metadata(self) -> dict[str, object]:
        """Return the state in JSON's types, for saving, with the version of the features."""
        return {"features": VERSION, **super().metadata()}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; Outdated if it was learned on other features."""
        if not isinstance(metadata, Mapping):
            return super().restore(metadata)
        if metadata.get("features") != VERSION:
            raise Outdated(
                f"confidence: expected a model of features {VERSION}, got one of "
                f"{metadata.get('features')}."
            )
        return super().restore({key: v for key, v in metadata.items() if key != "features"})

    def probabilities(self, features: Features, unanswerable: float | None = None) -> Probabilities:
        """Compute the probabilities of n questions and their hits.

        Parameters
        ----------
        features : Features
            At this model's temperature.
        unanswerable : float, optional
            Share of the questions asked that the corpus does not answer, if it is known; the odds
            of `in_corpus` shift by as much as it differs from what was learned with.
        """
        held = self.in_corpus.predict(features.in_corpus, features.missing_name_penalty)
        if unanswerable is not None:
            held = shift_prior(held, self.unanswerable, unanswerable)
        if features.foreign_script_penalty.any():
            held = sigmoid(log_odds(held) - features.foreign_script_penalty)
        counts = np.arange(1, features.found.shape[1] + 1)
        among = self.found_among(features.found, counts).astype(np.float64)
        # No hit adds more than the one before, or it would be more relevant than the first.
        added = np.minimum.accumulate(np.diff(among, axis=1, prepend=0), axis=1)
        added = np.maximum(added, 0)
        alone = np.maximum(self.relevance.predict(features.relevance), added)
        alone[:, 0] = added[:, 0]
        by_cutoff = held[:, None] * np.minimum(np.cumsum(added, axis=1), 1)
        each = held[:, None] * np.minimum.accumulate(alone, axis=1)
        single = np.float32
        return Probabilities(held.astype(single), by_cutoff.astype(single), each.astype(single))

    def found_among(self, features: FloatArray, counts: ArrayLike) -> FloatArray:
        """Compute P(an answer that the corpus has is among the first hits), shape (n, c).

        `features`: array, shape (n, c, F), of c numbers of hits, `counts`.
        """
        logs: FloatArray = np.log(np.asarray(counts, dtype=np.float32))
        return sigmoid(self.found.logits(features) + np.float32(self.per_count) * logs)

    def moved(self, examples: Examples) -> Self:
        """Return this model with its probabilities moved to examples, one line for each."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        return replace(
            self,
            relevance=self.relevance.recalibrated(*examples.hits(first=0)),
            in_corpus=self.in_corpus.recalibrated(
                examples.features.in_corpus,
                there,
                examples.weight,
                examples.features.missing_name_penalty,
            ),
            found=self.found.recalibrated(features[there], right[there], weight[there]),
            unanswerable=examples.unanswerable,
        )

    def recalibrated(self, examples: Examples) -> Self:
        """Return this model fitted to a user's own corpus.

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
        features, right, weight = examples.cutoffs()
        there, log = examples.answerable, np.log(np.asarray(examples.counts, dtype=np.float32))
        odds = self.found.logits(features) + np.float32(self.per_count) * log
        scores = np.stack([odds, np.broadcast_to(log, odds.shape)], axis=-1)
        (slope, per_count), offset = _line(scores[there], right[there], weight[there])
        relevance = self.relevance  # of the first hit that is confidence in it alone
        if examples.relevant.shape[1] > 1:
            relevance = relevance.recalibrated(*examples.hits(first=1))
        return replace(
            self,
            relevance=relevance,
            in_corpus=self.in_corpus.recalibrated(
                examples.features.in_corpus,
                there,
                examples.weight,
                examples.features.missing_name_penalty,
            ),
            found=self.found.on_line(float(slope), offset),
            per_count=float(slope * self.per_count + per_count),
            unanswerable=examples.unanswerable,
        )

    def surprise(self, examples: Examples) -> float:
        """Compute the mean NLL, in nats, of whether the corpus answers, and whether the hits do."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        seen = examples.features
        held = _nll(self.in_corpus.predict(seen.in_corpus, seen.missing_name_penalty), there)
        found = _nll(self.found_among(features[there], examples.counts), right[there])
        return float(
            np.average(held, weights=examples.weight) + np.average(found, weights=weight[there])
        )

    def relearned(self, examples: Examples) -> Self:
        """Return a model learned from examples alone, at this one's temperature.

        What all examples have alike, as where every answer is found, is only moved.
        """
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        return replace(
            self,
            relevance=_learned(self.relevance, *examples.hits(first=0)),
            in_corpus=_learned(self.in_corpus, examples.features.in_corpus, there, examples.weight),
            found=_learned(self.found, features[there], right[there], weight[there]),
            per_count=0.0,
            unanswerable=examples.unanswerable,
        )


def _learned(
    known: Calibrator, features: FloatArray, labels: NDArray[np.bool_], weights: FloatArray
) -> Calibrator:
    if labels.all() or not labels.any():
        return known.recalibrated(features, labels, weights)
    return fit_calibrator(features, labels, weights=weights)


def _nll(probability: FloatArray, truth: NDArray[np.bool_]) -> FloatArray:
    stated = np.where(truth, probability, 1 - probability)
    surprise: FloatArray = -np.log(np.maximum(stated, _SMALLEST)).astype(np.float32)
    return surprise


def log_odds(probability: FloatArray) -> FloatArray:
    """Compute ``log(p / (1 - p))``, finite also for 0 and 1."""
    inside = np.clip(probability, _SMALLEST, 1 - _SMALLEST)
    odds: FloatArray = np.log(inside) - np.log1p(-inside)
    return odds


def shift_prior(probability: FloatArray, learned: float, told: float) -> FloatArray:
    """Shift probabilities of an answer to another share of questions without one.

    `probability`: learned where the share `learned` has no answer. `learned`, `told`: shares in [0,
    1), clipped to [0.001, 0.999].

    Examples
    --------
    >>> shift_prior(np.float32([0.5]), learned=0.5, told=0.2)
    array([0.8], dtype=float32)
    """
    before, after = np.clip((learned, told), *_SHARE_RANGE)
    factor = np.float32(float((1 - after) / after * before / (1 - before)))
    moved = factor * probability / (1 - probability + factor * probability)
    return moved.astype(np.float32)


@cache
def shipped_model(kind: Literal["fitted", "words", "unfitted"]) -> ConfidenceModel:
    """Return the model that comes with the package.

    It was learned by `benchmarks/quality/shipped_confidence.py` on public collections of several
    domains: questions asked of the whole corpus and of small ones cut out of it, of corpora
    without their answers, and of other collections.

    Parameters
    ----------
    kind : {"fitted", "words", "unfitted"}
        From a fitted ensemble's logits, to be used with its own temperature, of encoders with
        vectors alone or with words among them; or from an unfitted one's standardised
        similarities.
    """
    text = files("uec_rag.confidence").joinpath("shipped.json").read_text(encoding="utf-8")
    return ConfidenceModel.restore(json.loads(text)[kind])
