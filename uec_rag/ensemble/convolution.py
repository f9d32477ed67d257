"""Step 2: the coefficients of the encoders, and the convolution of their Gaussians.

The Gaussians are combined in the direct sum of their spaces, or in a shared one. A rule computes
the weight of each encoder for a text, from its variance or from the evidence of a corpus.

A variance depends on the query alone. That an encoder is unreliable for a query also shows in its
similarities to the corpus: no passage stands out, or every passage looks relevant.
`corpus_evidence` measures this on the best passages, and `EvidenceWeights` maps it to coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from uec_rag.base.checks import LARGEST, did_you_mean
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.records import Record
from uec_rag.base.similarity import largest, softmax

Space = Literal["direct", "shared"]


def block_weights(slopes: Sequence[float]) -> FloatArray:
    """Compute the weight of each encoder's cosine in a direct sum, shape (K,), mean 1.

    The slope a_k converts a cosine of encoder k to a logit. Dividing by the mean slope keeps the
    ensemble's similarity on the scale of a cosine.

    Examples
    --------
    >>> block_weights([20.0, 60.0]).tolist()
    [0.5, 1.5]
    """
    slopes_ = np.asarray(slopes, dtype=np.float64)
    weights: FloatArray = (slopes_ / slopes_.mean()).astype(np.float32)
    return weights


def direct_sum(
    parts: Sequence[Gaussian], coefficients: FloatArray, weights: FloatArray
) -> Gaussian:
    """Convolve the encoders' Gaussians in the direct sum of their spaces.

    ``z = [c_1 pi_1 z_1; ...; c_K pi_K z_K]`` with ``c_k = sqrt(K w_k)``. This is eq. 1 of the
    paper, but each encoder has its own axes, so that dimensions may differ and cross terms vanish.
    With uniform coefficients and weights w of mean 1, the mean has norm 1. With query coefficients
    pi and passage coefficients 1/K, the similarity is the weighted sum of those of the encoders,
    ``mu_s = sum_k pi_k w_k s_k``.

    Parameters
    ----------
    parts : sequence of Gaussian
        One batch per encoder, each of n texts.
    coefficients : array, shape (n, K)
        Convex weights pi of each text.
    weights : array, shape (K,)
        Weight w_k of each encoder's similarity, mean 1 (see `block_weights`).

    Returns
    -------
    Gaussian
        n Gaussians of dimension sum_k d_k, with these `coefficients` and the d_k as `widths`. The
        sparse blocks of encoders without vectors are scaled in the same way.
    """
    pi = _check(parts, coefficients)
    profiles = [part.profile for part in parts if part.profile is not None]
    factored = len(profiles) == len(parts)
    widths, means, spreads, terms = [], [], [], []
    for part, factor in zip(parts, block_scales(weights, pi).T, strict=True):
        means.append(part.mean * factor[:, None])
        spreads.append((part.scales if factored else part.variance) * (factor**2)[:, None])
        terms += [block.scale_by(factor) for block in part.terms]
        if part.mean.shape[1]:
            widths.append(part.mean.shape[1])
    mean, spread = np.concatenate(means, 1), np.concatenate(spreads, 1)
    if not factored:
        return Gaussian(mean, spread, pi, widths or [0], terms)
    # A block-diagonal matrix of the profiles.
    profile = np.zeros((spread.shape[1], mean.shape[1]), np.float32)
    row = column = 0
    for block in profiles:
        height, width = block.shape
        profile[row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return Gaussian.from_checked(mean, spread, profile, pi, widths or [0], terms)


def block_scales(weights: FloatArray, coefficients: FloatArray | None = None) -> FloatArray:
    """Compute the length of each encoder's block in a direct sum, ``c_k pi_k``, shape (n, K).

    By default, the coefficients are those of every passage, 1 / K, and the shape is (K,).
    """
    pi = np.float32(1 / len(weights)) if coefficients is None else coefficients
    scales: FloatArray = np.sqrt(len(weights) * np.asarray(weights, dtype=np.float32)) * pi
    return scales


def blocks(mean: FloatArray, dimensions: Sequence[int], weights: FloatArray) -> list[FloatArray]:
    """Extract each encoder's unit vectors from means in a direct sum, shapes (..., d_k)."""
    ends = np.cumsum(dimensions)[:-1]
    return [
        block / scale
        for block, scale in zip(np.split(mean, ends, axis=-1), block_scales(weights), strict=True)
    ]


def convolve_shared(parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
    """Convolve Gaussians in one shared space, and scale means to length 1 (paper eq. 1).

    The result is ``N(sum pi_k mu_k, sum pi_k^2 Sigma_k)``. As in the paper, the mean is normalised
    before scoring; the variance is scaled accordingly.

    Raises ValueError if the encoders differ in dimension.
    """
    pi = _check(parts, coefficients)
    check_one_space([part.dimension for part in parts])
    mean = sum((p.mean * w[:, None] for p, w in zip(parts, pi.T, strict=True)), np.float32(0))
    norm = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    square = pi**2 / norm**2
    if any(part.profile is None for part in parts):
        variance = sum(p.variance * w[:, None] for p, w in zip(parts, square.T, strict=True))
        return Gaussian(mean / norm, variance, pi)
    scales = np.concatenate(
        [p.scales * w[:, None] for p, w in zip(parts, square.T, strict=True)], 1
    )
    profile = np.concatenate([p.profile for p in parts if p.profile is not None])
    return Gaussian.from_factors(mean / norm, scales, profile, pi)


def check_one_space(dimensions: Sequence[int]) -> None:
    """Raise ValueError unless encoders of these dimensions can share a space."""
    if len(set(dimensions)) > 1:
        raise ValueError(
            f"space: 'shared' needs encoders of one dimension, got {list(dimensions)}; "
            "use space='direct', which accepts any."
        )
    if not all(dimensions):
        raise ValueError(
            "space: 'shared' averages vectors, and words have none; use space='direct'."
        )


def _check(parts: Sequence[Gaussian], coefficients: FloatArray) -> FloatArray:
    if not parts:
        raise ValueError("parts: expected one Gaussian per encoder, got none.")
    expected = (len(parts[0]), len(parts))
    pi = as_matrix(coefficients, "coefficients")
    lengths = [*map(len, parts)]
    if pi.shape != expected or len({*lengths}) > 1:
        raise ValueError(
            f"coefficients: expected shape {expected}, one weight per text and encoder, "
            f"got {pi.shape} for parts of {lengths} texts."
        )
    return pi


class CoefficientRule(Protocol):
    """A rule for convex weights (n, K) of n texts.

    A rule that only needs the Gaussians of the encoders is callable with them. `Evidence` also
    needs a corpus: it is a record, which `uec_rag.ensemble.fitted.Fitted` evaluates.
    """

    name: ClassVar[str]

    def metadata(self) -> dict[str, object]:
        """Return the state as a JSON object."""


class _Rule(Record):
    """The base of the rules of this package, which are saved with their name."""

    name: ClassVar[str]

    def metadata(self) -> dict[str, Any]:
        """Return the state as a JSON object, with the rule's name."""
        return {"name": self.name, **super().metadata()}


@dataclass(frozen=True)
class Uniform(_Rule):
    """A rule with the same coefficient for every encoder."""

    name: ClassVar[str] = "uniform"

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the weights 1 / K."""
        return np.full((len(parts[0]), len(parts)), 1 / len(parts), dtype=np.float32)


@dataclass(frozen=True)
class Fixed(_Rule):
    """A rule with given weights, the same for every text.

    Parameters
    ----------
    weights : tuple of float
        One per encoder, at least 0, with a positive sum; they need not sum to 1.
    """

    weights: tuple[float, ...]
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        if not all(0 <= weight <= LARGEST for weight in self.weights) or not sum(self.weights):
            raise ValueError(
                "coefficients: expected weights >= 0 with a positive sum, within the range of "
                f"float32, got {self.weights!r:.200}."
            )
        object.__setattr__(self, "weights", tuple(map(float, self.weights)))

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the weights divided by their sum, for each text."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.tile((weights / weights.sum()).astype(np.float32), (len(parts[0]), 1))


@dataclass(frozen=True)
class Trace(_Rule):
    """The paper's rule: a softmax of the negative total variances of the encoders (paper eq. 4).

    Parameters
    ----------
    temperature : float
        T > 0, in the unit of the traces, which depends on the encoder and the fit. Small values
        favour the encoder of the lowest variance; large values give nearly equal weights.

    Examples
    --------
    >>> low, high = Gaussian([[1.0]], [[0.1]]), Gaussian([[1.0]], [[2.3]])
    >>> bool(np.allclose(Trace(temperature=1.0)([low, high]), [[0.9, 0.1]], atol=1e-3))
    True
    """

    temperature: float = 1.5
    name: ClassVar[str] = "trace"

    def __post_init__(self) -> None:
        temperature = self.temperature
        if not 0 < temperature <= LARGEST or not np.float32(temperature):
            raise ValueError(
                f"temperature: expected a number > 0 in the range of float32, got "
                f"{temperature!r:.60}."
            )
        object.__setattr__(self, "temperature", float(temperature))

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Compute the weights ``softmax(-tr Sigma_k / T)``."""
        return softmax(-np.stack([p.trace for p in parts], axis=1) / np.float32(self.temperature))


@dataclass(frozen=True)
class Evidence(_Rule):
    """A rule that computes coefficients from each encoder's similarities to the corpus.

    A search uses `EvidenceWeights`. Without a corpus, and before `UEC.fit` has learned the weights,
    all encoders have the same coefficient.

    Parameters
    ----------
    weights : EvidenceWeights, optional
    """

    weights: EvidenceWeights | None = None
    name: ClassVar[str] = "adaptive"


_RULES: dict[str, type[Uniform | Fixed | Trace | Evidence]] = {
    rule.name: rule for rule in (Uniform, Fixed, Trace, Evidence)
}
_EXPECTED = (
    "coefficients: expected 'adaptive', 'trace', 'uniform', one weight per encoder or a mapping "
    "from encoder name to weight"
)


def make_rule(
    spec: str | Sequence[float] | Mapping[str, float] | CoefficientRule | None,
    names: Sequence[str],
    temperature: float | None,
    space: Space = "direct",
) -> CoefficientRule:
    """Make a rule from the argument `coefficients` of `UEC`.

    Parameters
    ----------
    spec : str, sequence, mapping, CoefficientRule or None
        "adaptive", "trace", "uniform", one weight per encoder, a mapping of encoder names to
        weights, or a rule. None means "adaptive" in the direct sum and "trace" in
        the shared space.
    names : sequence of str
        Names of the encoders, in order.
    temperature : float, optional
        T of "trace", 1.5 by default.
    space : {"direct", "shared"}

    Raises
    ------
    TypeError, ValueError
        If `spec` is of another type, a name is unknown, the number of weights is not that of the
        encoders, or the rule cannot be used in the space.
    """
    if spec is None:
        spec = "adaptive" if space == "direct" else "trace"
    named = spec if isinstance(spec, str) else getattr(spec, "name", None)
    if space == "shared" and named == Evidence.name:
        raise ValueError(
            "coefficients: 'adaptive' needs the similarities of each encoder, which a shared "
            "space does not keep; use space='direct', or coefficients='trace'."
        )
    if isinstance(spec, str):
        if spec == "uniform":
            return Uniform()
        if spec == "trace":
            return Trace() if temperature is None else Trace(temperature)
        if spec == "adaptive":
            return Evidence()
        advice = did_you_mean(spec, ("adaptive", "trace", "uniform"))
        raise ValueError(f"{_EXPECTED}, got {spec!r}{advice or '.'}")
    if isinstance(spec, Mapping):
        if set(spec) != set(names):
            raise ValueError(
                f"coefficients: expected a weight for each of {list(names)}, got {list(spec)}."
            )
        return Fixed(tuple(spec[name] for name in names))
    if isinstance(spec, _Rule) or callable(spec):
        return spec
    if not isinstance(spec, Iterable):
        raise TypeError(f"{_EXPECTED}, got {spec!r}.")
    weights = tuple(spec)
    if len(weights) != len(names):
        raise ValueError(
            f"coefficients: expected {len(names)} weights, one per encoder, got {len(weights)}."
        )
    return Fixed(weights)


def restore_rule(metadata: Mapping[str, object]) -> CoefficientRule:
    """Rebuild a rule from its `metadata`.

    Raises ValueError if it is not one of this module's rules.
    """
    rule = _RULES.get(str(metadata.get("name")))
    state = {key: value for key, value in metadata.items() if key != "name"}
    if rule is None or len(state) != len(fields(rule)):  # no saved field has a default
        raise ValueError(f"coefficients: expected a saved rule, got {dict(metadata)}.")
    return rule.restore(state)


LEADERS = 30
"""The number of highest similarities of each encoder that evidence is computed from."""

_NEXT = 10  # number of highest logits that the gap is computed from

FEATURES = ("trace", "entropy", "gap", "top", "base", "deviation")
"""The evidence of each encoder on a query, from its `LEADERS` highest logits a_k s_k + b_k:

- trace: log trace of the query's variance, standardised over the fit queries, clipped to [-3, 4];
- entropy: entropy of their softmax, divided by the log of their number;
- gap: log(1 + top logit - mean of the next nine);
- top: log of the distance of the top logit from their mean, in standard deviations;
- base: their mean, which is high if all passages look similar to an encoder, as in a language that
  it does not know;
- deviation: log of their standard deviation. If an encoder is uninformative, a large deviation adds
  noise to the sum.
"""

_TRACE_RANGE = (-3.0, 4.0)
_STANDARD_RANGE = 6.0


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
        Similarities of n queries to N passages for each encoder: all, or a superset of the
        `LEADERS` highest.
    slopes, intercepts : sequence of K floats
        Slope and intercept of each encoder's logit, ``a_k s_k + b_k``.
    trace : array_like, shape (n, K)
        Log trace of each query's variance, standardised over the fit queries; 0 if unknown.

    Returns
    -------
    array, shape (n, K, F)
        Features in the order of `FEATURES`.

    Examples
    --------
    >>> import numpy as np
    >>> clear, flat = np.eye(4, dtype="f4")[:1], np.full((1, 4), 0.5, "f4")
    >>> evidence = corpus_evidence([clear, flat], [20, 20], [-10, -10], [[0, 0]])
    >>> dict(zip(FEATURES, evidence[0, 1].round(2).tolist()))["entropy"]
    1.0
    """
    count = min(LEADERS, similarities[0].shape[1])
    best = np.reshape(
        [[row[largest(row, count)] for row in values] for values in similarities],
        (len(similarities), len(similarities[0]), count),
    )
    slope, intercept = (
        np.reshape(np.array(of, np.float32), (len(similarities), 1, 1))
        for of in (slopes, intercepts)
    )
    logits = slope * -np.sort(-best, axis=2) + intercept
    mean, spread = logits.mean(axis=2), np.maximum(logits.std(axis=2), np.float32(1e-3))
    share = softmax(logits)
    entropy = -(share * np.log(np.maximum(share, np.float32(1e-30)))).sum(axis=2)
    top = np.maximum((logits[:, :, 0] - mean) / spread, np.float32(0.01))
    of_members = [
        np.clip(trace, *_TRACE_RANGE).T,
        np.clip(entropy / np.log(max(count, 2)), 0, 1),
        gap(logits),
        np.log(top),
        mean,
        np.log(spread),
    ]
    return np.stack([of_each.T for of_each in of_members], axis=2).astype(np.float32)


def gap(logits: FloatArray) -> FloatArray:
    """Compute ``log(1 + l_1 - mean(l_2, ..., l_10))``, shape (...); 0 if there is only one logit.

    `logits`: array, shape (..., m), highest first.
    """
    top, others = logits[..., 0], logits[..., 1:_NEXT]
    gaps: FloatArray = np.log1p(top - others.mean(axis=-1)) if others.size else np.zeros_like(top)
    return gaps


@dataclass(frozen=True)
class EvidenceWeights(Record):
    """The weights that map evidence to coefficients: a softmax of linear scores of the encoders.

    Attributes
    ----------
    weights : tuple of F floats
        Weights of the standardised features, the same for all encoders.
    location, spread : tuple of F floats
        Features are standardised as ``(feature - location) / spread``.
    prior : tuple of K floats
        Constant term of each encoder's score.
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


def standardise(
    evidence: FloatArray, location: Sequence[float], spread: Sequence[float]
) -> FloatArray:
    """Compute ``(evidence - location) / spread``, clipped to limit the effect of outliers."""
    centred = (evidence - np.asarray(location, np.float32)) / np.asarray(spread, np.float32)
    return np.clip(centred, -_STANDARD_RANGE, _STANDARD_RANGE)
