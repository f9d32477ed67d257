"""Text out of files: a folder becomes documents, documents become passages and fitting pairs."""

from uec_rag.corpora.folder import read_folder
from uec_rag.corpora.passages import fitting_pairs, passages_of

__all__ = ["fitting_pairs", "passages_of", "read_folder"]
