"""Texts as weighted terms: the sparse part of a space in which most numbers are zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Saturation:
    """How BM25 counts: a term's tenth occurrence adds less than its first, more in a short text.

    ``tf / (tf + k1 (1 - b + b length / mean length))``, as in Robertson and Zaragoza (2009); the
    factor k1 + 1 of other writings drops out where scores are divided by the most there can be.

    Parameters
    ----------
    k1 : float
        Above 0: how slowly more occurrences stop counting.
    b : float
        From 0 to 1: how far length counts.
    """

    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        if not (np.isfinite(self.k1) and self.k1 > 0):
            raise ValueError(f"k1: expected a number > 0, got {self.k1!r}.")
        if not 0 <= self.b <= 1:
            raise ValueError(f"b: expected a number from 0 to 1, got {self.b!r}.")


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of n texts: rows of a sparse matrix, its columns named by 64-bit keys.

    Attributes
    ----------
    starts : int array, shape (n + 1,)
        Where each text's terms begin in `keys` and `weights`.
    keys : uint64 array, shape (t,)
        Distinct within a text.
    weights : array, shape (t,)
        Above 0. Under a `Saturation`: of a passage how often the term occurs, of a query what it
        counts before the corpus says how rare it is. Else the numbers of a vector.
    scale : array, shape (n,)
        Factor on every similarity of the text; an ensemble's coefficients end up here.
    saturation : Saturation or None
        None: similarities are plain inner products.
    labels : sequence of n mappings, or None
        Readable words by key, of a query.

    Examples
    --------
    >>> terms = Terms.of([[7, 7, 9], []], saturation=Saturation())
    >>> len(terms), terms.weights.tolist(), terms.lengths.tolist()
    (2, [2.0, 1.0], [3.0, 0.0])
    """

    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]
    weights: FloatArray
    scale: FloatArray
    saturation: Saturation | None
    labels: Sequence[Mapping[int, str]] | None = None

    @classmethod
    def of(
        cls,
        texts: Sequence[NDArray[np.uint64] | Sequence[int]],
        saturation: Saturation | None,
        labels: Sequence[Mapping[int, str]] | None = None,
    ) -> Self:
        """Count keys, given for each text as often as they occur."""
        counted = [
            np.unique(np.asarray(text, dtype=np.uint64), return_counts=True) for text in texts
        ]
        sizes = [len(keys) for keys, _ in counted]
        return cls(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(keys for keys, _ in counted)]),
            np.concatenate([np.zeros(0, np.float32), *(n for _, n in counted)], dtype=np.float32),
            np.ones(len(counted), dtype=np.float32),
            saturation,
            labels,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.integer]) -> Terms:
        """Return the terms of some texts (a slice, indices or a mask)."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        chosen = np.arange(len(self))[rows]
        sizes = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # Of each term of the new rows, where it was: the old start and how far from it.
        place = np.repeat(self.starts[chosen] - starts[:-1], sizes) + np.arange(starts[-1])
        labels = None if self.labels is None else [self.labels[row] for row in chosen.tolist()]
        return Terms(
            starts,
            self.keys[place],
            self.weights[place],
            self.scale[chosen],
            self.saturation,
            labels,
        )

    def scaled(self, factor: FloatArray | np.float32) -> Terms:
        """The same texts with every similarity multiplied, by one factor or one per text."""
        return replace(self, scale=(self.scale * factor).astype(np.float32))

    @property
    def averaged(self) -> Terms:
        """One text that is the mean of these, of one scale."""
        keys, place = np.unique(self.keys, return_inverse=True)
        weights = np.bincount(place, weights=self.weights, minlength=len(keys)) / len(self)
        labels = None
        if self.labels is not None:
            labels = [{key: word for of_one in self.labels for key, word in of_one.items()}]
        return Terms(
            np.array([0, len(keys)], dtype=np.int64),
            keys,
            weights.astype(np.float32),
            self.scale[:1],
            self.saturation,
            labels,
        )

    @property
    def unscaled(self) -> Terms:
        """The same texts with a scale of 1."""
        return replace(self, scale=np.ones_like(self.scale))

    def weighted(self, factor: FloatArray) -> Terms:
        """The same texts with every weight multiplied by a factor of its own, shape (t,)."""
        return replace(self, weights=(self.weights * factor).astype(np.float32))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Which text each term is of, shape (t,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @property
    def lengths(self) -> FloatArray:
        """Sum of each text's weights, shape (n,)."""
        return self._sums(self.weights)

    @property
    def norms(self) -> FloatArray:
        """Euclidean length of each text's weights, shape (n,)."""
        return np.sqrt(self._sums(self.weights.astype(np.float64) ** 2))

    def _sums(self, values: NDArray[np.floating]) -> FloatArray:
        total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        sums: FloatArray = (total[self.starts[1:]] - total[self.starts[:-1]]).astype(np.float32)
        return sums


def together(parts: Sequence[Terms]) -> Terms:
    """The texts of several batches, at least one, of one saturation, behind one another."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([0, *(len(part.keys) for part in parts)])
    labelled = all(part.labels is not None for part in parts)
    return Terms(
        np.concatenate(
            [[0], *(part.starts[1:] + end for part, end in zip(parts, ends[:-1], strict=True))]
        ).astype(np.int64),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.scale for part in parts]),
        parts[0].saturation,
        [label for part in parts for label in part.labels or ()] if labelled else None,
    )
