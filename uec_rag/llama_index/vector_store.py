"""The index as a LlamaIndex vector store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
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

from uec_rag.ensemble import UEC
from uec_rag.llama_index.nodes import hits, node_of, passages_of, with_text
from uec_rag.llama_index.query import passage_filter
from uec_rag.retrieval import Retriever, SearchResult
from uec_rag.retrieval.adapters import OverIndex, as_index, in_thread
from uec_rag.retrieval.query import Diversity
from uec_rag.retrieval.result import diversify
from uec_rag.stores.base import Passage, Store

_MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)
_FILE = f"{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"


class UECVectorStore(OverIndex, BasePydanticVectorStore):
    """A vector store of nodes with their Gaussians, searched by the uncertainty-aware score.

    Use the same ensemble as the index's embedding, ``embed_model=UECEmbedding(uec=uec)``: the store
    then gets the variance of each vector, and each text is encoded only once. Nodes found by a
    query are copies whose metadata has `uec_score`, `uec_confidence`, `uec_decision` and the other
    keys of `uec_rag.llama_index.UECRetriever`; `similarities` are the scores.

    Parameters
    ----------
    uec : UEC, LlamaIndex embedding or Retriever, optional
        `UEC()`, which is fitted, by default. Any other LlamaIndex embedding is
        fitted by the first search, with words beside it. A `Retriever` is used with its passages.
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
        self._retriever = as_index(uec, store)

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialisation."""
        return "UECVectorStore"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the index in the form in which it is saved, with encoders by name."""
        return type(self), (self.index,)

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self._retriever

    @property
    def client(self) -> Retriever:
        """The underlying index, under LlamaIndex's name for it."""
        return self._retriever

    @property
    def retriever(self) -> Retriever:
        """The underlying index."""
        return self._retriever

    @property
    def uec(self) -> UEC:
        """The ensemble."""
        return self.index.uec

    @classmethod
    def load(cls, path: str | os.PathLike[str], uec: UEC | None = None, **kwargs: Any) -> Self:
        """Load a store from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        uec : UEC, optional
        **kwargs
            `read_only`, `encoders`, `store` and `trust`, as in `Retriever.load`, as are
            the errors.
        """
        return cls(Retriever.load(path, uec, **kwargs))

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
            If one is not a node, or if an id occurs twice.

        Returns
        -------
        list of str
            The ids of all nodes, also of those without text, which are skipped with a warning.
        """
        passages = passages_of(with_text(nodes))
        texts = [passage.text for passage in passages]
        parts = self.uec.with_cache().encode(texts, "passage")
        self.index.add_encoded(passages, parts)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove the nodes of a document."""
        found = self.index.passages(passage_filter(doc_ids=[ref_doc_id]))
        self.index.delete([passage.id for passage in found])

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
        self.index.delete([passage.id for passage in self._select_passages(node_ids, filters)])

    def _select_passages(
        self, node_ids: Sequence[str] | None, filters: MetadataFilters | None
    ) -> Iterable[Passage]:
        """Return passages by id, by metadata, or both, or all."""
        if node_ids is not None and (filters is None or not node_ids):
            return self.index.get(node_ids)
        return self.index.passages(passage_filter(filters, node_ids=node_ids))

    def clear(self) -> None:
        """Remove all nodes."""
        self.index.clear()

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes by id, by metadata, or both, or all; unknown ids are skipped."""
        return [node_of(passage) for passage in self._select_passages(node_ids, filters)]

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
            If the mode is unknown, k < 1, or there is neither a text nor a vector.
        """
        index, arguments = self._parse_query(query, kwargs)
        if not query.query_str:
            return _found_by_vector(index, query, arguments)
        return _as_result(index.search([query.query_str], **arguments), arguments)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Run `query` in a thread; an asynchronous advisor is asked in this event loop."""
        index, arguments = await asyncio.to_thread(self._parse_query, query, kwargs)
        if not query.query_str:
            return await asyncio.to_thread(_found_by_vector, index, query, arguments)
        return _as_result(await index.asearch([query.query_str], **arguments), arguments)

    def _parse_query(
        self, query: VectorStoreQuery, options: dict[str, Any]
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return the index to search, and the arguments of its search besides the query.

        Next to a text, the vector is ignored: LlamaIndex passes the first one computed for a
        question to all retrievers, so it may be of another index's model.
        """
        if query.mode not in _MODES:
            raise ValueError(
                f"mode: expected one of {[mode.value for mode in _MODES]}, got {query.mode!r}; for "
                "other weights of words and vectors, use a store over Retriever.with_weights(...)."
            )
        k, diversity = query.similarity_top_k, None
        if query.mode == VectorStoreQueryMode.MMR:
            # As in LlamaIndex's SimpleVectorStore.
            threshold = options.get("mmr_threshold", query.mmr_threshold)
            fetched = max(k, int(k * options.get("mmr_prefetch_factor", 4)))
            diversity = Diversity(fetched, 0.5 if threshold is None else threshold)
        # The vectors of the hits must still be available after the search.
        index = self.index.snapshot()
        index.uec = self.uec.with_cache()
        where = passage_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
        return index, {"k": k, "filter": where, "diversity": diversity}

    async_add = in_thread(add)
    adelete = in_thread(delete)
    adelete_nodes = in_thread(delete_nodes)
    aclear = in_thread(clear)
    aget_nodes = in_thread(get_nodes)

    def persist(
        self,
        persist_path: str = os.path.join(DEFAULT_PERSIST_DIR, f"{DEFAULT_VECTOR_STORE}{_FILE}"),
        fs: AbstractFileSystem | None = None,
    ) -> None:
        """Save index and ensemble to the local folder `persist_path`, see `Retriever.save`.

        ValueError if `fs`, an fsspec file system, is another than the local one.
        """
        if fs is not None and "file" not in fs.protocol:
            raise ValueError(
                f"fs: expected the local file system, got {type(fs).__name__}; copy the saved "
                "folder by fs.put(folder, path, recursive=True), and back by fs.get."
            )
        self.save(persist_path)

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str = DEFAULT_PERSIST_DIR,
        namespace: str = DEFAULT_VECTOR_STORE,
        **kwargs: Any,
    ) -> Self:
        """Load an index saved by `StorageContext.persist`; see `load`."""
        return cls.load(os.path.join(persist_dir, f"{namespace}{_FILE}"), **kwargs)


def _found_by_vector(
    index: Retriever, query: VectorStoreQuery, arguments: dict[str, Any]
) -> VectorStoreQueryResult:
    if query.query_embedding is None:
        raise ValueError("query: query_str is empty and query_embedding None; pass one.")
    k, diversity = arguments["k"], arguments["diversity"]
    fetched = k if diversity is None else diversity.fetch_k
    result = index.search_vector(query.query_embedding, fetched, filter=arguments["filter"])
    if diversity is not None:
        result = diversify(index.vectors, result, k, diversity.lambda_mult)
    return _as_result(result, arguments)


def _as_result(result: SearchResult, arguments: dict[str, Any]) -> VectorStoreQueryResult:
    """Convert a result, with the copies of each hit unless the hits are to differ."""
    kept = result if arguments["diversity"] else result.with_copies(arguments["k"])
    nodes = hits(kept)
    return VectorStoreQueryResult(
        nodes=[node.node for node in nodes],
        similarities=[node.get_score() for node in nodes],
        ids=[node.node_id for node in nodes],
    )
