"""How long a new process takes: to import the package, and from `uec-rag ask` to its first word.

    uec-rag index FOLDER --out idx
    python -m benchmarks.cold_start idx "How do I sort a list?"

Each is a process of its own. The first word is the first line on stdout: of the answer, not of what
says that the index is being opened.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer


def first_line(command: list[str]) -> float:
    """Seconds from the start of a process to its first line on stdout."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
        process.stdout.read()
    assert line, f"{command} printed nothing; run it by hand to see why."
    return seconds


def main(
    index: Annotated[Path, typer.Argument(help="A folder that 'uec-rag index' made.")],
    question: Annotated[str, typer.Argument(help="To ask it.")],
    runs: Annotated[int, typer.Option(help="Of each, after one that is not counted.")] = 5,
) -> None:
    """Print the least and the median of some runs."""
    ask = "import sys; from uec_rag.cli import main; main()"
    commands = {
        "python -c ''": [sys.executable, "-c", "print(1)"],
        "import uec_rag": [sys.executable, "-c", "import uec_rag; print(1)"],
        "uec-rag ask": [sys.executable, "-c", ask, "ask", str(index), question],
    }
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for name, command in commands.items():
        first_line(command)
        seconds = [first_line(command) for _ in range(runs)]
        print(f"{name}: least {min(seconds):.2f} s, median {np.median(seconds):.2f} s")


if __name__ == "__main__":
    typer.run(main)
