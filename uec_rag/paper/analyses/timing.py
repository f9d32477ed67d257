"""How long a call takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

_REPEATS = 3
_ENOUGH = 1.0  # seconds: what takes as long need not be timed again


def fastest(call: Callable[[], object]) -> float:
    """Seconds of the best of a few calls; of one call where that is long."""
    best = np.inf
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if best > _ENOUGH:
            break
    return float(best)
