"""From logits to probabilities, and from these to a decision."""

from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import RiskThreshold

__all__ = ["Decision", "RiskThreshold"]
