"""The curvature of a fit by laplace-torch, the library that the paper uses, for comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from uec_rag.base.environment import require
from uec_rag.laplace.curvature import BATCH, Curvature, Layer


def by_laplace_torch(layer: Layer) -> Curvature:
    """Compute the same curvature with laplace-torch, the library that the paper uses.

    Intended for comparisons, as ``fit_posterior(..., curvature=by_laplace_torch)``; it is 23 (kron)
    to 788 (diag) times slower. Of its backends, only curvlinops can differentiate a layer that is
    applied to two texts.

    Raises ImportError if laplace-torch is not installed, ValueError if the likelihood is not
    "pairs".
    """
    if layer.likelihood != "pairs":
        raise ValueError(f"likelihood: expected 'pairs', got {layer.likelihood!r}; use accumulate.")
    require("fit", "laplace-torch")
    import torch
    from laplace import Laplace
    from laplace.curvature import CurvlinopsGGN

    sides = (layer.queries, layer.pairs.query_index), (layer.passages, layer.pairs.passage_index)
    inputs, fixed = (
        torch.from_numpy(np.stack([getattr(texts, name)[index] for texts, index in sides], axis=1))
        for name in ("features", "embedding")
    )
    width, gain = inputs.shape[-1], torch.from_numpy(layer.gain)

    class Pair(torch.nn.Module):
        """The logits of "no" and "yes" as a function of the change of the last layer's weights."""

        def __init__(self) -> None:
            super().__init__()
            self.change = torch.nn.Linear(width, len(gain), bias=False, dtype=inputs.dtype)
            torch.nn.init.zeros_(self.change.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = x[..., width:] + gain * self.change(x[..., :width])
            yes = layer.slope * (z[:, 0] * z[:, 1]).sum(-1, keepdim=True) + layer.intercept
            return torch.cat([torch.zeros_like(yes), yes], dim=-1)

    labels = torch.from_numpy(layer.pairs.labels).long()
    data = torch.utils.data.TensorDataset(torch.cat([inputs, fixed], dim=-1), labels)
    found: Any = Laplace(Pair(), "classification", "all", layer.structure, backend=CurvlinopsGGN)
    found.fit(torch.utils.data.DataLoader(data, batch_size=BATCH["in_batch"]))
    if layer.structure == "diag":
        factors = [found.H.reshape(len(gain), width)]
    else:
        output, features = found.H_facs.kfacs[0]
        factors = [output, 2 * len(labels) * features]
    doubles = tuple(factor.double().numpy() for factor in factors)
    return Curvature(len(labels), float(found.loss), doubles)
