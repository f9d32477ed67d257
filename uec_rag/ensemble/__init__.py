"""Several encoders that answer together, as one Gaussian per text."""

from uec_rag.ensemble.fitted import FitOptions
from uec_rag.ensemble.uec import UEC

__all__ = ["UEC", "FitOptions"]
