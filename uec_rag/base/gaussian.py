"""A batch of diagonal Gaussians: the one value that every stage hands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uec_rag.base.terms import Terms

FloatArray = NDArray[np.float32]
"""An array of float32; every stored or served number of the package is one."""


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    """Return `values` as a contiguous, finite (n, d) float32 matrix.

    Parameters
    ----------
    values : array_like, shape (n, d)
        Anything NumPy can turn into numbers.
    name : str
        What to call it in an error.

    Raises
    ------
    ValueError
        If it is not two-dimensional or holds NaN or infinity.
    """
    try:
        with np.errstate(over="ignore"):  # said below, as infinity
            matrix = np.ascontiguousarray(values, dtype=np.float32)
    except OverflowError as error:
        raise ValueError(f"{name}: expected numbers that float32 holds ({error}).") from error
    if matrix.ndim != 2:
        raise ValueError(f"{name}: expected shape (n, d), got {matrix.shape}.")
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(f"{name}: row {row} holds NaN or infinity; expected finite numbers.")
    return matrix


def as_lists(matrix: FloatArray) -> list[list[float]]:
    """Rows of a matrix as Python's floats, row by row, so that other threads run in between."""
    return [row.tolist() for row in matrix]


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
        The weight of each encoder in each text, where the Gaussian is an ensemble's.
    widths : sequence of int, optional
        Dimensions of the encoders' blocks, where it lives in a direct sum; one block by default.
    terms : sequence of Terms, optional
        Sparse blocks beside the dense ones, of variance 0; `mean`, `dimension` and `trace` are of
        the dense ones alone.

    Raises
    ------
    ValueError
        If shapes disagree, a variance is negative, or a number is not finite.

    Notes
    -----
    Inside, the variance is held as ``scales @ profile``: with a Kronecker-factored posterior it
    is one scalar per text and encoder times a fixed vector, so n texts cost n * K numbers and
    not n * d. `variance` multiplies it out on demand.

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
        self._set(
            as_matrix(mean, "mean"),
            as_matrix(variance, "variance"),
            None,
            coefficients,
            widths,
            terms,
        )
        if self.scales.shape != self.mean.shape:
            raise ValueError(
                f"variance: expected the shape of mean, {self.mean.shape}, got {self.scales.shape}."
            )
        if self.scales.size and self.scales.min() < 0:
            raise ValueError(f"variance: expected values >= 0, got {self.scales.min()}.")

    @classmethod
    def factored(
        cls,
        mean: ArrayLike,
        scales: ArrayLike,
        profile: ArrayLike,
        coefficients: ArrayLike | None = None,
        widths: Sequence[int] | None = None,
        terms: Sequence[Terms] = (),
    ) -> Self:
        """Build from a factored variance, ``variance = scales @ profile``.

        Parameters
        ----------
        mean : array_like, shape (n, d)
        scales : array_like, shape (n, r)
            What differs from text to text, at least 0.
        profile : array_like, shape (r, d)
            What all texts share, at least 0.
        coefficients : array_like, shape (n, K), optional
        widths : sequence of int, optional
        terms : sequence of Terms, optional
        """
        self = cls.__new__(cls)
        self._set(
            as_matrix(mean, "mean"),
            as_matrix(scales, "scales"),
            as_matrix(profile, "profile"),
            coefficients,
            widths,
            terms,
        )
        assert self.profile is not None
        n, d = self.mean.shape
        if self.scales.shape[0] != n or self.profile.shape != (self.scales.shape[1], d):
            raise ValueError(
                f"scales and profile: expected shapes ({n}, r) and (r, {d}), "
                f"got {self.scales.shape} and {self.profile.shape}."
            )
        for name, part in (("scales", self.scales), ("profile", self.profile)):
            if part.size and part.min() < 0:
                raise ValueError(f"{name}: expected values >= 0, got {part.min()}.")
        return self

    @classmethod
    def certain(cls, mean: ArrayLike, terms: Sequence[Terms] = ()) -> Self:
        """Build from means alone, shape (n, d); the variance is 0, and factored."""
        matrix = as_matrix(mean, "mean")
        rows, dimension = matrix.shape
        return cls.factored(matrix, np.zeros((rows, 1)), np.zeros((1, dimension)), terms=terms)

    def _set(
        self,
        mean: FloatArray,
        scales: FloatArray,
        profile: FloatArray | None,
        coefficients: ArrayLike | None,
        widths: Sequence[int] | None,
        terms: Sequence[Terms],
    ) -> None:
        blocks = mean.shape[1:] if widths is None else tuple(widths)
        if sum(blocks) != mean.shape[1]:
            raise ValueError(
                f"widths: expected numbers that add up to {mean.shape[1]}, the dimension, "
                f"got {list(blocks)}."
            )
        weights = None if coefficients is None else as_matrix(coefficients, "coefficients")
        if weights is not None and len(weights) != len(mean):
            raise ValueError(
                f"coefficients: expected {len(mean)} rows, one per text, got {len(weights)}."
            )
        if any(len(block) != len(mean) for block in terms):
            raise ValueError(
                f"terms: expected those of {len(mean)} texts in each block, got "
                f"{[len(block) for block in terms]}."
            )
        for name, value in (
            ("mean", mean),
            ("scales", scales),
            ("profile", profile),
            ("coefficients", weights),
            ("widths", blocks),
            ("terms", tuple(terms)),
        ):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Gaussian(n={len(self)}, dimension={self.dimension})"

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.integer]) -> Gaussian:
        """Return the Gaussians of some rows (a slice, indices or a mask)."""
        if isinstance(rows, (int, np.integer)):
            raise TypeError(
                f"rows: expected a slice, indices or a mask, got {rows}; write g[[{rows}]]."
            )
        part = Gaussian.__new__(Gaussian)
        part._set(
            self.mean[rows],
            self.scales[rows],
            self.profile,
            None if self.coefficients is None else self.coefficients[rows],
            self.widths,
            [block[rows] for block in self.terms],
        )
        return part

    def with_terms(self, terms: Sequence[Terms]) -> Gaussian:
        """The same Gaussians with sparse blocks beside them."""
        whole = Gaussian.__new__(Gaussian)
        whole._set(self.mean, self.scales, self.profile, self.coefficients, self.widths, terms)
        return whole

    @property
    def dimension(self) -> int:
        """Number of dimensions d."""
        return int(self.mean.shape[1])

    @cached_property
    def variance(self) -> FloatArray:
        """Variances, shape (n, d)."""
        if self.profile is None:
            return self.scales
        variance: FloatArray = self.scales @ self.profile
        return variance

    @cached_property
    def trace(self) -> FloatArray:
        """Total variance of each text, tr(Sigma), shape (n,)."""
        if self.profile is None:
            return np.asarray(self.scales.sum(axis=1))
        trace: FloatArray = self.scales @ self.profile.sum(axis=1)
        return trace
