"""Several encoders that answer together, as one Gaussian per text."""

from uec_rag.ensemble.uec import UEC

__all__ = ["UEC"]
