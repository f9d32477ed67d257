"""How often terms occur in a corpus, which says how rare each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray


@dataclass(frozen=True, eq=False)
class Frequencies:
    """What BM25 asks of a corpus.

    Attributes
    ----------
    passages : int
        How many there are.
    length : float
        Sum of their lengths.
    holding : mapping of int to int
        By term, how many passages hold it; a term that is not there is held by none.

    Examples
    --------
    >>> Frequencies(10, 80.0, {7: 10}).rarity(np.array([7, 8], dtype=np.uint64)).round(2).tolist()
    [0.05, 3.09]
    """

    passages: int
    length: float
    holding: Mapping[int, int]

    @property
    def mean_length(self) -> float:
        """Of a passage."""
        return self.length / max(1, self.passages)

    def held(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """How many passages hold each term."""
        return np.array([self.holding.get(key, 0) for key in keys.tolist()], dtype=np.int64)

    def rarity(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """How much more a rare term counts than a common one."""
        return rarity(self.held(keys), self.passages)


def rarity(held: NDArray[np.int64], passages: int) -> NDArray[np.float64]:
    """Inverse document frequency of terms, above 0.

    ``log(1 + (N - n + 1/2) / (n + 1/2))``, as in Robertson and Zaragoza (2009) but for the 1.
    """
    counted: NDArray[np.float64] = np.log1p((passages - held + 0.5) / (held + 0.5))
    return counted


def shares(
    weights: FloatArray, rarity: NDArray[np.float64] | None, scale: float
) -> NDArray[np.float64]:
    """How much each of a query's terms counts.

    Parameters
    ----------
    weights : array, shape (t,)
        Of one query's terms.
    rarity : array, shape (t,), or None
        Under a `Saturation`: shares then add up to `scale`.
    scale : float
        Factor on the similarity.
    """
    counted = weights.astype(np.float64)
    if rarity is not None:
        counted = counted * rarity
        counted = counted / max(counted.sum(), 1e-30)
    return counted * scale
