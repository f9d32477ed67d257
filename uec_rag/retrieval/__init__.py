"""One search, from questions to their results.

`search` asks a query: its words in the index's `spelling`, the `rankings` of its phrasings, and the
decision; what comes out are `results`. `diversity` chooses some hits that differ.
"""

from uec_rag.retrieval.results import SearchResult

__all__ = ["SearchResult"]
