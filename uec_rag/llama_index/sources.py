"""LlamaIndex's indexes and retrievers as sources of candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.schema import BaseNode, QueryBundle, QueryType
from llama_index.core.vector_stores import SimpleVectorStore

from uec_rag.llama_index.nodes import passages_of, with_text
from uec_rag.llama_index.query import metadata_filters
from uec_rag.retrieval.sources import Source, Vectors
from uec_rag.stores.base import Filter, Passage


def source_of(theirs: VectorStoreIndex | BaseRetriever, count: int) -> Source:
    """Return an index or a retriever as a source of `count` candidates for each question."""
    if isinstance(theirs, BaseRetriever):
        name = f"the nodes of {type(theirs).__name__}"
        return Source(name, lambda question, _: _passages(theirs, question))
    store = theirs.vector_store
    collection = getattr(store, "collection_name", None)
    named = f" {collection!r}" if isinstance(collection, str) else ""

    def find(question: QueryType, filter: Filter | None) -> list[Passage]:
        own = None if filter is None else metadata_filters(filter)
        retriever = theirs.as_retriever(similarity_top_k=count, filters=own)
        return _passages(retriever, question)

    def find_by_vector(vector: Sequence[float], filter: Filter | None) -> list[Passage]:
        return find(QueryBundle("", embedding=[*vector]), filter)

    embedded = find_by_vector if store.is_embedding_query else None
    name = f"{count} candidates of {type(store).__name__}{named}"
    held = theirs.docstore
    if not held.docs:  # the nodes are in the vector store
        by_id: Callable[[list[str]], list[BaseNode]] = store.get_nodes
        return Source(
            name,
            find,
            partial(_of_nodes, by_id),
            lambda ids: passages_of(by_id(ids)),
            find_by_vector=embedded,
        )

    def get(ids: Iterable[str]) -> list[Passage]:
        return passages_of(held.get_nodes([*ids], raise_error=False))

    vectors: Vectors | None = None
    if isinstance(store, SimpleVectorStore):
        kept = store.data.embedding_dict
        vectors = lambda ids: {id_: kept[id_] for id_ in ids if id_ in kept}  # noqa: E731
    return Source(name, find, vectors, get, lambda most: get([*held.docs][:most]), embedded)


def _of_nodes(
    get: Callable[[list[str]], list[BaseNode]], ids: list[str]
) -> Mapping[str, Sequence[float]]:
    return {node.node_id: node.embedding for node in get(ids) if node.embedding is not None}


def _passages(retriever: BaseRetriever, question: QueryType) -> list[Passage]:
    nodes = {hit.node.node_id: hit.node for hit in retriever.retrieve(question)}
    return passages_of(with_text([*nodes.values()]))
