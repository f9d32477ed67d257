"""Reading documents from files, and splitting them into passages and fitting pairs.

`folder` goes through files, `readers` picks a reader for each, `document` is what comes out,
`passages` and `questions` what is made of it.
"""

from uec_rag.documents.folder import read_folder
from uec_rag.documents.passages import fitting_pairs, passages_of

__all__ = ["fitting_pairs", "passages_of", "read_folder"]
