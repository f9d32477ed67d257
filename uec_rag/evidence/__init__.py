"""What the words of a question and of its hits tell: whether these answer it, and are meant.

`tokens` splits texts, `family` finds hits alike, `words` has which hits have which words of a
question; `table` has a row for each piece of evidence, with its weight.
"""

from uec_rag.evidence.table import EVIDENCE, Comparison
from uec_rag.evidence.words import Words

__all__ = ["EVIDENCE", "Comparison", "Words"]
