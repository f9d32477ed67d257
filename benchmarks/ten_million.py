"""Ten million passages on one machine: filled in a stream, scanned in int8, searched exactly.

python -m benchmarks.ten_million --folder kept              # 22 GB of disk, some ten minutes
python -m benchmarks.ten_million --passages 100000          # a look
python -m benchmarks.ten_million fill 10000000 kept         # one of the steps: fill, search, check

Steps are processes of their own, so that each has its own peak of memory. What is
mapped of files counts in the system's figure, and may be taken away at any time; what may not is
said beside it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.search import K, machine
from benchmarks.synthetic import Corpus, with_encodings
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.base.similarity import score
from uec_rag.stores import LocalStore, Passage

_AT_ONCE = 10_000
_NOISE = 4.0
_ROUNDS = 5
_STEPS = ("fill", "search", "check")
_ALONE = "1 at a time, again, ms a question"
_CHECKED = 8  # queries, against a product with all float32 means

app = typer.Typer()


@app.command()
def main(
    passages: Annotated[int, typer.Option(help="Corpus size.")] = 10_000_000,
    folder: Annotated[Path | None, typer.Option(help="Keep the index here.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
    out: Annotated[
        Path | None, typer.Option("--json", help="Write what engines.py --json writes.")
    ] = None,
) -> None:
    """Print what each step takes; with a folder, what was noted there of those that were done."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        described, taken = machine(), {}
        for step in _STEPS:
            noted = folder / f"{step}.json"
            if not noted.exists():
                asked = [
                    sys.executable,
                    "-m",
                    "benchmarks.ten_million",
                    step,
                    str(passages),
                    str(folder),
                ]
                subprocess.run(asked, check=True)
            taken |= {(step, what): value for what, value in json.loads(noted.read_text()).items()}
    title = f"{passages:,} passages, 384 wide. {described}"
    rows = [[*name, f"{value:,.2f}"] for name, value in taken.items()]
    print_table(title, ["", "what", "taken"], rows, markdown=markdown)
    if out is not None:
        store = {"store": "int8, in memory"}
        held = [store | {"bytes": 1e9 * taken["fill", "on the disk, GB"]}]
        found = [store | {"noise": _NOISE, "ms a query": taken["search", _ALONE]}]
        of = {"machine": described, "passages": passages, "encoders": 1}
        out.write_text(json.dumps(of | {"filled": held, "found": found}, indent=1))


@app.command()
def fill(passages: int, folder: Path) -> None:
    """Fill the index."""
    corpus = Corpus(1, noise=_NOISE)
    corpus.use(folder / "ensemble")
    start = time.perf_counter()
    index = Retriever(corpus.uec, LocalStore(dtype="int8"))
    index.save(folder / "index")
    for first in range(0, passages, _AT_ONCE):
        rows = range(first, min(passages, first + _AT_ONCE))
        given = [Passage(str(row), f"The text of passage {row}.") for row in rows]
        index.add_encoded(given, corpus.passages(rows.start, rows.stop))
    done = time.perf_counter()
    index.close()
    size = sum(file.stat().st_size for file in (folder / "index").rglob("*") if file.is_file())
    note(
        folder / "fill.json",
        {
            "vectors made, compressed and brought to the disk, s": done - start,
            "peak of memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "on the disk, GB": size / 1e9,
        },
    )


@app.command()
def search(passages: int, folder: Path) -> None:
    """Open the index and search it, its files first on the disk alone.

    A new question reads the float32 means of its candidates from the disk; asked again it does not.
    """
    corpus, path = Corpus(1, noise=_NOISE), folder / "index"
    corpus.use(folder / "ensemble")
    parts, taken = corpus.queries(_CHECKED), {}
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb") as held:
                os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def timed(what: str, work: Any) -> Any:
        start = time.perf_counter()
        out = work()
        taken[what] = time.perf_counter() - start
        return out

    index = timed("to open, s", lambda: Retriever.load(path, corpus.uec))
    assert len(index) == passages
    timed("first search, nothing in memory, s", lambda: asked(index, parts, [0]))
    alone = [[row] for row in range(_CHECKED)]
    together = [[*range(_CHECKED)]] * _ROUNDS
    for what, questions in (
        ("1 at a time, new ones, ms a question", alone),
        (_ALONE, alone * _ROUNDS),
        ("8 at a time, again, ms a question", together),
    ):
        seconds = []
        for rows in questions:
            start = time.perf_counter()
            found = asked(index, parts, rows)
            seconds.append((time.perf_counter() - start) / len(rows))
            assert found.exact
        taken[what] = 1e3 * float(np.median(seconds))
    taken["peak of memory, with mapped files, GB"] = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    )
    taken["of it not mapped, at the end, GB"] = anonymous() / 2**20
    note(folder / "search.json", taken)


@app.command()
def check(passages: int, folder: Path) -> None:
    """Compare the hits with those of scoring every passage in float32, and all files' hashes."""
    corpus = Corpus(1, noise=_NOISE)
    corpus.use(folder / "ensemble")
    start = time.perf_counter()
    index = Retriever.load(folder / "index", corpus.uec)
    taken = {"to open, all files hashed, s": time.perf_counter() - start}
    taken["of ten hits those of float32"] = agreement(index, corpus.queries(_CHECKED))
    note(folder / "check.json", taken)


def asked(index: Retriever, parts: list[Any], rows: list[int]) -> Any:
    """A whole search, after encoding."""
    texts = [str(row) for row in rows]
    return with_encodings(index, texts, [part[rows] for part in parts]).search(texts, K)


def agreement(index: Retriever, parts: list[Any]) -> float:
    """Hits of the store among the ten best of scoring every passage in float32, on average."""
    uec, store = index.uec, index.store
    query = uec.fitted.combine(parts, np.ones((_CHECKED, 1), dtype=np.float32))
    found = store.search(query, K, beta=uec.fitted.beta)
    state: Any = store.snapshot().state  # type: ignore[attr-defined]
    best: list[list[tuple[float, int]]] = [[] for _ in range(_CHECKED)]
    for first in range(0, len(state.rows), _AT_ONCE):
        rows = np.arange(first, min(len(state.rows), first + _AT_ONCE))
        scores = score(query, state.gaussians(rows), uec.fitted.beta)
        for row, held in zip(scores, best, strict=True):
            held += [(-float(row[i]), int(rows[i])) for i in np.argsort(-row)[:K]]
            held.sort()
            del held[K:]
    wanted = [{str(row) for _, row in held} for held in best]
    pairs = zip(found.passages, wanted, strict=True)
    return float(np.mean([len({p.id for p in hits} & ids) for hits, ids in pairs]))


def anonymous() -> int:
    """Memory of this process that is not mapped from files, in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def note(file: Path, taken: dict[str, float]) -> None:
    """Keep what was measured."""
    file.write_text(json.dumps(taken))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in _STEPS:
        app()
    else:
        typer.run(main)
