"""What scripts of speed share: systems that take turns, and the machine they run on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

_LEAST = 0.02  # seconds a system runs in each round


def machine() -> str:
    """What the numbers depend on, in a line."""
    config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return (
        f"{processor}, {len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__} with {config['name']} {config['version']}; "
        f"load average before: {os.getloadavg()[0]:.1f}"
    )


def private_memory() -> float:
    """Private memory of this process, in megabytes (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


def take_turns(
    systems: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, tuple[float, float]]:
    """Median seconds of each system, and median ratio to the first one in the same round."""
    repeats = {}
    for name, work in systems.items():
        work()
        start = clock()
        work()
        repeats[name] = max(1, round(_LEAST / max(clock() - start, 1e-9)))
    seconds = np.empty((rounds, len(systems)))
    for row in seconds:
        for i, (name, work) in enumerate(systems.items()):
            start = clock()
            for _ in range(repeats[name]):
                work()
            row[i] = (clock() - start) / repeats[name]
    medians = np.median(seconds, axis=0)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return {name: (medians[i], ratios[i]) for i, name in enumerate(systems)}
