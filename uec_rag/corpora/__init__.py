"""Text out of files: a folder becomes documents, documents become passages and fitting pairs."""

from uec_rag.corpora.document import Document, Section
from uec_rag.corpora.folder import read_folder
from uec_rag.corpora.passages import CHUNK_SIZE, fitting_pairs, passages_of

__all__ = [
    "CHUNK_SIZE",
    "Document",
    "Section",
    "fitting_pairs",
    "passages_of",
    "read_folder",
]
