"""Fitting a posterior in closed form against laplace-torch's own curvature of the same model.

Both are given to laplace-torch as its backend, on the same pairs, and must find the same curvature.
Of its own backends only CurvlinopsGGN can differentiate a layer that is used for both texts of a
pair. It is run on as many pairs as `--generic` says; its time for all of them is extrapolated, in
proportion, and marked so. On a busy machine set OMP_NUM_THREADS=1: threads that wait for each other
cost more than they save, and what the processors worked then says more than the clock.

    python benchmarks/fit.py               # 7,500 pairs, 384 wide
    python benchmarks/fit.py --markdown
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from tables import print_table
from torch import Tensor, nn

from uec_rag.base.environment import shield_from_broken_torchvision

shield_from_broken_torchvision()

from laplace import Laplace  # noqa: E402
from laplace.curvature import CurvlinopsGGN  # noqa: E402

from uec_rag.encoders import Encoded  # noqa: E402
from uec_rag.laplace.curvature import PairGGN, PairModel  # noqa: E402
from uec_rag.laplace.fit import fit_posterior  # noqa: E402
from uec_rag.laplace.likelihood import bernoulli_map  # noqa: E402
from uec_rag.laplace.pairs import check_pairs  # noqa: E402

_SLOPE, _INTERCEPT = 20.0, -8.0
_BATCH = 64
_MANY = 1_000_000


class Siamese(nn.Module):
    """The pair likelihood as a plain network, for backends that know no closed form."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)
        self.layer.weight.data = torch.eye(width)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of "no" and "yes", (n, 2), of the features of both texts, (n, 2, m)."""
        z = self.layer(x)
        logit = _SLOPE * (z[:, 0] * z[:, 1]).sum(-1, keepdim=True) + _INTERCEPT
        return torch.cat([torch.zeros_like(logit), logit], dim=-1)


def texts(count: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of queries and of the passages that answer them, not always the nearest."""
    rng = np.random.default_rng(0)
    passages = rng.standard_normal((count, width), dtype=np.float32)
    queries = passages + 4 * rng.standard_normal((count, width), dtype=np.float32)
    return tuple(v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, passages))


def slope_seconds(pairs: int) -> float:
    """Processor seconds of the slope's MAP, for answers and two negatives each."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.float32([1, 0, 0]), pairs)
    similarity = rng.normal(0.3 + 0.35 * labels, 0.15).clip(-1, 1).astype(np.float32)
    before = time.process_time()
    bernoulli_map(similarity, labels)
    return time.process_time() - before


def curvature(
    model: nn.Module, backend: type, structure: str, x: Tensor, y: Tensor
) -> tuple[float, object]:
    """Seconds that laplace-torch takes with a backend, and what it finds."""
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=_BATCH)
    laplace = Laplace(
        model,
        "classification",
        subset_of_weights="all",
        hessian_structure=structure,
        backend=backend,
    )
    start = time.perf_counter()
    laplace.fit(data)
    seconds = time.perf_counter() - start
    if structure == "diag":
        return seconds, laplace.H
    (values_g, values_a), (basis_g, basis_a) = laplace.H.eigenvalues[0], laplace.H.eigenvectors[0]
    # A factor of one may be moved to the other: only their product is the curvature.
    g, a = basis_g * values_g @ basis_g.T, basis_a * values_a @ basis_a.T
    return seconds, torch.stack([g * a.diagonal().mean(), a * g.diagonal().mean()])


def median(run: Callable[[], float], rounds: int = 3) -> float:
    """Median of what some runs return."""
    return float(np.median([run() for _ in range(rounds)]))


def main(
    pairs: Annotated[int, typer.Option(help="Pairs to fit on.")] = 7500,
    width: Annotated[int, typer.Option(help="Of the embeddings.")] = 384,
    generic: Annotated[int, typer.Option(help="Pairs for laplace-torch's own.")] = 512,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
    out: Annotated[Path | None, typer.Option("--json", help="Write the numbers here, too.")] = None,
) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    queries, passages = texts(pairs, width)
    vectors = torch.from_numpy(np.stack([queries, passages], axis=1))
    ours_x = torch.cat([vectors, vectors], dim=-1)
    labels = torch.ones(pairs, dtype=torch.long)
    given = check_pairs([(f"q{i}", f"p{i}") for i in range(pairs)])
    encoded = Encoded(queries, queries), Encoded(passages, passages)
    rows = []
    for structure in ("kron", "diag"):

        def ours(count: int, structure: str = structure) -> tuple[float, object]:
            model = PairModel(width, width, _SLOPE, _INTERCEPT, torch.ones(width))
            return curvature(model, PairGGN, structure, ours_x[:count], labels[:count])

        def whole(clock: Callable[[], float], structure: str = structure) -> float:
            start = clock()
            fit_posterior(given, *encoded, np.ones(width, dtype=np.float32), structure=structure)
            return clock() - start

        whole(time.perf_counter)  # what is imported on first use is not of a fit
        theirs, expected = curvature(
            Siamese(width), CurvlinopsGGN, structure, vectors[:generic], labels[:generic]
        )
        _, found = ours(generic)
        difference = float((found - expected).abs().max() / expected.abs().max())
        seconds = median(lambda ours=ours: ours(pairs)[0])
        rows.append(
            {
                "structure": structure,
                "closed_form_seconds": seconds,
                "generic_seconds": theirs,
                "generic_pairs": generic,
                "generic_extrapolated_seconds": theirs * pairs / generic,
                "ratio": theirs * pairs / generic / seconds,
                "largest_difference": difference,
                "fit_seconds": median(lambda whole=whole: whole(time.perf_counter)),
                "fit_processor_seconds": median(lambda whole=whole: whole(time.process_time)),
            }
        )
    report(rows, pairs, width, markdown=markdown)
    seconds = median(lambda: slope_seconds(_MANY))
    print(f"the slope of {_MANY:,} pairs and two negatives each: {seconds:.1f} s of one processor")
    if out is not None:
        out.write_text(json.dumps(rows, indent=1))


def report(rows: list[dict], pairs: int, width: int, *, markdown: bool) -> None:
    """Print a row per structure."""
    title = (
        f"{pairs} pairs, {width} wide; {len(os.sched_getaffinity(0))} cores, "
        f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}; "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
    header = [
        "structure",
        "closed form, s",
        f"CurvlinopsGGN on {rows[0]['generic_pairs']} pairs, s",
        "on all, extrapolated, s",
        "ratio",
        "largest difference",
        "whole fit, s",
        "of processors, s",
    ]
    table = [
        [
            row["structure"],
            f"{row['closed_form_seconds']:.2f}",
            f"{row['generic_seconds']:.2f}",
            f"{row['generic_extrapolated_seconds']:.0f}",
            f"{row['ratio']:.0f}",
            f"{row['largest_difference']:.0e}",
            f"{row['fit_seconds']:.2f}",
            f"{row['fit_processor_seconds']:.2f}",
        ]
        for row in rows
    ]
    print_table(title, header, table, markdown=markdown)


if __name__ == "__main__":
    typer.run(main)
