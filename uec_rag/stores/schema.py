"""The properties that the Gaussians of all passages of a store share."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np

from uec_rag.base.checks import are_finite
from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, as_matrix


@dataclass(frozen=True, eq=False)
class Schema:
    """The properties that all Gaussians of a store share.

    Attributes
    ----------
    widths : tuple of int
        Dimensions of the blocks of the means.
    profile : array, shape (F, d), or None
        The profile of a factored variance.
    words : tuple of (float, Saturation)
        The scale and saturation of each sparse block.
    """

    widths: tuple[int, ...] = (0,)
    profile: FloatArray | None = None
    words: tuple[tuple[float, Saturation], ...] = ()

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian) -> Self:
        """Describe a batch of Gaussians; ValueError if their terms have different scales."""
        if any(len(np.unique(terms.scale)) > 1 for terms in gaussians.terms):
            raise ValueError("terms: expected one scale, as of one ensemble.")
        words = tuple(
            (float(terms.scale.max(initial=0.0)), terms.saturation) for terms in gaussians.terms
        )
        return cls(tuple(gaussians.widths), gaussians.profile, words)

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def factors(self) -> int:
        """The number of factors of a variance."""
        return self.dimension if self.profile is None else len(self.profile)

    def check(self, gaussians: Gaussian) -> None:
        """Raise ValueError unless Gaussians may be stored beside those of this schema."""
        other = Schema.from_gaussians(gaussians)
        profiles = (None if one.profile is None else one.profile.tolist() for one in (self, other))
        for what, own, got in (
            ("dimension", self.dimension, other.dimension),
            ("words", self.words, other.words),
            ("a profile of the variance", *profiles),
            ("encoders of widths", self.widths, other.widths),
        ):
            if own != got:
                raise ValueError(
                    f"gaussians: expected {what} {own!r:.80}, as stored, got {got!r:.80}; they "
                    "come from another fit, or another posterior. Build the index again."
                )

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        return {
            "widths": [*self.widths],
            "profile": None if self.profile is None else self.profile.tolist(),
            "words": [[scale, *astuple(saturation)] for scale, saturation in self.words],
        }

    @classmethod
    def restore(cls, state: Any) -> Self:  # noqa: ANN401
        """Rebuild from `metadata`; ValueError, TypeError or LookupError if it is damaged."""
        widths, profile = tuple(map(int, state["widths"])), None
        if state["profile"] is not None:
            profile = as_matrix(state["profile"], "profile")
            if profile.shape[1] != sum(widths) or not are_finite(profile, least=0):
                raise ValueError("expected a profile of numbers >= 0")
        words = tuple((float(scale), Saturation(k1, b)) for scale, k1, b in state["words"])
        return cls(widths, profile, words)
