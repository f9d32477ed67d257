"""How likely a hit is relevant, the corpus holds an answer, and the hits do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.confidence.calibrator import Calibrator, fit_calibrator, sigmoid
from uec_rag.confidence.features import CorpusSummary, relevance_features

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
        it is there.
    """

    in_corpus: FloatArray
    by_cutoff: FloatArray

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

    def cutoffs(self) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
        """Features, labels and weights of being found at `counts`, (n, c, F) and (n, c)."""
        at = self.counts
        columns = [cutoff - 1 for cutoff in at]
        right = np.logical_or.accumulate(self.relevant, axis=1)[:, columns]
        weight = np.repeat(self.weight[:, None], len(at), axis=1) / np.float32(len(at))
        return self.found[:, columns], right, weight


IDENTITY = Calibrator(weights=(3.0,), location=(0.0,), spread=(3.0,), bias=0.0)
"""Log odds as they are, between -18 and 18."""

_COUNTED = Calibrator(weights=(3.0, 0.0), location=(0.0, 0.0), spread=(3.0, 1.0), bias=0.0)
"""The same, beside the log of the number of hits, which says nothing yet."""


@dataclass(frozen=True)
class ConfidenceModel(Record):
    """Relevance of hits and confidence in queries, from the fused logits.

    Attributes
    ----------
    temperature : float
        T of the posterior over the corpus.
    relevance : Calibrator
        Of a hit.
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
    presence, level : Calibrator
        A line each on top of the log odds of `in_corpus`, and of its product with `found`: what a
        user's labels teach, which changes no order of queries. The level may have a second weight,
        at least 0, of the log of the number of hits.
    by_member : bool
        Whether `in_corpus` asks what the member says that thinks most of the first hit, instead of
        the ensemble, and `found` how many hits there are: as is learned of ensembles with words.
    first : Calibrator or None
        Relevance of the first hit, where labels taught it a line of its own; it is never told to be
        less relevant than the second, of which a search for one hit knows nothing. None: as the
        others'.
    nearest : bool
        Whether `found` rests on the hits' share of the nearest passages instead of all.
    """

    temperature: float
    relevance: Calibrator
    in_corpus: Calibrator
    found: Calibrator
    unanswerable: float
    standardised: bool = False
    presence: Calibrator = IDENTITY
    level: Calibrator = IDENTITY
    by_member: bool = False
    first: Calibrator | None = None
    nearest: bool = False

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number > 0, got {self.temperature}.")
        if not 0 <= self.unanswerable <= 1:
            raise ValueError(f"unanswerable: expected a share, got {self.unanswerable}.")

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

    def hit_relevance(
        self, logits: FloatArray, variance: FloatArray, summary: CorpusSummary
    ) -> FloatArray:
        """P(this hit is relevant), shape (n, k).

        Parameters
        ----------
        logits, variance : array, shape (n, k)
            As in `relevance_features`.
        summary : CorpusSummary
            At this model's temperature.
        """
        return self.told_relevance(
            relevance_features(logits, variance, summary.log_normaliser, self.temperature)
        )

    def told_relevance(self, features: FloatArray) -> FloatArray:
        """P(this hit is relevant), shape (n, k), of `relevance_features`, best first."""
        told = self.relevance.predict(features)
        if self.first is None:
            return told
        # Log odds of all hits fit few first ones: that it is the first says something of its own.
        told[:, :1] = np.maximum(
            self.first.predict(features[:, :1]), told[:, 1:2].max(initial=0, axis=1, keepdims=True)
        )
        return told

    def certainty(
        self,
        summary: CorpusSummary,
        logits: FloatArray,
        unanswerable: float | None = None,
        doubt: FloatArray | None = None,
        best: FloatArray | None = None,
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
        """
        query = self.query_features(summary, best)
        hits = self.found_features(summary, logits)
        confidence = self.level.predict(self._stated(query, hits))
        held = self.presence.predict(self._held(query))
        held = np.maximum(held, confidence[:, -1])
        moved = held
        if unanswerable is not None:
            moved = shifted(moved, self.unanswerable, unanswerable)
        if doubt is not None and doubt.any():
            moved = sigmoid(log_odds(moved) - _DOUBT * doubt)
        factor = moved / np.maximum(held, _SMALLEST)
        return Certainty(moved, (confidence * factor[:, None]).astype(np.float32))

    def _held(self, query: FloatArray) -> FloatArray:
        """Log odds of `in_corpus`, shape (n, 1)."""
        return log_odds(self.in_corpus.predict(query))[:, None]

    def _odds(self, query: FloatArray, hits: FloatArray) -> FloatArray:
        """Log odds of `in_corpus` times `found` at several cutoffs, shape (n, c, 1)."""
        product = self.in_corpus.predict(query)[:, None] * self.found.predict(hits)
        return log_odds(product)[..., None]

    def _stated(
        self, query: FloatArray, hits: FloatArray, counts: Sequence[int] | None = None
    ) -> FloatArray:
        """What `level` rests on, shape (n, c, 1 or 2), at the first 1, 2, ... or other counts."""
        odds = self._odds(query, hits)
        if counts is None and len(self.level.weights) == 1:
            return odds
        number = np.arange(1, hits.shape[1] + 1) if counts is None else np.array(counts)
        log = np.log(number).astype(np.float32)
        return np.stack([odds[..., 0], np.broadcast_to(log, odds.shape[:2])], axis=-1)

    def moved(self, examples: HitExamples) -> Self:
        """Return this model with its probabilities moved to examples, one line for each."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        return replace(
            self,
            relevance=self._relevance(examples),
            in_corpus=self.in_corpus.recalibrated(examples.query, there, examples.weight),
            found=self.found.recalibrated(features[there], right[there], weight[there]),
            unanswerable=examples.unanswerable,
        )

    def recalibrated(self, examples: HitExamples) -> Self:
        """Return this model fitted to a user's own corpus; the order of queries stays."""
        features, right, weight = examples.cutoffs()
        stated = self._stated(examples.query, features, examples.counts)
        moved = replace(
            self,
            relevance=self._relevance(examples),
            presence=self.presence.recalibrated(
                self._held(examples.query), examples.answerable, examples.weight
            ),
            level=_COUNTED.reweighted(stated, right, weight),
            unanswerable=examples.unanswerable,
        )
        if examples.relevant.shape[1] == 1:
            return moved
        hits = np.broadcast_to(examples.weight[:, None], examples.relevant.shape)
        first, others = (
            self.relevance.lined(
                examples.relevance[:, some], examples.relevant[:, some], hits[:, some]
            )
            for some in (slice(0, 1), slice(1, None))
        )
        return replace(moved, first=first, relevance=others)

    def surprise(self, examples: HitExamples) -> float:
        """Mean NLL, in nats, of whether the corpus answers and of whether the hits do."""
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        held = _nll(self.in_corpus.predict(examples.query), there)
        found = _nll(self.found.predict(features[there]), right[there])
        return float(
            np.average(held, weights=examples.weight) + np.average(found, weights=weight[there])
        )

    def relearned(self, examples: HitExamples) -> Self:
        """Return a model learned from examples alone, at this one's temperature.

        What all examples have alike, as where every answer is found, is only moved.
        """
        features, right, weight = examples.cutoffs()
        there = examples.answerable
        hits = np.broadcast_to(examples.weight[:, None], examples.relevant.shape)
        return replace(
            self,
            relevance=_learned(self.relevance, examples.relevance, examples.relevant, hits),
            in_corpus=_learned(self.in_corpus, examples.query, there, examples.weight),
            found=_learned(self.found, features[there], right[there], weight[there]),
            unanswerable=examples.unanswerable,
        )

    def _relevance(self, examples: HitExamples) -> Calibrator:
        hits = np.broadcast_to(examples.weight[:, None], examples.relevant.shape)
        return self.relevance.recalibrated(examples.relevance, examples.relevant, hits)

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving; without what models saved before do not know of."""
        new = {"first": self.first is not None, "nearest": self.nearest}
        return {k: v for k, v in super().metadata().items() if new.get(k, True)}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`; ValueError if something is missing, unknown or of another type.

        Version 0.1 knew one confidence, learned for ten hits: it is read as that of the corpus.
        """
        if "confidence" not in metadata:
            return super().restore(metadata)
        always = Calibrator((0.0, 0.0), (0.0, 0.0), (1.0, 1.0), bias=20.0)
        known = {name: value for name, value in metadata.items() if name != "confidence"}
        new = {"in_corpus": metadata["confidence"], "found": always.metadata(), "unanswerable": 0.2}
        return super().restore(known | new)


def _learned(
    known: Calibrator, features: FloatArray, labels: NDArray[np.bool_], weights: FloatArray
) -> Calibrator:
    if labels.all() or not labels.any():
        return known.recalibrated(features, labels, weights)
    return fit_calibrator(features, labels, weights=weights)


def _nll(probability: FloatArray, truth: NDArray[np.bool_]) -> FloatArray:
    told = np.where(truth, probability, 1 - probability)
    surprise: FloatArray = -np.log(np.maximum(told, _SMALLEST)).astype(np.float32)
    return surprise


def log_odds(probability: FloatArray) -> FloatArray:
    """``log(p / (1 - p))``, finite."""
    inside = np.clip(probability, _SMALLEST, 1 - _SMALLEST)
    odds: FloatArray = np.log(inside) - np.log1p(-inside)
    return odds


def shifted(probability: FloatArray, learned: float, told: float) -> FloatArray:
    """Probabilities of an answer, where another share of questions has none.

    Parameters
    ----------
    probability : array
        Learned where the share `learned` has no answer.
    learned, told : float
        Shares in [0, 1); what is nearer to 0 or 1 than a thousandth counts as that.

    Examples
    --------
    >>> shifted(np.float32([0.5]), learned=0.5, told=0.2)
    array([0.8], dtype=float32)
    """
    before, after = np.clip((learned, told), *_SHARE_RANGE)
    factor = np.float32(float((1 - after) / after * before / (1 - before)))
    moved = factor * probability / (1 - probability + factor * probability)
    return moved.astype(np.float32)
