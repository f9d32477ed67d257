"""What is kept, learned, saved and updated, and searched: an index.

`retriever` is the index as users see it, made of `index` and `fitted_index`; `additions` are
encoded, `learn` fits and calibrates, `save` writes and opens a folder, `updates` keeps up with
files.
"""

from uec_rag.index.retriever import Retriever

__all__ = ["Retriever"]
