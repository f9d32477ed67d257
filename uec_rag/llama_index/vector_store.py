"""The ensemble as a LlamaIndex embedding, and the index as a vector store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Self, TypeAlias

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from pydantic import PrivateAttr, field_serializer

from uec_rag.adapters.indexes import OverIndex, as_index, in_thread
from uec_rag.base.checks import as_list, check_text, refuse_unknown
from uec_rag.base.loops import beside
from uec_rag.encoders.base import Role
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.index.additions import encode_additions
from uec_rag.llama_index.nodes import (
    Tenant,
    Whole,
    hits,
    node_of,
    passage_filter,
    passages_of,
    tenant_filter,
    with_text,
)
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.diversity import Diversity
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Store
from uec_rag.stores.filters import all_of, matching, parse, selects_all
from uec_rag.stores.passage import Passage

_Search: TypeAlias = Callable[..., Any]


class UECEmbedding(Whole, BaseEmbedding):
    """The mean vectors of an ensemble as a LlamaIndex embedding.

    Vectors have no variance. A `UECVectorStore` with the same ensemble nevertheless gets the
    variances, without encoding texts again (see `UEC.with_cache`). With another
    store, the search is a plain vector search.

    Parameters
    ----------
    uec : UEC, optional
        `UEC()` by default.
    **kwargs
        The parameters of every LlamaIndex embedding: `embed_batch_size`, `num_workers`,
        `embeddings_cache`, `callback_manager`, `rate_limiter`, `model_name`. An `embeddings_cache`
        stores vectors only; to avoid encoding twice, use `uec_rag.encoders.CachedEncoder`.

    Raises
    ------
    ValueError
        If `uec` is not an ensemble.

    Notes
    -----
    `to_dict` includes the fingerprint of the ensemble, which identifies it in the cache of a
    pipeline. To restore the embedding, pass the ensemble:
    ``UECEmbedding.from_dict(data, uec=uec)``.

    Examples
    --------
    Set up, with a function as the model; ``UEC()`` has one of its own:

    >>> def letters(texts):
    ...     return [[text.count(letter) + 1 for letter in "abc"] for text in texts]
    >>> embedding = UECEmbedding(uec=UEC([letters]))

    Embed:

    >>> [round(number, 3) for number in embedding.get_query_embedding("aba")]
    [0.802, 0.535, 0.267]
    """

    uec: UEC
    _members = ("uec",)

    def __init__(self, uec: UEC | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs | {"uec": UEC() if uec is None else uec})
        if "model_name" not in kwargs:
            self.model_name = f"UEC({', '.join(self.uec.names)})"

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialisation."""
        return "UECEmbedding"

    @field_serializer("uec")
    def _dump(self, uec: UEC) -> str:
        return uec.fingerprint

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._vectors([query], "query")[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._vectors([text], "passage")[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._vectors(texts, "passage")

    _aget_query_embedding = in_thread(_get_query_embedding)
    _aget_text_embedding = in_thread(_get_text_embedding)
    _aget_text_embeddings = in_thread(_get_text_embeddings)

    def _vectors(self, texts: list[str], role: Role) -> list[Embedding]:
        parts = self.uec.with_cache().encode(texts, role)
        vectors: list[Embedding] = self.uec.fitted.combine_as(parts, role).mean.tolist()
        return vectors


class UECVectorStore(OverIndex, BasePydanticVectorStore):
    """A vector store of nodes with their Gaussians, searched by the uncertainty-aware score.

    Use the same ensemble as the index's embedding, ``embed_model=UECEmbedding(uec=uec)``: the store
    then gets the variance of each vector, and each text is encoded only once. Nodes found by a
    query are copies whose metadata has `uec_score`, `uec_confidence`, `uec_decision` and the other
    keys of `uec_rag.llama_index.UECRetriever`; `similarities` are the scores.

    Parameters
    ----------
    embedding : UEC, LlamaIndex embedding or Retriever, optional
        `UEC()`, which is fitted, by default. Any other LlamaIndex embedding is
        fitted by the first search, with words beside it. A `Retriever` is used with its passages.
    store : Store, optional
        Where vectors and nodes are stored: `LocalStore` (default) or `QdrantStore`.
    tenant_required : bool
        Whether each query and look-up needs a `tenant`, as in `Retriever`: then also that of a
        Retriever that is passed.

    Raises
    ------
    TypeError, ValueError
        If `embedding` has another type, or a store is given with a Retriever, which has its own.

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
    _index: Retriever = PrivateAttr()

    def __init__(
        self,
        embedding: UEC | BaseEmbedding | Retriever | None = None,
        *,
        store: Store | None = None,
        tenant_required: bool = False,
    ) -> None:
        super().__init__(stores_text=True)
        self._index = as_index(embedding, store)
        if tenant_required:
            self._index.tenant_required = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the store with its index, which LlamaIndex would leave out."""
        return type(self), (self.index,)

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Return a store over the index that `to_dict` left out: ``from_dict(data, embedding=i)``.

        `data`: what `to_dict` returned. ValueError without the index.
        """
        if "embedding" not in kwargs:
            raise ValueError(
                "embedding: expected the index, which to_dict leaves out: from_dict(data, "
                "embedding=index); for a saved one UECVectorStore(Retriever.load(path))."
            )
        return cls(**kwargs)

    @property
    def client(self) -> Retriever:
        """The underlying index, under LlamaIndex's name for it."""
        return self.index

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
        self.index._check_own(passages)
        # What LlamaIndex had embedded by `UECEmbedding` is in the cache.
        uec = self.index.uec.with_cache()
        self.index.add_encoded(
            *encode_additions(uec, self.index.store, passages, text_of=attrgetter("text"))
        )
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove the nodes of a document; TypeError or ValueError of no id."""
        check_text(ref_doc_id, "ref_doc_id")
        passages = self.index.store.snapshot(passage_filter(doc_ids=[ref_doc_id])).passages()
        self.index.delete([passage.id for passage in passages])

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
            If neither is given, or the filters are empty or select all: `clear` removes all.
        """
        if node_ids is None and filters is None:
            raise ValueError("node_ids, filters: expected at least one; clear() removes all nodes.")
        if filters is not None and selects_all(passage_filter(filters) or {}):
            raise ValueError(
                f"filters: expected some that select nodes to remove, got {filters!r:.80}, which "
                "selects all of them; clear() removes all nodes."
            )
        self.index.delete([passage.id for passage in self._select_passages(node_ids, filters)])

    def _select_passages(
        self,
        node_ids: Sequence[str] | None,
        filters: MetadataFilters | None,
        tenant: Filter | None = None,
    ) -> Iterable[Passage]:
        """Return passages by id, by metadata, or both, or all; of a tenant, if there is one."""
        store = self.index.store
        if node_ids is not None and (filters is None or not node_ids):
            hits = store.get(as_list(node_ids, "node_ids"))
            return hits if tenant is None else matching(parse(tenant), hits)
        condition = all_of(tenant, passage_filter(filters, node_ids=node_ids))
        return store.snapshot(condition).passages()

    def clear(self) -> None:
        """Remove all nodes."""
        self.index.clear()

    def get_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        *,
        tenant: Tenant = EVERYONE,
    ) -> list[BaseNode]:
        """Return nodes by id, by metadata, or both, or all; unknown ids are skipped.

        `tenant`: as in `UECRetriever`.
        """
        condition = tenant_filter(tenant, required=self.index.tenant_required)
        return [*map(node_of, self._select_passages(node_ids, filters, condition))]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Find the nodes with the highest s_hat.

        The search is for `query_str`, or without one for `query_embedding`, which has no
        confidence. Beside a text, a vector is ignored: LlamaIndex passes the first one computed for
        a question to all retrievers, so it may be of another index's model.

        Parameters
        ----------
        query : VectorStoreQuery
            In mode "default", or "mmr" with `mmr_threshold`; with `query_str` or
            `query_embedding`, `similarity_top_k`, `filters`, `node_ids` and `doc_ids`.
        **kwargs
            `tenant` as in `UECRetriever`; `mmr_threshold`, and
            `mmr_prefetch_factor`, 4 by default.

        Raises
        ------
        TypeError
            If there is an option of another store, which may narrow the search.
        ValueError
            If there is another mode, k < 1, or neither text nor vector.
        """
        refuse_unknown(kwargs, self._parse_query)
        search, _, question, options = self._parse_query(query, **kwargs)
        return _as_result(search(question, **options), query.similarity_top_k)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Run `query` in a thread; an asynchronous advisor is asked in this event loop."""
        refuse_unknown(kwargs, self._parse_query)
        await self.index.afit_once()
        parse = partial(self._parse_query, query, **kwargs)
        _, asearch, question, options = await beside(parse)
        return _as_result(await asearch(question, **options), query.similarity_top_k)

    def _parse_query(
        self,
        query: VectorStoreQuery,
        *,
        tenant: Tenant = EVERYONE,
        mmr_threshold: float | None = None,
        mmr_prefetch_factor: float = 4,
        mmr_prefetch_k: int | None = None,
    ) -> tuple[_Search, _Search, Sequence[Any], dict[str, Any]]:
        """Return the search, its asynchronous twin, what it is for, and its options."""
        k, diversity = query.similarity_top_k, None
        condition = tenant_filter(tenant, required=self.index.tenant_required)
        of_tenant: Filter | Everyone = EVERYONE if condition is None else condition
        if query.mode == VectorStoreQueryMode.MMR:
            threshold = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            fetch_k = mmr_prefetch_k or k * mmr_prefetch_factor
            diversity = Diversity(int(fetch_k), 0.5 if threshold is None else threshold)
        elif query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(
                f'mode: expected "default" or "mmr", got {query.mode!r}; for other weights of '
                "words and vectors, use a store over Retriever.with_weights(...)."
            )
        condition = passage_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
        options = {"k": k, "filter": condition, "diversity": diversity, "tenant": of_tenant}
        vector = query.query_embedding
        if vector is not None and not (query.query_str or "").strip():
            search = self.index.search_vector
            return search, in_thread(search), vector, options
        if query.query_str is None:
            raise ValueError("query: expected query_str or query_embedding, got neither.")
        # A view, whose ensemble does not encode again what the embedding has encoded.
        index = self.index.snapshot()
        index.uec = self.index.uec.with_cache()
        return index.search, index.asearch, [query.query_str], options

    async_add = in_thread(add)
    adelete = in_thread(delete)
    adelete_nodes = in_thread(delete_nodes)
    aclear = in_thread(clear)
    aget_nodes = in_thread(get_nodes)

    def persist(self, persist_path: str, fs: object = None) -> None:
        """Save index and ensemble to a local folder, see `Retriever.save`; `fs` is ignored."""
        self.save(persist_path)


def _as_result(result: SearchResult, k: int) -> VectorStoreQueryResult:
    """Convert a result, with the copies of each hit."""
    nodes = hits(result.with_copies(k))
    return VectorStoreQueryResult(
        nodes=[node.node for node in nodes],
        similarities=[node.get_score() for node in nodes],
        ids=[node.node_id for node in nodes],
    )
