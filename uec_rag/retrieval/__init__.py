"""One search, from questions to their results.

In the order of a query: `query`, `spelling`, `rankings` of phrasings, `results` with a decision on
their `hits`; `diversity` chooses some that differ.
"""

from uec_rag.retrieval.hits import SearchResult

__all__ = ["SearchResult"]
