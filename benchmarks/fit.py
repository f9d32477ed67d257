"""Fitting a posterior in closed form against laplace-torch's own curvature of the same model.

Both see the same pairs, and must find the same curvature. Of laplace-torch's backends only
CurvlinopsGGN can differentiate a layer that is used for both texts of a pair. It is run on as many
pairs as `--generic` says; its time for all of them is extrapolated, in proportion, and marked so.
On a busy machine set OMP_NUM_THREADS=1: threads that wait for each other cost more than they save,
and what the processors worked then says more than the clock.

    python -m benchmarks.fit               # 7,500 pairs, 384 wide
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

from benchmarks.tables import print_table
from benchmarks.timing import machine
from uec_rag.encoders import Encoded
from uec_rag.laplace.curvature import Layer, accumulate, laplace_torch_curvature
from uec_rag.laplace.fit import fit_posterior
from uec_rag.laplace.pairs import LabelledPairs, check_pairs

_SLOPE, _INTERCEPT = 20.0, -8.0


def texts(count: int, width: int) -> list[Encoded]:
    """Unit vectors of queries and of the passages that answer them, not always the nearest."""
    rng = np.random.default_rng(0)
    passages = rng.standard_normal((count, width), dtype=np.float32)
    queries = passages + 4 * rng.standard_normal((count, width), dtype=np.float32)
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (queries, passages)]
    return [Encoded(vectors, vectors) for vectors in unit]


def seconds(
    run: Callable[[], object], clock: Callable[[], float] = time.perf_counter, rounds: int = 3
) -> float:
    """Median of what some runs take."""
    taken = []
    for _ in range(rounds):
        start = clock()
        run()
        taken.append(clock() - start)
    return float(np.median(taken))


def row(structure: str, pairs: int, width: int, generic: int) -> list[str]:
    """What a structure takes."""
    encoded, gain = texts(pairs, width), np.ones(width, dtype=np.float32)
    given = check_pairs([(f"q{i}", f"p{i}") for i in range(pairs)])

    def layer(count: int) -> Layer:
        line = np.arange(count)
        some = LabelledPairs(line, line, np.ones(count, dtype=np.float32))
        return Layer(*encoded, some, gain, _SLOPE, _INTERCEPT, structure, "pairs")

    def whole() -> object:
        return fit_posterior(given, *encoded, gain, structure=structure)

    small = layer(generic)
    expected = laplace_torch_curvature(small)  # imports are not timed
    theirs = seconds(lambda: laplace_torch_curvature(small), rounds=1)
    difference = max(
        float(np.abs(one - other).max() / np.abs(other).max())
        for one, other in zip(accumulate(small), expected, strict=True)
    )
    ours, extrapolated = seconds(lambda: accumulate(layer(pairs))), theirs * pairs / generic
    cells = [f"{ours:.2f}", f"{theirs:.2f}", f"{extrapolated:.0f}", f"{extrapolated / ours:.0f}"]
    fits = [seconds(whole), seconds(whole, time.process_time)]
    return [structure, *cells, f"{difference:.0e}", *(f"{fit:.2f}" for fit in fits)]


def main(
    pairs: Annotated[int, typer.Option(help="Pairs to fit on.")] = 7500,
    width: Annotated[int, typer.Option(help="Of the embeddings.")] = 384,
    generic: Annotated[int, typer.Option(help="Pairs for laplace-torch's own.")] = 512,
) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    header = ["structure", "closed form, s", f"CurvlinopsGGN on {generic} pairs, s"]
    header += ["on all, extrapolated, s", "ratio", "largest difference"]
    header += ["whole fit, s", "of processors, s"]
    rows = [row(structure, pairs, width, generic) for structure in ("kron", "diag")]
    print_table(f"{pairs} pairs, {width} wide; {machine()}", header, rows)


if __name__ == "__main__":
    typer.run(main)
