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
from numpy.typing import ArrayLike

from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Record
from uec_rag.base.softmax_sums import softmax
from uec_rag.ensemble.similarity_summary import LEADERS, SimilaritySummary

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

_BEFORE_0_2 = FEATURES[:5]
_TRACE_RANGE = (-3.0, 4.0)
_STANDARD_RANGE = 6.0


def evidence_of(
    summaries: Sequence[SimilaritySummary],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
) -> FloatArray:
    """Evidence of every encoder on every query.

    Parameters
    ----------
    summaries : sequence of K SimilaritySummary
        Of n queries.
    slopes, intercepts, trace
        As in `corpus_evidence`.

    Returns
    -------
    array, shape (n, K, F)
        In the order of `FEATURES`.
    """
    traces = _traces(trace, len(slopes))
    shapes = [
        _shape(summary, np.float32(slope), np.float32(intercept))
        for summary, slope, intercept in zip(summaries, slopes, intercepts, strict=True)
    ]
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

        Parameters
        ----------
        evidence : array, shape (n, K, F)

        Raises
        ------
        ValueError
            If K or F is not that of the weights.
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
        """Rebuild from `metadata`; features that came later count for nothing.

        Raises
        ------
        ValueError
            If it was made with other features, or something is missing.
        """
        known = metadata.get("features")
        if known not in (list(FEATURES), list(_BEFORE_0_2)):
            raise ValueError(
                f"evidence weights: expected some over {list(FEATURES)}, got {dict(metadata)}."
            )
        # Version 0.1 wrote a temperature, which nothing read.
        state = {k: v for k, v in metadata.items() if k not in ("features", "temperature")}
        if known == list(_BEFORE_0_2):
            later = len(FEATURES) - len(_BEFORE_0_2)
            for name, value in (("weights", 0.0), ("location", 0.0), ("spread", 1.0)):
                given = state.get(name)
                if isinstance(given, list | tuple):
                    state[name] = [*given, *[value] * later]
        return super().restore(state)


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
