"""From logits to probabilities, and from these to a decision."""

from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import Guarantee

__all__ = ["Decision", "Guarantee"]
