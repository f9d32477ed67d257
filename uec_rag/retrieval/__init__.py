"""Search with confidence, and the gate that decides whether to answer."""

from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.hits import SearchResult
from uec_rag.retrieval.retriever import Retriever

__all__ = ["Gate", "Retriever", "SearchResult"]
