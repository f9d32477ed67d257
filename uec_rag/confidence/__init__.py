"""From logits to probabilities, and from these to a decision.

`model` comes first: features and probabilities; then `outline`, what a question may mean,
`readings`, what a user is asked about, and `decision`; `replies` reads what users choose, `risk`
has the guarantees.
"""

from uec_rag.confidence.decision import Decision
from uec_rag.confidence.risk import Guarantee

__all__ = ["Decision", "Guarantee"]
