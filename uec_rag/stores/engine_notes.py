"""What is noted beside Gaussians in an engine: how they are put together, and whose they are."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.stores.engine_points import Point
from uec_rag.stores.engine_words import WordNotes


@dataclass(frozen=True, eq=False)
class Notes:
    """What holds for all Gaussians of a collection.

    Attributes
    ----------
    widths : tuple of int
        Of the encoders' blocks of the means.
    profile : array, shape (F, d), or None
        Of a factored variance.
    fingerprint : str or None
        Of the ensemble, where it is known.
    words : tuple of WordNotes
        Of the sparse blocks.
    """

    widths: tuple[int, ...]
    profile: FloatArray | None
    fingerprint: str | None
    words: tuple[WordNotes, ...] = ()

    @classmethod
    def of(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """What is noted about Gaussians."""
        words = tuple(map(WordNotes.of, gaussians.terms))
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint, words)

    @property
    def dimension(self) -> int:
        """Of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """How many scales a Gaussian has."""
        return self.dimension if self.profile is None else len(self.profile)

    def admit(self, other: Notes) -> bool:
        """Whether Gaussians of another description may stand beside these."""
        one, two = self.fingerprint, other.fingerprint
        mine, others = (
            (
                a.dimension,
                None if a.profile is None else a.profile.tolist(),
                [(words.saturation, words.scale) for words in a.words],
            )
            for a in (self, other)
        )
        return mine == others and (one is None or two is None or one == two)

    def gaussians(self, points: Sequence[Point]) -> Gaussian:
        """Gaussians of points, with their terms."""
        mean = np.array([p.mean for p in points], dtype=np.float32).reshape(-1, self.dimension)
        scales = np.array([p.spread[self.dimension :] for p in points], dtype=np.float32)
        terms = [
            noted.terms([point.words[block] for point in points])
            for block, noted in enumerate(self.words)
        ]
        return self.described(mean, scales.reshape(len(mean), self.scales)).with_terms(terms)

    def described(self, mean: FloatArray, scales: FloatArray) -> Gaussian:
        """Gaussians of their numbers, shapes (n, d) and (n, F)."""
        if self.profile is None:
            return Gaussian(mean, scales, widths=self.widths)
        return Gaussian.factored(mean, scales, self.profile, widths=self.widths)

    def metadata(self) -> dict[str, Any]:
        """JSON-able state."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "version": 1,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
            "words": [words.metadata() for words in self.words],
        }

    @classmethod
    def restore(cls, given: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is something else."""
        match given:
            case {
                "version": 1,
                "widths": [*widths],
                "profile": profile,
                "fingerprint": name,
                "words": [*words],
            }:
                factors = None
                if isinstance(profile, dict):
                    bits = base64.b64decode(profile["float32"])
                    factors = np.frombuffer(bits, dtype="<f4").reshape(profile["shape"])
                return cls(tuple(widths), factors, name, tuple(map(WordNotes.restore, words)))
        raise ValueError(
            f"collection: {collection!r} is there and was not made by this version of uec_rag; "
            "choose another name."
        )
