"""The index as a LlamaIndex retriever whose nodes have their uncertainty."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from typing import Any, Literal, Self

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.memory import BaseMemory
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, NodeWithScore, QueryBundle
from llama_index.core.settings import Settings
from llama_index.core.vector_stores.types import MetadataFilters

from uec_rag.base.checks import check_documents, check_k, check_type
from uec_rag.ensemble import UEC
from uec_rag.llama_index.nodes import hits, passages_of, turns, with_text
from uec_rag.llama_index.query import passage_filter
from uec_rag.llama_index.sources import source_of
from uec_rag.llama_index.vector_store import UECVectorStore
from uec_rag.retrieval import Gate, Retriever, SearchResult
from uec_rag.retrieval.adapters import OverIndex, as_index, index_over
from uec_rag.retrieval.gate import check_optional_threshold
from uec_rag.retrieval.query import Options
from uec_rag.retrieval.sources import Vectors


class UECRetriever(OverIndex, BaseRetriever):
    """Retriever that adds confidence and a decision to each node.

    The nodes are copies. These keys are added to the metadata of each: `uec_score` (the score by
    which nodes are ordered), `uec_sigma2` (the variance of the similarity) and `uec_relevance` (the
    probability that the node is relevant); and, the same for all nodes of a question,
    `uec_confidence` (the probability that they answer it), `uec_in_corpus` (that any node does),
    `uec_decision` ("answer", "clarify" or "abstain") and `uec_reason`. LLMs and embedding models do
    not see these keys. `UECQueryEngine` and `UECGatePostprocessor` act on a low confidence. For a
    question in a conversation, pass a `UECQueryBundle`, or the `memory` of a chat engine or agent.

    Parameters
    ----------
    retriever : Retriever
        The index.
    similarity_top_k : int
        Number of nodes to return; at least `Gate.k`, if the gate that decides has a guarantee.
    filters : MetadataFilters, optional
    memory : BaseMemory, optional
        The memory of a chat engine, with the turns before a question unless it is a
        `UECQueryBundle` with `history`. Engines add a question to it after it is answered.
    threshold : float, optional
        The confidence above which to answer; by default, the gate of the index decides, or 0.5
        if it has none (`Retriever.gate`).
    on_abstain : {"nodes", "empty"}
        What to return if the decision is to abstain: the nodes, or none, so that a plain engine has
        nothing to answer from.
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
        threshold: float | None = None,
        on_abstain: Literal["nodes", "empty"] = "nodes",
        details: bool = False,
        **kwargs: Any,
    ) -> None:
        instead = "; for a saved index Retriever.load(path), else see from_texts and from_index"
        check_type(retriever, Retriever, "retriever", "a uec_rag.Retriever", instead)
        instead = "; pass a list of turns as UECQueryBundle(..., history=)"
        check_type(memory, BaseMemory | None, "memory", "a memory of LlamaIndex", instead)
        check_k(similarity_top_k)
        passage_filter(filters)
        self.retriever = retriever
        self.similarity_top_k = similarity_top_k
        self.filters = filters
        self.memory = memory
        self.threshold = check_optional_threshold(threshold)
        if on_abstain not in ("nodes", "empty"):
            raise ValueError(f"on_abstain: expected 'nodes' or 'empty', got {on_abstain!r:.60}.")
        self.on_abstain = on_abstain
        self.details = details
        super().__init__(**kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        uec: UEC | BaseEmbedding | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        similarity_top_k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Index texts, which are embedded unchanged, and return a retriever over them.

        Parameters
        ----------
        texts, ids, metadatas
            As in `Retriever.add`.
        uec : UEC, LlamaIndex embedding or Retriever, optional
            As in `UECVectorStore`.
        similarity_top_k, **kwargs
            The class's other parameters, `store` of `UECVectorStore`, and `words` and `fit` as in
            `over`.
        """
        retriever = cls(_take_index(uec, kwargs), similarity_top_k, **kwargs)
        retriever.index.add(texts, ids, metadatas)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Sequence[BaseNode],
        uec: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Index nodes and return a retriever over them; parameters as in `from_texts`.

        As everywhere in LlamaIndex, a node is embedded as its text with its metadata, except
        `excluded_embed_metadata_keys`. Nodes without text are skipped with a warning.
        """
        retriever = cls(_take_index(uec, kwargs), similarity_top_k, **kwargs)
        UECVectorStore(retriever.index).add(nodes)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        uec: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        *,
        node_parser: NodeParser | None = None,
        **kwargs: Any,
    ) -> Self:
        """Split documents into nodes, index the nodes and return a retriever over them.

        Parameters
        ----------
        documents : sequence of Document
            Documents without text are skipped with a warning.
        node_parser : NodeParser, optional
            `Settings.node_parser` by default.
        uec, similarity_top_k, **kwargs
            As in `from_nodes`.

        Raises
        ------
        TypeError
            If one is not a document.
        """
        given = check_documents(documents, BaseNode, "LlamaIndex Document", "from_texts")
        parser = Settings.node_parser if node_parser is None else node_parser
        nodes = parser.get_nodes_from_documents(with_text(given))
        return cls.from_nodes(nodes, uec, similarity_top_k, **kwargs)

    @classmethod
    def from_index(cls, index: VectorStoreIndex, similarity_top_k: int = 4, **kwargs: Any) -> Self:
        """Return a retriever over an index whose vector store is a `UECVectorStore`.

        Raises
        ------
        TypeError
            If its store is not a `UECVectorStore`.
        """
        store = index.vector_store
        if not isinstance(store, UECVectorStore):
            raise TypeError(
                f"index: expected its vector store to be a UECVectorStore, got "
                f"{type(store).__name__}; build it with storage_context="
                "StorageContext.from_defaults(vector_store=UECVectorStore(uec))."
            )
        kwargs.setdefault("object_map", index.as_retriever().object_map)
        return cls(store.retriever, similarity_top_k, **kwargs)

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.retriever

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        uec: UEC | None = None,
        similarity_top_k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Load a retriever from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        uec : UEC, optional
            As in `Retriever.load`, as are the errors.
        similarity_top_k : int
        **kwargs
            Other parameters of the class, and those of `Retriever.load`.
        """
        options = _take(kwargs, signature(Retriever.load).parameters)
        return cls(Retriever.load(path, uec, **options), similarity_top_k, **kwargs)

    @classmethod
    def over(
        cls,
        theirs: VectorStoreIndex | BaseRetriever,
        uec: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        *,
        words: bool = True,
        fit: bool = True,
        candidates: int = 50,
        vectors: Vectors | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a retriever over any other index or retriever, whose nodes are ranked.

        Nothing is written to the index. Without a fit, the first search makes one on up to 2,000 of
        its nodes, if its docstore has them (see `Retriever.fit_from`); else call `fit_from`.

        Parameters
        ----------
        theirs : VectorStoreIndex or BaseRetriever
            What finds the candidates, such as a `QueryFusionRetriever`.
        uec : UEC or BaseEmbedding, optional
            The ensemble, or an embedding, by default the index's, beside which words are compared.
            If it is the index's, vectors are read from its store, and only questions are embedded.
        similarity_top_k : int
        words : bool
            Whether words are compared beside an embedding.
        fit : bool
            Whether the first search may fit the ensemble.
        candidates : int
            Number of nodes to request from an index for each question; at least
            `similarity_top_k`.
        vectors : callable(list of id) -> mapping of id to vector, optional
            How to get the vectors that the first encoder made from another store.
        **kwargs
            The class's other parameters. `filters` are handed over to an index, and applied to the
            nodes of a retriever.

        Raises
        ------
        TypeError, ValueError
            If `theirs` is neither, or is over a `UECVectorStore`, if no embedding is given for a
            retriever, or another argument is invalid.
        """
        kind = type(getattr(theirs, "vector_store", theirs)).__name__
        if not isinstance(theirs, VectorStoreIndex | BaseRetriever) or kind == "UECVectorStore":
            raise TypeError(
                "theirs: expected a retriever or a VectorStoreIndex over another store than "
                f"UECVectorStore (for which there is from_index), got {kind}."
            )
        count = max(check_k(candidates, "candidates"), check_k(similarity_top_k))
        source = source_of(theirs, count)
        own = getattr(theirs, "_embed_model", None)
        made = index_over(source, uec, own, vectors, words=words, fit=fit)
        return cls(made, similarity_top_k, **kwargs)

    def fit_from(self, nodes: Sequence[BaseNode] | None = None, **options: Any) -> Self:
        """Fit the ensemble without labels on nodes, or its own; see `Retriever.fit_from`."""
        passages = None
        if nodes is not None:
            given = check_documents(nodes, BaseNode, "node", "TextNode(text=text)")
            passages = passages_of(given)
        self.retriever.fit_from(passages, **options)
        return self

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        history = getattr(query_bundle, "history", None)
        if history is None and self.memory is not None:
            history = _before(self.memory.get_all())
        index, asked = self._parse_query(query_bundle, history)
        return self._hits(index.search(**asked))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        history = getattr(query_bundle, "history", None)
        if history is None and self.memory is not None:
            history = _before(await self.memory.aget_all())
        index, asked = await asyncio.to_thread(self._parse_query, query_bundle, history)
        return self._hits(await index.asearch(**asked))

    def _parse_query(
        self, query_bundle: QueryBundle, history: object
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return the index to search, and the arguments of its search.

        It is for a question, or for what a query transform such as HyDE wrote.
        """
        text, index = "\n".join(query_bundle.embedding_strs), self.index
        if self.threshold is not None:
            index = index.with_gate(Gate(self.threshold))
        options: Options = {
            "filter": passage_filter(self.filters),
            "within": getattr(query_bundle, "within", None),
            "history": [turns(history)],
        }
        return index, {"queries": [text], "k": self.similarity_top_k, **options}

    def _hits(self, result: SearchResult) -> list[NodeWithScore]:
        if self.on_abstain == "empty" and result[0].decision.action == "abstain":
            return []
        return hits(result, self.details)


def _take(options: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: options.pop(name) for name in [*options] if name in names}


def _take_index(uec: UEC | BaseEmbedding | None, options: dict[str, Any]) -> Retriever:
    return as_index(uec, **_take(options, ("store", "words", "fit")))


def _before(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Return the messages of a memory without that of the user to which no answer follows.

    It is the question: an agent remembers it before it calls a tool, a chat engine after a search.
    """
    unanswered = bool(messages) and messages[-1].role == MessageRole.USER
    return messages[:-1] if unanswered else messages
