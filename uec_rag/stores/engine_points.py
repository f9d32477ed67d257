"""What an engine of someone else's keeps of a passage, and what its best are asked by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.stores.base import Passage


class Words(NamedTuple):
    """A passage's terms in one sparse block.

    Attributes
    ----------
    keys : uint64 array, shape (t,)
    counts : array, shape (t,)
        As `Terms.weights`.
    """

    keys: NDArray[np.uint64]
    counts: FloatArray


class Point(NamedTuple):
    """What an engine keeps of a passage.

    Attributes
    ----------
    passage : Passage
    mean : array, shape (d,)
    spread : array, shape (d + F,)
        Squares of the mean, and the scales.
    words : tuple of Words
        One for each sparse block.
    """

    passage: Passage
    mean: FloatArray
    spread: FloatArray
    words: tuple[Words, ...] = ()


class Wanted(NamedTuple):
    """A query's terms in one sparse block.

    Attributes
    ----------
    keys : uint64 array, shape (t,)
        In the order that they are worth looking up in: the rarest first.
    shares : array, shape (t,)
        What a passage gets for a term, times the term's saturated count where there is saturation.
    held : int array, shape (t,)
        How many passages hold each.
    mean_length : float
        Of the passages, for the saturation.
    """

    keys: NDArray[np.uint64]
    shares: FloatArray
    held: NDArray[np.int64]
    mean_length: float


class Ranking(NamedTuple):
    """What the best of the nearest are asked by, for each of n queries.

    Attributes
    ----------
    mean : array, shape (n, d)
    spread : array, shape (n, d + F)
        Whose inner product with a point's is sigma_s^2.
    words : list of n tuples of Wanted
        One for each sparse block.
    beta : float
    candidates : int
        How many of the nearest by mu_s, and by each block's words, are scored.
    k : int
    exact : bool
        Whether the candidates are all there are: an index that may miss some is not to be used.
    """

    mean: FloatArray
    spread: FloatArray
    words: list[tuple[Wanted, ...]]
    beta: float
    candidates: int
    k: int
    exact: bool


class Near(NamedTuple):
    """What similarities to the candidates of a query are made of.

    Attributes
    ----------
    products : array, shape (P, c)
        Inner products of P vectors with their means.
    words : list of c tuples of Words
        One for each sparse block; empty where the query has none.
    """

    products: FloatArray
    words: list[tuple[Words, ...]]


def padded(parts: Sequence[FloatArray]) -> FloatArray:
    """Queries of consecutive blocks of a vector, shapes (n, d_k), as such of all of it: (n, K, d).

    Examples
    --------
    >>> padded([np.ones((1, 2), "f4"), np.ones((1, 1), "f4")])
    array([[[1., 1., 0.],
            [0., 0., 1.]]], dtype=float32)
    """
    ends = np.cumsum([part.shape[1] for part in parts])
    out = np.zeros((len(parts[0]), len(parts), ends[-1]), dtype=np.float32)
    for place, (part, end) in enumerate(zip(parts, ends, strict=True)):
        out[:, place, end - part.shape[1] : end] = part
    return out


def points_of(passages: list[Passage], gaussians: Gaussian) -> list[Point]:
    """Passages with their Gaussians as points."""
    spread = np.concatenate([gaussians.mean**2, gaussians.scales], axis=1)
    words = []
    for row in range(len(passages)):
        of_one = []
        for block in gaussians.terms:
            mine = slice(block.starts[row], block.starts[row + 1])
            of_one.append(Words(block.keys[mine], block.weights[mine]))
        words.append(tuple(of_one))
    return [*map(Point, passages, gaussians.mean, spread, words)]
