"""Do the members' embeddings span one subspace? Canonical correlations (paper table 9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.gaussian import FloatArray


@dataclass(frozen=True)
class Overlap:
    """Canonical correlation of two encoders' embeddings of the same texts, means over directions.

    Attributes
    ----------
    fitted : float
        On the texts that the directions were found on, as the paper reports it. With as many
        texts as dimensions it is 1 whatever the encoders: it says little.
    held_out : float
        Of the same directions on other texts.
    """

    fitted: float
    held_out: float


def canonical_correlation(first: FloatArray, second: FloatArray, seed: int = 0) -> Overlap:
    """Canonical correlations, found on half of the texts, measured on both halves.

    Parameters
    ----------
    first, second : array, shapes (n, d) and (n, e)
        Embeddings of n texts by two encoders.
    seed : int
        Of the split.

    Raises
    ------
    ValueError
        If there are fewer than four texts.
    """
    n = len(first)
    if n < 4:
        raise ValueError(f"first: expected at least 4 texts, got {n}.")
    order = np.random.default_rng(seed).permutation(n)
    fit, test = order[: n // 2], order[n // 2 :]
    x, y = first.astype(np.float64), second.astype(np.float64)
    x, y = x - x[fit].mean(axis=0), y - y[fit].mean(axis=0)
    # With orthonormal bases of both, the correlations are singular values (Bjorck, Golub, 1973).
    basis_x, basis_y = _whitening(x[fit]), _whitening(y[fit])
    left, values, right = np.linalg.svd((x[fit] @ basis_x).T @ (y[fit] @ basis_y))
    k = len(values)
    directions = (x[test] @ basis_x @ left[:, :k], y[test] @ basis_y @ right[:k].T)
    centred = [part - part.mean(axis=0) for part in directions]
    norms = np.linalg.norm(centred[0], axis=0) * np.linalg.norm(centred[1], axis=0)
    held_out = (centred[0] * centred[1]).sum(axis=0) / np.maximum(norms, 1e-12)
    return Overlap(float(np.clip(values, 0, 1).mean()), float(held_out.mean()))


def _whitening(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matrix that gives centred rows orthonormal columns; without directions of no spread."""
    _, values, right = np.linalg.svd(x, full_matrices=False)
    kept = values > values[0] * 1e-6
    matrix: NDArray[np.float64] = right[kept].T / values[kept]
    return matrix
