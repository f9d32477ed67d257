"""The encodings of passages that stores keep: those that encoders made, or given Gaussians.

A fit makes Gaussians of them: their variances at the first search, in memory, so that another fit
changes nothing that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, Self

import numpy as np

from uec_rag.base.checks import check_type
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.records import Record, cached_property
from uec_rag.encoders.base import Encoded


class Fit(Protocol):
    """The maker of the Gaussians of passages: `uec_rag.ensemble.fitted.Fitted`, or `GIVEN`."""

    @property
    def lengths(self) -> FloatArray:
        """The factor of each encoder's vectors in the means, shape (K,), or one of all."""

    def passages(self, encodings: Sequence[Encoded]) -> Gaussian:
        """Compute the Gaussians of passages from what each encoder made of them."""


class Given:
    """Of vectors whose features are their variances: the same as Gaussians."""

    lengths = np.ones(1, dtype=np.float32)

    def passages(self, encodings: Sequence[Encoded]) -> Gaussian:
        """See `Fit`."""
        mean, variance = (
            np.concatenate([getattr(part, name) for part in encodings], axis=1)
            for name in ("embedding", "features")
        )
        return Gaussian(mean, variance)


GIVEN = Given()
"""The fit of Gaussians that were added as they are."""


_EXPECTED = "what each encoder made, an Encoded, or a Gaussian"


def check_encodings(encodings: Sequence[Encoded] | Gaussian, count: int) -> list[Encoded]:
    """Return what is to be kept of `count` passages; a Gaussian has its variances as features.

    TypeError if it is something else; ValueError if it is of another number of texts, a number is
    not finite, or terms have another scale than 1.
    """
    if isinstance(encodings, Gaussian):
        parts = [*_blocks(encodings)]
    else:
        check_type(encodings, Sequence, "encodings", _EXPECTED)
        if not encodings or not all(isinstance(part, Encoded) for part in encodings):
            raise TypeError(f"encodings: expected {_EXPECTED}, got {encodings!r:.60}.")
        parts = [
            replace(part, features=part.embedding) if part.is_plain else part for part in encodings
        ]
    for part in parts:
        if {len(part), len(part if part.terms is None else part.terms)} != {count}:
            raise ValueError(f"encodings: expected {count}, one per passage, got {len(part)}.")
        as_matrix(part.embedding, "embedding")
        as_matrix(part.features, "features")
        if part.terms is not None and (part.terms.scale != 1).any():
            raise ValueError("terms: expected the scale 1, as encoders make them.")
    return parts


def _blocks(gaussians: Gaussian) -> Iterator[Encoded]:
    """Yield the blocks of Gaussians, with their variances as features, and their terms."""
    for start, end in pairwise(np.cumsum([0, *gaussians.widths]).tolist()):
        if end > start:
            yield Encoded(gaussians.mean[:, start:end], gaussians.variance[:, start:end])
    blank = np.zeros((len(gaussians), 0), dtype=np.float32)
    for terms in gaussians.terms:
        yield Encoded(blank, blank, terms)


@dataclass(frozen=True)
class Schema(Record):
    """The dimensions that all encodings of a store have in common.

    Attributes
    ----------
    widths : tuple of int
        The dimension of each encoder's vectors; 0 of one that counts words.
    features : tuple of int
        The dimension of the features that are kept beside them; 0 where these are the vectors.
    """

    widths: tuple[int, ...] = ()
    features: tuple[int, ...] = ()

    @classmethod
    def of(cls, encodings: Sequence[Encoded]) -> Self:
        """Describe what encoders made of some texts."""
        return cls(
            tuple(part.embedding.shape[1] for part in encodings),
            tuple(
                0 if part.features is part.embedding else part.features.shape[1]
                for part in encodings
            ),
        )

    @property
    def dimension(self) -> int:
        """The dimension of all vectors side by side."""
        return sum(self.widths)

    @cached_property
    def words(self) -> int:
        """The number of encoders that count words."""
        return self.widths.count(0)

    def check(self, encodings: Sequence[Encoded]) -> None:
        """Raise ValueError unless encodings may be kept beside those of this schema."""
        if (schema := Schema.of(encodings)) != self:
            raise ValueError(
                f"encodings: expected {self!r:.150}, as stored, got {schema!r:.150}; they come "
                "from other encoders. Build the index again."
            )

    def check_query(self, query: Gaussian) -> None:
        """Raise ValueError unless queries have the dimension of the stored passages."""
        if query.dimension != self.dimension:
            raise ValueError(
                f"query: expected dimension {self.dimension}, as stored, got {query.dimension}."
            )
