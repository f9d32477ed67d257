"""From logits to probabilities, and from these to a decision."""

from uec_rag.confidence.calibrator import Calibrator
from uec_rag.confidence.decision import Action, Ambiguity, Decision, decide
from uec_rag.confidence.features import CorpusSummary
from uec_rag.confidence.model import ConfidenceModel
from uec_rag.confidence.risk import RiskThreshold, risk_threshold

__all__ = [
    "Action",
    "Ambiguity",
    "Calibrator",
    "ConfidenceModel",
    "CorpusSummary",
    "Decision",
    "RiskThreshold",
    "decide",
    "risk_threshold",
]
