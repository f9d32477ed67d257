"""What a corpus says about how far each encoder can be trusted on a query.

A trace knows the query alone. An encoder that is out of its depth also shows in its similarities to
the corpus: no passage stands out, or every passage looks relevant. `corpus_evidence` puts numbers
on that and `EvidenceWeights` turns them into coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.base.sums import Digest, SoftmaxSums, softmax

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

        `candidates`: array, shape (n, C).
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

        `similarities`: array, shape (n, k).
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

    `candidates`: array, shape (n, C). `mean`, `deviation`, array, shape (n,): over the whole
    corpus. `size`: N.
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


FEATURES = ("trace", "entropy", "gap", "top", "base", "deviation")
"""What is known of each encoder on a query, from its calibrated logits a_k s_k + b_k:

- trace: log trace of the query's variance, standardised over the fit queries, clipped to [-3, 4];
- entropy: of the softmax over the corpus, over log N;
- gap: log(1 + top logit - mean of the next nine);
- top: log of the top's distance from the mean, in standard deviations;
- base: mean logit. To a calibrated encoder a random passage is irrelevant; an encoder that finds
  every passage alike, as one does in a language foreign to it, has a high mean;
- deviation: log of the logits' standard deviation. Where nothing is behind it, what differs between
  passages is noise in the sum.
"""

_TRACE_RANGE = (-3.0, 4.0)
_STANDARD_RANGE = 6.0


def evidence_of(
    summaries: Sequence[SimilaritySummary],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
) -> FloatArray:
    """Evidence of every encoder on every query.

    `summaries`: of n queries. `slopes`, `intercepts`, `trace`: as in `corpus_evidence`. Returns
    array, shape (n, K, F): in the order of `FEATURES`.
    """
    traces = _traces(trace, len(slopes))
    shapes = []
    for summary, slope, intercept in zip(summaries, slopes, intercepts, strict=True):
        shapes.append(_shape(summary, np.float32(slope), np.float32(intercept)))
    return np.concatenate([traces[:, :, None], np.stack(shapes, axis=1)], axis=2)


def corpus_evidence(
    similarities: Sequence[FloatArray],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
) -> FloatArray:
    """Evidence of every encoder on every query, over a whole corpus.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Each encoder's similarities of n queries to all N passages.
    slopes, intercepts : sequence of K floats
        Of each encoder's logit, ``a_k s_k + b_k``.
    trace : array_like, shape (n, K)
        Log trace of each query's variance, standardised over the fit queries; 0 where unknown.

    Returns
    -------
    array, shape (n, K, F)
        In the order of `FEATURES`.

    Raises
    ------
    ValueError
        If shapes disagree or the corpus is empty.

    Examples
    --------
    >>> import numpy as np
    >>> sure, lost = np.eye(4, dtype="f4")[:1], np.full((1, 4), 0.5, "f4")
    >>> evidence = corpus_evidence([sure, lost], [20, 20], [-10, -10], [[0, 0]])
    >>> dict(zip(FEATURES, evidence[0, 1].round(2).tolist()))["entropy"]
    1.0
    """
    queries = len(_traces(trace, len(slopes)))
    shapes = [np.shape(similarity) for similarity in similarities]
    if len(shapes) != len(slopes) or any(len(s) != 2 or s[0] != queries for s in shapes):
        raise ValueError(
            f"similarities: expected {len(slopes)} arrays of shape ({queries}, N), got {shapes}."
        )
    if not all(size for _, size in shapes):
        raise ValueError("similarities: the corpus is empty; add passages first.")
    summaries = [
        SimilaritySummary.of(s, slope) for s, slope in zip(similarities, slopes, strict=True)
    ]
    return evidence_of(summaries, slopes, intercepts, trace)


@dataclass(frozen=True)
class EvidenceWeights(Record):
    """Coefficients from evidence: softmax over the encoders of one linear score shared by all.

    Attributes
    ----------
    weights, location, spread : tuple of F floats
        Of the features, standardised as ``(feature - location) / spread``.
    prior : tuple of K floats
        What is added to an encoder's score whatever the query; 0 unless it was asked for.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    prior: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("weights", "location", "spread"):
            if len(getattr(self, name)) != len(FEATURES):
                raise ValueError(
                    f"{name}: expected {len(FEATURES)} numbers, one per feature, "
                    f"got {len(getattr(self, name))}."
                )

    def coefficients(self, evidence: FloatArray) -> FloatArray:
        """Convex weights of each query, shape (n, K).

        `evidence`: array, shape (n, K, F). Raises ValueError if K or F is not that of the weights.
        """
        expected = (len(self.prior), len(FEATURES))
        if evidence.ndim != 3 or evidence.shape[1:] != expected:
            raise ValueError(
                f"evidence: expected shape (n, {expected[0]}, {expected[1]}), got {evidence.shape}."
            )
        scores = standardise(evidence, self.location, self.spread) @ np.asarray(
            self.weights, np.float32
        )
        return softmax(scores + np.asarray(self.prior, np.float32))

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving, with the names of the features."""
        return {"features": list(FEATURES), **super().metadata()}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`.

        Raises ValueError if it was made with other features, or something is missing.
        """
        known = metadata.get("features")
        if known != list(FEATURES):
            raise ValueError(
                f"evidence weights: expected some over {list(FEATURES)}, got {dict(metadata)}."
            )
        return super().restore({k: v for k, v in metadata.items() if k != "features"})


def standardise(
    evidence: FloatArray, location: Sequence[float], spread: Sequence[float]
) -> FloatArray:
    """``(evidence - location) / spread``, clipped: beyond some point, strange is just strange."""
    centred = (evidence - np.asarray(location, np.float32)) / np.asarray(spread, np.float32)
    return np.clip(centred, -_STANDARD_RANGE, _STANDARD_RANGE)


def _traces(trace: ArrayLike, encoders: int) -> FloatArray:
    traces = np.asarray(trace, dtype=np.float32)
    if traces.ndim != 2 or traces.shape[1] != encoders:
        raise ValueError(f"trace: expected shape (n, {encoders}), got {traces.shape}.")
    return np.clip(traces, *_TRACE_RANGE)


def _shape(summary: SimilaritySummary, slope: np.float32, intercept: np.float32) -> FloatArray:
    """Entropy, gap, top, base and deviation of an encoder, shape (n, 5)."""
    sums, size = summary.sums, summary.size
    best = min(LEADERS, summary.leaders.shape[1])
    leaders = np.partition(summary.leaders, -best, axis=1)[:, -best:]
    top = leaders.max(axis=1)
    gap = np.zeros_like(top)
    if best > 1:
        gap = slope * (top - (leaders.sum(axis=1) - top) / np.float32(best - 1))
    spread = np.maximum(slope * summary.deviation, np.float32(1e-3))
    distance = slope * (top - summary.mean) / spread
    entropy = (sums.log_normaliser - sums.mean_logit) / np.float32(np.log(max(size, 2)))
    return np.stack(
        [
            np.clip(entropy, 0, 1),
            np.log1p(np.maximum(gap, 0)),
            np.log(np.maximum(distance, np.float32(0.01))),
            slope * summary.mean + intercept,
            np.log(spread),
        ],
        axis=1,
    )
