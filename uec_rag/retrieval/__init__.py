"""One search, from questions to their results.

In the order of a query: `query`, `spelling`, `rankings` of phrasings, `results` with a decision on
their `hits`; `diversity` chooses some that differ.
"""

from importlib import import_module

from uec_rag.retrieval.hits import SearchResult

__all__ = ["SearchResult"]


def __getattr__(name: str) -> object:
    """Return `Gate` and `Retriever` to who imports them from here, where they once were."""
    if name not in ("Gate", "Retriever"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("uec_rag"), name)
