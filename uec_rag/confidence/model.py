"""How likely a hit is relevant, the corpus holds an answer, and the hits do.

All of it is logistic in a few numbers of the fused posterior over the corpus,
``softmax_c(l_c / T)`` with the ensemble's logits l.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray, probit
from uec_rag.base.records import Record
from uec_rag.base.sums import Digest, SoftmaxSums

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

    def score(self, features: FloatArray) -> FloatArray:
        """Log odds before the line, shape (...), of features (..., F)."""
        location = np.asarray(self.location, np.float32)
        spread = np.asarray(self.spread, np.float32)
        standard = np.clip((features - location) / spread, -_RANGE, _RANGE)
        score: FloatArray = standard @ np.asarray(self.weights, np.float32) + np.float32(self.bias)
        return score

    def logits(self, features: FloatArray) -> FloatArray:
        """Log odds, shape (...), of features (..., F)."""
        return np.float32(self.slope) * self.score(features) + np.float32(self.offset)

    def predict(self, features: FloatArray) -> FloatArray:
        """Probabilities, shape (...), of features (..., F)."""
        return sigmoid(self.logits(features))

    def on_line(self, slope: float, offset: float) -> Self:
        """Return it with log odds of ``slope * logits + offset``."""
        return replace(self, slope=slope * self.slope, offset=slope * self.offset + offset)

    def recalibrated(
        self, features: FloatArray, labels: ArrayLike, weights: ArrayLike | None = None
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
        """
        slope, offset = _line(self.logits(features)[..., None], labels, weights)
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
    """``1 / (1 + exp(-logits))``, without overflow."""
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
    """Weights of log odds, kept near 1, and of what else is beside them, kept near 0; an offset.

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
    """Weights of at least 0 and offset of a logistic regression; a ridge towards `start` and 0."""
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

        `best`, array, shape (n,): the highest of the members' l / T of the first hit.
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

    `logits`, array, shape (n, N): N at least 1.

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
    """
    share = logits / np.float32(temperature) - log_normaliser[:, None]
    return np.stack([probit(logits, variance), share], axis=-1)


CUTOFFS = (1, 4, 10)
"""Numbers of hits that being found is learned for; others lie between or go on from there."""

_SHARE_RANGE = (1e-3, 1 - 1e-3)
_SMALLEST = np.float32(1e-7)
_DOUBT = np.float32(2.0)  # log-odds, where nothing knows the language


@dataclass(frozen=True, eq=False)
class Certainty:
    """What is known of n queries.

    Attributes
    ----------
    in_corpus : array, shape (n,)
        P(the corpus answers the query).
    by_cutoff : array, shape (n, k)
        P(one of the first 1, 2, ... k hits answers it): `in_corpus`, times that it is found where
        it is there. Rises with every hit.
    relevance : array, shape (n, k)
        P(this hit is relevant): never more than that of the hit before it, of the first hit
        `by_cutoff`, and of the first 1, 2, ... k hits together at least that.
    """

    in_corpus: FloatArray
    by_cutoff: FloatArray
    relevance: FloatArray

    @property
    def confidence(self) -> FloatArray:
        """P(one of the hits answers the query), shape (n,)."""
        return self.by_cutoff[:, -1]


@dataclass(frozen=True, eq=False)
class HitExamples:
    """The hits of n queries, and which are relevant: what a model is learned from.

    Attributes
    ----------
    relevance : array, shape (n, k, 2)
        `relevance_features`.
    query : array, shape (n, 3)
        `ConfidenceModel.query_features`.
    found : array, shape (n, k, F)
        `ConfidenceModel.found_features`.
    relevant : array of bool, shape (n, k)
    answerable : array of bool, shape (n,)
        Whether the corpus answers the query, found or not.
    weight : array, shape (n,)
        How much each query counts.
    """

    relevance: FloatArray
    query: FloatArray
    found: FloatArray
    relevant: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    weight: FloatArray

    @property
    def unanswerable(self) -> float:
        """Share of the queries that the corpus does not answer."""
        return float(1 - np.average(self.answerable, weights=self.weight))

    @property
    def counts(self) -> list[int]:
        """The numbers of hits that being found is looked at for."""
        last = self.found.shape[1]
        return sorted({min(cutoff, last) for cutoff in (*CUTOFFS, last)})

    def hits(self, first: int) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Features, labels and weights of hits where the corpus answers, from a place on."""
        there = self.answerable
        relevant = self.relevant[there, first:]
        weight = np.broadcast_to(self.weight[there, None], relevant.shape)
        return self.relevance[there, first:], relevant, weight

    def cutoffs(self) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Features, labels and weights of being found at `counts`, (n, c, F) and (n, c)."""
        at = self.counts
        columns = [cutoff - 1 for cutoff in at]
        right = np.logical_or.accumulate(self.relevant, axis=1)[:, columns]
        weight = np.repeat(self.weight[:, None], len(at), axis=1) / np.float32(len(at))
        return self.found[:, columns], right, weight


@dataclass(frozen=True)
class ConfidenceModel(Record):
    """Relevance of hits and confidence in queries, from the fused logits.

    Everything follows from H = P(the corpus answers) and, where it does, F(k) = P(an answer is
    among the first k hits) and rho(i) = P(hit i is relevant). Confidence is C(k) = H F(k). What a
    hit adds to it is the least that its relevance can be; the first one's is C(1), and no hit is
    more relevant than the one before. So ``max r <= C(k) <= min(H, sum r)`` over the first k, with
    r(i) the relevance, whatever was learned, and however H is moved.

    Attributes
    ----------
    temperature : float
        T of the posterior over the corpus.
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
    by_member : bool
        Whether `in_corpus` asks what the member says that thinks most of the first hit, instead of
        the ensemble, and `found` how many hits there are: as is learned of ensembles with words.
    nearest : bool
        Whether `found` rests on the hits' share of the nearest passages instead of all.
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
    by_member: bool = False
    nearest: bool = False
    per_count: float = 0.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number > 0, got {self.temperature}.")
        if not 0 <= self.unanswerable <= 1:
            raise ValueError(f"unanswerable: expected a share, got {self.unanswerable}.")
        if not self.per_count >= 0:
            raise ValueError(f"per_count: expected a number >= 0, got {self.per_count}.")

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; see `Record.restore`.

        What earlier versions learned from labels were lines of H and of the product H F, and of
        the first hit. The line of the product is now that of F, which is the same where H is near
        1; the first hit follows from F.
        """
        saved = [metadata.get(key) for key in ("presence", "level")]
        if not all(isinstance(line, Mapping) for line in saved):
            return super().restore(metadata)
        state = {k: v for k, v in metadata.items() if k not in ("presence", "level", "first")}
        known = super().restore(state)
        lines = [_line_of(Calibrator.restore(cast(Any, line))) for line in saved]
        (held, of_held, _), (found, of_found, per_count) = lines
        return replace(
            known,
            in_corpus=known.in_corpus.on_line(held, of_held),
            found=known.found.on_line(found, of_found),
            per_count=per_count,
        )

    def query_features(self, summary: CorpusSummary, best: FloatArray | None) -> FloatArray:
        """What `in_corpus` rests on, shape (n, 3).

        Parameters
        ----------
        summary : CorpusSummary
            At this model's temperature.
        best : array, shape (n,), or None
            The highest of the members' logits of the first hit; only looked at if `by_member`, and
            divided by the temperature as the ensemble's are.

        Raises
        ------
        ValueError
            If `by_member` and it is not given.
        """
        if not self.by_member:
            return summary.features()
        if best is None:
            raise ValueError("best: expected the members' highest logit of the first hit.")
        return summary.features(best / np.float32(self.temperature))

    def found_features(self, summary: CorpusSummary, logits: FloatArray) -> FloatArray:
        """What `found` rests on, shape (n, k, F), of the logits of k hits, best first."""
        scaled = logits / np.float32(self.temperature)
        return summary.found_features(scaled, counted=self.by_member, nearest=self.nearest)

    def certainty(
        self,
        summary: CorpusSummary,
        logits: FloatArray,
        unanswerable: float | None = None,
        doubt: FloatArray | None = None,
        best: FloatArray | None = None,
        variance: FloatArray | None = None,
        whole: CorpusSummary | None = None,
    ) -> Certainty:
        """How sure to be of n queries and their hits.

        Parameters
        ----------
        summary : CorpusSummary
            At this model's temperature.
        logits : array, shape (n, k)
            Of the hits, best first; k at least 1.
        unanswerable : float, optional
            Share of the questions asked that the corpus does not answer, where it is known; the
            odds of `in_corpus` shift by as much as it differs from what was learned with.
        doubt : array, shape (n,), optional
            How far what the logits rest on does not know the language of a query, from 0 to 1.
        best : array, shape (n,), optional
            As in `query_features`.
        variance : array, shape (n, k), optional
            Of the hits' logits, as in `relevance_features`; 0 by default.
        whole : CorpusSummary, optional
            What `in_corpus` rests on, where that is not `summary`.
        """
        spread = np.zeros_like(logits) if variance is None else variance
        return self.judged(
            self.query_features(summary if whole is None else whole, best),
            self.found_features(summary, logits),
            relevance_features(logits, spread, summary.log_normaliser, self.temperature),
            unanswerable,
            doubt,
        )

    def judged(
        self,
        query: FloatArray,
        found: FloatArray,
        relevance: FloatArray,
        unanswerable: float | None = None,
        doubt: FloatArray | None = None,
    ) -> Certainty:
        """As `certainty`, of features as `HitExamples` has them."""
        held = self.in_corpus.predict(query)
        if unanswerable is not None:
            held = shifted(held, self.unanswerable, unanswerable)
        if doubt is not None and doubt.any():
            held = sigmoid(log_odds(held) - _DOUBT * doubt)
        among = self.found_among(found, np.arange(1, found.shape[1] + 1)).astype(np.float64)
        # No hit adds more than the one before, or it would be more relevant than the first.
        added = np.minimum.accumulate(np.diff(among, axis=1, prepend=0), axis=1)
        added = np.maximum(added, 0)
        alone = np.maximum(self.relevance.predict(relevance), added)
        alone[:, 0] = added[:, 0]
        by_cutoff = held[:, None] * np.minimum(np.cumsum(added, axis=1), 1)
        each = held[:, None] * np.minimum.accumulate(alone, axis=1)
        single = np.float32
        return Certainty(held.astype(single), by_cutoff.astype(single), each.astype(single))

    def found_among(self, features: FloatArray, counts: ArrayLike) -> FloatArray:
        """P(an answer that the corpus has is among the first hits), shape (n, c).

        `features`: array, shape (n, c, F), of c numbers of hits, `counts`.
        """
        return sigmoid(self.found.logits(features) + np.float32(self.per_count) * _log(counts))

    def moved(self, examples: HitExamples) -> Self:
        """Return this model with its probabilities moved to examples, one line for each."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        return replace(
            self,
            relevance=self.relevance.recalibrated(*examples.hits(first=0)),
            in_corpus=self.in_corpus.recalibrated(examples.query, there, examples.weight),
            found=self.found.recalibrated(features[there], right[there], weight[there]),
            unanswerable=examples.unanswerable,
        )

    def recalibrated(self, examples: HitExamples) -> Self:
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
        there, log = examples.answerable, _log(examples.counts)
        odds = self.found.logits(features) + np.float32(self.per_count) * log
        scores = np.stack([odds, np.broadcast_to(log, odds.shape)], axis=-1)
        (slope, per_count), offset = _line(scores[there], right[there], weight[there])
        relevance = self.relevance  # of the first hit that is confidence in it alone
        if examples.relevant.shape[1] > 1:
            relevance = relevance.recalibrated(*examples.hits(first=1))
        return replace(
            self,
            relevance=relevance,
            in_corpus=self.in_corpus.recalibrated(examples.query, there, examples.weight),
            found=self.found.on_line(float(slope), offset),
            per_count=float(slope * self.per_count + per_count),
            unanswerable=examples.unanswerable,
        )

    def surprise(self, examples: HitExamples) -> float:
        """Mean NLL, in nats, of whether the corpus answers and of whether the hits do."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        held = _nll(self.in_corpus.predict(examples.query), there)
        found = _nll(self.found_among(features[there], examples.counts), right[there])
        return float(
            np.average(held, weights=examples.weight) + np.average(found, weights=weight[there])
        )

    def relearned(self, examples: HitExamples) -> Self:
        """Return a model learned from examples alone, at this one's temperature.

        What all examples have alike, as where every answer is found, is only moved.
        """
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        return replace(
            self,
            relevance=_learned(self.relevance, *examples.hits(first=0)),
            in_corpus=_learned(self.in_corpus, examples.query, there, examples.weight),
            found=_learned(self.found, features[there], right[there], weight[there]),
            per_count=0.0,
            unanswerable=examples.unanswerable,
        )


def _line_of(saved: Calibrator) -> tuple[float, float, float]:
    """Slope and offset of log odds, and the weight of log k, that an earlier version saved."""
    weights = saved.slope * np.array(saved.weights) / saved.spread
    offset = saved.slope * saved.bias + saved.offset - weights @ np.array(saved.location)
    return float(weights[0]), float(offset), float(weights[1]) if len(weights) > 1 else 0.0


def _log(counts: ArrayLike) -> FloatArray:
    return np.log(np.asarray(counts, dtype=np.float32))


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
    """``log(p / (1 - p))``, finite."""
    inside = np.clip(probability, _SMALLEST, 1 - _SMALLEST)
    odds: FloatArray = np.log(inside) - np.log1p(-inside)
    return odds


def shifted(probability: FloatArray, learned: float, told: float) -> FloatArray:
    """Probabilities of an answer, where another share of questions has none.

    `probability`: learned where the share `learned` has no answer. `learned`, `told`: shares in [0,
    1); what is nearer to 0 or 1 than a thousandth counts as that.

    Examples
    --------
    >>> shifted(np.float32([0.5]), learned=0.5, told=0.2)
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
