"""Any index of LlamaIndex's, as what names candidates for the ensemble to rank."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from llama_index.core.indices import VectorStoreIndex
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.simple import SimpleVectorStore

from uec_rag.llama_index.nodes import passages_of
from uec_rag.retrieval.elsewhere import NEAR_EACH, random_directions
from uec_rag.stores.base import Passage


class LlamaIndexEngine:
    """What `uec_rag.retrieval.elsewhere` asks, of a LlamaIndex index.

    Parameters
    ----------
    index : VectorStoreIndex
    """

    def __init__(self, index: VectorStoreIndex) -> None:
        self._index = index

    def near(self, query: str, count: int, filter: object) -> list[Passage]:
        """What its own search finds, best first."""
        retriever = self._index.as_retriever(similarity_top_k=count, filters=filter)
        return _passages(retriever.retrieve(query))

    def anywhere(self) -> list[Passage]:
        """Passages near random directions."""
        retriever = self._index.as_retriever(similarity_top_k=NEAR_EACH)
        width = len(self._index._embed_model.get_query_embedding("anything"))
        found: list[NodeWithScore] = []
        for direction in random_directions(width):
            found += retriever.retrieve(QueryBundle("anything", embedding=direction.tolist()))
        return _passages(found)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Passages of those ids that are there."""
        held = [*self._index.docstore.get_nodes(list(ids), raise_error=False)]
        missing = {*ids} - {node.node_id for node in held}
        with suppress(NotImplementedError):
            held += self._index.vector_store.get_nodes([*missing]) if missing else []
        return _passages([NodeWithScore(node=node) for node in held])

    def stored(self, ids: list[str]) -> list[Sequence[float] | None] | None:
        """The vectors of nodes, where the store gives them."""
        store = self._index.vector_store
        if isinstance(store, SimpleVectorStore):
            return [store.data.embedding_dict.get(id_) for id_ in ids]
        try:
            found = {node.node_id: node.embedding for node in store.get_nodes(list(ids))}
        except NotImplementedError:
            return None
        return [found.get(id_) for id_ in ids]

    def size(self) -> int | None:
        """How many nodes there are, where that is known."""
        store = self._index.vector_store
        return len(store.data.embedding_dict) if isinstance(store, SimpleVectorStore) else None


def _passages(found: Sequence[NodeWithScore]) -> list[Passage]:
    nodes: dict[str, BaseNode] = {}
    for one in found:
        if one.node.get_content(metadata_mode=MetadataMode.EMBED).strip():
            nodes.setdefault(one.node.node_id, one.node)
    return passages_of([*nodes.values()])
