"""The index as a LlamaIndex retriever whose nodes have their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, Self, TypedDict, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.llms import ChatMessage
from llama_index.core.memory.types import BaseMemory
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import (
    BaseNode,
    Document,
    IndexNode,
    NodeWithScore,
    QueryBundle,
    QueryType,
)
from llama_index.core.settings import Settings
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, MetadataFilters

from uec_rag.adapters import indexes
from uec_rag.adapters.other_retrievers import Converted
from uec_rag.base.checks import check_documents, check_k, check_type, refuse_unknown
from uec_rag.base.loops import either, is_own
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.index.first_fit import FitMode
from uec_rag.llama_index.nodes import (
    Tenant,
    embedded_text,
    first_of_each,
    hits,
    in_place_of,
    metadata_filters,
    passage_filter,
    passages_again,
    passages_of,
    tenant_filter,
    turns,
    with_text,
)
from uec_rag.llama_index.vector_store import UECVectorStore
from uec_rag.stores.base import EVERYONE, Filter, Store
from uec_rag.stores.filters import parse
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import Search, source_of_retriever
from uec_rag.stores.stored import Source, Vectors

_ESCAPING = ("SimpleVectorStore", "ChromaVectorStore", "QdrantVectorStore")
"""The stores that are known not to write texts of filters into SQL."""

_KIND = "Document or node of llama_index.core.schema"


class _Theirs(TypedDict, total=False):
    """The parameters of every LlamaIndex retriever."""

    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


class _Shown(_Theirs, total=False):
    filters: MetadataFilters | None
    memory: BaseMemory | None
    tenant: Tenant
    tenant_required: bool
    details: bool


class _Parameters(_Shown, total=False):
    similarity_top_k: int


class _Indexed(indexes.MakeOptions, _Parameters, total=False):
    """The options of `UECRetriever.from_nodes`."""


class UECRetriever(indexes.FitFrom, BaseRetriever):
    """Retriever that adds confidence and a decision to each node.

    The nodes are copies. These keys are added to the metadata of each: `uec_score` (the score by
    which nodes are ordered), `uec_sigma2` (the variance of the similarity) and `uec_relevance` (the
    probability that the node is relevant); and, the same for all nodes of a question,
    `uec_confidence` (the probability that they answer it), `uec_in_corpus` (that any node does),
    `uec_decision` ("answer", "clarify" or "abstain") and `uec_reason`. LLMs and embedding models do
    not see these keys. `UECQueryEngine` and `UECGatePostprocessor` act on a low confidence. For a
    question in a conversation, pass a `UECQueryBundle`.

    Parameters
    ----------
    retriever : Retriever
        The index.
    similarity_top_k : int
        Number of nodes to return; at least `Gate.k`, if the gate that decides has a guarantee.
    filters : MetadataFilters, optional
    memory : BaseMemory, optional
        The memory of the chat engine that calls the retriever. An engine hands over the last
        message alone; its turns before, all of `memory`, are searched with it. The `history` of a
        `UECQueryBundle` comes first.
    tenant : MetadataFilters or Filter, optional
        The filter of all nodes of one tenant, see `Retriever.search`; None is refused.
    tenant_required : bool
        Whether there must be one.
    details : bool
        Whether to add details of the score and the decision, see `Result.metadata`.
    **kwargs
        The parameters of every LlamaIndex retriever: `callback_manager`, `object_map`, `objects`,
        `verbose`.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type, or similarity_top_k < 1.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> retriever = UECRetriever.from_texts(texts, UEC(["bm25"]), similarity_top_k=1)

    Search; each node has the decision in its metadata:

    >>> [node] = retriever.retrieve("Why do cats purr?")
    >>> node.text, node.metadata["uec_decision"]
    ('Cats purr when they are content.', 'answer')
    >>> retriever.retrieve("What is the capital of France?")[0].metadata["uec_decision"]
    'abstain'

    Save and load:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     retriever.save(f"{folder}/index")
    ...     len(UECRetriever.load(f"{folder}/index").index)
    2
    """

    def __init__(
        self,
        retriever: Retriever,
        similarity_top_k: int = 4,
        filters: MetadataFilters | None = None,
        *,
        memory: BaseMemory | None = None,
        tenant: Tenant = EVERYONE,
        tenant_required: bool = False,
        details: bool = False,
        **kwargs: Unpack[_Theirs],
    ) -> None:
        if "k" in kwargs:
            raise TypeError("k: expected similarity_top_k, LlamaIndex's name for it.")
        refuse_unknown(kwargs, UECRetriever, BaseRetriever)
        instead = "; for a saved index Retriever.load(path), else see from_texts and over"
        check_type(retriever, Retriever, "retriever", "a uec_rag.Retriever", instead)
        check_k(similarity_top_k)
        kind = "a memory of llama_index.core.memory, the chat engine's, or None"
        check_type(memory, BaseMemory | None, "memory", kind)
        self._index = retriever.requiring_tenant() if tenant_required else retriever
        self.memory = memory
        self.similarity_top_k = similarity_top_k
        # Copies, since the caller may change what was passed.
        self.filters, self.tenant = deepcopy(filters), deepcopy(tenant)
        self.tenant_required = tenant_required
        parse(self._where[0] or {})  # which checks it
        self.details = details
        super().__init__(**kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: UEC | BaseEmbedding | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        *,
        store: Store | None = None,
        words: bool = True,
        fit: FitMode = True,
        **kwargs: Unpack[_Parameters],
    ) -> Self:
        """Index texts, which are embedded unchanged, and return a retriever over them.

        Parameters
        ----------
        texts, ids, metadatas
            As in `Retriever.add`.
        embedding : UEC, LlamaIndex embedding or Retriever, optional
            As in `UECVectorStore`.
        store : Store, optional
            As in `UECVectorStore`.
        words, fit : bool
            As in `over`.
        **kwargs
            The class's parameters.
        """
        retriever = cls(indexes.as_index(embedding, store, words=words, fit=fit), **kwargs)
        retriever.index.add(texts, ids, metadatas)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Sequence[BaseNode],
        embedding: UEC | BaseEmbedding | None = None,
        *,
        store: Store | None = None,
        words: bool = True,
        fit: FitMode = True,
        **kwargs: Unpack[_Parameters],
    ) -> Self:
        """Index nodes and return a retriever over them; parameters as in `from_texts`.

        As everywhere in LlamaIndex, a node is embedded as its text with its metadata, except
        `excluded_embed_metadata_keys`. Nodes without text are skipped with a warning.
        """
        retriever = cls(indexes.as_index(embedding, store, words=words, fit=fit), **kwargs)
        UECVectorStore(retriever.index).add(nodes)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embedding: UEC | BaseEmbedding | None = None,
        *,
        node_parser: NodeParser | None = None,
        **kwargs: Unpack[_Indexed],
    ) -> Self:
        """Split documents into nodes, index the nodes and return a retriever over them.

        Parameters
        ----------
        documents : sequence of Document
            Documents without text are skipped with a warning.
        node_parser : NodeParser, optional
            `Settings.node_parser` by default.
        embedding, **kwargs
            As in `from_nodes`.

        Raises
        ------
        TypeError
            If one is not a document.
        """
        items = check_documents(documents, BaseNode, _KIND, "from_texts")
        parser = Settings.node_parser if node_parser is None else node_parser
        nodes = parser.get_nodes_from_documents(with_text(items))
        return cls.from_nodes(nodes, embedding, **kwargs)

    @classmethod
    def _made_of(cls, index: Retriever, **kwargs: Any) -> Self:
        return cls(index, **kwargs)

    afrom_texts = indexes.made_in_thread(from_texts)
    afrom_nodes = indexes.made_in_thread(from_nodes)
    afrom_documents = indexes.made_in_thread(from_documents)

    @classmethod
    def over(
        cls,
        theirs: VectorStoreIndex | BaseRetriever,
        embedding: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        *,
        candidates: int = 50,
        vectors: Vectors | None = None,
        words: bool = True,
        fit: FitMode = True,
        **kwargs: Unpack[_Shown],
    ) -> Self:
        """Return a retriever over any other index or retriever, whose nodes are ranked.

        Nothing is written to the index. Without a fit, the first search makes one on up to 2,000 of
        its nodes, if its docstore has them (see `Retriever.fit_from`); else call `fit_from`.

        Parameters
        ----------
        theirs : VectorStoreIndex or BaseRetriever
            What finds the candidates, such as a `QueryFusionRetriever`.
        embedding : UEC or BaseEmbedding, optional
            The ensemble, or an embedding, by default the index's, beside which words are compared.
            If the vectors in the index's store are what it makes of the texts, they are read, and
            only questions are embedded.
        similarity_top_k : int
        words : bool
            Whether words are compared beside an embedding.
        fit : bool
            Whether the first search may fit the ensemble.
        candidates : int
            Number of nodes to request from an index for each question; at least
            `similarity_top_k`. As many are looked up by their words, if it can list its nodes.
        vectors : callable(list of id) -> mapping of id to vector, optional
            How to get the vectors that the encoders made from another store.
        **kwargs
            The class's other parameters. `filters` are handed over to an index, and applied to the
            nodes of a retriever.

        Raises
        ------
        TypeError, ValueError
            If `theirs` is neither, or is over a `UECVectorStore`, if no embedding is given for a
            retriever, or another argument is invalid.
        """
        kind = type(below := getattr(theirs, "vector_store", theirs)).__name__
        if not isinstance(theirs, VectorStoreIndex | BaseRetriever) or kind == "UECVectorStore":
            raise TypeError(
                "theirs: expected a retriever or a VectorStoreIndex over another store than "
                f"UECVectorStore (for which there is UECRetriever(store.index)), got {kind}."
            )
        count = max(check_k(candidates, "candidates"), check_k(similarity_top_k))
        source = _source_of(theirs, count)
        index_embedding = getattr(theirs, "_embed_model", None)
        refuse_unknown(kwargs, cls.over, UECRetriever, BaseRetriever)
        index = indexes.index_over(
            source, embedding, index_embedding, below, vectors, words=words, fit=fit
        )
        return cls(index, similarity_top_k, **kwargs)._with_usual_filter()

    @staticmethod
    def _passages(documents: Iterable[BaseNode]) -> list[Passage]:
        return passages_of(check_documents(documents, BaseNode, _KIND, "TextNode(text=text)"))

    def _with_usual_filter(self) -> Self:
        self.index.usual_filter, self.index.usual_tenant = self._where
        return self

    @property
    def _where(self) -> tuple[Filter | None, Filter | None]:
        """Its filter and its tenant."""
        tenant = tenant_filter(self.tenant, required=self.tenant_required)
        return passage_filter(self.filters), tenant

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        messages = self.memory.get_all() if self.memory else []
        return hits(self.index.search(**self._arguments(query_bundle, messages)), self.details)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        messages = await self.memory.aget_all() if self.memory else []
        results = await self.index.asearch(**self._arguments(query_bundle, messages))
        return hits(results, self.details)

    def _handle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        """Put the objects of index nodes in their place, with what was found of these."""
        objects = list[NodeWithScore]()
        for hit in nodes:
            parts = super()._handle_recursive_retrieval(query_bundle, [hit])
            objects += in_place_of(hit, parts)
        return first_of_each(objects)

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        objects = list[NodeWithScore]()
        for hit in nodes:
            parts = await super()._ahandle_recursive_retrieval(query_bundle, [hit])
            objects += in_place_of(hit, parts)
        return first_of_each(objects)

    def _arguments(
        self, query_bundle: QueryBundle, messages: Sequence[ChatMessage]
    ) -> dict[str, Any]:
        """Return the arguments of the index's search.

        It is for a question, or for what a query transform such as HyDE wrote. An agent's memory
        has the question as its last message already.
        """
        filter, tenant = self._where
        if messages and messages[-1].content == query_bundle.query_str:
            messages = messages[:-1]
        history = getattr(query_bundle, "history", None)
        return {
            "queries": ["\n".join(query_bundle.embedding_strs)],
            "k": self.similarity_top_k,
            "filter": filter,
            "tenant": EVERYONE if tenant is None else tenant,
            "within": getattr(query_bundle, "within", None),
            "history": [turns(messages if history is None else history)],
        }


def _search_of(index: VectorStoreIndex, count: int, converted: Converted) -> Search:
    """Return the search of an index for `count` candidates, by a question or its vector."""
    store, kind = index.vector_store, type(index.vector_store).__name__
    is_first = is_own(store, BasePydanticVectorStore, "query", "aquery")

    def ask(question: QueryType, filters: MetadataFilters | None, limit: int) -> list[Passage]:
        retriever = index.as_retriever(similarity_top_k=limit, filters=filters)
        try:
            return _passages(retriever, question, converted, awaited_first=is_first)
        except ValidationError:  # of a node without a text
            return [Passage("", "")]

    return Search(
        kind,
        ask,
        lambda filter: metadata_filters(filter, quoted=kind not in _ESCAPING),
        count,
        lambda: f"text_key={getattr(store, 'text_key', 'text')!r}",
    )


def _source_of(index: VectorStoreIndex | BaseRetriever, count: int) -> Source:
    """Return an index or a retriever as a source of `count` candidates for each question."""
    converted = Converted()
    if isinstance(index, BaseRetriever):
        name = f"the nodes of {type(index).__name__}"
        return source_of_retriever(name, lambda question: _passages(index, question, converted))
    store = index.vector_store
    collection = getattr(store, "collection_name", None)
    label = f" {collection!r}" if isinstance(collection, str) else ""
    kind, find = type(store).__name__, _search_of(index, count, converted)
    is_first = partial(is_own, store, BasePydanticVectorStore)

    def find_by_vector(vector: Sequence[float], filter: Filter | None) -> Sequence[Passage]:
        return find(QueryBundle("", embedding=[*vector]), filter)

    docstore, sample = index.docstore, None
    size: Callable[[], int] | None = None
    vectors: Vectors | None = None
    nodes_of: Callable[..., Sequence[BaseNode]] = either(
        store.get_nodes, store.aget_nodes, awaited_first=is_first("get_nodes", "aget_nodes")
    )
    if kind == "LanceDBVectorStore":  # it takes the quotes that it writes for those of a column
        get_nodes = nodes_of
        nodes_of = lambda ids: get_nodes(where=f"id IN {(*ids, '')}")  # noqa: E731
    if (select := _select_in_docstore(index)) is None:  # the nodes are in the vector store
        vectors = lambda ids: {n.node_id: n.embedding for n in nodes_of(ids)}  # noqa: E731
    else:
        nodes_of = lambda ids: docstore.get_nodes(select(ids), raise_error=False)  # noqa: E731
        struct = index.index_struct
        sample = lambda size: passages_of(nodes_of([*struct.nodes_dict.values()][:size]))  # noqa: E731
        size = lambda: len(struct.nodes_dict)  # noqa: E731
    if isinstance(store, SimpleVectorStore):
        rows = store.data.embedding_dict
        size = lambda: len(rows)  # noqa: E731
        vectors = lambda ids: {id_: rows[id_] for id_ in ids if id_ in rows}  # noqa: E731
    if kind == "ChromaVectorStore":  # its own nodes come without vectors
        vectors, listed = indexes.in_chroma(store.client)
        if sample is None:
            sample = lambda size: passages_of(nodes_of(ids)) if (ids := listed(size)) else []  # noqa: E731
            size = store.client.count
    return Source(
        f"{count} candidates of {kind}{label}",
        find,
        vectors,
        lambda ids: passages_again(nodes_of(ids), converted),
        sample,
        find_by_vector if store.is_embedding_query else None,
        embedded=embedded_text,
        size=size,
    )


def _select_in_docstore(index: VectorStoreIndex) -> Callable[[Sequence[str]], list[str]] | None:
    """Return a function that selects the ids of an index's nodes; None if its docstore has none.

    A docstore may have more: nodes of documents that were deleted from the index, or of another
    index. That `delete_nodes` was called, LlamaIndex notes in a SimpleVectorStore alone.
    """
    store, struct = index.vector_store, index.index_struct
    if isinstance(store, SimpleVectorStore):
        return lambda ids: [*filter(store.data.embedding_dict.__contains__, ids)]
    if not struct.nodes_dict:
        return None

    def select(ids: Sequence[str]) -> list[str]:
        there = {*ids}.intersection(struct.nodes_dict.values())  # of which a set would be large
        return [*filter(there.__contains__, ids)]

    return select


def _with_namesakes(retriever: BaseRetriever) -> BaseRetriever:
    """Return a retriever that keeps nodes which have ids of others, as LlamaIndex's do not."""
    twin = copy(retriever)
    handle, ahandle = twin._handle_recursive_retrieval, twin._ahandle_recursive_retrieval

    def each(query_bundle: QueryBundle, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        return [part for node in nodes for part in handle(query_bundle, [node])]

    async def aeach(query_bundle: QueryBundle, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        return [part for node in nodes for part in await ahandle(query_bundle, [node])]

    twin.__dict__ |= {"_handle_recursive_retrieval": each, "_ahandle_recursive_retrieval": aeach}
    return twin


def _passages(
    retriever: BaseRetriever,
    question: QueryType,
    converted: Converted,
    *,
    awaited_first: bool = False,
) -> list[Passage]:
    """Return the nodes that a retriever finds, without those that its own filters exclude.

    LlamaIndex's BM25Retriever fills up with these. If no node has a text, passages have none.
    `awaited_first`: see `either`; a retriever's own method may call a store, which blocks.
    """
    mask, corpus = (getattr(retriever, name, None) for name in ("corpus_weight_mask", "corpus"))
    rows = zip(corpus, mask, strict=True) if corpus and mask else ()
    out = {row["node_id"] for row, weight in rows if not weight}
    twin = _with_namesakes(retriever)
    hits = either(twin.retrieve, twin.aretrieve, awaited_first=awaited_first)(question)
    pool = [hit.node for hit in hits if hit.node.node_id not in out]
    texts = with_text(pool)
    if not texts:
        return [Passage(node.node_id, "") for node in pool]
    return passages_again(texts, converted)
