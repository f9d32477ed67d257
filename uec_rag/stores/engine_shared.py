"""The sample that stands for a large corpus: drawn once and kept for all who search it."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.base.terms import Terms
from uec_rag.stores.engine_notes import Notes

OUTDATED = 0.05
"""Share of a corpus that may be new before its sample is drawn again."""


class Sample(NamedTuple):
    """What was drawn of a corpus.

    Attributes
    ----------
    gaussians : Gaussian
        With terms.
    size : int
        Of the corpus then.
    """

    gaussians: Gaussian
    size: int

    def is_of(self, size: int) -> bool:
        """Whether it still stands for a corpus of a size."""
        return abs(size - self.size) <= OUTDATED * self.size

    def packed(self) -> bytes:
        """As bytes, without what `Notes` holds."""
        arrays: dict[str, Any] = {"mean": self.gaussians.mean, "scales": self.gaussians.scales}
        for i, terms in enumerate(self.gaussians.terms):
            arrays |= {f"starts{i}": terms.starts, f"keys{i}": terms.keys}
            arrays[f"weights{i}"] = terms.weights
        out = io.BytesIO()
        np.savez(out, size=self.size, **arrays)
        return out.getvalue()

    @classmethod
    def unpacked(cls, data: bytes, notes: Notes) -> Sample:
        """Rebuild from `packed`."""
        held = np.load(io.BytesIO(data), allow_pickle=False)
        terms = [
            Terms(
                held[f"starts{i}"],
                held[f"keys{i}"],
                held[f"weights{i}"],
                np.full(len(held["mean"]), noted.scale, dtype=np.float32),
                noted.saturation,
            )
            for i, noted in enumerate(notes.words)
        ]
        gaussians = notes.described(held["mean"], held["scales"]).with_terms(terms)
        return cls(gaussians, int(held["size"]))
