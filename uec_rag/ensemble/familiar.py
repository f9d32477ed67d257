"""What the texts of a fit were like, so that a corpus or a question of another kind is noticed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.records import Record
from uec_rag.encoders.writing import writings

ENOUGH_PASSAGES = 16
"""Passages that tell how far apart an encoder holds a corpus."""

_COMPARED = 64
_SAME = 0.999  # cosines above it are of one text twice

# Of the distance of fit passages. Corpora of one subject keep .57 to .85 of it, those in a language
# that an encoder does not know .04 to .63 (six encoders, twelve English and eight other corpora).
_ALIKE = 0.7


@dataclass(frozen=True)
class Familiar(Record):
    """What an ensemble was fitted on.

    Attributes
    ----------
    writings : tuple of str
        In what the questions and passages are written, see `uec_rag.encoders.writing`.
    distance : tuple of K floats
        1 less the mean cosine of two fit passages, to each encoder; 0 to one without vectors.
    """

    writings: tuple[str, ...]
    distance: tuple[float, ...]

    @classmethod
    def of(cls, texts: Iterable[str], passages: Sequence[Gaussian]) -> Self:
        """What texts are like, and each encoder's Gaussians of passages among them."""
        return cls(writings(texts), tuple(distance(part.mean) for part in passages))

    def strange(self, found: Iterable[str]) -> list[str]:
        """Which of some writings no fit text was in."""
        return [name for name in found if name not in self.writings]

    def lost(self, vectors: Sequence[FloatArray]) -> list[int]:
        """Encoders that hardly tell passages apart that they were not fitted on.

        Parameters
        ----------
        vectors : sequence of K arrays, shape (m, d_k)
            Of the same passages.
        """
        return [
            member
            for member, (usual, means) in enumerate(zip(self.distance, vectors, strict=True))
            if usual and distance(means) < _ALIKE * usual
        ]


def distance(vectors: FloatArray) -> float:
    """1 less the mean cosine of two different texts; 0 where there are no vectors."""
    some = vectors[:_COMPARED]
    length = np.linalg.norm(some, axis=1, keepdims=True)
    unit = some / np.maximum(length, np.float32(1e-12))
    cosine = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    cosine = cosine[cosine < _SAME]
    return float(1 - cosine.mean()) if vectors.shape[1] and len(cosine) else 0.0
