"""Systems that are compared: encoders alone, ensembles, fusion, merged models, GroVE."""

from uec_rag.paper.systems.base import (
    Ensemble,
    Entry,
    Fused,
    NotApplicable,
    Probabilistic,
    Ranking,
    System,
    Vectors,
    pair_moments,
    ranking,
    variation,
)

__all__ = [
    "Ensemble",
    "Entry",
    "Fused",
    "NotApplicable",
    "Probabilistic",
    "Ranking",
    "System",
    "Vectors",
    "pair_moments",
    "ranking",
    "variation",
]
