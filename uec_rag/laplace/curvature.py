"""The generalised Gauss-Newton matrix of a pair likelihood over the last layer, in closed form.

Two likelihoods, each as a laplace-torch `CurvatureInterface`:

- `PairGGN`, y ~ Bernoulli(sigmoid(a z.z' + b)) on labelled pairs;
- `InBatchGGN`, the softmax over the passages of a batch (the authors' code).

With z = z0 + gain * (dW h) the Jacobian of a logit is a sum of two outer products, so the
diagonal and the Kronecker factors of the GGN are a handful of matrix products. No Jacobian is
ever formed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from laplace.curvature import CurvatureInterface
from laplace.utils import Kron
from torch import Tensor, nn

Input = Tensor | MutableMapping[str, Tensor | Any]


class Sides(NamedTuple):
    """Features h, h' (n, m) and embeddings z, z' (n, d) of the two texts of n pairs."""

    h: Tensor
    h2: Tensor
    z: Tensor
    z2: Tensor


class PairModel(nn.Module):
    """Logits of text pairs as a function of the last layer's weight change dW.

    Parameters
    ----------
    dimension, feature_dimension : int
        d and m: dW is (d, m), 0 at the pre-trained weights.
    slope, intercept : float
        MAP of a and b.
    gain : Tensor, shape (d,)
        What a row of dW counts in the embedding (LayerNorm's gamma under ``last_layer="ffn"``).

    Notes
    -----
    The input is (n, 2, m + d): features h beside the embedding z0 of both texts. The output is
    (n, 2), the logits of "no" (0) and "yes", so that softmax gives the Bernoulli.
    """

    gain: Tensor

    def __init__(
        self, dimension: int, feature_dimension: int, slope: float, intercept: float, gain: Tensor
    ) -> None:
        super().__init__()
        self.delta = nn.Parameter(torch.zeros(dimension, feature_dimension, dtype=gain.dtype))
        self.slope = slope
        self.intercept = intercept
        self.register_buffer("gain", gain)

    def split(self, x: Tensor) -> Sides:
        """Features and embeddings of both sides."""
        m = self.delta.shape[1]
        features, embedding = x[..., :m], x[..., m:]
        # At the pre-trained weights the product is 0, unless somebody differentiates it.
        if torch.is_grad_enabled() or bool(self.delta.any()):
            embedding = embedding + self.gain * (features @ self.delta.T)
        return Sides(features[:, 0], features[:, 1], embedding[:, 0], embedding[:, 1])

    def forward(self, x: Tensor) -> Tensor:
        """Logits of "no" and "yes", (n, 2)."""
        return self.logits(self.split(x))

    def logits(self, sides: Sides) -> Tensor:
        """Logits of "no" and "yes" from what `split` gave, (n, 2)."""
        _, _, z, z2 = sides
        logit = self.slope * (z * z2).sum(-1, keepdim=True) + self.intercept
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)


class InBatchModel(PairModel):
    """Logits of every passage of a batch for every query: output (n, n), row i's answer is i."""

    def logits(self, sides: Sides) -> Tensor:
        """Logits, (n, n)."""
        _, _, z, z2 = sides
        logits: Tensor = self.slope * z @ z2.T
        return logits


class _ClosedForm(CurvatureInterface, ABC):
    """What both likelihoods share: the loss, and the packing into laplace-torch's structures."""

    model: PairModel

    def diag(self, x: Input, y: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Loss of the batch and the diagonal of its GGN, (d * m,)."""
        assert isinstance(x, Tensor)
        with torch.no_grad():
            sides = self.model.split(x)
            logits = self.model.logits(sides)
            return self.factor * self.lossfunc(logits, y), self._diag(sides, logits).flatten()

    def kron(self, x: Input, y: Tensor, N: int, **kwargs: Any) -> tuple[Tensor, Kron]:
        """Loss of the batch and its Kronecker factors G (d, d) and A (m, m).

        A is averaged over the `N` pairs, so the batches' A add up to the mean second moment.
        """
        assert isinstance(x, Tensor)
        with torch.no_grad():
            sides = self.model.split(x)
            logits = self.model.logits(sides)
            a = (sides.h.T @ sides.h + sides.h2.T @ sides.h2) / (2 * N)
            factors = (self._output_factor(sides, logits), a)
            return self.factor * self.lossfunc(logits, y), Kron([factors])  # type: ignore[list-item]  # its stub says one

    def full(self, x: Input, y: Tensor, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Refuse: a full GGN has (d * m)^2 entries."""
        raise ValueError("structure: expected 'diag' or 'kron'; 'full' does not fit in memory.")

    @abstractmethod
    def _diag(self, sides: Sides, logits: Tensor) -> Tensor:
        """Diagonal of the batch's GGN, (d, m)."""

    @abstractmethod
    def _output_factor(self, sides: Sides, logits: Tensor) -> Tensor:
        """G of the batch, (d, d)."""


class PairGGN(_ClosedForm):
    """GGN of the Bernoulli pair likelihood.

    With ``w = p (1 - p) a^2`` and logits' Jacobian ``a gain_j (z'_j h_i + z_j h'_i)``::

        H_ji = gain_j^2 [ (w z'^2)' h^2 + 2 (w z z')' (h h') + (w z^2)' h'^2 ]_ji
        G    = sum_n w (gain z')(gain z')' + w (gain z)(gain z)'
    """

    def _weight(self, logits: Tensor) -> Tensor:
        yes = logits[:, 1:].sigmoid()
        weight: Tensor = yes * (1 - yes) * self.model.slope**2
        return weight

    def _diag(self, sides: Sides, logits: Tensor) -> Tensor:
        h, h2, z, z2 = sides
        w = self._weight(logits)
        curvature = (w * z2**2).T @ h**2 + 2 * (w * z * z2).T @ (h * h2) + (w * z**2).T @ h2**2
        return self.model.gain[:, None] ** 2 * curvature

    def _output_factor(self, sides: Sides, logits: Tensor) -> Tensor:
        _, _, z, z2 = sides
        w, gain = self._weight(logits), self.model.gain
        factor: Tensor = (w * z2 * gain).T @ (z2 * gain) + (w * z * gain).T @ (z * gain)
        return factor


class InBatchGGN(_ClosedForm):
    """GGN of the softmax over a batch's passages.

    For query i with probabilities p_ij the GGN is ``sum_j p_ij J_ij J_ij' - Jbar_i Jbar_i'`` with
    ``J_ij = a (z'_j h_i + z_i h'_j)`` and Jbar the mean under p: matrix products over the n texts,
    and for the term that mixes both sides over their n^2 pairs.
    """

    def _diag(self, sides: Sides, logits: Tensor) -> Tensor:
        h, h2, z, z2 = sides
        p = logits.softmax(dim=-1)
        mean_z2, mean_h2 = p @ z2, p @ h2
        second = (p @ z2**2).T @ h**2 + (z**2).T @ (p @ h2**2)
        # sum_ij p_ij (z_i z'_j) (h_i h'_j)' over all n^2 pairs of the batch: one matrix product.
        left = (p[..., None] * z[:, None] * z2[None]).flatten(0, 1)
        cross = left.T @ (h[:, None] * h2[None]).flatten(0, 1)
        first = (mean_z2**2).T @ h**2 + (z**2).T @ mean_h2**2
        first += 2 * (mean_z2 * z).T @ (h * mean_h2)
        curvature = second + 2 * cross - first
        scale: Tensor = (self.model.slope * self.model.gain[:, None]) ** 2
        diagonal: Tensor = scale * curvature.clamp_min(0)
        return diagonal

    def _output_factor(self, sides: Sides, logits: Tensor) -> Tensor:
        _, _, z, z2 = sides
        p = logits.softmax(dim=-1)
        gain, mean = self.model.gain, p @ z2
        queries = (z2 * p.sum(0)[:, None]).T @ z2 - mean.T @ mean
        weight = (p * (1 - p)).sum(1)[:, None]
        passages = (weight * z).T @ z
        factor: Tensor = self.model.slope**2 * gain[:, None] * (queries + passages) * gain
        return factor
