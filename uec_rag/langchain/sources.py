"""LangChain's vector stores and retrievers as sources of candidates.

Vectors are read from stores whose classes are known, and filters are applied in them. No class is
imported: an object has the methods of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from uec_rag.retrieval.sources import Source, Vectors
from uec_rag.stores.base import Filter, Passage, content_id
from uec_rag.stores.filters import HasId, Predicate, matches, necessary, parse, parts_of


def source_of(theirs: VectorStore | BaseRetriever, count: int, vectors: Vectors | None) -> Source:
    """Return a vector store or a retriever as a source of `count` candidates for each question.

    `vectors`: how to get vectors, if the user has said so.
    """
    name = type(theirs).__name__
    if isinstance(theirs, BaseRetriever):
        retriever = theirs
        return Source(
            f"the documents of {name}",
            lambda question, _: passages_of(retriever.invoke(question)),
            vectors,
        )
    kinds = {cls.__name__: cls for cls in type(theirs).__mro__}
    known = next((_KINDS[kind] for kind in kinds if kind in _KINDS), _plain)
    source = known(theirs, count)
    if type(theirs).get_by_ids is not VectorStore.get_by_ids:
        source = replace(source, get=lambda ids: passages_of(theirs.get_by_ids(ids)))
    collection = getattr(theirs, "collection_name", getattr(theirs, "_collection_name", None))
    named = f" {collection!r}" if isinstance(collection, str) else ""
    named = f"{count} candidates of {name}{named}"
    return replace(source, name=named, vectors=vectors or source.vectors)


def passages_of(documents: Sequence[Document]) -> list[Passage]:
    """Convert documents of another store to passages; langchain-qdrant has ids in the metadata."""
    passages = []
    for document in documents:
        text, metadata = document.page_content, document.metadata
        id_ = document.id or metadata.get("_id")
        id_ = content_id(text, metadata) if id_ is None else str(id_)
        passages.append(Passage(id_, text, metadata))
    return passages


def _plain(theirs: VectorStore, count: int) -> Source:
    return Source("", lambda question, _: passages_of(theirs.similarity_search(question, count)))


def _with_filters(
    theirs: VectorStore, count: int, translate: Callable[[Filter], object | None]
) -> Source:
    """Return a source that hands filters over, as far as they can be translated."""

    def find(question: str, filter: Filter | None) -> list[Passage]:
        own = None if filter is None else translate(filter)
        options: dict[str, Any] = {} if own is None else {"filter": own}
        return passages_of(theirs.similarity_search(question, count, **options))

    return Source("", find)


def _chroma(theirs: Any, count: int) -> Source:  # noqa: ANN401
    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        found = theirs.get(ids=ids, include=["embeddings"])
        return dict(zip(found["ids"], found["embeddings"], strict=True))

    def sample(most: int) -> list[Passage]:
        ids = theirs.get(limit=most, include=[])["ids"]
        return passages_of(theirs.get_by_ids(ids)) if ids else []  # Chroma refuses to get none

    source = _with_filters(theirs, count, lambda filter: necessary(parse(filter)))
    return replace(source, vectors=vectors, sample=sample)


def _in_memory(theirs: Any, count: int) -> Source:  # noqa: ANN401
    def translate(filter: Filter) -> Callable[[Document], bool]:
        condition = parse(filter)
        return lambda document: matches(condition, passages_of([document])[0])

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        return {id_: theirs.store[id_]["vector"] for id_ in ids if id_ in theirs.store}

    def sample(most: int) -> list[Passage]:
        return passages_of(theirs.get_by_ids([*theirs.store][:most]))

    return replace(_with_filters(theirs, count, translate), vectors=vectors, sample=sample)


def _faiss(theirs: Any, count: int) -> Source:  # noqa: ANN401
    def find(question: str, filter: Filter | None) -> list[Passage]:
        options: dict[str, Any] = {}
        condition = None if filter is None else parse(filter)
        if condition is not None and not parts_of(condition, (Predicate, HasId)):
            # It looks at metadata alone, and filters the nearest `fetch_k`.
            def keep(metadata: dict[str, Any]) -> bool:
                return matches(condition, Passage("", "", metadata))

            options = {"filter": keep, "fetch_k": theirs.index.ntotal}
        return passages_of(theirs.similarity_search(question, count, **options))

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        positions = {id_: at for at, id_ in theirs.index_to_docstore_id.items()}
        return {id_: theirs.index.reconstruct(positions[id_]) for id_ in ids if id_ in positions}

    def sample(most: int) -> list[Passage]:
        return passages_of(theirs.get_by_ids([*theirs.index_to_docstore_id.values()][:most]))

    return Source("", find, vectors, sample=sample)


def _qdrant(theirs: Any, count: int) -> Source:  # noqa: ANN401
    name = theirs.vector_name or ""

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        points = theirs.client.retrieve(theirs.collection_name, ids, with_vectors=True)
        rows = ((p.id, p.vector[name] if isinstance(p.vector, dict) else p.vector) for p in points)
        return {str(id_): row for id_, row in rows}

    def sample(most: int) -> list[Passage]:
        points, _ = theirs.client.scroll(theirs.collection_name, limit=most, with_payload=False)
        return passages_of(theirs.get_by_ids([point.id for point in points]))

    def translate(filter: Filter) -> object | None:
        asked = necessary(parse(filter))
        return asked and _qdrant_filter(asked, theirs.metadata_payload_key)

    return replace(_with_filters(theirs, count, translate), vectors=vectors, sample=sample)


def _qdrant_filter(asked: Mapping[str, Any], prefix: str) -> Any:  # noqa: ANN401
    """Translate what `necessary` returns to a filter of Qdrant."""
    from qdrant_client import models

    [(key, value)] = asked.items()
    if key in ("$and", "$or"):
        conditions = [_qdrant_filter(one, prefix) for one in value]
        if key == "$and":
            return models.Filter(must=conditions)
        return models.Filter(should=conditions)
    [(operator, operand)] = value.items()
    condition: dict[str, Any] = {"key": f"{prefix}.{key}"}
    if operator in ("$eq", "$in"):
        options = [operand] if operator == "$eq" else operand
        wanted = [
            {"range": models.Range(gte=one, lte=one)}
            if isinstance(one, float)
            else {"match": models.MatchValue(value=one)}
            for one in options
        ]
        return models.Filter(should=[models.FieldCondition(**condition, **one) for one in wanted])
    bound = models.Range(**{operator[1:]: operand})
    return models.Filter(must=[models.FieldCondition(**condition, range=bound)])


_KINDS: dict[str, Callable[[Any, int], Source]] = {
    "Chroma": _chroma,
    "FAISS": _faiss,
    "InMemoryVectorStore": _in_memory,
    "PGVector": lambda theirs, count: _with_filters(
        theirs, count, lambda filter: necessary(parse(filter))
    ),
    "QdrantVectorStore": _qdrant,
}
"""The stores that are known, by the names of their classes."""
