"""LangChain's vector stores and retrievers as sources of candidates.

Vectors are read from stores whose classes are known, and filters are applied in them. No class is
imported: an object has the methods of its class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import count as count_from
from itertools import islice, takewhile
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore

from uec_rag.adapters import indexes
from uec_rag.adapters.other_retrievers import Converted
from uec_rag.base.loops import either, is_own
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.index.first_fit import FitMode
from uec_rag.langchain.conversion import passages_of
from uec_rag.stores.base import Filter
from uec_rag.stores.comparisons import ORDERS, Compare
from uec_rag.stores.filters import leaves, matching, parse, translate
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Search, source_of_retriever
from uec_rag.stores.stored import Source, Vectors

_MORE = 8  # times as many documents that are filtered next, while too few match


class _Store(NamedTuple):
    """The functions of a kind of vector store.

    Attributes
    ----------
    options : callable(filter) -> dict
        The options of `similarity_search` that apply a filter as far as the store can; it may
        raise if the store cannot.
    vectors : Vectors or None
    ids : callable(count) -> list of str, or None
        Lists ids of up to `count` documents.
    look_up : callable(ids) -> list of Document, or None
        In place of its `get_by_ids`.
    by_vector : bool
        Whether `similarity_search` is `similarity_search_by_vector` of the question's vector.
    list_all : callable() -> list of Passage, or None
        Lists all passages, if they are in this process.
    place : callable() -> str
        Where the store reads texts from, for messages.
    run : callable(method, is_exact, question, count, **options) -> list of Document, or None
        Calls a method that searches, with an index that looks at enough or without one.
    size : callable() -> int, or None
        Returns how many documents it has, if that is fast.
    """

    options: Callable[[Filter], dict[str, Any]]
    vectors: Vectors | None = None
    ids: Callable[[int, Filter | None], list[str]] | None = None
    look_up: Callable[[list[str]], list[Document]] | None = None
    by_vector: bool = True
    list_all: Callable[[], list[Passage]] | None = None
    place: Callable[[], str] = lambda: "page_content"
    run: Callable[..., list[Document]] | None = None
    size: Callable[[], int] | None = None


def index_over(
    store: VectorStore | BaseRetriever,
    embedding: UEC | Embeddings | None,
    count: int,
    vectors: Vectors | None,
    *,
    words: bool,
    fit: FitMode,
) -> Retriever:
    """Return an index over a store or a retriever; see `UECRetriever.over`.

    TypeError if it is neither, or ours.
    """
    is_ours = isinstance(store, VectorStore) and isinstance(store, indexes.OverIndex)
    if is_ours or not isinstance(store, VectorStore | BaseRetriever):
        raise TypeError(
            "theirs: expected a retriever or a VectorStore other than UECVectorStore (for "
            f"which there is from_store), got {type(store).__name__}."
        )
    default, source = getattr(store, "embeddings", None), source_of(store, count)
    return indexes.index_over(source, embedding, default, store, vectors, words=words, fit=fit)


def source_of(store: VectorStore | BaseRetriever, count: int) -> Source:
    """Return a vector store or a retriever as a source of `count` candidates for each question."""
    name, converted = type(store).__name__, Converted()
    if isinstance(store, BaseRetriever):
        ways = "_get_relevant_documents", "_aget_relevant_documents"
        is_first = is_own(store, BaseRetriever, *ways)
        ask = either(store.invoke, store.ainvoke, awaited_first=is_first)
        documents = f"the documents of {name}"
        return source_of_retriever(
            documents, lambda question: passages_of(ask(question), converted)
        )
    kinds = (_KINDS[cls.__name__] for cls in type(store).__mro__ if cls.__name__ in _KINDS)
    kind = next(kinds, _other)(store)

    def either_of(method: str) -> Callable[..., list[Document]]:
        is_first = is_own(store, VectorStore, method, f"a{method}")
        ways = getattr(store, method), getattr(store, f"a{method}")
        return either(*ways, awaited_first=is_first)

    look_up, list_ids = kind.look_up or either_of("get_by_ids"), kind.ids

    def search(method: str) -> Search:
        def find(
            question: object, terms: dict[str, Any] | None, size: int, *, is_exact: bool = False
        ) -> list[Passage]:
            ask = partial(kind.run, method, is_exact) if kind.run else either_of(method)
            options = terms or {}
            if (ceiling := options.get("fetch_k", 0)) and method != "similarity_search":
                # It filters in Python; a question is not embedded again.
                for fetched in takewhile(ceiling.__gt__, (_MORE**n * size for n in count_from(1))):
                    documents = ask(question, size, **options | {"fetch_k": fetched})
                    if len(documents) >= size:
                        return passages_of(documents, converted)
            return passages_of(ask(question, size, **options), converted)

        return Search(
            name,
            find,
            lambda filter: kind.options(filter) or None,
            count,
            kind.place,
            kind.list_all,
            partial(find, is_exact=True) if kind.run else None,
        )

    def get(ids: list[str], converted: Converted | None = converted) -> list[Passage]:
        return passages_of(look_up(ids), converted) if ids else []  # Chroma refuses to get none

    collection = getattr(store, "collection_name", getattr(store, "_collection_name", None))
    label = f" {collection!r}" if isinstance(collection, str) else ""
    return Source(
        f"{count} candidates of {name}{label}",
        search("similarity_search"),
        kind.vectors,
        get if _looks_up(store) else None,
        list_ids and (lambda limit: get(list_ids(limit, None), None)),
        search("similarity_search_by_vector") if kind.by_vector else None,
        select=list_ids and (lambda filter, limit: get(list_ids(limit, filter), None)),
        size=kind.size,
    )


def _looks_up(store: VectorStore) -> bool:
    """Return whether a store finds documents by their ids, in one way or the other."""
    kind = type(store)
    names = ("get_by_ids", "aget_by_ids")
    return any(getattr(kind, name) is not getattr(VectorStore, name) for name in names)


def _other(_: VectorStore) -> _Store:
    return _Store(lambda filter: {}, by_vector=False)


def _postgres(store: Any) -> _Store:  # noqa: ANN401
    def run(
        method: str, is_exact: bool, question: object, limit: int, **options: object
    ) -> list[Document]:
        """Let HNSW look at as many rows as are asked for, which it does before the filter.

        The settings are those of one transaction. Without plain scans of an index, HNSW and IVF
        are not used.
        """
        from sqlalchemy import event, text
        from sqlalchemy.ext.asyncio import async_sessionmaker
        from sqlalchemy.orm import sessionmaker

        settings = {"hnsw.ef_search": str(min(max(limit, 40), 1000))}
        if is_exact:
            settings = {"enable_indexscan": "off", "enable_seqscan": "on", "enable_sort": "on"}
        bound = store.session_maker()
        sessions: Any = sessionmaker(bind=bound.get_bind())

        @event.listens_for(sessions, "after_begin")
        def begin(_: object, __: object, connection: Any) -> None:  # noqa: ANN401
            for name, value in settings.items():
                connection.execute(text(f"SET LOCAL {name} = {value}"))

        twin = copy(store)
        twin.session_maker = sessions
        if store.async_mode:
            twin.session_maker = async_sessionmaker(bound.bind, sync_session_class=sessions)
        ways = getattr(twin, method), getattr(twin, f"a{method}")
        ask = either(*ways, awaited_first=store.async_mode)
        documents: list[Document] = ask(question, limit, **options)
        return documents

    def numbers(key: str, operator: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """Its "$in" compares texts."""
        if operator != "$in" or not {*map(type, value)} & {int, float}:
            return {key: {operator: value}}
        return {"$or": [{key: {"$eq": number}} for number in value]}

    return _Store(lambda filter: _given(translate(filter, numbers, _join)), run=run)


def _given(filter: object) -> dict[str, Any]:
    return {} if filter is None else {"filter": filter}


def _join(kind: str, parts: list[Any]) -> dict[str, Any]:
    return {kind: parts}


def _chroma(store: Any) -> _Store:  # noqa: ANN401
    vectors, list_ids = indexes.in_chroma(store)

    def ids(limit: int, filter: Filter | None) -> list[str]:
        where = None if filter is None else translate(filter, bounds, _join)
        return list_ids(limit, where)

    def look_up(ids: list[str]) -> list[Document]:  # its own fails without metadata
        records = store.get(ids=ids, include=["documents", "metadatas"])
        rows = zip(records["ids"], records["documents"], records["metadatas"], strict=True)
        return [Document(text, id=id_, metadata=metadata or {}) for id_, text, metadata in rows]

    def bounds(key: str, operator: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
        """It cuts the fraction of a number that is compared with a whole one."""
        condition = {key: {operator: value}}
        if operator not in ORDERS or value == int(value):
            return condition
        whole = {"$gte": math.ceil(value)} if "g" in operator else {"$lte": math.floor(value)}
        return {"$or": [condition, {key: whole}]}

    return _Store(
        lambda filter: _given(translate(filter, bounds, _join)),
        vectors,
        ids,
        look_up,
        size=store._collection.count,
    )


def _in_memory(store: Any) -> _Store:  # noqa: ANN401
    def options(filter: Filter) -> dict[str, Any]:
        condition = parse(filter)
        return _given(lambda document: bool(matching(condition, passages_of([document]))))

    def ids(limit: int, filter: Filter | None) -> list[str]:
        names = [*store.store]
        if filter is None:
            return names[:limit]
        passages = passages_of(store.get_by_ids(names))
        return [passage.id for passage in matching(parse(filter), passages)][:limit]

    return _Store(
        options,
        lambda ids: {id_: store.store[id_]["vector"] for id_ in ids if id_ in store.store},
        ids,
        size=lambda: len(store.store),
    )


class _Positions:
    """The positions of the ids of a FAISS store, which has them the other way round.

    They are read once, and then those that were added; LangChain makes another dict at a deletion.
    """

    def __init__(self, store: Any) -> None:  # noqa: ANN401
        self._store = store
        self._cache: tuple[Mapping[int, str], dict[str, int], int] = {}, {}, 0

    def of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the positions of the ids that there are."""
        there = self._store.index_to_docstore_id
        snapshot, positions, count = self._cache
        if snapshot is not there or count > len(there):
            positions, count = {}, 0
        if count < len(there):
            positions.update((id_, at) for at, id_ in islice(there.items(), count, None))
        places = {id_: positions[id_] for id_ in ids if id_ in positions}
        if [*map(there.get, places.values())] != [*places]:  # changed by other hands
            positions = {id_: at for at, id_ in there.items()}
            places = {id_: positions[id_] for id_ in ids if id_ in positions}
        self._cache = there, positions, len(there)
        return places


def _faiss(store: Any) -> _Store:  # noqa: ANN401
    lookup = _Positions(store)

    def options(filter: Filter) -> dict[str, Any]:
        condition = parse(filter)
        if not all(isinstance(c, Compare) for c in leaves(condition)):  # it sees only metadata
            return {}

        def keep(metadata: dict[str, Any]) -> bool:
            return bool(matching(condition, [Passage("", "", metadata)]))

        return {"filter": keep, "fetch_k": store.index.ntotal}  # it filters the nearest `fetch_k`

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        positions = lookup.of(ids)
        if not positions:
            return {}
        try:
            rows = store.index.reconstruct_batch([*positions.values()])
        except RuntimeError as error:
            if "direct map" not in str(error):
                raise
            raise RuntimeError("an IVF index gives them after index.make_direct_map()") from error
        return dict(zip(positions, rows, strict=True))

    def list_all() -> list[Passage]:
        return passages_of(store.get_by_ids([*store.index_to_docstore_id.values()]))

    def ids(limit: int, filter: Filter | None) -> list[str]:
        if filter is None:
            return [*islice(store.index_to_docstore_id.values(), limit)]
        return [passage.id for passage in matching(parse(filter), list_all())][:limit]

    # An IVF index sees a part of its lists, a graph may miss some; a flat one sees all.
    is_flat = type(store.index).__name__.startswith("IndexFlat")
    return _Store(
        options,
        vectors,
        ids,
        list_all=None if is_flat else list_all,
        size=lambda: len(store.index_to_docstore_id),
    )


def _qdrant(store: Any) -> _Store:  # noqa: ANN401
    from uec_rag.stores.qdrant import qdrant_filter

    name = store.vector_name or ""

    def point_ids(ids: list[str]) -> list[str | int]:
        return [int(id_) if id_.isdecimal() else id_ for id_ in ids]

    def options(filter: Filter) -> dict[str, Any]:
        return _given(qdrant_filter(filter, store.metadata_payload_key))

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        points = store.client.retrieve(store.collection_name, point_ids(ids), with_vectors=True)
        rows = ((p.id, p.vector[name] if isinstance(p.vector, dict) else p.vector) for p in points)
        return {str(id_): row for id_, row in rows}

    def ids(limit: int, filter: Filter | None) -> list[str]:
        where = None if filter is None else qdrant_filter(filter, store.metadata_payload_key)
        points, _ = store.client.scroll(
            store.collection_name, scroll_filter=where, limit=limit, with_payload=False
        )
        return [str(point.id) for point in points]

    def place() -> str:
        [point], _ = store.client.scroll(store.collection_name, limit=1)
        if "_node_content" in point.payload:
            raise ValueError(
                f"theirs: LlamaIndex made the collection {store.collection_name!r}, whose texts "
                "are in its nodes. Open it with LlamaIndex's QdrantVectorStore, and search it with "
                "uec_rag.llama_index.UECRetriever.over(VectorStoreIndex.from_vector_store(store))."
            )
        return f"content_payload_key={store.content_payload_key!r}, of the keys {[*point.payload]}"

    return _Store(
        options,
        vectors,
        ids,
        lambda ids: store.get_by_ids(point_ids(ids)),
        by_vector=store.retrieval_mode == "dense",
        place=place,
        size=lambda: store.client.count(store.collection_name).count,
    )


_KINDS: dict[str, Callable[[Any], _Store]] = {
    "Chroma": _chroma,
    "FAISS": _faiss,
    "InMemoryVectorStore": _in_memory,
    "PGVector": _postgres,
    "QdrantVectorStore": _qdrant,
}
"""The stores that are known, by the names of their classes."""
