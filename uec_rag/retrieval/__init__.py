"""Search with confidence, and the gate that decides whether to answer.

In the order of a query: `retriever`, `query`, `spelling`, `ask`, `search`, `assess`, `hits`; then
`gate` on it. `index`, `fitted_index` and `learn` make what is searched.
"""

from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.hits import SearchResult
from uec_rag.retrieval.retriever import Retriever

__all__ = ["Gate", "Retriever", "SearchResult"]
