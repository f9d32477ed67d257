"""From a query to hits that know how far to be trusted."""

from uec_rag.base.checks import check_k
from uec_rag.retrieval.preferences import Boost, Preferences, recency
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage
from uec_rag.stores.make_passages import make_passages

__all__ = [
    "Boost",
    "Passage",
    "Preferences",
    "Retriever",
    "SearchResult",
    "check_k",
    "make_passages",
    "recency",
]
