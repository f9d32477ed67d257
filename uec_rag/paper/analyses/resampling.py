"""A mean over fits and queries, and how far off it may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 500


def mean_within(values: NDArray[np.floating]) -> tuple[float, float]:
    """Mean, and its standard error by drawing fits and queries anew.

    Parameters
    ----------
    values : array, shape (fits, queries)
        For instance differences of nDCG@10 of each query, under several fits.

    Examples
    --------
    >>> mean_within(np.full((3, 50), 0.25))
    (0.25, 0.0)
    """
    fits, queries = values.shape
    rng = np.random.default_rng(0)
    means = [
        values[np.ix_(rng.integers(0, fits, fits), rng.integers(0, queries, queries))].mean()
        for _ in range(_RESAMPLES)
    ]
    return float(values.mean()), float(np.std(means))
