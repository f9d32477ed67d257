"""Step 2: how much each encoder counts in a text. One small class per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian


class CoefficientRule(Protocol):
    """A rule that turns the encoders' Gaussians of n texts into convex weights (n, K)."""

    name: ClassVar[str]

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Weights of each text, shape (n, K), rows summing to 1."""
        ...

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Every encoder counts the same."""

    name: ClassVar[str] = "uniform"

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Weights 1 / K."""
        return np.full((len(parts[0]), len(parts)), 1 / len(parts), dtype=np.float32)

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {"name": self.name}


@dataclass(frozen=True)
class Fixed:
    """The same given weights for every text.

    Parameters
    ----------
    weights : tuple of float
        One per encoder, at least 0, with a positive sum; they need not sum to 1.
    """

    weights: tuple[float, ...]
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        if not np.isfinite(weights).all() or weights.min(initial=0) < 0 or weights.sum() <= 0:
            raise ValueError(
                f"coefficients: expected weights >= 0 with a positive sum, got {self.weights}."
            )

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """The weights over their sum, once per text."""
        weights = np.asarray(self.weights, dtype=np.float64)
        return np.tile((weights / weights.sum()).astype(np.float32), (len(parts[0]), 1))

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {"name": self.name, "weights": list(self.weights)}


@dataclass(frozen=True)
class Trace:
    """The paper's rule: softmax of minus the total variance over the encoders (eq. 7).

    Parameters
    ----------
    temperature : float
        T > 0; small values follow the most certain encoder, large ones weigh all alike.

    Examples
    --------
    >>> sure, unsure = Gaussian([[1.0]], [[0.1]]), Gaussian([[1.0]], [[2.3]])
    >>> bool(np.allclose(Trace(temperature=1.0)([sure, unsure]), [[0.9, 0.1]], atol=1e-3))
    True
    """

    temperature: float = 1.5
    name: ClassVar[str] = "trace"

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature: expected a number > 0, got {self.temperature}.")
        object.__setattr__(self, "temperature", float(self.temperature))  # as JSON gives it back

    def __call__(self, parts: Sequence[Gaussian]) -> FloatArray:
        """Weights ``softmax(-tr Sigma_k / T)``."""
        return softmax(-np.stack([p.trace for p in parts], axis=1) / np.float32(self.temperature))

    def metadata(self) -> dict[str, object]:
        """JSON-able state, for saving."""
        return {"name": self.name, "temperature": self.temperature}


def softmax(logits: FloatArray) -> FloatArray:
    """Softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights: FloatArray = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return weights
