"""Stored vectors after another fit: their lengths and variances change, not what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.encoders.base import Encoded
from uec_rag.ensemble.convolution import block_scales, blocks
from uec_rag.ensemble.fitted import Fitted


@dataclass(frozen=True)
class Refit:
    """A change of the fit of an ensemble of encoders whose last layer is the identity.

    Attributes
    ----------
    source, target : Fitted
        The ensemble before and after it.
    widths : tuple of K int
        The dimension of each encoder; 0 of one that counts words.
    """

    source: Fitted
    target: Fitted
    widths: tuple[int, ...]

    @property
    def factors(self) -> FloatArray:
        """The factor of the means of each encoder with vectors."""
        scales = [block_scales(fit.weights) for fit in (self.target, self.source)]
        factors: FloatArray = scales[0] / scales[1]
        return factors[np.array(self.widths) > 0]

    def gaussians(self, means: FloatArray, terms: Sequence[Terms] = ()) -> Gaussian:
        """Compute the Gaussians of passages after the change; no model is run.

        Parameters
        ----------
        means : array, shape (n, d)
            Those before it.
        terms : sequence of Terms
            The words of each encoder that counts them; none by default.
        """
        words = iter(terms)
        nothing = Terms(
            np.zeros(len(means) + 1, np.int64),
            np.zeros(0, np.uint64),
            np.zeros(0, np.float32),
            np.ones(len(means), np.float32),
        )
        units = blocks(means, self.widths, self.source.weights)
        parts = self.target.gaussians(
            [
                Encoded(unit, unit, None if width else next(words, nothing))
                for unit, width in zip(units, self.widths, strict=True)
            ]
        )
        return self.target.combine_as(parts, "passage")
