"""An index: passages that are kept, learned from, saved, updated and searched.

`retriever` is the index as users see it. What it calls stands beside it: `additions` are encoded,
`learn` fits and calibrates, `first_fit` when a search is the first;
`save` writes and opens a folder, `saved_labels` are in it, `updates` keeps up with files.
"""

from uec_rag.index.retriever import Retriever

__all__ = ["Retriever"]
