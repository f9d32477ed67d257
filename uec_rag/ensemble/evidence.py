"""The evidence of a corpus on how far each encoder can be trusted on a query.

A trace knows the query alone. An encoder that is out of its depth also shows in its similarities to
the corpus: no passage stands out, or every passage looks relevant. `corpus_evidence` puts numbers
on that, of the best passages alone, and `EvidenceWeights` turns them into coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from uec_rag.base.columns import largest, softmax
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.records import Outdated, Record

LEADERS = 30
"""The highest similarities of each encoder that evidence looks at."""

_NEXT = 10  # of them tell the gap

FEATURES = ("trace", "entropy", "gap", "top", "base", "deviation")
"""The evidence of each encoder on a query, from its `LEADERS` highest logits a_k s_k + b_k:

- trace: log trace of the query's variance, standardised over the fit queries, clipped to [-3, 4];
- entropy: of their softmax, over the log of their number;
- gap: log(1 + top logit - mean of the next nine);
- top: log of the top's distance from their mean, in standard deviations;
- base: their mean. An encoder that finds every passage alike, as one does in a language foreign to
  it, has a high mean;
- deviation: log of their standard deviation. If nothing is behind it, what differs between passages
  is noise in the sum.
"""

_TRACE_RANGE = (-3.0, 4.0)
_STANDARD_RANGE = 6.0


def leaders(similarities: FloatArray, count: int = LEADERS) -> FloatArray:
    """Return the highest similarities of each row, highest first, shape (n, at most count).

    `similarities`: array, shape (n, N).
    """
    count = min(count, similarities.shape[1])
    best = [row[largest(row, count)] for row in similarities]
    return -np.sort(-np.array(best, dtype=np.float32).reshape(len(similarities), count), axis=1)


def corpus_evidence(
    similarities: Sequence[FloatArray],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
) -> FloatArray:
    """Compute the evidence on every encoder for every query.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, N)
        Each encoder's similarities of n queries to N passages: all, or those that may be among its
        `LEADERS` highest.
    slopes, intercepts : sequence of K floats
        Of each encoder's logit, ``a_k s_k + b_k``.
    trace : array_like, shape (n, K)
        Log trace of each query's variance, standardised over the fit queries; 0 if unknown.

    Returns
    -------
    array, shape (n, K, F)
        In the order of `FEATURES`.

    Raises
    ------
    ValueError
        If shapes disagree or there are no passages.

    Examples
    --------
    >>> import numpy as np
    >>> sure, lost = np.eye(4, dtype="f4")[:1], np.full((1, 4), 0.5, "f4")
    >>> evidence = corpus_evidence([sure, lost], [20, 20], [-10, -10], [[0, 0]])
    >>> dict(zip(FEATURES, evidence[0, 1].round(2).tolist()))["entropy"]
    1.0
    """
    traces = np.asarray(trace, dtype=np.float32)
    if traces.ndim != 2 or traces.shape[1] != len(slopes):
        raise ValueError(f"trace: expected shape (n, {len(slopes)}), got {traces.shape}.")
    shapes = [np.shape(similarity) for similarity in similarities]
    if len(shapes) != len(slopes) or any(len(s) != 2 or s[0] != len(traces) for s in shapes):
        raise ValueError(
            f"similarities: expected {len(slopes)} arrays of shape ({len(traces)}, N), got "
            f"{shapes}."
        )
    if not all(size for _, size in shapes):
        raise ValueError("similarities: the corpus is empty; add passages first.")
    best = [
        np.float32(slope) * leaders(similarity) + np.float32(intercept)
        for similarity, slope, intercept in zip(similarities, slopes, intercepts, strict=True)
    ]
    own = np.stack([_shape(logits) for logits in best], axis=1)
    return np.concatenate([np.clip(traces, *_TRACE_RANGE)[:, :, None], own], axis=2)


def gap(logits: FloatArray) -> FloatArray:
    """Compute ``log(1 + l_1 - mean(l_2, ..., l_10))``, shape (n,); 0 if there is one logit alone.

    `logits`: array, shape (n, m), highest first.
    """
    top, others = logits[:, 0], logits[:, 1:_NEXT]
    found: FloatArray = np.log1p(top - others.mean(axis=1)) if others.size else np.zeros_like(top)
    return found


def _shape(logits: FloatArray) -> FloatArray:
    """Compute entropy, gap, top, base and deviation of an encoder's best logits, shape (n, 5)."""
    count, top = logits.shape[1], logits[:, 0]
    mean = logits.mean(axis=1)
    spread = np.maximum(logits.std(axis=1), np.float32(1e-3))
    share = softmax(logits)
    entropy = -(share * np.log(np.maximum(share, np.float32(1e-30)))).sum(axis=1)
    return np.stack(
        [
            np.clip(entropy / np.log(max(count, 2)), 0, 1),
            gap(logits),
            np.log(np.maximum((top - mean) / spread, np.float32(0.01))),
            mean,
            np.log(spread),
        ],
        axis=1,
    ).astype(np.float32)


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
        """Compute the convex weights of each query, shape (n, K).

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
        """Return the state in JSON's types, for saving, with the names of the features."""
        return {"features": list(FEATURES), "leaders": LEADERS, **super().metadata()}

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild from `metadata`.

        Raises Outdated if it was learned on other features; ValueError if something is missing.
        """
        known = metadata.get("features"), metadata.get("leaders")
        if known != (list(FEATURES), LEADERS):
            raise Outdated(
                f"evidence weights: expected some over {list(FEATURES)} of the {LEADERS} best, "
                f"got {dict(metadata)}."
            )
        state = {k: v for k, v in metadata.items() if k not in ("features", "leaders")}
        return super().restore(state)


def standardise(
    evidence: FloatArray, location: Sequence[float], spread: Sequence[float]
) -> FloatArray:
    """Compute ``(evidence - location) / spread``, clipped: outliers are all alike."""
    centred = (evidence - np.asarray(location, np.float32)) / np.asarray(spread, np.float32)
    return np.clip(centred, -_STANDARD_RANGE, _STANDARD_RANGE)
