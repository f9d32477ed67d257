"""The evidence in the words of a question and its hits: whether these answer it, and are meant.

`family` finds hits alike, `words` has which hits have which words of a question; `table` has a row
for each piece of evidence, with its weight.
"""

from uec_rag.evidence.table import EVIDENCE, Comparison, Explanation
from uec_rag.evidence.words import QuestionWords

__all__ = ["EVIDENCE", "Comparison", "Explanation", "QuestionWords"]
