"""What a local index costs: adding, opening, filtering, searching, copying; one JSON a run.

python -m benchmarks.opening measure --passages 200000 > new.json
python -m benchmarks.opening table new.json old.json

`measure` also runs in a checkout from before the local index (`git worktree add ../old 2e785473`,
with a copy of this file), where each durable addition is a save.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from uec_rag import Gaussian, stores
from uec_rag.stores.base import Passage, make_passages

_BEFORE = not hasattr(stores, "LocalStore")  # a checkout from before the local index

_GENERATIONS = "uec_rag.base.saved.generations"
_AT_ONCE, _WIDTH, _QUERIES = 4096, 384, 20


Taken = tuple[float, float]
"""Milliseconds of the clock and of the processor."""


def measure(count: int, dtype: str, folder: Path) -> dict[str, Taken]:
    """Measure everything in milliseconds, but memory in megabytes."""
    taken: dict[str, Taken] = {}
    rng = np.random.default_rng(0)
    query = _gaussians(rng, 1)
    taken["fsync"] = _best(lambda: _fsync(folder / "file"), 5)
    small, some = _made(dtype), _passages(range(10_000))
    gaussians = _gaussians(rng, 10_000)
    taken["add 10,000 in memory"] = _best(lambda: small.add(some, gaussians), 1)
    taken["search 10,000 in memory"] = _best(lambda: small.search(query, 10, beta=1.0), _QUERIES)
    store = _made(dtype, folder / "index")
    for start in range(0, count, _AT_ONCE):
        rows = range(start, min(count, start + _AT_ONCE))
        store.add(_passages(rows), _gaussians(rng, len(rows)))
    _written(store, folder / "index")
    del store
    taken["open"] = _best(lambda: _opened(folder / "index"), 3)
    memory = _memory_of_opening(folder / "index")
    store = _opened(folder / "index")
    taken["first filter on a key"] = _best(lambda: len(store.snapshot({"row": 7})), 1)
    taken["selective filter"] = _best(lambda: len(store.snapshot({"row": 8})), 5)
    len(store.snapshot({"third": 0}))
    taken["filter of a third"] = _best(lambda: len(store.snapshot({"third": 1})), 5)
    taken["first search"] = _best(lambda: store.search(query, 10, beta=1.0), 1)
    taken["search"] = _best(lambda: store.search(query, 10, beta=1.0), _QUERIES)
    each = []
    for row in range(count, count + 20):
        given, one = _passages(range(row, row + 1)), _gaussians(rng, 1)
        each.append(_best(lambda: _add(store, given, one, folder / "index"), 1))  # noqa: B023
    taken["durable add of one, median"] = sorted(each)[len(each) // 2]
    taken["durable add of one, most"] = max(each)
    taken["copy"] = _best(lambda: _copy(store, folder / "copy"), 1)
    return taken | {"private memory after opening, MB": (memory, memory)}


def _made(dtype: str, folder: Path | None = None) -> Any:
    if not _BEFORE:
        return stores.LocalStore(folder, dtype=dtype)  # type: ignore[arg-type]
    return stores.MemoryStore(dtype=dtype)  # type: ignore[attr-defined]


def _written(store: Any, folder: Path) -> None:
    if not _BEFORE:
        store.close()
    else:
        _copy(store, folder)


def _opened(folder: Path) -> Any:
    if not _BEFORE:
        return stores.LocalStore(folder)
    with import_module(_GENERATIONS).read_generation(folder, "store", verify=False) as held:
        return stores.MemoryStore.load(held)  # type: ignore[attr-defined]


def _add(store: Any, given: list[Passage], gaussians: Gaussian, folder: Path) -> None:
    store.add(given, gaussians)
    if _BEFORE:
        _copy(store, folder)


def _copy(store: Any, folder: Path) -> None:
    if not _BEFORE:
        store.save(folder)
    else:
        with import_module(_GENERATIONS).write_generation(folder, "store") as held:
            store.save(held)


def _passages(rows: range) -> list[Passage]:
    texts = [f"The text of passage {row}, of some words. " * 5 for row in rows]
    metadatas = [{"row": row, "third": row % 3, "title": f"Title {row}"} for row in rows]
    return make_passages(texts, [f"p{row}" for row in rows], metadatas)


def _gaussians(rng: np.random.Generator, count: int) -> Gaussian:
    mean = rng.standard_normal((count, _WIDTH), dtype=np.float32)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    profile = np.full((1, _WIDTH), 1e-4, dtype=np.float32)
    return Gaussian.from_factors(mean, rng.gamma(1.0, 1.0, (count, 1)), profile)


def _fsync(file: Path) -> None:
    with file.open("wb") as out:
        out.write(bytes(4096))
        out.flush()
        os.fsync(out.fileno())


def _private() -> float:
    """Return the private memory of this process, in megabytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return float(lines["RssAnon"].split()[0]) / 1024


def _memory_of_opening(folder: Path) -> float:
    """Return what opening adds to the private memory of a process of its own, in megabytes."""
    code = (
        "from benchmarks.opening import _opened, _private, Path; before = _private(); "
        f"store = _opened(Path({str(folder)!r})); print(_private() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def _best(work: Callable[[], object], times: int) -> Taken:
    """Return the least of some times."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    clock, processor = (1000 * min(of) for of in zip(*taken, strict=True))
    return clock, processor


def main() -> None:
    """Measure, or print what was measured as a table of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("measure")
    run.add_argument("--passages", type=int, default=200_000)
    run.add_argument("--dtype", default="float32")
    table = commands.add_parser("table")
    table.add_argument("new", type=Path)
    table.add_argument("old", type=Path)
    options = parser.parse_args()
    if options.command == "measure":
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.passages, options.dtype, Path(folder))))
        return
    new, old = (json.loads(file.read_text()) for file in (options.new, options.old))
    print("| ms of the clock (of the processor) | now | before |\n|---|--:|--:|")
    for name, now in new.items():
        cells = (f"{clock:,.2f} ({processor:,.2f})" for clock, processor in (now, old[name]))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
