"""The index as a LangChain `VectorStore`, and a retriever over it.

Any other LangChain vector store can be a source of candidates for the ensemble to rank.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, Self, TypeAlias, TypedDict, Unpack, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list, run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, PrivateAttr, model_validator

from uec_rag.base.checks import as_list, check_k, check_share, check_text
from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.replies import Within
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.ensemble import UEC
from uec_rag.langchain.documents import (
    DocumentFilter,
    Question,
    join_histories,
    note_decision,
    passage_filter,
    question_and_history,
    refuse_unknown,
    to_document,
    turns,
    with_text,
    with_uncertainty,
)
from uec_rag.langchain.embeddings import UECEmbeddings, as_ensemble
from uec_rag.langchain.gated import AsTool
from uec_rag.langchain.sources import passages_of, source_of
from uec_rag.retrieval import Gate, Retriever, SearchResult
from uec_rag.retrieval.diversity import diversify
from uec_rag.retrieval.gate import check_optional_threshold
from uec_rag.retrieval.plain import as_index, index_over
from uec_rag.retrieval.request import Diversity
from uec_rag.retrieval.sources import Vectors
from uec_rag.stores.base import Store

Embedding: TypeAlias = UEC | Embeddings | Retriever | None
"""The types from which a store can be created."""

_TEXTS = ("texts", "metadatas", "ids", "batch_size")
_DOCUMENTS = ("documents", "ids", "batch_size")
_VECTOR = ("embedding", "k", "filter")
_DIVERSE = ("fetch_k", "lambda_mult")
_OPTIONS = {
    "similarity": ("k", "filter"),
    "similarity_score_threshold": ("k", "filter", "score_threshold"),
    "mmr": ("k", "filter", "fetch_k", "lambda_mult"),
}
"""The options of each kind of search."""
_DEFAULTS: dict[str, Any] = {"fetch_k": 20, "lambda_mult": 0.5, "score_threshold": 0.0}

_CALL_ONLY = ("history", "within")
_STORE = ("store", "words", "fit")
_LOAD = ("read_only", "encoders", "device", "store", "trust")


class CallOptions(TypedDict, total=False):
    """The options of a call of `UECRetriever`, besides the question."""

    history: object
    within: Within | None
    k: int
    filter: DocumentFilter | None
    fetch_k: int
    lambda_mult: float
    score_threshold: float


class UECVectorStore(VectorStore):
    """A vector store with the variance of every similarity.

    This is a drop-in replacement for LangChain's `InMemoryVectorStore`, with the same methods and
    `similarity_search_with_uncertainty`. Scores are s_hat (higher is better). If a method takes a
    vector instead of a text, the variance of the query is unknown and assumed to be 0 (that of the
    passages is still used), and the weights of the encoders are those of the vector, which do not
    depend on this corpus.

    Parameters
    ----------
    embedding : UEC, UECEmbeddings, Embeddings or Retriever, optional
        `UEC()`, which is fitted, by default. Beside any other LangChain `Embeddings`, words are
        compared, and the first search fits both on the documents, without labels, once there are
        64 (`Retriever.fit_from`). A `uec_rag.Retriever` is used with its passages.
    store : Store, optional
        Where vectors and documents are stored: `LocalStore` (default) or `QdrantStore`.
    words : bool
        Whether words are compared beside an `Embeddings`.
    fit : bool
        Whether the first search may fit the ensemble. With neither, an `Embeddings` makes a plain
        vector search with variance 0.

    Attributes
    ----------
    retriever : Retriever
        The underlying index.

    Raises
    ------
    TypeError, ValueError
        If `embedding` has another type, or a store is given with a Retriever, which has its own.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> from uec_rag import UEC
    >>> store = UECVectorStore(UEC(["bm25"]))

    Add:

    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> store.add_texts(texts, ids=["cats", "dogs"])
    ['cats', 'dogs']

    Search:

    >>> store.similarity_search("Why do cats purr?", k=1)
    [Document(id='cats', metadata={}, page_content='Cats purr when they are content.')]

    As a retriever:

    >>> retriever = store.as_retriever(search_kwargs={"k": 1})
    >>> retriever.invoke("What is the capital of France?")[0].metadata["uec_decision"]
    'abstain'

    Save and load:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store.save(f"{folder}/index")
    ...     len(UECVectorStore.load(f"{folder}/index").index)
    2
    """

    def __init__(
        self,
        embedding: Embedding = None,
        *,
        store: Store | None = None,
        words: bool = True,
        fit: bool = True,
    ) -> None:
        self.retriever = as_index(embedding, store, as_ensemble, words=words, fit=fit)

    def __repr__(self) -> str:
        return f"UECVectorStore({self.retriever!r})"

    @property
    def embeddings(self) -> UECEmbeddings:
        """The ensemble as `Embeddings`, whose vectors can be passed to methods that take one."""
        return UECEmbeddings(self.retriever.uec)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedding = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a store and add texts; parameters as in the class and `add_texts`."""
        made = cls(embedding, **_take(kwargs, _STORE))
        made.add_texts(texts, metadatas, **kwargs)
        return made

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Embedding = None, **kwargs: Any
    ) -> Self:
        """Create a store and add documents; parameters as in the class and `add_documents`."""
        made = cls(embedding, **_take(kwargs, _STORE))
        made.add_documents(documents, **kwargs)
        return made

    @classmethod
    async def afrom_documents(
        cls, documents: Iterable[Document], embedding: Embedding = None, **kwargs: Any
    ) -> Self:
        """Run `from_documents` in LangChain's executor, as the store's other methods do."""
        return await run_in_executor(None, cls.from_documents, documents, embedding, **kwargs)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        show_progress: bool | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Embed and index texts, as `Retriever.add` does; ids that are None are generated.

        `batch_size`, which LangChain's `index` passes to every store, has no effect, since encoders
        have their own.
        """
        refuse_unknown(kwargs, "add_texts", (*_TEXTS, "show_progress"))
        all_texts = texts if isinstance(texts, str) else list(texts)
        named = None
        if ids is not None:
            named = [uuid.uuid4().hex if id_ is None else id_ for id_ in as_list(ids, "ids")]
        return self.retriever.add(all_texts, named, metadatas, show_progress=show_progress)

    def add_documents(
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        show_progress: bool | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Embed and index documents; one with the id of an existing document replaces it.

        Parameters
        ----------
        documents : iterable of Document
            Documents to copy into the store. Those without text, such as blank pages, are skipped
            with a warning that names them.
        ids : sequence of str, optional
            Ids to use instead of those of the documents. Generated if there are neither.
        show_progress, **kwargs
            As in `add_texts`, as are the return value and errors.
        """
        refuse_unknown(kwargs, "add_documents", (*_DOCUMENTS, "show_progress"))
        kept, blank = with_text(documents, ids)
        self.retriever.delete(blank)
        return self.add_texts(
            [document.page_content for _, document in kept],
            [document.metadata for _, document in kept],
            ids=[id_ for id_, _ in kept],
            show_progress=show_progress,
        )

    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by id, or all if `ids` is None, as LangChain defines it.

        Unknown ids are ignored. Returns True.
        """
        refuse_unknown(kwargs, "delete", ("ids",))
        if ids is None:
            self.retriever.clear()
        else:
            self.retriever.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with the given ids, in that order, leaving out unknown ids."""
        return [to_document(passage) for passage in self.retriever.get(ids)]

    def documents(self, result: SearchResult) -> list[Document]:
        """Convert the hits of the first query to documents, as LangChain's methods return them.

        The documents are as they were added, as LangChain requires. A subclass may return more.
        `UECRetriever` and `similarity_search_with_uncertainty` always add the `uec_` keys.
        """
        return [to_document(passage) for passage in result.passages[0]]

    def similarity_search(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Find the k documents with the highest s_hat, without the `uec_` keys.

        Parameters
        ----------
        query : str
        k : int
            Number of documents; all matches are returned if there are fewer.
        filter : mapping or callable, optional
            Metadata values that must be equal, or operators (see `uec_rag.stores.filters`), or a
            predicate on a `Document`. A key that no document has raises a warning, once.

        Raises
        ------
        TypeError, ValueError
            If the query is empty or not a string, k < 1, or the filter is invalid.
        """
        return self.documents(self._search("similarity_search", query, k, filter, kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search`, and return each document with its s_hat (higher is better)."""
        result = self._search("similarity_search_with_score", query, k, filter, kwargs)
        return self._pair(result, result.scores)

    def similarity_search_with_uncertainty(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Run `similarity_search`, and return documents with the `uec_` keys in their metadata."""
        return with_uncertainty(
            self._search("similarity_search_with_uncertainty", query, k, filter, kwargs)
        )

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        result = self._search("similarity_search_with_relevance_scores", query, k, filter, kwargs)
        return self._pair(result, result.relevance)

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        # LangChain's implementation would want a function of the score, but the relevance of a
        # document depends on the other documents as well.
        search = self._similarity_search_with_relevance_scores
        return await run_in_executor(None, search, query, k, filter, **kwargs)

    def similarity_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Find documents for a vector, such as `store.embeddings.embed_query` returns."""
        pairs = self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)
        return [document for document, _ in pairs]

    def similarity_search_with_score_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search_by_vector`, and return each document with its s_hat."""
        refuse_unknown(kwargs, "similarity_search_by_vector", _VECTOR)
        where = passage_filter(filter)
        result = self.retriever.search_vector(embedding, k, filter=where)
        return self._pair(result, result.scores)

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Find k documents that are relevant and diverse, by maximal marginal relevance.

        `filter`: as in `similarity_search`.
        """
        method, diversity = "max_marginal_relevance_search", Diversity(fetch_k, lambda_mult)
        return self.documents(self._search(method, query, k, filter, kwargs, diversity))

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Run `max_marginal_relevance_search` for a query's vector."""
        refuse_unknown(kwargs, "max_marginal_relevance_search_by_vector", (*_VECTOR, *_DIVERSE))
        check_k(k)
        check_k(fetch_k, "fetch_k")
        view, where = self.retriever.snapshot(), passage_filter(filter)
        result = view.search_vector(embedding, max(k, fetch_k), filter=where)
        return self.documents(diversify(view, result, k, lambda_mult))

    def _pair(self, result: SearchResult, numbers: FloatArray) -> list[tuple[Document, float]]:
        return list(zip(self.documents(result), numbers[0].tolist(), strict=True))

    def _search(
        self,
        method: str,
        query: str,
        k: int,
        filter: DocumentFilter | None,
        unknown: Mapping[str, Any],
        diversity: Diversity | None = None,
    ) -> SearchResult:
        """Search for one query."""
        known = ("query", "k", "filter", *(_DIVERSE if diversity else ()))
        refuse_unknown(unknown, method, known)
        queries, where = [check_text(query, "query")], passage_filter(filter)
        found = self.retriever.search(queries, k, filter=where, diversity=diversity)
        return found.with_copies(k) if diversity is None else found

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.retriever

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save documents, vectors and ensemble to a folder, atomically; see `Retriever.save`."""
        self.retriever.save(path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], embedding: UEC | Embeddings | None = None, **kwargs: Any
    ) -> Self:
        """Load a store from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        embedding : UEC, UECEmbeddings or Embeddings, optional
            The embedding that the store was created with, if it cannot be loaded by its name.
        **kwargs
            `read_only`, `encoders`, `device`, `store` and `trust`, as in `Retriever.load`, as are
            the errors.
        """
        if embedding is None or isinstance(embedding, UEC | UECEmbeddings):
            uec = None if embedding is None else as_ensemble(embedding)
            return cls(Retriever.load(path, uec, **kwargs))
        own = BlackBoxEncoder(embedding)
        kwargs["encoders"] = {own.name: own, **kwargs.get("encoders", {})}
        return cls(Retriever.load(path, **kwargs))

    def as_retriever(self, **kwargs: Any) -> UECRetriever:
        """Return a retriever over this store, whose documents have their uncertainty.

        Parameters
        ----------
        **kwargs
            LangChain's `search_type`, `search_kwargs` and `tags`, and the parameters of
            `UECRetriever`:
            ``as_retriever(search_type="mmr", search_kwargs={"k": 6, "lambda_mult": 0.3})``.
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return UECRetriever(vectorstore=self, tags=tags, **kwargs)


class UECRetriever(AsTool[str, list[Document]], VectorStoreRetriever):
    """Retriever that adds confidence and a decision to each document.

    The input is a question, or a mapping with a "question" or an "input" and optionally its
    "chat_history". A call may also have `history`, the turns before the question as messages or
    strings (for `batch` and `search`, a list for each question), and `within`, the reading that the
    user chose (see `Retriever.search`). `uec_rag.retrieval.conversation.turns_of` describes which
    turns are used.

    These keys are added to the metadata of each document: `uec_score` (the score by which documents
    are ordered), `uec_sigma2` (the variance of the similarity) and `uec_relevance` (the probability
    that the document is relevant); and, the same for all documents of a question, `uec_confidence`
    (the probability that they answer it), `uec_in_corpus` (that any document does),
    `uec_underspecified` (that it does not say which of several things it means), `uec_decision`
    ("answer", "clarify" or "abstain") and `uec_reason`; `uec_reading` is added if the decision is
    "clarify". The decision is that of `threshold`, else of the gate that was saved with the index.

    Parameters
    ----------
    vectorstore : UECVectorStore
    k : int
        Number of documents; also per call, ``retriever.invoke(question, k=2)``. At least `Gate.k`,
        if the gate that decides has a guarantee.
    filter : mapping or callable, optional
        Metadata values that must be equal, or a predicate on a `Document`; also per call.
    search_type : {"similarity", "mmr", "similarity_score_threshold"}
        The type of search, as in LangChain's vector stores. The score threshold applies to
        `uec_relevance`.
    search_kwargs : dict
        `k`, `filter`; `fetch_k` and `lambda_mult` for "mmr"; `score_threshold` for
        "similarity_score_threshold". They override the options above, and the options of a call
        override both.
    threshold : float, optional
        The confidence above which to answer; by default, the gate of the index decides, or 0.5
        if it has none (`Retriever.gate`).
    on_abstain : {"documents", "empty"}
        What to return if the decision is to abstain: the k documents, on which the chain decides by
        their metadata, or none, so that a plain chain has nothing to answer from.
    details : bool
        Whether to add details of the score and the decision, see `Result.metadata`.
    **kwargs
        The parameters of every LangChain retriever: `tags`, `metadata`, `name`.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> from uec_rag import UEC
    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> retriever = UECRetriever.from_texts(texts, UEC(["bm25"]), k=1)

    Add:

    >>> retriever.vectorstore.add_texts(["Birds sing at dawn."], ids=["birds"])
    ['birds']

    Search; each document has the decision in its metadata:

    >>> [document] = retriever.invoke("Why do cats purr?")
    >>> document.page_content, document.metadata["uec_decision"]
    ('Cats purr when they are content.', 'answer')
    >>> retriever.invoke("What is the capital of France?")[0].metadata["uec_decision"]
    'abstain'

    Let a configuration choose k:

    >>> from langchain_core.runnables import ConfigurableField
    >>> configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    >>> len(configurable.invoke("Why do dogs bark?", config={"configurable": {"k": 3}}))
    3
    """

    vectorstore: UECVectorStore
    k: Annotated[int, BeforeValidator(check_k)] = 4
    filter: DocumentFilter | None = None
    threshold: Annotated[float | None, BeforeValidator(check_optional_threshold)] = None
    on_abstain: Literal["documents", "empty"] = "documents"
    details: bool = False
    _gate: Gate | None = PrivateAttr(None)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="after")
    def _check_search_kwargs(self) -> Self:
        self.search_options({})
        return self

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        uec: Embedding = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        k: int = 4,
        *,
        store: Store | None = None,
        show_progress: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Index texts and return a retriever over them.

        Parameters
        ----------
        uec, store
            As in `UECVectorStore`.
        texts, metadatas, ids, show_progress
            As in `UECVectorStore.add_texts`.
        k, **kwargs
            The class's other parameters.
        """
        retriever = cls(vectorstore=UECVectorStore(uec, store=store), k=k, **kwargs)
        retriever.vectorstore.add_texts(texts, metadatas, ids=ids, show_progress=show_progress)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        uec: Embedding = None,
        ids: Sequence[str] | None = None,
        k: int = 4,
        *,
        store: Store | None = None,
        show_progress: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Index documents and return a retriever over them; parameters as in `from_texts`.

        A document keeps its id if `ids` is not given.
        """
        retriever = cls(vectorstore=UECVectorStore(uec, store=store), k=k, **kwargs)
        retriever.vectorstore.add_documents(documents, ids, show_progress=show_progress)
        return retriever

    @classmethod
    def from_store(cls, vectorstore: UECVectorStore, k: int = 4, **kwargs: Any) -> Self:
        """Return a retriever over an existing store."""
        return cls(vectorstore=vectorstore, k=k, **kwargs)

    @classmethod
    def over(
        cls,
        theirs: VectorStore | BaseRetriever,
        embedding: UEC | Embeddings | None = None,
        k: int = 4,
        *,
        words: bool = True,
        fit: bool = True,
        candidates: int = 50,
        vectors: Vectors | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a retriever over another vector store or retriever, whose documents are ranked.

        Nothing is written to the store. Without a fit, the first search makes one on up to 2,000 of
        its texts, if it can list them (see `Retriever.fit_from`); else call `fit_from`.

        Parameters
        ----------
        theirs : VectorStore or BaseRetriever
            What finds the candidates, such as a Chroma store or an `EnsembleRetriever`.
        embedding : UEC or Embeddings, optional
            The ensemble, or the store's embedding (default), beside which words are compared. If it
            is the store's, its vectors are read from Chroma, FAISS, Qdrant and
            `InMemoryVectorStore`, and only questions are embedded.
        k : int
        words : bool
            Whether words are compared beside an `Embeddings`.
        fit : bool
            Whether the first search may fit the ensemble.
        candidates : int
            Number of documents to request from a vector store for each question.
        vectors : callable(list of id) -> mapping of id to vector, optional
            How to get the vectors that the first encoder made from another store.
        **kwargs
            Other parameters of the class. Filters are applied by the stores above and by PGVector
            where they can be, and to the candidates of others.

        Raises
        ------
        TypeError, ValueError
            If `theirs` is neither, or is a `UECVectorStore`, if it has no embedding and none is
            given, or another argument is invalid.

        Examples
        --------
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from langchain_core.vectorstores import InMemoryVectorStore
        >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
        >>> _ = store.add_texts(["Cats purr when they are content.", "Dogs bark at strangers."])
        >>> UECRetriever.over(store, k=1).invoke("Why do cats purr?")[0].page_content
        'Cats purr when they are content.'
        """
        own = getattr(theirs, "embeddings", None)
        if isinstance(theirs, UECVectorStore) or not isinstance(
            theirs, VectorStore | BaseRetriever
        ):
            raise TypeError(
                "theirs: expected a retriever or a VectorStore other than UECVectorStore (for "
                f"which there is from_store), got {type(theirs).__name__}."
            )
        if embedding is None and own is None:
            raise ValueError(
                f"embedding: {type(theirs).__name__} has none of its own; pass a UEC or Embeddings."
            )
        source = source_of(theirs, check_k(candidates, "candidates"))
        uec = as_ensemble(own if embedding is None else embedding, words=words)
        made = index_over(uec, source, own, vectors, fit=fit)
        return cls(vectorstore=UECVectorStore(made), k=k, **kwargs)

    def fit_from(self, documents: Iterable[Document] | None = None, **options: Any) -> Self:
        """Fit the ensemble without labels on documents, or its own; see `Retriever.fit_from`."""
        passages = None if documents is None else passages_of([*documents])
        self.index.fit_from(passages, **options)
        return self

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.vectorstore.retriever

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save documents, vectors and ensemble to a folder, atomically; see `Retriever.save`."""
        self.index.save(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        embedding: UEC | Embeddings | None = None,
        k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Load a retriever from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        embedding : UEC, UECEmbeddings or Embeddings, optional
            As in `UECVectorStore.load`, as are the errors.
        k : int
        **kwargs
            Other parameters of the class, and `read_only`, `encoders`, `device`, `store` and
            `trust` of `Retriever.load`.
        """
        store = UECVectorStore.load(path, embedding, **_take(kwargs, _LOAD))
        return cls(vectorstore=store, k=k, **kwargs)

    @property
    def gate(self) -> Gate | None:
        """The gate that decides: of `with_gate`, `threshold` or the index; None for 0.5."""
        own = None if self.threshold is None else Gate(self.threshold)
        return self._gate or own or self.index.gate

    def with_gate(self, gate: Gate | None) -> Self:
        """Return a copy in which another gate decides, unless it is None."""
        copied = self.model_copy()
        copied._gate = gate
        return copied

    @property
    def report(self) -> str:
        """The description of what relevance and confidence are based on."""
        return self.index.report

    def calibrate(
        self, queries: Sequence[str], relevant_ids: Sequence[Collection[str]], **options: Any
    ) -> Self:
        """Fit relevance and confidence to labelled queries, see `Retriever.calibrate`."""
        self.index.calibrate(queries, relevant_ids, **options)
        return self

    def search(self, queries: Sequence[str], **options: Any) -> SearchResult:
        """Search for several questions at once, and return the result instead of documents.

        Parameters
        ----------
        queries : sequence of str
        **options
            `history`, a list of turns for each question; `within`; `k`, `filter` and the other
            options that `search_kwargs` may have.

        Raises
        ------
        TypeError, ValueError
            If a question is empty or not a string, or an option is unknown or out of range.
        """
        index, arguments = self._index_and_arguments(queries, options)
        return index.search(**arguments)

    async def asearch(self, queries: Sequence[str], **options: Any) -> SearchResult:
        """Run `search` in a thread; an asynchronous advisor is asked in this event loop."""
        prepare = self._index_and_arguments
        index, arguments = await run_in_executor(None, prepare, queries, options)
        return await index.asearch(**arguments)

    def _index_and_arguments(
        self, queries: Sequence[str], options: Mapping[str, Any]
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return the index to search, and the arguments of its search."""
        index, arguments = self.index, self.search_options(options)
        if (gate := self.gate) is not index.gate:
            index = index.snapshot()
            index.gate = gate
        arguments.pop("score_threshold", None)
        if self.search_type == "mmr":
            fetch_k, lambda_mult = (arguments.pop(name) for name in _DIVERSE)
            arguments["diversity"] = Diversity(fetch_k, lambda_mult)
        arguments["filter"] = passage_filter(arguments["filter"])
        if isinstance(arguments["history"], Sequence):  # else the index says what it expected
            arguments["history"] = [turns(history) for history in arguments["history"]]
        arguments["queries"] = [check_text(query, "query") for query in queries]
        return index, arguments

    def documents(self, result: SearchResult, **options: Any) -> list[list[Document]]:
        """Convert a result of `search` with these options to the documents of each question.

        Documents below the score threshold, if there is one, are left out, as are those of
        questions to abstain on, if `on_abstain` says so.
        """
        rows = [
            with_uncertainty(result, row, self.details)
            if outcome.decision.action != "abstain" or self.on_abstain == "documents"
            else []
            for row, outcome in enumerate(result)
        ]
        if self.search_type == "similarity_score_threshold":
            least = self.search_options(options)["score_threshold"]
            rows = [[d for d in row if d.metadata["uec_relevance"] >= least] for row in rows]
        return rows

    def search_runs(
        self, queries: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> tuple[SearchResult, list[list[Document]]]:
        """Search for several questions at once, reporting a run for each to its callbacks."""
        with self._runs(queries, configs, options) as end:
            result = self.search(queries, **options)
            return result, end(result)

    async def asearch_runs(
        self, queries: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> tuple[SearchResult, list[list[Document]]]:
        """Run `search_runs` without blocking the event loop."""
        with self._runs(queries, configs, options) as end:
            result = await self.asearch(queries, **options)
            return result, await run_in_executor(None, end, result)

    @contextmanager
    def _runs(
        self,
        queries: Sequence[str],
        configs: Sequence[RunnableConfig],
        options: Mapping[str, Any],
    ) -> Iterator[Callable[[SearchResult], list[list[Document]]]]:
        """Report a run for each question; yield a function that ends them with their documents."""
        runs = [
            CallbackManager.configure(**self._trace_arguments(config, options)).on_retriever_start(
                None, query, name=config.get("run_name") or self.get_name()
            )
            for query, config in zip(queries, configs, strict=True)
        ]

        def end(result: SearchResult) -> list[list[Document]]:
            documents = self.documents(result, **options)
            for row, run in enumerate(runs):
                note_decision(run, result[row].decision)
                run.on_retriever_end(documents[row])
            return documents

        try:
            yield end
        except Exception as error:
            for run in runs:
                run.on_retriever_error(error)
            raise

    def _trace_arguments(
        self, config: RunnableConfig, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments of the callback manager of a run."""
        return {
            "inheritable_callbacks": config.get("callbacks"),
            "inheritable_tags": config.get("tags"),
            "local_tags": self.tags,
            "inheritable_metadata": {
                **(config.get("metadata") or {}),
                **self._get_ls_params(**options),
            },
            "local_metadata": self.metadata,
        }

    # LangChain's allow any keyword, for which an editor could complete nothing.
    def invoke(  # type: ignore[override]
        self,
        input: Question,
        config: RunnableConfig | None = None,
        **kwargs: Unpack[CallOptions],
    ) -> list[Document]:
        """Retrieve documents for a question, in its conversation if there is one."""
        question, history = question_and_history(input, kwargs.pop("history", None))
        turns_before = None if history is None else [history]
        return super().invoke(question, config, history=turns_before, **kwargs)

    async def ainvoke(  # type: ignore[override]
        self,
        input: Question,
        config: RunnableConfig | None = None,
        **kwargs: Unpack[CallOptions],
    ) -> list[Document]:
        """Run `invoke` without blocking the event loop."""
        question, history = question_and_history(input, kwargs.pop("history", None))
        turns_before = None if history is None else [history]
        return await super().ainvoke(question, config, history=turns_before, **kwargs)

    def batch(
        self,
        inputs: Sequence[Question],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        history: Sequence[object] | None = None,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Retrieve documents for several questions in one search, as `invoke` does for each."""
        asked = join_histories(inputs, history)
        if return_exceptions:  # an invalid question must not prevent the search for the others
            return super().batch(cast(Any, asked), config, return_exceptions=True, **kwargs)
        queries, histories = _questions_and_histories(asked)
        configs = get_config_list(config, len(queries))
        return self.search_runs(queries, configs, history=histories, **kwargs)[1]

    async def abatch(
        self,
        inputs: Sequence[Question],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        history: Sequence[object] | None = None,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Run `batch` without blocking the event loop."""
        asked = join_histories(inputs, history)
        if return_exceptions:
            return await super().abatch(cast(Any, asked), config, return_exceptions=True, **kwargs)
        queries, histories = _questions_and_histories(asked)
        configs = get_config_list(config, len(queries))
        return (await self.asearch_runs(queries, configs, history=histories, **kwargs))[1]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        result = self.search([query], **kwargs)
        note_decision(run_manager, result[0].decision)
        return self.documents(result, **kwargs)[0]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        result = await self.asearch([query], **kwargs)
        note_decision(run_manager, result[0].decision)
        return (await run_in_executor(None, self.documents, result, **kwargs))[0]

    def search_options(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's options, with defaults from `search_kwargs`, then from the retriever."""
        names = _OPTIONS[self.search_type]
        refuse_unknown(self.search_kwargs, "search_kwargs: UECRetriever", names)
        refuse_unknown(call, "invoke", (*names, *_CALL_ONLY))
        own = {"k": self.k, "filter": self.filter}
        fields = {key: value for key, value in call.items() if value is not None}
        fields = _DEFAULTS | own | self.search_kwargs | fields
        check_k(fields["k"])
        check_k(fields["fetch_k"], "fetch_k")
        for name in ("score_threshold", "lambda_mult"):
            check_share(fields[name], name, "a number from 0 to 1")
        return {name: fields[name] for name in names} | {n: call.get(n) for n in _CALL_ONLY}

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Return LangChain's tracing parameters, with the names of the encoders."""
        params = super()._get_ls_params(**kwargs)
        params["ls_embedding_model"] = ", ".join(self.vectorstore.retriever.uec.fitted.names)
        return params


def _take(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Take some options out of those of a call."""
    return {name: options.pop(name) for name in names if name in options}


def _questions_and_histories(asked: Sequence[Question]) -> tuple[list[str], list[object]]:
    pairs = [question_and_history(asked_question) for asked_question in asked]
    return [question for question, _ in pairs], [before for _, before in pairs]
