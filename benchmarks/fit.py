"""Fitting a posterior in closed form against laplace-torch's own curvature of the same model.

Both see the same pairs, and must find the same curvature. Of laplace-torch's backends only
CurvlinopsGGN can differentiate a layer that is used for both texts of a pair. It is run on 512
pairs; its time for all of them is extrapolated, in proportion, and marked so.
On a busy machine set OMP_NUM_THREADS=1: threads that wait for each other cost more than they save,
and what the processors worked then says more than the clock.

    python -m benchmarks.fit               # 7,500 pairs, 384 wide
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine, take_turns
from uec_rag.encoders import Encoded
from uec_rag.laplace.fit_posterior import Factors, Layer, accumulate, fit_posterior
from uec_rag.laplace.pairs import LabelledPairs, check_pairs

_SLOPE, _INTERCEPT = 20.0, -8.0
_WIDTH, _GENERIC = 384, 512  # of the embeddings; pairs for laplace-torch's own


def texts(count: int, width: int) -> list[Encoded]:
    """Unit vectors of queries and of the passages that answer them, not always the nearest."""
    rng = np.random.default_rng(0)
    passages = rng.standard_normal((count, width), dtype=np.float32)
    queries = passages + 4 * rng.standard_normal((count, width), dtype=np.float32)
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, passages)]
    return [Encoded(vectors, vectors) for vectors in unit]


def laplace_torch_curvature(layer: Layer) -> Factors:
    """The curvature of pairs by laplace-torch, the library that the paper uses; much slower."""
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
        """The logits of "no" and "yes" by the change of the last layer's weights."""

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
    approximation: Any = Laplace(
        Pair(), "classification", "all", layer.structure, backend=CurvlinopsGGN
    )
    approximation.fit(torch.utils.data.DataLoader(data, batch_size=64))
    if layer.structure == "diag":
        factors = [approximation.H.reshape(len(gain), width)]
    else:
        output, features = approximation.H_facs.kfacs[0]
        factors = [output, 2 * len(labels) * features]
    return tuple(factor.double().numpy() for factor in factors)


def row(structure: str, pairs: int) -> list[str]:
    """What a structure takes."""
    encoded, gain = texts(pairs, _WIDTH), np.ones(_WIDTH, dtype=np.float32)
    given = check_pairs([(f"q{i}", f"p{i}") for i in range(pairs)])

    def layer(count: int) -> Layer:
        line = np.arange(count)
        some = LabelledPairs(line, line, np.ones(count, dtype=np.float32))
        return Layer(*encoded, some, gain, _SLOPE, _INTERCEPT, structure)

    def whole() -> object:
        return fit_posterior(given, *encoded, gain, structure=structure)

    small = layer(_GENERIC)
    expected = laplace_torch_curvature(small)
    difference = max(
        float(np.abs(one - other).max() / np.abs(other).max())
        for one, other in zip(accumulate(small), expected, strict=True)
    )
    theirs, _ = take_turns({"theirs": lambda: laplace_torch_curvature(small)}, 1)["theirs"]
    ours, _ = take_turns({"ours": lambda: accumulate(layer(pairs))}, 3)["ours"]
    extrapolated = theirs * pairs / _GENERIC
    cells = [f"{ours:.2f}", f"{theirs:.2f}", f"{extrapolated:.0f}", f"{extrapolated / ours:.0f}"]
    clocks = time.perf_counter, time.process_time
    fits = [take_turns({"fit": whole}, 3, clock)["fit"] for clock in clocks]
    return [structure, *cells, f"{difference:.0e}", *(f"{fit:.2f}" for fit, _ in fits)]


def main(pairs: Annotated[int, typer.Option(help="Pairs to fit on.")] = 7500) -> None:
    """Print the table."""
    header = ["structure", "closed form, s", f"CurvlinopsGGN on {_GENERIC} pairs, s"]
    header += ["on all, extrapolated, s", "ratio", "largest difference"]
    header += ["whole fit, s", "of processors, s"]
    rows = [row(structure, pairs) for structure in ("kron", "diag")]
    print_table(f"{pairs} pairs, {_WIDTH} wide; {machine()}", header, rows)


if __name__ == "__main__":
    run_script(main)
