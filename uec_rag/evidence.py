"""What a corpus says about how far each encoder can be trusted on a query.

A trace knows the query alone. An encoder that is out of its depth also shows in its similarities to
the corpus: no passage stands out, or every passage looks relevant. `corpus_evidence` puts numbers
on that and `EvidenceGate` turns them into coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from uec_rag.coefficients import Uniform, softmax
from uec_rag.gaussian import FloatArray, Gaussian
from uec_rag.passes import SoftmaxSums, largest, mean_and_deviation, softmax_sums

FEATURES = ("trace", "entropy", "gap", "top", "base")
"""What is known of each encoder on a query, from its calibrated logits a_k s_k + b_k:

- trace: log trace of the query's variance, standardised over the fit queries, clipped to [-3, 4];
- entropy: of the softmax over the corpus, over log N;
- gap: log(1 + top logit - mean of the next nine);
- top: log of the top's distance from the mean, in standard deviations;
- base: mean logit. To a calibrated encoder a random passage is irrelevant; an encoder that finds
  every passage alike, as one does in a language foreign to it, has a high mean.
"""

NEXT = 9
"""How many runners-up the gap looks at."""

_TRACE_RANGE = (-3.0, 4.0)
_STANDARD_RANGE = 6.0


def corpus_evidence(
    similarities: Iterable[FloatArray],
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
    sums: Sequence[SoftmaxSums] | None = None,
) -> FloatArray:
    """Evidence of every encoder on every query, over a whole corpus.

    Parameters
    ----------
    similarities : iterable of K arrays, shape (n, N)
        Each encoder's similarities of n queries to all N passages; a (K, n, N) array will do, a
        generator saves memory.
    slopes, intercepts : sequence of K floats
        Of each encoder's logit, ``a_k s_k + b_k``.
    trace : array_like, shape (n, K)
        Log trace of each query's variance, standardised over the fit queries; 0 where unknown.
    sums : sequence of K SoftmaxSums, optional
        Of the similarities at the slopes, where they are known already.

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
    traces = _traces(trace, len(slopes))
    out = np.empty((len(traces), len(slopes), len(FEATURES)), dtype=np.float32)
    count = 0
    for k, similarity in enumerate(similarities):
        if k >= len(slopes) or similarity.ndim != 2 or len(similarity) != len(traces):
            raise ValueError(
                f"similarities: expected {len(slopes)} arrays of shape ({len(traces)}, N), got "
                f"one of shape {similarity.shape} at position {k}."
            )
        size = similarity.shape[1]
        if not size:
            raise ValueError("similarities: the corpus is empty; add passages first.")
        slope, intercept = np.float32(slopes[k]), np.float32(intercepts[k])
        own = softmax_sums(similarity, slopes[k]) if sums is None else sums[k]
        mean, deviation = mean_and_deviation(similarity)
        out[:, k, 1:] = _shape(
            slope * _leaders(similarity, slope) + intercept,
            mean=slope * mean + intercept,
            deviation=abs(slope) * deviation,
            entropy=_entropy(own.log_normaliser, own.mean_logit),
            size=size,
        )
        count += 1
    if count != len(slopes):
        raise ValueError(f"similarities: expected {len(slopes)} arrays, got {count}.")
    out[:, :, 0] = traces
    return out


def candidate_evidence(
    similarities: Sequence[FloatArray],
    means: Sequence[FloatArray],
    deviations: Sequence[FloatArray],
    size: int,
    slopes: Sequence[float],
    intercepts: Sequence[float],
    trace: ArrayLike,
) -> FloatArray:
    """Evidence from candidates, where an approximate search sees only C of N passages.

    The rest is taken as normal, with the mean and deviation that the whole corpus leaves for it.
    Both are known without a scan: with the corpus's mean m and second moment M,
    ``mean = q.m`` and ``deviation^2 = q.M q - mean^2``.

    Parameters
    ----------
    similarities : sequence of K arrays, shape (n, C)
    means, deviations : sequence of K arrays, shape (n,)
        Of each encoder's similarities to the whole corpus.
    size : int
        N.
    slopes, intercepts, trace
        As in `corpus_evidence`.

    Returns
    -------
    array, shape (n, K, F)
    """
    traces = _traces(trace, len(slopes))
    out = np.empty((len(traces), len(slopes), len(FEATURES)), dtype=np.float32)
    for k, (similarity, mean, deviation) in enumerate(
        zip(similarities, means, deviations, strict=True)
    ):
        slope, intercept = np.float32(slopes[k]), np.float32(intercepts[k])
        own = candidate_sums(similarity, mean, deviation, size, slopes[k])
        out[:, k, 1:] = _shape(
            slope * similarity + intercept,
            mean=slope * mean + intercept,
            deviation=abs(slope) * deviation,
            entropy=_entropy(own.log_normaliser, own.mean_logit),
            size=size,
        )
    out[:, :, 0] = traces
    return out


def candidate_sums(
    similarities: FloatArray, mean: FloatArray, deviation: FloatArray, size: int, slope: float
) -> SoftmaxSums:
    """Sums of the softmax over N passages of which C are seen, the rest taken as normal.

    Parameters
    ----------
    similarities : array, shape (n, C)
    mean, deviation : array, shape (n,)
        Of the similarities to the whole corpus.
    size : int
        N.
    slope : float
    """
    seen, left = softmax_sums(similarities, slope), size - similarities.shape[1]
    factor = np.float32(slope)
    centre, spread = rest_of(factor * similarities, factor * mean, abs(factor) * deviation, size)
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
        mean_logit=mean_logit,
    )


def rest_of(
    candidates: FloatArray, mean: FloatArray, deviation: FloatArray, size: int
) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of the passages that are not among the candidates, shape (n,) each.

    Parameters
    ----------
    candidates : array, shape (n, C)
    mean, deviation : array, shape (n,)
        Over the whole corpus.
    size : int
        N.
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
    count : int

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


def _entropy(normaliser: ArrayLike, mean_logit: ArrayLike) -> FloatArray:
    """Of a softmax, from the log of its normaliser and its mean logit."""
    entropy: FloatArray = np.subtract(normaliser, mean_logit, dtype=np.float32)
    return entropy


@dataclass(frozen=True)
class EvidenceGate:
    """Coefficients from evidence: softmax over the encoders of one linear score shared by all.

    Attributes
    ----------
    weights, location, spread : tuple of F floats
        Of the features, standardised as ``(feature - location) / spread``.
    temperature : float
        Of the fused posterior, ``softmax_c(sum_k pi_k l_k(c) / temperature)``, over the fit pairs.
    prior : tuple of K floats
        What is added to an encoder's score whatever the query; 0 unless it was asked for.
    """

    weights: tuple[float, ...]
    location: tuple[float, ...]
    spread: tuple[float, ...]
    temperature: float
    prior: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("weights", "location", "spread"):
            if len(getattr(self, name)) != len(FEATURES):
                raise ValueError(
                    f"{name}: expected {len(FEATURES)} numbers, one per feature, "
                    f"got {len(getattr(self, name))}."
                )
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number > 0, got {self.temperature}.")

    def coefficients(self, evidence: FloatArray) -> FloatArray:
        """Convex weights of each query, shape (n, K).

        Parameters
        ----------
        evidence : array, shape (n, K, F)

        Raises
        ------
        ValueError
            If K or F is not that of the gate.
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
        """JSON-able state, for saving."""
        return {
            "features": list(FEATURES),
            "weights": list(self.weights),
            "location": list(self.location),
            "spread": list(self.spread),
            "temperature": self.temperature,
            "prior": list(self.prior),
        }

    @classmethod
    def restore(cls, metadata: Mapping[str, object]) -> Self:
        """Rebuild a gate from its `metadata`.

        Raises
        ------
        ValueError
            If it was made with other features, or something is missing.
        """
        match metadata:
            case {
                "features": list(features),
                "weights": list(weights),
                "location": list(location),
                "spread": list(spread),
                "temperature": float(temperature),
                "prior": list(prior),
            } if features == list(FEATURES):
                return cls(
                    tuple(weights), tuple(location), tuple(spread), temperature, tuple(prior)
                )
        raise ValueError(f"gate: expected one over {list(FEATURES)}, got {dict(metadata)}.")


@dataclass(frozen=True)
class Evidence:
    """Coefficients from what the corpus says about each encoder on the query.

    The weights come from `EvidenceGate` where a corpus is at hand, as in a search. Without one, and
    before `UEC.fit` has learned the gate, every encoder counts the same.

    Parameters
    ----------
    gate : EvidenceGate, optional
    """

    gate: EvidenceGate | None = None
    name: ClassVar[str] = "evidence"

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Weights 1 / K: without a corpus there is no evidence."""
        return Uniform()(parts)

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {"name": self.name, "gate": None if self.gate is None else self.gate.metadata()}


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


def _leaders(similarities: FloatArray, slope: np.float32) -> FloatArray:
    """The similarities of the highest logits of each row."""
    best = min(NEXT + 1, similarities.shape[1])
    ranked = similarities if slope >= 0 else -similarities
    out = np.empty((len(similarities), best), dtype=np.float32)
    for i, (row, by) in enumerate(zip(similarities, ranked, strict=True)):
        out[i] = row[largest(by, best)]
    return out


def _shape(
    logits: FloatArray, mean: FloatArray, deviation: FloatArray, entropy: FloatArray, size: int
) -> FloatArray:
    """Entropy, gap, top and base, shape (n, 4); `logits` holds the best ones at least."""
    best = min(NEXT + 1, logits.shape[1])
    leaders = np.partition(logits, -best, axis=1)[:, -best:]
    top = leaders.max(axis=1)
    gap = np.zeros_like(top)
    if best > 1:
        gap = top - (leaders.sum(axis=1) - top) / np.float32(best - 1)
    distance = (top - mean) / np.maximum(deviation, np.float32(1e-6))
    return np.stack(
        [
            np.clip(entropy / np.float32(np.log(max(size, 2))), 0, 1),
            np.log1p(np.maximum(gap, 0)),
            np.log(np.clip(distance, 0.01, None)),
            mean,
        ],
        axis=1,
    )
