"""The index as a LlamaIndex retriever whose nodes carry their uncertainty."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices import VectorStoreIndex
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import (
    BaseNode,
    Document,
    IndexNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.settings import Settings
from llama_index.core.vector_stores.types import MetadataFilters

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import Gaussian
from uec_rag.corpora.questions import QuestionGenerator
from uec_rag.ensemble import UEC
from uec_rag.llama_index.embedding import as_ensemble
from uec_rag.llama_index.events import announce
from uec_rag.llama_index.filters import passage_filter
from uec_rag.llama_index.nodes import hits, passages_of
from uec_rag.llama_index.over import LlamaIndexEngine
from uec_rag.llama_index.query import averaged
from uec_rag.llama_index.vector_store import UECVectorStore
from uec_rag.retrieval import Preferences, Retriever
from uec_rag.retrieval.elsewhere import Elsewhere, Stored, elsewhere
from uec_rag.stores.base import Filter


class UECRetriever(BaseRetriever):
    """Finds the best nodes for a question and writes on each how sure it is.

    The nodes are copies. Their metadata gains `uec_score` (the score they are ordered by), `uec_mu`
    and `uec_sigma2` (mean and variance of the similarity), `uec_relevance` (probability that the
    node is relevant), and, the same on all nodes of a question, `uec_confidence` (probability that
    they answer it), `uec_decision` ("answer", "clarify" or "abstain") with `uec_reason` and
    `uec_candidates` (ids of the nodes that compete), and `uec_coefficients` (how much each encoder
    counted). None of it is shown to an LLM or an embedding model. What to do about a low confidence
    is left to `UECQueryEngine` or `UECGatePostprocessor`.

    Parameters
    ----------
    retriever : Retriever
        The index, of this package.
    similarity_top_k : int
        How many nodes.
    filters : MetadataFilters, optional
    callback_manager, object_map, objects, verbose
        As in every LlamaIndex retriever.
    prefer : Preferences, optional
        What counts beside similarity; a node's document is its "ref_doc_id":
        ``prefer=Preferences(max_per_source=2, source_key="ref_doc_id")``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another type, or similarity_top_k < 1.

    Examples
    --------
    >>> def letters(texts):
    ...     return [[text.count(letter) + 0.1 for letter in "abc"] for text in texts]
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # not fitted
    ...     retriever = UECRetriever.from_texts(["aa", "bb", "cc"], UEC([letters]))
    ...     nodes = retriever.retrieve("b")
    >>> nodes[0].text, nodes[0].metadata["uec_sigma2"]
    ('bb', 0.0)
    """

    def __init__(
        self,
        retriever: Retriever,
        similarity_top_k: int = 4,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: Mapping[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        *,
        prefer: Preferences | None = None,
    ) -> None:
        if not isinstance(retriever, Retriever):
            raise TypeError(
                "retriever: expected a uec_rag.retrieval.retriever.Retriever, got "
                f"{type(retriever).__name__}; see from_texts, from_nodes, from_documents and "
                "from_index."
            )
        check_k(similarity_top_k)
        passage_filter(filters)
        self.retriever = retriever
        self.similarity_top_k = similarity_top_k
        self.filters = filters
        self.prefer = prefer
        super().__init__(callback_manager, dict(object_map or {}), objects, verbose)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        uec: UEC | BaseEmbedding | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        similarity_top_k: int = 4,
        *,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Index texts and return a retriever over them.

        Parameters
        ----------
        texts : sequence of str
            Embedded as they are, without the metadata.
        uec : UEC or LlamaIndex embedding, optional
            By default `UEC()`, which is fitted. An embedding other than a `UECEmbedding` gives a
            plain vector search.
        metadatas, ids : sequence, optional
            One per text.
        similarity_top_k : int
        show_progress : bool
        **kwargs
            The class's other parameters.
        """
        retriever = cls(Retriever(as_ensemble(uec)), similarity_top_k, **kwargs)
        retriever.retriever.add(texts, ids, metadatas, show_progress=show_progress)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Sequence[BaseNode],
        uec: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        *,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Index nodes and return a retriever over them; parameters as in `from_texts`.

        As everywhere in LlamaIndex, what is embedded of a node is its text with the metadata that
        `excluded_embed_metadata_keys` does not name.
        """
        retriever = cls(Retriever(as_ensemble(uec)), similarity_top_k, **kwargs)
        passages = passages_of(nodes)
        retriever.retriever.add(
            [passage.text for passage in passages],
            [passage.id for passage in passages],
            [passage.metadata for passage in passages],
            show_progress=show_progress,
        )
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        uec: UEC | BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        *,
        node_parser: NodeParser | None = None,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Split documents into nodes, index these and return a retriever over them.

        Parameters
        ----------
        documents : sequence of Document
            Those without text are left out.
        uec, similarity_top_k
            As in `from_texts`.
        node_parser : NodeParser, optional
            `Settings.node_parser` by default.
        show_progress : bool
        **kwargs
            The class's other parameters.
        """
        parser = Settings.node_parser if node_parser is None else node_parser
        nodes = [
            node
            for node in parser.get_nodes_from_documents(documents, show_progress=show_progress)
            if node.get_content(metadata_mode=MetadataMode.EMBED).strip()
        ]
        return cls.from_nodes(nodes, uec, similarity_top_k, show_progress=show_progress, **kwargs)

    @classmethod
    def from_index(cls, index: VectorStoreIndex, similarity_top_k: int = 4, **kwargs: Any) -> Self:
        """Return a retriever over an index whose vector store is a `UECVectorStore`.

        Raises
        ------
        TypeError
            If its store is another.
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

    @classmethod
    def over(
        cls,
        index: VectorStoreIndex,
        uec: UEC,
        similarity_top_k: int = 4,
        *,
        candidates: int = 50,
        stored: Stored | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a retriever over any other index: it names candidates, `uec` ranks them.

        Candidates' texts are encoded, and remembered; where the vectors that lie there are the
        ensemble's, or one encoder's, those are used. Confidence is about the whole index: what it
        finds near random directions stands for the nodes that are no candidates.

        Parameters
        ----------
        index : VectorStoreIndex
            Over any vector store; filled and written to by its own means.
        uec : UEC
            Words, too, count in the order: how rare they are is told by the candidates and by
            what the index finds near random directions.
        similarity_top_k : int
        candidates : int
            How many nodes the index is asked for in each search, at least.
        stored : callable(list of id) -> list of vectors, optional
            How to ask the store for vectors, where it has no `get_nodes` that brings them.
        size : int, optional
            How many nodes the index holds, which confidence depends on; by default what was seen
            of it.
        **kwargs
            The class's other parameters; `filters` are handed to the index's own search.

        Raises
        ------
        TypeError, ValueError
            If index is none or one over a `UECVectorStore`.
        """
        if not isinstance(index, VectorStoreIndex) or isinstance(
            index.vector_store, UECVectorStore
        ):
            raise TypeError(
                "index: expected a VectorStoreIndex over another store than UECVectorStore (for "
                f"which there is from_index), got {type(index).__name__}."
            )
        found = elsewhere(uec, LlamaIndexEngine(index), candidates, stored=stored, size=size)
        return cls(found, similarity_top_k, **kwargs)

    @property
    def report(self) -> str:
        """What relevance and confidence rest on, in plain words."""
        return self.retriever.report

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries; as `Retriever.calibrate`."""
        self.retriever.calibrate(queries, relevant_ids, unanswerable=unanswerable, k=k)
        return self

    def self_calibrate(
        self, generate: QuestionGenerator | None = None, *, k: int = 10, seed: int = 0
    ) -> Self:
        """Learn from the nodes alone whom to trust here; as `Retriever.self_calibrate`."""
        self.retriever.self_calibrate(generate, k=k, seed=seed)
        return self

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        texts, where = _texts(query_bundle), self._where()
        parts = self.retriever.uec.encode(texts, "query")
        return self._search(query_bundle.query_str, parts, where)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        texts, where = _texts(query_bundle), self._where()
        parts = await self.retriever.uec.aencode(texts, "query")
        return await asyncio.to_thread(self._search, query_bundle.query_str, parts, where)

    def _where(self) -> Filter | None:
        """The filters as the index takes them; over another's store they are that store's own."""
        if isinstance(self.retriever, Elsewhere):
            return cast(Filter, self.filters)
        where = passage_filter(self.filters)
        self.retriever.check_filter(where)
        return where

    def _search(
        self, query: str, parts: list[Gaussian], where: Filter | None
    ) -> list[NodeWithScore]:
        result = self.retriever.search_encoded(
            [query],
            averaged(parts) if len(parts[0]) > 1 else parts,
            self.similarity_top_k,
            filter=where,
            prefer=self.prefer,
        )
        announce(query, result)
        return hits(result)


def _texts(query_bundle: QueryBundle) -> list[str]:
    """What to embed: the question, or what a query transform (HyDE, say) put in its place."""
    if not query_bundle.embedding_strs:
        raise ValueError("query: expected a text, got an empty one.")
    return query_bundle.embedding_strs
