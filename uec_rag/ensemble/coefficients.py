"""Step 2: the coefficients, which say how much each encoder counts in a text; a class per rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

import numpy as np

from uec_rag.base.checks import LARGEST
from uec_rag.base.columns import softmax
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Record
from uec_rag.ensemble.convolution import Space
from uec_rag.ensemble.evidence import EvidenceWeights


class CoefficientRule(Protocol):
    """A rule for convex weights (n, K) of n texts.

    One that needs the encoders' Gaussians alone is a callable of them. `StandardisedTrace` and
    `Evidence` need what an ensemble or a corpus knows: these are records, which
    `uec_rag.ensemble.fitted.Fitted` reads.
    """

    name: ClassVar[str]

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        ...


class _Rule(Record):
    """A rule of this package's, saved with its name."""

    name: ClassVar[str]

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {"name": self.name, **super().metadata()}


@dataclass(frozen=True)
class Uniform(_Rule):
    """The same coefficient for every encoder."""

    name: ClassVar[str] = "uniform"

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the weights 1 / K."""
        return np.full((len(parts[0]), len(parts)), 1 / len(parts), dtype=np.float32)


@dataclass(frozen=True)
class Fixed(_Rule):
    """The same given weights for every text.

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
                "coefficients: expected weights >= 0 with a positive sum, which a float32 must "
                f"hold, got {self.weights!r:.200}."
            )
        object.__setattr__(self, "weights", tuple(map(float, self.weights)))

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Return the weights over their sum, once per text."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.tile((weights / weights.sum()).astype(np.float32), (len(parts[0]), 1))


@dataclass(frozen=True)
class Trace(_Rule):
    """The paper's rule: softmax of minus the total variance over the encoders (paper eq. 4).

    Parameters
    ----------
    temperature : float
        T > 0, in the unit of the traces, which is another for every encoder and fit; small values
        follow the most certain encoder, large ones weigh all alike.

    Examples
    --------
    >>> sure, unsure = Gaussian([[1.0]], [[0.1]]), Gaussian([[1.0]], [[2.3]])
    >>> bool(np.allclose(Trace(temperature=1.0)([sure, unsure]), [[0.9, 0.1]], atol=1e-3))
    True
    """

    temperature: float = 1.5
    name: ClassVar[str] = "trace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _temperature(self.temperature))

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Compute the weights ``softmax(-tr Sigma_k / T)``."""
        return softmax(-np.stack([p.trace for p in parts], axis=1) / np.float32(self.temperature))


@dataclass(frozen=True)
class StandardisedTrace(_Rule):
    """Softmax of minus the log trace, standardised by each encoder's usual mean and deviation.

    What is usual is another number for every encoder: the paper's rule compares these, this one
    how far a query is from it. Passages, and queries before `UEC.fit`, have weights 1 / K.

    Parameters
    ----------
    temperature : float
        T > 0, in standard deviations over the held-out queries of the fit.
    """

    temperature: float = 1.0
    name: ClassVar[str] = "standardised_trace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _temperature(self.temperature))

    def of(self, standard: FloatArray) -> FloatArray:
        """Compute the weights of queries from standardised log traces (n, K)."""
        return softmax(-standard / np.float32(self.temperature))


@dataclass(frozen=True)
class Evidence(_Rule):
    """Coefficients from the corpus's evidence about each encoder on a query.

    They come from `EvidenceWeights` if a corpus is at hand, as in a search. Without one, and
    before `UEC.fit` has learned these, every encoder counts the same.

    Parameters
    ----------
    weights : EvidenceWeights, optional
    """

    weights: EvidenceWeights | None = None
    name: ClassVar[str] = "evidence"
    _saved_as: ClassVar[Mapping[str, str]] = {"weights": "gate"}


_RULES: dict[str, type[Uniform | Fixed | Trace | StandardisedTrace | Evidence]] = {
    rule.name: rule for rule in (Uniform, Fixed, Trace, StandardisedTrace, Evidence)
}
_EXPECTED = (
    "coefficients: expected 'evidence', 'trace', 'uniform', 'standardised_trace', one weight per "
    "encoder or a mapping from encoder name to weight"
)


def make_rule(
    spec: str | Sequence[float] | Mapping[str, float] | CoefficientRule | None,
    names: Sequence[str],
    temperature: float | None,
    space: Space = "direct",
) -> CoefficientRule:
    """Turn what a user writes for `coefficients` into a rule.

    Parameters
    ----------
    spec : str, sequence, mapping, CoefficientRule or None
        "evidence", "trace", "standardised_trace", "uniform", one weight per encoder, a mapping
        encoder name -> weight, or a rule; None: "evidence" in the direct sum, "trace" in the shared
        space.
    names : sequence of str
        The encoders' names, in order.
    temperature : float, optional
        T of "trace" (by default 1.5) and of "standardised_trace" (by default 1).
    space : {"direct", "shared"}

    Raises
    ------
    TypeError, ValueError
        If it is none of these, the name is unknown, the weights do not fit the encoders, or
        the space does not fit the rule.
    """
    if spec is None:
        spec = "evidence" if space == "direct" else "trace"
    rule = _rule(spec, names, temperature)
    if space == "shared" and isinstance(rule, Evidence):
        raise ValueError(
            "coefficients: 'evidence' needs the similarities of single encoders, which a shared "
            "space does not keep; use space='direct', or coefficients='trace'."
        )
    return rule


def _rule(
    spec: str | Sequence[float] | Mapping[str, float] | CoefficientRule,
    names: Sequence[str],
    temperature: float | None,
) -> CoefficientRule:
    if isinstance(spec, str):
        if spec == "uniform":
            return Uniform()
        if spec == "trace":
            return Trace() if temperature is None else Trace(temperature)
        if spec == "standardised_trace":
            return StandardisedTrace(1.0 if temperature is None else temperature)
        if spec == "evidence":
            return Evidence()
        raise ValueError(f"{_EXPECTED}, got {spec!r}.")
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


def _temperature(value: float) -> float:
    """Return it as a float; ValueError unless it is above 0 and a float32 holds it."""
    if not 0 < value <= LARGEST or not np.float32(value):
        raise ValueError(
            f"temperature: expected a number > 0, got {value!r:.60}; a float32 must hold it."
        )
    return float(value)


def restore_rule(metadata: Mapping[str, object]) -> CoefficientRule:
    """Rebuild a rule from its `metadata`.

    Raises ValueError if it is not one of this module's rules.
    """
    rule = _RULES.get(str(metadata.get("name")))
    state = {key: value for key, value in metadata.items() if key != "name"}
    if rule is None or len(state) != len(fields(rule)):  # no saved field has a default
        raise ValueError(f"coefficients: no saved rule looks like {dict(metadata)}.")
    return rule.restore(state)
