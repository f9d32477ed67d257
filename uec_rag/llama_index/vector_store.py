"""The index as a LlamaIndex vector store."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, NAMESPACE_SEP
from llama_index.core.vector_stores.types import (
    DEFAULT_PERSIST_DIR,
    DEFAULT_PERSIST_FNAME,
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from pydantic import PrivateAttr

from uec_rag.base.gaussian import Gaussian
from uec_rag.ensemble import UEC
from uec_rag.ensemble.known_vectors import encode, with_caches
from uec_rag.llama_index.embedding import as_ensemble
from uec_rag.llama_index.nodes import hits, node_of, passages_of, with_text
from uec_rag.llama_index.query import (
    ALIKE,
    check_asked,
    likeness,
    passage_filter,
)
from uec_rag.retrieval import Retriever, SearchResult
from uec_rag.retrieval.diversity import diversify
from uec_rag.retrieval.plain import as_index
from uec_rag.retrieval.request import Diversity
from uec_rag.stores.base import Passage, Store

_BUILD = "build the index with embed_model=UECEmbedding(uec=uec)."
_PREFETCH = 4.0
_FILE = f"{DEFAULT_VECTOR_STORE}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"


def _factor(options: Mapping[str, Any]) -> float:
    factor = options.get("mmr_prefetch_factor", _PREFETCH)
    if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
        raise ValueError(f"mmr_prefetch_factor: expected a number >= 0, got {factor!r:.60}.")
    return factor


def _as_result(result: SearchResult) -> VectorStoreQueryResult:
    nodes = hits(result)
    return VectorStoreQueryResult(
        nodes=[node.node for node in nodes],
        similarities=[node.get_score() for node in nodes],
        ids=[node.node_id for node in nodes],
    )


def _with_copies(result: SearchResult, arguments: Mapping[str, Any]) -> SearchResult:
    """Add the copies of each hit, which a store keeps, unless the hits are to differ."""
    return result if arguments["diversity"] else result.with_copies(arguments["k"])


def _check_local(fs: AbstractFileSystem | None) -> None:
    if fs is not None and not isinstance(fs, LocalFileSystem):
        raise ValueError(
            f"fs: expected the local file system, got {type(fs).__name__}; copy the saved folder "
            "by fs.put(folder, path, recursive=True), and back by fs.get."
        )


class UECVectorStore(BasePydanticVectorStore):
    """A vector store of nodes with their Gaussians, searched by the uncertainty-aware score.

    Use the same ensemble as the index's embedding, ``embed_model=UECEmbedding(uec=uec)``: the store
    then gets the variance of each vector, and each text is encoded only once. Nodes found by a
    query are copies whose metadata has `uec_score`, `uec_confidence`, `uec_decision` and the other
    keys of `uec_rag.llama_index.UECRetriever`; `similarities` are the scores.

    Parameters
    ----------
    uec : UEC, LlamaIndex embedding or Retriever, optional
        `UEC()`, which is fitted, by default. With an embedding other than `UECEmbedding`, the
        search is a plain vector search with variance 0. A `Retriever` is used with its passages.
    store : Store, optional
        Where vectors and nodes are stored: `LocalStore` (default) or `QdrantStore`.

    Raises
    ------
    TypeError, ValueError
        If `uec` has another type, or a store is given with a Retriever, which has its own.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> from llama_index.core import StorageContext, VectorStoreIndex
    >>> from llama_index.core.schema import TextNode
    >>> from uec_rag.llama_index import UECEmbedding
    >>> def letters(texts):
    ...     return [[text.count(letter) + 0.1 for letter in "abc"] for text in texts]
    >>> uec = UEC([letters])
    >>> store = UECVectorStore(uec)

    Add:

    >>> index = VectorStoreIndex(
    ...     [TextNode(text="aa"), TextNode(text="bb")],
    ...     storage_context=StorageContext.from_defaults(vector_store=store),
    ...     embed_model=UECEmbedding(uec=uec),
    ... )

    Search, through the index's retriever:

    >>> index.as_retriever(similarity_top_k=1).retrieve("b")[0].text
    'bb'
    """

    stores_text: bool = True
    _retriever: Retriever = PrivateAttr()

    def __init__(
        self, uec: UEC | BaseEmbedding | Retriever | None = None, *, store: Store | None = None
    ) -> None:
        super().__init__(stores_text=True)
        self._retriever = as_index(uec, store, as_ensemble)

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialisation."""
        return "UECVectorStore"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the index in the form in which it is saved, with encoders by name."""
        return type(self), (self._retriever,)

    @property
    def retriever(self) -> Retriever:
        """The underlying index."""
        return self._retriever

    @property
    def index(self) -> Retriever:
        """The underlying index, under the name that it has in all adapters."""
        return self._retriever

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save nodes, vectors and ensemble to a folder, atomically; see `Retriever.save`."""
        self._retriever.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], uec: UEC | None = None, **kwargs: Any) -> Self:
        """Load a store from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        uec : UEC, optional
        **kwargs
            `read_only`, `encoders`, `device`, `store` and `trust`, as in `Retriever.load`, as are
            the errors.
        """
        return cls(Retriever.load(path, uec, **kwargs))

    @property
    def client(self) -> Retriever:
        """The underlying index, under LlamaIndex's name for it."""
        return self._retriever

    @property
    def uec(self) -> UEC:
        """The ensemble."""
        return self._retriever.uec

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes; a node with the id of an existing one replaces it.

        Parameters
        ----------
        nodes : sequence of BaseNode
            Nodes with or without an `embedding`; the ensemble's Gaussian of the text is stored.
        **kwargs
            Options of other stores, which are ignored.

        Raises
        ------
        TypeError, ValueError
            If one is not a node, if an id occurs twice, or if embeddings do not have the dimension
            of the ensemble, or most of them differ from those that it makes of the same texts. A
            few may differ, if texts were changed after they were embedded.

        Returns
        -------
        list of str
            The ids of all nodes, also of those without text, which are skipped with a warning.
        """
        kept = with_text(nodes)
        passages = passages_of(kept)
        for node in kept:
            if node.embedding is not None and len(node.embedding) != self.uec.dimension:
                raise ValueError(
                    f"nodes: expected embeddings of {self.uec.dimension} numbers, the ensemble's "
                    f"dimension, got {len(node.embedding)} for node {node.node_id!r}; {_BUILD}"
                )
        if passages:
            parts = encode(self.uec, [passage.text for passage in passages], "passage")
            self._check_embeddings(kept, parts)
            self._retriever.add_encoded(passages, parts)
        return [node.node_id for node in nodes]

    def _check_embeddings(self, nodes: Sequence[BaseNode], parts: Sequence[Gaussian]) -> None:
        """Raise ValueError if most embeddings of nodes are unlike the ensemble's of their texts."""
        rows = [row for row, node in enumerate(nodes) if node.embedding]
        if not rows:
            return
        matrix = np.asarray([nodes[row].embedding for row in rows], dtype=np.float32)
        means = self.uec.fitted.combine_as(parts, "passage").mean[rows]
        usual = float(np.median(likeness(matrix, means)))
        if not usual >= ALIKE:
            raise ValueError(
                "nodes: expected embeddings that the ensemble made of their texts, got those of "
                f"another model (their cosine with the ensemble's is {usual:.2f}); {_BUILD}"
            )

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Run `add` without blocking the event loop."""
        return await asyncio.to_thread(self.add, nodes)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove the nodes of a document."""
        self._remove(self._retriever.passages(passage_filter(doc_ids=[ref_doc_id])))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Run `delete` without blocking the event loop."""
        await asyncio.to_thread(self.delete, ref_doc_id)

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Remove nodes by id, by metadata, or by both.

        Raises
        ------
        ValueError
            If neither is given: `clear` removes all.
        """
        if node_ids is None and filters is None:
            raise ValueError("node_ids, filters: expected at least one; clear() removes all nodes.")
        self._remove(self._select_passages(node_ids, filters))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Run `delete_nodes` without blocking the event loop."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    def _remove(self, passages: Iterable[Passage]) -> None:
        self._retriever.delete([passage.id for passage in passages])

    def _select_passages(
        self, node_ids: Sequence[str] | None, filters: MetadataFilters | None
    ) -> Iterable[Passage]:
        """Return passages by id, by metadata, or both, or all."""
        if node_ids is not None and (filters is None or not node_ids):
            return self._retriever.get(node_ids)
        return self._retriever.passages(passage_filter(filters, node_ids=node_ids))

    def clear(self) -> None:
        """Remove all nodes."""
        self._retriever.clear()

    async def aclear(self) -> None:
        """Run `clear` without blocking the event loop."""
        await asyncio.to_thread(self.clear)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes by id, by metadata, or both, or all; unknown ids are skipped."""
        order = {id_: position for position, id_ in enumerate(node_ids or ())}
        stored = sorted(
            self._select_passages(node_ids, filters), key=lambda one: order.get(one.id, 0)
        )
        return [node_of(passage) for passage in stored]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Run `get_nodes` without blocking the event loop."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find the nodes with the highest s_hat.

        The search uses the Gaussian of `query_str`. `query_embedding` is used, with variance 0 and
        without confidence, if there is no `query_str`.

        Parameters
        ----------
        query : VectorStoreQuery
            Mode "default" or "mmr". `similarity_top_k`, `filters`, `node_ids` and `doc_ids` work in
            both, `mmr_threshold` (1 for relevance only, 0 for diversity only) in "mmr".
        **kwargs
            `mmr_threshold`, in place of the query's; `mmr_prefetch_factor` (4), the candidates in
            mode "mmr" as a multiple of `similarity_top_k`.
            `index.as_retriever(vector_store_kwargs=...)` passes both.

        Raises
        ------
        ValueError
            If the mode is unknown, k < 1, or the query is empty.
        """
        return _as_result(self._search(*self._parse_query(query, kwargs)))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Run `query` in a thread; an asynchronous advisor is asked in this event loop."""
        index, arguments = await asyncio.to_thread(self._parse_query, query, kwargs)
        if "queries" in arguments:
            return _as_result(_with_copies(await index.asearch(**arguments), arguments))
        return _as_result(await asyncio.to_thread(self._search, index, arguments))

    def _search(self, index: Retriever, arguments: Mapping[str, Any]) -> SearchResult:
        """Search for the text of a query, or for its vector if it has no text."""
        if "queries" in arguments:
            return _with_copies(index.search(**arguments), arguments)
        k, diversity = arguments["k"], arguments["diversity"]
        fetched = k if diversity is None else max(k, diversity.fetch_k)
        result = index.search_vector(arguments["embedding"], fetched, filter=arguments["filter"])
        return result if diversity is None else diversify(index, result, k, diversity.lambda_mult)

    def _parse_query(
        self, query: VectorStoreQuery, kwargs: Mapping[str, Any]
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return the index to search, and the arguments of its search."""
        text, vector, where = check_asked(self._retriever, query)
        k, diversity = query.similarity_top_k, None
        if query.mode == VectorStoreQueryMode.MMR:
            # As in LlamaIndex's SimpleVectorStore.
            threshold = kwargs.get("mmr_threshold", query.mmr_threshold)
            diversity = Diversity(
                max(k, int(k * _factor(kwargs))), 0.5 if threshold is None else threshold
            )
        # The vectors of the hits must still be available after the search.
        index = self._retriever.snapshot()
        index.uec = with_caches(self.uec)
        arguments: dict[str, Any] = {"k": k, "filter": where, "diversity": diversity}
        asked = {"queries": [text]} if vector is None else {"embedding": vector[0].tolist()}
        return index, arguments | asked

    def persist(
        self,
        persist_path: str = os.path.join(DEFAULT_PERSIST_DIR, _FILE),
        fs: AbstractFileSystem | None = None,
    ) -> None:
        """Save index and ensemble to the folder `persist_path`.

        Parameters
        ----------
        persist_path : str
            Path of the folder to create, whatever its extension is.
        fs : fsspec file system, optional
            Only the local one, the default.

        Raises
        ------
        ValueError
            If `fs` is another file system.
        FileExistsError
            If `persist_path` exists and is not a saved index.
        BlockingIOError
            If another process is saving there.
        """
        _check_local(fs)
        self._retriever.save(persist_path)

    @classmethod
    def from_persist_path(
        cls, persist_path: str, fs: AbstractFileSystem | None = None, **kwargs: Any
    ) -> Self:
        """Load an index saved by `persist`.

        Parameters
        ----------
        persist_path : str
        fs : fsspec file system, optional
            As in `persist`.
        **kwargs
            `uec`, `read_only`, `encoders`, `device`, `store` and `trust`, as in `Retriever.load`,
            as are the errors.
        """
        _check_local(fs)
        return cls(Retriever.load(persist_path, **kwargs))

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str = DEFAULT_PERSIST_DIR,
        namespace: str = DEFAULT_VECTOR_STORE,
        fs: AbstractFileSystem | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load an index saved by `StorageContext.persist`; see `from_persist_path`."""
        name = f"{namespace}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"
        return cls.from_persist_path(os.path.join(persist_dir, name), fs, **kwargs)
