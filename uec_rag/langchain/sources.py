"""LangChain's vector stores and retrievers as sources of candidates.

Vectors are read from stores whose classes are known, and filters are applied in them. No class is
imported: an object has the methods of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from uec_rag.langchain.documents import passages_of
from uec_rag.retrieval.sources import Source, Vectors, source_of_retriever
from uec_rag.stores.base import Filter, Passage
from uec_rag.stores.filters import Compare, leaves, matches, necessary, parse


class _Store(NamedTuple):
    """The functions of a kind of vector store.

    Attributes
    ----------
    options : callable(filter) -> dict
        The options of `similarity_search` that apply a filter as far as the store can.
    vectors : Vectors or None
    ids : callable(count) -> list of str, or None
        Lists ids of up to `count` documents.
    look_up : callable(ids) -> list of Document, or None
        In place of its `get_by_ids`.
    by_vector : bool
        Whether `similarity_search` is `similarity_search_by_vector` of the question's vector.
    """

    options: Callable[[Filter], dict[str, Any]]
    vectors: Vectors | None = None
    ids: Callable[[int], list[str]] | None = None
    look_up: Callable[[list[str]], list[Document]] | None = None
    by_vector: bool = True


def source_of(theirs: VectorStore | BaseRetriever, count: int) -> Source:
    """Return a vector store or a retriever as a source of `count` candidates for each question."""
    name = type(theirs).__name__
    if isinstance(theirs, BaseRetriever):
        retriever = theirs
        return source_of_retriever(
            f"the documents of {name}", lambda question: passages_of(retriever.invoke(question))
        )
    kinds = (_KINDS[cls.__name__] for cls in type(theirs).__mro__ if cls.__name__ in _KINDS)
    options, vectors, list_ids, look_up, by_vector = next(kinds, _other)(theirs)
    look_up = look_up or theirs.get_by_ids

    def find(question: str, filter: Filter | None) -> list[Passage]:
        applied = {} if filter is None else options(filter)
        return passages_of(theirs.similarity_search(question, count, **applied))

    def find_by_vector(vector: Sequence[float], filter: Filter | None) -> list[Passage]:
        applied = {} if filter is None else options(filter)
        return passages_of(theirs.similarity_search_by_vector([*vector], count, **applied))

    def get(ids: list[str]) -> list[Passage]:
        return passages_of(look_up(ids)) if ids else []  # Chroma refuses to get none

    collection = getattr(theirs, "collection_name", getattr(theirs, "_collection_name", None))
    named = f" {collection!r}" if isinstance(collection, str) else ""
    return Source(
        f"{count} candidates of {name}{named}",
        find,
        vectors,
        None if type(theirs).get_by_ids is VectorStore.get_by_ids else get,
        None if list_ids is None else lambda most: get(list_ids(most)),
        find_by_vector if by_vector else None,
    )


def _other(_: VectorStore) -> _Store:
    return _Store(lambda filter: {}, by_vector=False)


def _postgres(_: VectorStore) -> _Store:
    return _Store(lambda filter: _given(necessary(filter)))


def _given(filter: object) -> dict[str, Any]:
    return {} if filter is None else {"filter": filter}


def _chroma(theirs: Any) -> _Store:  # noqa: ANN401
    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        found = theirs.get(ids=ids, include=["embeddings"])
        return dict(zip(found["ids"], found["embeddings"], strict=True))

    def look_up(ids: list[str]) -> list[Document]:  # its own fails without metadata
        found = theirs.get(ids=ids, include=["documents", "metadatas"])
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        return [Document(text, id=id_, metadata=known or {}) for id_, text, known in rows]

    return _Store(
        lambda filter: _given(necessary(filter)),
        vectors,
        lambda most: list[str](theirs.get(limit=most, include=[])["ids"]),
        look_up,
    )


def _in_memory(theirs: Any) -> _Store:  # noqa: ANN401
    def options(filter: Filter) -> dict[str, Any]:
        condition = parse(filter)
        return _given(lambda document: matches(condition, passages_of([document])[0]))

    return _Store(
        options,
        lambda ids: {id_: theirs.store[id_]["vector"] for id_ in ids if id_ in theirs.store},
        lambda most: [*theirs.store][:most],
    )


def _faiss(theirs: Any) -> _Store:  # noqa: ANN401
    def options(filter: Filter) -> dict[str, Any]:
        condition = parse(filter)
        if not all(isinstance(one, Compare) for one in leaves(condition)):  # it sees only metadata
            return {}

        def keep(metadata: dict[str, Any]) -> bool:
            return matches(condition, Passage("", "", metadata))

        return {"filter": keep, "fetch_k": theirs.index.ntotal}  # it filters the nearest `fetch_k`

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        positions = {id_: at for at, id_ in theirs.index_to_docstore_id.items()}
        return {id_: theirs.index.reconstruct(positions[id_]) for id_ in ids if id_ in positions}

    return _Store(options, vectors, lambda most: [*theirs.index_to_docstore_id.values()][:most])


def _qdrant(theirs: Any) -> _Store:  # noqa: ANN401
    from uec_rag.stores.qdrant import qdrant_filter

    name = theirs.vector_name or ""

    def options(filter: Filter) -> dict[str, Any]:
        asked = necessary(filter)
        return _given(asked and qdrant_filter(asked, theirs.metadata_payload_key))

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        points = theirs.client.retrieve(theirs.collection_name, ids, with_vectors=True)
        rows = ((p.id, p.vector[name] if isinstance(p.vector, dict) else p.vector) for p in points)
        return {str(id_): row for id_, row in rows}

    def ids(most: int) -> list[str]:
        points, _ = theirs.client.scroll(theirs.collection_name, limit=most, with_payload=False)
        return [point.id for point in points]

    return _Store(options, vectors, ids, by_vector=theirs.retrieval_mode == "dense")


_KINDS: dict[str, Callable[[Any], _Store]] = {
    "Chroma": _chroma,
    "FAISS": _faiss,
    "InMemoryVectorStore": _in_memory,
    "PGVector": _postgres,
    "QdrantVectorStore": _qdrant,
}
"""The stores that are known, by the names of their classes."""
