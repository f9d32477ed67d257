"""Fitting a posterior in closed form against laplace-torch's own curvature of the same model.

Both see the same pairs, and must find the same curvature. Of laplace-torch's backends only
CurvlinopsGGN can differentiate a layer that is used for both texts of a pair. It is run on as many
pairs as `--generic` says; its time for all of them is extrapolated, in proportion, and marked so.
On a busy machine set OMP_NUM_THREADS=1: threads that wait for each other cost more than they save,
and what the processors worked then says more than the clock.

    python -m benchmarks.fit               # 7,500 pairs, 384 wide
    python -m benchmarks.fit --markdown
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

from benchmarks.tables import print_table
from uec_rag.encoders import Encoded
from uec_rag.laplace.curvature import Curvature, Layer, accumulate, laplace_torch_curvature
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.likelihood import bernoulli_map
from uec_rag.laplace.pairs import LabelledPairs, check_pairs

_SLOPE, _INTERCEPT = 20.0, -8.0
_MANY = 1_000_000


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


def timed(find: Callable[[Layer], Curvature], layer: Layer) -> tuple[float, Curvature]:
    """Seconds that it takes, and what it finds."""
    start = time.perf_counter()
    found = find(layer)
    return time.perf_counter() - start, found


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
    encoded = Encoded(queries, queries), Encoded(passages, passages)
    gain = np.ones(width, dtype=np.float32)
    given = check_pairs([(f"q{i}", f"p{i}") for i in range(pairs)])
    rows = []
    for structure in ("kron", "diag"):

        def layer(count: int, structure: str = structure) -> Layer:
            line = np.arange(count)
            some = LabelledPairs(line, line, np.ones(count, dtype=np.float32))
            return Layer(*encoded, some, gain, _SLOPE, _INTERCEPT, structure, "pairs")

        def whole(clock: Callable[[], float], structure: str = structure) -> float:
            start = clock()
            fit_posterior(given, *encoded, gain, structure=structure)
            return clock() - start

        laplace_torch_curvature(layer(1))  # what is imported on first use is not of a fit
        theirs, expected = timed(laplace_torch_curvature, layer(generic))
        found = accumulate(layer(generic))
        difference = max(
            float(np.abs(one - other).max() / np.abs(other).max())
            for one, other in zip(found.factors, expected.factors, strict=True)
        )
        seconds = median(lambda layer=layer: timed(accumulate, layer(pairs))[0])
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
