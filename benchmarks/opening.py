"""What opening a saved index costs, with and without hashing it, and saving it again.

python benchmarks/opening.py --passages 1000000 --dimension 384
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
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    def embed(texts):
        return rng.standard_normal((len(texts), options.dimension))

    index = Retriever(UEC([embed], coefficients="uniform"))
    for start in range(0, options.passages, _AT_ONCE):
        rows = range(start, min(start + _AT_ONCE, options.passages))
        mean = rng.standard_normal((len(rows), options.dimension), dtype=np.float32)
        index.store.add(
            [Passage(f"p{row}", f"The text of passage {row}.", {"row": row}) for row in rows],
            Gaussian.certain(mean),
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        taken = {"save": _seconds(lambda: index.save(path))}
        for name, verify in (("open, verified", True), ("open, sizes and shapes", False)):
            taken[name] = _seconds(
                lambda verify=verify: Retriever.load(path, index.uec, verify=verify)
            )
        rows = iter(range(3))

        def save_changed():
            index.delete([f"p{next(rows)}"])
            index.save(path)

        taken["save again"] = _seconds(lambda: index.save(path))
        taken["save again, one passage less"] = _seconds(save_changed)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    seconds = {name: {"clock": clock, "processor": cpu} for name, (clock, cpu) in taken.items()}
    print(json.dumps({"passages": len(index), "megabytes": round(size / 1e6), "seconds": seconds}))


def _seconds(work):
    """Of the clock and of the processor, each the least of three."""
    clocks = time.perf_counter, time.process_time
    taken = []
    for _ in range(3):
        begun = [clock() for clock in clocks]
        work()
        taken.append([clock() - start for clock, start in zip(clocks, begun, strict=True)])
    return [round(min(times), 2) for times in zip(*taken, strict=True)]


if __name__ == "__main__":
    main()
