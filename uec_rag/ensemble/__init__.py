"""Ensembles of encoders that embed each text as one Gaussian."""

from uec_rag.ensemble.uec import UEC

__all__ = ["UEC"]
