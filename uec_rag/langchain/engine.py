"""Any vector store of LangChain's, as a source of candidates that the ensemble ranks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from uec_rag.retrieval.over import NEAR_EACH, random_directions
from uec_rag.stores.base import Passage


class LangChainEngine:
    """A LangChain vector store as an `Engine` of `uec_rag.retrieval.over`."""

    def __init__(self, vectorstore: VectorStore) -> None:
        self._vectorstore, self.name = vectorstore, type(vectorstore).__name__

    def near(self, query: str, count: int, filter: object) -> list[Passage]:
        """Return the results of its own search, best first."""
        options = {} if filter is None else {"filter": filter}
        found = self._vectorstore.similarity_search(query, k=count, **options)
        return [*map(_passage, found)]

    def anywhere(self) -> list[Passage]:
        """Return passages near random directions, if it can be searched by vector."""
        embeddings = self._vectorstore.embeddings
        if embeddings is None:
            return []
        found: list[Document] = []
        try:
            for direction in random_directions(len(embeddings.embed_query("anything"))):
                found += self._vectorstore.similarity_search_by_vector(
                    direction.tolist(), k=NEAR_EACH
                )
        except NotImplementedError:
            return []
        return [*map(_passage, found)]

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there."""
        return [*map(_passage, self._vectorstore.get_by_ids(list(ids)))]

    def stored(self, ids: list[str]) -> list[Sequence[float] | None] | None:
        """Return the vectors of documents, if it is known how to ask for them."""
        if isinstance(self._vectorstore, InMemoryVectorStore):
            held = self._vectorstore.store
            return [held[id_]["vector"] if id_ in held else None for id_ in ids]
        return None

    def size(self) -> int | None:
        """Return the number of documents if it is known."""
        held = self._vectorstore
        return len(held.store) if isinstance(held, InMemoryVectorStore) else None


def _passage(document: Document) -> Passage:
    # langchain-qdrant keeps a document's id in its metadata.
    id_ = document.id or document.metadata.get("_id")
    if id_ is None:
        content = json.dumps([document.page_content, document.metadata], default=str)
        id_ = hashlib.blake2b(content.encode(errors="replace"), digest_size=16).hexdigest()
    return Passage(str(id_), document.page_content, document.metadata)
