"""What a local index costs: adding, opening, filtering, searching.

python -m benchmarks.opening --passages 200000
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.tables import print_table, run_script
from benchmarks.timing import machine
from uec_rag.encoders.base import Encoded
from uec_rag.ensemble.convolution import Rule
from uec_rag.ensemble.ensemble_file import SHIPPED_FITS, read_fit
from uec_rag.ensemble.fitted import Fitted
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.passage import make_passages

_AT_ONCE, _WIDTH, _ADDED = 4096, 384, 20


def taken(work: Callable[[], object], times: int = 1) -> float:
    """Return the least milliseconds of some times."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - start))
    return min(found)


def measure(count: int, folder: Path) -> dict[str, float]:
    """Measure everything in milliseconds."""
    rng, place = np.random.default_rng(0), folder / "index"
    fit, small = _fit(), LocalStore()
    [query], some, vectors = (
        fit.gaussians(_vectors(rng, 1)),
        _passages(range(10_000)),
        _vectors(rng, 10_000),
    )

    def search(store: LocalStore) -> object:
        return store.snapshot().search(query, 10, beta=1.0, fit=fit)

    found = {
        "add 10,000 in memory": taken(lambda: small.add(some, vectors)),
        "search 10,000 in memory": taken(lambda: search(small), 20),
    }
    store = LocalStore(place)
    for start in range(0, count, _AT_ONCE):
        rows = range(start, min(count, start + _AT_ONCE))
        store.add(_passages(rows), _vectors(rng, len(rows)))
    store.close()
    found["open"] = taken(lambda: LocalStore(place), 3)
    store = LocalStore(place)
    found["first filter on a key"] = taken(lambda: len(store.snapshot({"row": 7})))
    found["selective filter"] = taken(lambda: len(store.snapshot({"row": 8})), 5)
    len(store.snapshot({"third": 0}))
    found["filter of a third"] = taken(lambda: len(store.snapshot({"third": 1})), 5)
    found["first search"] = taken(lambda: search(store))
    found["search"] = taken(lambda: search(store), 20)
    given = [(_passages([row]), _vectors(rng, 1)) for row in range(count, count + _ADDED)]
    each = [taken(lambda one=one: store.add(*one)) for one in given]
    found |= {"durable add of one, median": float(np.median(each)), "most": max(each)}
    return found


def _passages(rows: range | list[int]) -> list[Passage]:
    texts = [f"The text of passage {row}, of some words. " * 5 for row in rows]
    metadatas = [{"row": row, "third": row % 3, "title": f"Title {row}"} for row in rows]
    return make_passages(texts, [f"p{row}" for row in rows], metadatas)


def _vectors(rng: np.random.Generator, count: int) -> list[Encoded]:
    vectors = rng.standard_normal((count, _WIDTH), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [Encoded(vectors, vectors)]


def _fit() -> Fitted:
    """The fit that `UEC()` has of its model alone."""
    _, fit = read_fit(SHIPPED_FITS / "english")
    posteriors = (fit.posteriors or ())[:1]
    return replace(fit, names=fit.names[:1], posteriors=posteriors, rule=Rule("uniform"))


def main(passages: Annotated[int, typer.Option(help="In the folder.")] = 200_000) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [[name, f"{ms:,.2f}"] for name, ms in measure(passages, Path(folder)).items()]
    print_table(f"{passages:,} passages; {machine()}", ["", "ms"], rows)


if __name__ == "__main__":
    run_script(main)
