"""Batches of diagonal Gaussians, which all stages exchange."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.records import cached_property

FloatArray = NDArray[np.float32]
"""An array of float32, the type of all stored and returned numbers."""

Rows: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]
"""Some rows of an array: a slice, indices or a mask."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of n texts: a sparse matrix in CSR format whose columns are 64-bit keys.

    Attributes
    ----------
    starts : int array, shape (n + 1,)
        Offset of each text's terms in `keys` and `weights`.
    keys : uint64 array, shape (t,)
        Keys of terms, distinct within a text.
    weights : array, shape (t,)
        The counts of terms in a passage, or the weights of terms in a query before their inverse
        document frequency.
    scale : array, shape (n,)
        Factor of every similarity of the text, which includes the coefficients of an ensemble.
    labels : sequence of n mappings, or None
        Readable words by key, for queries.

    Examples
    --------
    >>> terms = Terms.from_keys([[7, 7, 9], []])
    >>> len(terms), terms.weights.tolist(), terms.lengths.tolist()
    (2, [2.0, 1.0], [3.0, 0.0])
    """

    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]
    weights: FloatArray
    scale: FloatArray
    labels: Sequence[Mapping[int, str]] | None = None

    @classmethod
    def from_keys(
        cls,
        texts: Sequence[NDArray[np.uint64] | Sequence[int]],
        labels: Sequence[Mapping[int, str]] | None = None,
    ) -> Self:
        """Count the keys of each text, which are given with repetitions."""
        parts = [np.sort(np.asarray(text, dtype=np.uint64)) for text in texts]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        keys = np.concatenate([np.zeros(0, dtype=np.uint64), *parts])
        is_first = np.ones(len(keys) + 1, dtype=bool)  # and the end, after the last
        is_first[1:-1] = keys[1:] != keys[:-1]
        is_first[ends] = True
        heads = np.flatnonzero(is_first)
        return cls(
            np.searchsorted(heads, ends),
            keys[heads[:-1]],
            np.diff(heads).astype(np.float32),
            np.ones(len(texts), dtype=np.float32),
            labels,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: Rows) -> Terms:
        """Return the terms of some texts (a slice, indices or a mask)."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        indices = np.arange(len(self))[rows]
        sizes = np.diff(self.starts)[indices]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # The old position of each term: the old start of its text plus the offset within it.
        positions = np.repeat(self.starts[indices] - starts[:-1], sizes) + np.arange(starts[-1])
        labels = None if self.labels is None else [self.labels[row] for row in indices.tolist()]
        return Terms(
            starts, self.keys[positions], self.weights[positions], self.scale[indices], labels
        )

    def scale_by(self, factor: FloatArray | np.float32) -> Terms:
        """Multiply every similarity of the texts by a factor, or by one factor per text."""
        return replace(self, scale=(self.scale * factor).astype(np.float32))

    @property
    def average(self) -> Terms:
        """The mean of these texts as a single text; they must have the same scale.

        A term is readable as in the first text that has it.
        """
        keys, positions = np.unique(self.keys, return_inverse=True)
        weights = np.bincount(positions, weights=self.weights, minlength=len(keys)) / len(self)
        labels = None
        if self.labels is not None:
            items = (label.items() for label in reversed(self.labels))
            labels = [dict(chain.from_iterable(items))]
        return Terms(
            np.array([0, len(keys)], dtype=np.int64),
            keys,
            weights.astype(np.float32),
            self.scale[:1],
            labels,
        )

    def weigh_terms(self, factor: FloatArray) -> Terms:
        """Multiply the weights by factors, shape (t,)."""
        return replace(self, weights=(self.weights * factor).astype(np.float32))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The index of each term's text, shape (t,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @property
    def lengths(self) -> FloatArray:
        """The sum of each text's weights, shape (n,)."""
        total = np.concatenate([[0.0], np.cumsum(self.weights, dtype=np.float64)])
        sums: FloatArray = (total[self.starts[1:]] - total[self.starts[:-1]]).astype(np.float32)
        return sums


def together(parts: Sequence[Terms]) -> Terms:
    """Concatenate the texts of one or more batches."""
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
        [label for part in parts for label in part.labels or ()] if labelled else None,
    )


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as a contiguous, finite (n, d) float32 matrix.

    `values`: array_like, shape (n, d). `name`: name of the argument, for messages. Raises
    ValueError if it is not two-dimensional, or contains NaN or infinity.
    """
    try:
        with np.errstate(over="ignore"):  # an overflow is reported below, as infinity
            matrix = np.ascontiguousarray(values, dtype=np.float32)
    except OverflowError as error:  # of an integer of hundreds of digits
        raise ValueError(f"{name}: expected finite numbers ({error}).") from error
    if matrix.ndim != 2:
        raise ValueError(f"{name}: expected shape (n, d), got {matrix.shape}.")
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(f"{name}: row {row} holds NaN or infinity; expected finite numbers.")
    return matrix


def stack_rows(rows: Sequence[FloatArray], padding: float = math.nan) -> FloatArray:
    """Stack n arrays of different lengths as the rows of one, padded to the longest.

    Examples
    --------
    >>> stack_rows([np.ones(2), np.ones(1)], padding=0).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    out = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.float32)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Gaussian:
    """A batch of n independent Gaussians with diagonal covariance over d dimensions.

    Parameters
    ----------
    mean : array_like, shape (n, d)
        The means.
    variance : array_like, shape (n, d)
        The variances, one per dimension, at least 0.
    coefficients : array_like, shape (n, K), optional
        The weight of each encoder for each text, if the Gaussians are those of an ensemble.
    widths : sequence of int, optional
        Dimensions of the encoders' blocks in a direct sum; a single block by default.
    terms : sequence of Terms, optional
        Sparse blocks of variance 0. `mean`, `dimension` and `trace` exclude them.

    Raises
    ------
    ValueError
        If mean and variance disagree in shape, a variance is negative, or a number is not finite.

    Notes
    -----
    The variance is stored as ``scales @ profile``. With a Kronecker-factored posterior, it is one
    scalar per text and encoder times a fixed vector, so that n texts need n * K numbers instead of
    n * d. `variance` is computed on demand.

    Examples
    --------
    >>> g = Gaussian(mean=[[0.6, 0.8]], variance=[[0.01, 0.02]])
    >>> len(g), g.dimension, float(g.trace[0]) < 0.0301
    (1, 2, True)
    """

    mean: FloatArray
    scales: FloatArray
    profile: FloatArray | None
    coefficients: FloatArray | None
    widths: tuple[int, ...]
    terms: tuple[Terms, ...]

    def __init__(
        self,
        mean: ArrayLike,
        variance: ArrayLike,
        coefficients: ArrayLike | None = None,
        widths: Sequence[int] | None = None,
        terms: Sequence[Terms] = (),
    ) -> None:
        gaussian = self.from_factors(mean, variance, None, coefficients, widths, terms)
        self.__dict__.update(vars(gaussian))

    @classmethod
    def from_factors(
        cls,
        mean: ArrayLike,
        scales: ArrayLike,
        profile: ArrayLike | None,
        coefficients: ArrayLike | None = None,
        widths: Sequence[int] | None = None,
        terms: Sequence[Terms] = (),
    ) -> Self:
        """Build from a factored variance, ``variance = scales @ profile``.

        Parameters
        ----------
        mean : array_like, shape (n, d)
        scales : array_like, shape (n, r)
            Factors of each text, at least 0.
        profile : array_like, shape (r, d), or None
            Factors that all texts share, at least 0. If None, `scales` are the variances.
        coefficients : array_like, shape (n, K), optional
        widths : sequence of int, optional
        terms : sequence of Terms, optional
        """
        name = "variance" if profile is None else "scales"
        means, factors = as_matrix(mean, "mean"), as_matrix(scales, name)
        shared = None if profile is None else as_matrix(profile, "profile")
        weights = None if coefficients is None else as_matrix(coefficients, "coefficients")
        n, d = means.shape
        for part, array, shape in (
            (name, factors, (n, d if shared is None else len(shared))),
            ("profile", shared, (factors.shape[1], d)),
        ):
            if array is None:
                continue
            if array.shape != shape:
                raise ValueError(f"{part}: expected shape {shape}, got {array.shape}.")
            if array.size and array.min() < 0:
                raise ValueError(f"{part}: expected values >= 0, got {array.min()}.")
        return cls.from_checked(means, factors, shared, weights, widths, terms)

    @classmethod
    def from_checked(
        cls,
        mean: FloatArray,
        scales: FloatArray,
        profile: FloatArray | None,
        coefficients: FloatArray | None = None,
        widths: Sequence[int] | None = None,
        terms: Sequence[Terms] = (),
    ) -> Self:
        """Build as `from_factors` does, from numbers that are known to be finite and at least 0."""
        blocks = mean.shape[1:] if widths is None else tuple(widths)
        self = cls.__new__(cls)
        self.__dict__.update(mean=mean, scales=scales, profile=profile, coefficients=coefficients)
        self.__dict__.update(widths=blocks, terms=tuple(terms))
        return self

    @classmethod
    def certain(cls, mean: ArrayLike, terms: Sequence[Terms] = ()) -> Self:
        """Build from means only, shape (n, d), with a (factored) variance of 0."""
        matrix = as_matrix(mean, "mean")
        rows, dimension = matrix.shape
        zeros = np.zeros((rows, 1), np.float32), np.zeros((1, dimension), np.float32)
        return cls.from_checked(matrix, *zeros, terms=terms)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Gaussian(n={len(self)}, dimension={self.dimension})"

    def __getitem__(self, rows: Rows) -> Gaussian:
        """Return the Gaussians of some rows (a slice, indices or a mask)."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        weights = None if self.coefficients is None else self.coefficients[rows]
        terms = [block[rows] for block in self.terms]
        return Gaussian.from_checked(
            self.mean[rows], self.scales[rows], self.profile, weights, self.widths, terms
        )

    @property
    def dimension(self) -> int:
        """The number of dimensions d."""
        return int(self.mean.shape[1])

    @cached_property
    def variance(self) -> FloatArray:
        """The variances, shape (n, d)."""
        if self.profile is None:
            return self.scales
        variance: FloatArray = self.scales @ self.profile
        return variance

    @cached_property
    def trace(self) -> FloatArray:
        """The total variance of each text, tr(Sigma), shape (n,)."""
        if self.profile is None:
            return np.asarray(self.scales.sum(axis=1))
        trace: FloatArray = self.scales @ self.profile.sum(axis=1)
        return trace
