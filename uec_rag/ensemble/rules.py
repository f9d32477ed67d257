"""The rule for the coefficients: from what a user writes, and from what was saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from uec_rag.ensemble.coefficients import CoefficientRule, Fixed, Trace, Uniform
from uec_rag.ensemble.convolution import Space
from uec_rag.ensemble.evidence import Evidence, EvidenceGate

_EXPECTED = (
    "coefficients: expected 'evidence', 'trace', 'uniform', one weight per encoder or a mapping "
    "from encoder name to weight"
)


def make_rule(
    spec: str | Sequence[float] | Mapping[str, float] | CoefficientRule | None,
    names: Sequence[str],
    temperature: float,
    space: Space = "direct",
) -> CoefficientRule:
    """Turn what a user writes for `coefficients` into a rule.

    Parameters
    ----------
    spec : str, sequence, mapping, CoefficientRule or None
        "evidence", "trace", "uniform", one weight per encoder, a mapping encoder name -> weight, or
        a rule; None: "evidence" in the direct sum, "trace" in the shared space.
    names : sequence of str
        The encoders' names, in order.
    temperature : float
        T of "trace".
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
    temperature: float,
) -> CoefficientRule:
    if isinstance(spec, str):
        if spec == "uniform":
            return Uniform()
        if spec == "trace":
            return Trace(temperature)
        if spec == "evidence":
            return Evidence()
        raise ValueError(f"{_EXPECTED}, got {spec!r}.")
    if isinstance(spec, Mapping):
        if set(spec) != set(names):
            raise ValueError(
                f"coefficients: expected a weight for each of {list(names)}, got {list(spec)}."
            )
        return Fixed(tuple(float(spec[name]) for name in names))
    if callable(spec):
        return spec
    if not isinstance(spec, Iterable):
        raise TypeError(f"{_EXPECTED}, got {spec!r}.")
    weights = tuple(float(weight) for weight in spec)
    if len(weights) != len(names):
        raise ValueError(
            f"coefficients: expected {len(names)} weights, one per encoder, got {len(weights)}."
        )
    return Fixed(weights)


def restore_rule(metadata: Mapping[str, object]) -> CoefficientRule:
    """Rebuild a rule from its `metadata`.

    Raises
    ------
    ValueError
        If it is not one of this module's rules.
    """
    match metadata:
        case {"name": "uniform"}:
            return Uniform()
        case {"name": "evidence", "gate": gate}:
            return Evidence(EvidenceGate.restore(gate) if isinstance(gate, dict) else None)
        case {"name": "trace", "temperature": float(temperature)}:
            return Trace(temperature)
        case {"name": "fixed", "weights": list(weights)}:
            return Fixed(tuple(weights))
    raise ValueError(f"coefficients: no saved rule looks like {dict(metadata)}.")
