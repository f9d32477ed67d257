"""From logits to probabilities, and from these to a decision.

`model` comes first: features and probabilities; then `decision`; `risk` has the guarantees, and
`fit_view` keeps the level of confidence after a fit.
"""

from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import Guarantee

__all__ = ["Decision", "Guarantee"]
