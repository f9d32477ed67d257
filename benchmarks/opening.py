"""What opening a saved index costs, hashed or not, the first search of it, and saving it again.

python -m benchmarks.opening --passages 1000000 --dimension 384
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from uec_rag import Gaussian, Retriever
from uec_rag.ensemble import UEC
from uec_rag.stores.base import Passage

_AT_ONCE = 50_000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--folder", type=Path, help="keep the index here, and use it again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = options.folder or Path(temporary) / "index"
        taken = {}
        if not path.exists():
            index = _index(options.passages, options.dimension)
            taken["first save"] = _seconds(lambda: index.save(path), 1)
            del index
        uec = _ensemble(options.dimension)
        for name, verify in (("open, sizes and shapes", False), ("open, verified", True)):
            taken[name] = _seconds(lambda verify=verify: Retriever.load(path, uec, verify=verify))
        index = Retriever.load(path, uec, verify=False)
        queries = np.random.default_rng(1).standard_normal((2, options.dimension)).tolist()
        taken["first search"] = _seconds(lambda: index.search_vector(queries[0]), 1)
        taken["next search"] = _seconds(lambda: index.search_vector(queries[1]))
        taken["save, nothing changed"] = _seconds(lambda: index.save(path))
        if options.folder is None:
            index.delete(["p1"])
            taken["save, one passage less"] = _seconds(lambda: index.save(path))
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    seconds = {name: {"clock": clock, "processor": cpu} for name, (clock, cpu) in taken.items()}
    print(json.dumps({"passages": len(index), "megabytes": round(size / 1e6), "seconds": seconds}))


def _ensemble(dimension):
    def embed(texts):
        return np.random.default_rng(0).standard_normal((len(texts), dimension))

    return UEC([embed], coefficients="uniform")


def _index(count, dimension):
    rng, index = np.random.default_rng(0), Retriever(_ensemble(dimension))
    for start in range(0, count, _AT_ONCE):
        rows = range(start, min(start + _AT_ONCE, count))
        mean = rng.standard_normal((len(rows), dimension), dtype=np.float32)
        index.store.add(
            [Passage(f"p{row}", f"The text of passage {row}.", {"row": row}) for row in rows],
            Gaussian.certain(mean),
        )
    return index


def _seconds(work, times=3):
    """Of the clock and of the processor, each the least of some times."""
    clocks = time.perf_counter, time.process_time
    taken = []
    for _ in range(times):
        begun = [clock() for clock in clocks]
        work()
        taken.append([clock() - start for clock, start in zip(clocks, begun, strict=True)])
    return [round(min(times), 2) for times in zip(*taken, strict=True)]


if __name__ == "__main__":
    main()
