"""One search, from questions to their results.

`search` asks a `query`: its words in the index's `spelling`, the `rankings` of its phrasings, and
the decision; what comes out are `results`. `diversity` chooses some hits that differ.
"""

from importlib import import_module

from uec_rag.retrieval.results import SearchResult

__all__ = ["SearchResult"]


def __getattr__(name: str) -> object:
    """Return `Gate` and `Retriever` to who imports them from here, where they once were."""
    if name not in ("Gate", "Retriever"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("uec_rag"), name)
