"""From logits to probabilities, and from these to a decision."""

from uec_rag.confidence.model import ConfidenceModel, CorpusSummary, Decision, Reading, decide

__all__ = ["ConfidenceModel", "CorpusSummary", "Decision", "Reading", "decide"]
