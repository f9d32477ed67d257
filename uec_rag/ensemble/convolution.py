"""Step 2: combine the encoders' Gaussians into one, in a shared space or in their direct sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix

Space = Literal["direct", "shared"]


def block_weights(slopes: Sequence[float]) -> FloatArray:
    """Compute the weight of each encoder's cosine in a direct sum, shape (K,), mean 1.

    A slope a_k says how many logits a cosine of encoder k is worth; dividing by the mean slope
    keeps the ensemble's similarity on the scale of a cosine.

    Examples
    --------
    >>> block_weights([20.0, 60.0]).tolist()
    [0.5, 1.5]
    """
    slopes_ = np.asarray(slopes, dtype=np.float64)
    weights: FloatArray = (slopes_ / slopes_.mean()).astype(np.float32)
    return weights


def direct_sum(
    parts: Sequence[Gaussian], coefficients: FloatArray, weights: FloatArray
) -> Gaussian:
    """Convolve the encoders' Gaussians in the direct sum of their spaces.

    ``z = [c_1 pi_1 z_1; ...; c_K pi_K z_K]`` with ``c_k = sqrt(K w_k)``: the paper's eq. 1, but
    each encoder has its own axes, so that dimensions may differ and cross terms vanish. With
    uniform coefficients and w of mean 1 the mean keeps norm 1, and for query coefficients pi and
    passage coefficients 1/K the similarity is the weighted sum of the encoders' own,
    ``mu_s = sum_k pi_k w_k s_k``.

    Parameters
    ----------
    parts : sequence of Gaussian
        One batch per encoder, each of n texts.
    coefficients : array, shape (n, K)
        Convex weights pi of each text.
    weights : array, shape (K,)
        Weight w_k of each encoder's similarity, mean 1 (see `block_weights`).

    Returns
    -------
    Gaussian
        Dimension sum of d_k; `coefficients` are carried along, and the d_k as `widths`. Sparse
        blocks, of encoders without vectors, are scaled alike.
    """
    pi = _checked(parts, coefficients)
    factors = _factors(pi, weights)
    factored = all(part.profile is not None for part in parts)
    widths, means, spreads, terms = [], [], [], []
    for part, factor in zip(parts, factors.T, strict=True):
        means.append(part.mean * factor[:, None])
        spreads.append((part.scales if factored else part.variance) * (factor**2)[:, None])
        terms += [block.scaled(factor) for block in part.terms]
        if part.dimension:
            widths.append(part.dimension)
    mean, spread = np.concatenate(means, 1), np.concatenate(spreads, 1)
    if not factored:
        return Gaussian(mean, spread, pi, widths or [0], terms)
    return Gaussian.factored(mean, spread, block_diagonal(parts), pi, widths or [0], terms)


def block_scales(weights: FloatArray) -> FloatArray:
    """Compute the length of each encoder's block in a passage, ``sqrt(w_k / K)``, shape (K,).

    To the bit what `direct_sum` multiplies by if coefficients are 1 / K.
    """
    alike = np.full((1, len(weights)), 1 / len(weights), dtype=np.float32)
    scales: FloatArray = _factors(alike, weights)[0]
    return scales


def _factors(coefficients: FloatArray, weights: FloatArray) -> FloatArray:
    """Compute ``c_k pi_k`` of `direct_sum`, shape (n, K)."""
    scaled = np.sqrt(len(weights) * np.asarray(weights, dtype=np.float32))
    factors: FloatArray = scaled * coefficients
    return factors


def blocks(mean: FloatArray, dimensions: Sequence[int], weights: FloatArray) -> list[FloatArray]:
    """Extract each encoder's unit vectors from means in a direct sum, shapes (..., d_k)."""
    ends = np.cumsum(dimensions)[:-1]
    return [
        block / scale
        for block, scale in zip(np.split(mean, ends, axis=-1), block_scales(weights), strict=True)
    ]


def shared(parts: Sequence[Gaussian], coefficients: FloatArray) -> Gaussian:
    """Convolve Gaussians in one shared space, then scale means to length 1 (paper eq. 1).

    ``N(sum pi_k mu_k, sum pi_k^2 Sigma_k)``; the mean is normalised as the paper does before
    scoring, and the variance is scaled along with it.

    Raises ValueError if the encoders differ in dimension.
    """
    pi = _checked(parts, coefficients)
    check_one_space([part.dimension for part in parts])
    mean = sum((p.mean * w[:, None] for p, w in zip(parts, pi.T, strict=True)), np.float32(0))
    norm = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), np.float32(1e-12))
    square = pi**2 / norm**2
    if any(part.profile is None for part in parts):
        variance = sum(p.variance * w[:, None] for p, w in zip(parts, square.T, strict=True))
        return Gaussian(mean / norm, variance, pi)
    scales = np.concatenate(
        [p.scales * w[:, None] for p, w in zip(parts, square.T, strict=True)], 1
    )
    profile = np.concatenate([p.profile for p in parts if p.profile is not None])
    return Gaussian.factored(mean / norm, scales, profile, pi)


def check_one_space(dimensions: Sequence[int]) -> None:
    """Raise ValueError unless encoders of these dimensions can share a space."""
    if len(set(dimensions)) > 1:
        raise ValueError(
            f"space: 'shared' needs encoders of one dimension, got {list(dimensions)}; "
            "use space='direct', which takes any."
        )
    if not all(dimensions):
        raise ValueError(
            "space: 'shared' averages vectors, and words have none; use space='direct'."
        )


def block_diagonal(parts: Sequence[Gaussian]) -> FloatArray:
    """Put profiles of factored Gaussians on the diagonal of one matrix, with zeros elsewhere."""
    profiles = [part.profile for part in parts if part.profile is not None]
    rows, columns = np.cumsum([(0, 0), *map(np.shape, profiles)], axis=0).T.tolist()
    out = np.zeros((rows[-1], columns[-1]), np.float32)
    for profile, row, column in zip(profiles, rows[:-1], columns[:-1], strict=True):
        out[row : row + len(profile), column : column + profile.shape[1]] = profile
    return out


def _checked(parts: Sequence[Gaussian], coefficients: FloatArray) -> FloatArray:
    if not parts:
        raise ValueError("parts: expected one Gaussian per encoder, got none.")
    expected = (len(parts[0]), len(parts))
    pi = as_matrix(coefficients, "coefficients")
    if pi.shape != expected or any(len(part) != expected[0] for part in parts):
        raise ValueError(
            f"coefficients: expected shape {expected}, one weight per text and encoder, "
            f"got {pi.shape} for parts of {[len(part) for part in parts]} texts."
        )
    return pi
