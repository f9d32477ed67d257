"""The index as a LangChain `VectorStore`, and a retriever over it.

Any other LangChain store or retriever can be a source of candidates for the ensemble to rank.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Self, TypeAlias

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    BaseRunManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, PrivateAttr

from uec_rag.base.checks import as_list, check_documents, check_k
from uec_rag.base.gaussian import FloatArray
from uec_rag.confidence.decision import outcome
from uec_rag.confidence.replies import Within
from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.ensemble import UEC
from uec_rag.langchain.documents import (
    DocumentFilter,
    Question,
    passage_filter,
    question_and_history,
    to_document,
    turns,
    with_uncertainty,
    without_text,
)
from uec_rag.langchain.embeddings import UECEmbeddings
from uec_rag.langchain.gated import AsTool
from uec_rag.langchain.sources import passages_of, source_of
from uec_rag.retrieval import Gate, Retriever, SearchResult
from uec_rag.retrieval.adapters import Hits, OverIndex, as_ensemble, as_index, in_thread, index_over
from uec_rag.retrieval.gate import check_optional_threshold
from uec_rag.retrieval.query import Diversity
from uec_rag.retrieval.result import diversify
from uec_rag.retrieval.sources import Vectors
from uec_rag.stores.base import Store

Embedding: TypeAlias = UEC | Embeddings | Retriever | None
"""The types from which a store can be created."""


# LangChain's methods take any keyword; these refuse one that is misspelt.
class UECVectorStore(OverIndex, VectorStore):
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
        self.retriever = as_index(embedding, store, words=words, fit=fit)

    def __repr__(self) -> str:
        return f"UECVectorStore({self.retriever!r})"

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.retriever

    @property
    def embeddings(self) -> UECEmbeddings:
        """The ensemble as `Embeddings`, whose vectors can be passed to methods that take one."""
        return UECEmbeddings(self.index.uec)

    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Iterable[str],
        embedding: Embedding = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        store: Store | None = None,
        words: bool = True,
        fit: bool = True,
    ) -> Self:
        """Create a store and add texts; parameters as in the class and `add_texts`."""
        made = cls(embedding, store=store, words=words, fit=fit)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Embedding = None, **kwargs: Any
    ) -> Self:
        """Create a store and add documents; parameters as in `from_texts`."""
        checked = check_documents(documents, Document, "Document", "from_texts")
        return super().from_documents(checked, embedding, **kwargs)  # type: ignore[arg-type]

    def add_texts(  # type: ignore[override]
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Embed and index texts; one with the id of an existing document replaces it.

        Parameters
        ----------
        texts : iterable of str
            Those without text, such as blank pages, are skipped with a warning that names their
            sources.
        metadatas : sequence of mapping, optional
        ids : sequence of str, optional
            Generated by default, and where one is None.
        batch_size : int, optional
            LangChain's `index` passes it to every store. It has no effect, since encoders have
            their own.

        Returns
        -------
        list of str
            The ids of the texts that were not skipped.

        Raises
        ------
        TypeError, ValueError
            As in `Retriever.add`.
        """
        every = as_list(texts, "texts")
        count = len(every)
        about = [{}] * count if metadatas is None else as_list(metadatas, "metadatas")
        names = [None] * count if ids is None else as_list(ids, "ids")
        for argument, values in (("metadatas", about), ("ids", names)):
            if len(values) != count:
                raise ValueError(f"{argument}: expected {count}, one per text, got {len(values)}.")
        left = without_text(every, about)
        self.index.delete([id_ for at in left if (id_ := names[at]) is not None])  # outdated ones
        kept = [at for at in range(count) if at not in left]
        named = None if ids is None else [names[at] or uuid.uuid4().hex for at in kept]
        return self.index.add([every[at] for at in kept], named, [about[at] for at in kept])

    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Run `add_texts` on documents; their ids count unless `ids` are passed."""
        checked = check_documents(documents, Document, "Document", "add_texts")
        return super().add_documents(checked, **kwargs)

    def delete(self, ids: Sequence[str] | None = None) -> bool:  # type: ignore[override]
        """Remove documents by id, or all if `ids` is None, as LangChain defines it.

        Unknown ids are ignored. Returns True.
        """
        if ids is None:
            self.index.clear()
        else:
            self.index.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with the given ids, in that order, leaving out unknown ids."""
        return [to_document(passage) for passage in self.index.get(ids)]

    def documents(self, result: SearchResult) -> list[Document]:
        """Convert the hits of the first query to documents, as LangChain's methods return them.

        The documents are as they were added, as LangChain requires. A subclass may return more.
        `UECRetriever` and `similarity_search_with_uncertainty` always add the `uec_` keys.
        """
        return [to_document(passage) for passage in result.passages[0]]

    def similarity_search(  # type: ignore[override]
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
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
        return self.documents(self._search(query, k, filter))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search`, and return each document with its s_hat (higher is better)."""
        result = self._search(query, k, filter)
        return self._pair(result, result.scores)

    def similarity_search_with_uncertainty(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[Document]:
        """Run `similarity_search`, and return documents with the `uec_` keys in their metadata."""
        return with_uncertainty(self._search(query, k, filter))

    def _similarity_search_with_relevance_scores(  # type: ignore[override]
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        result = self._search(query, k, filter)
        return self._pair(result, result.relevance)

    # LangChain's would want a function of the score, but the relevance of a document depends on the
    # other documents as well.
    _asimilarity_search_with_relevance_scores = in_thread(_similarity_search_with_relevance_scores)

    def similarity_search_by_vector(  # type: ignore[override]
        self, embedding: Sequence[float], k: int = 4, filter: DocumentFilter | None = None
    ) -> list[Document]:
        """Find documents for a vector, such as `store.embeddings.embed_query` returns."""
        return self.documents(self.index.search_vector(embedding, k, filter=passage_filter(filter)))

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search_by_vector`, and return each document with its s_hat."""
        result = self.index.search_vector(embedding, k, filter=passage_filter(filter))
        return self._pair(result, result.scores)

    def max_marginal_relevance_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
    ) -> list[Document]:
        """Find k documents that are relevant and diverse, by maximal marginal relevance.

        `filter`: as in `similarity_search`.
        """
        return self.documents(self._search(query, k, filter, Diversity(fetch_k, lambda_mult)))

    def max_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
    ) -> list[Document]:
        """Run `max_marginal_relevance_search` for a query's vector."""
        view, fetched = self.index.snapshot(), max(check_k(k), check_k(fetch_k, "fetch_k"))
        result = view.search_vector(embedding, fetched, filter=passage_filter(filter))
        return self.documents(diversify(view.vectors, result, k, lambda_mult))

    def _pair(self, result: SearchResult, numbers: FloatArray) -> list[tuple[Document, float]]:
        return list(zip(self.documents(result), numbers[0].tolist(), strict=True))

    def _search(
        self,
        query: str,
        k: int,
        filter: DocumentFilter | None,
        diversity: Diversity | None = None,
    ) -> SearchResult:
        """Search for one query, and keep the copies of each hit unless the hits are to differ."""
        found = self.index.search([query], k, filter=passage_filter(filter), diversity=diversity)
        return found.with_copies(k) if diversity is None else found

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
            `read_only`, `encoders`, `store` and `trust`, as in `Retriever.load`, as are
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


class UECRetriever(OverIndex, AsTool[str, list[Document]], VectorStoreRetriever):
    """Retriever that adds confidence and a decision to each document.

    The input is a question, or a mapping with a "question" or an "input" and optionally its
    "chat_history". A call may also have `history`, the turns before the question as messages or
    strings (for `search`, a list for each question), and `within`, the reading that the
    user chose (see `Retriever.search`). `uec_rag.retrieval.query.turns_of` describes which
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

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        uec: Embedding = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str | None] | None = None,
        k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Index texts and return a retriever over them.

        Parameters
        ----------
        texts, metadatas, ids
            As in `UECVectorStore.add_texts`.
        uec : UEC, Embeddings or Retriever, optional
            The `embedding` of `UECVectorStore`.
        k, **kwargs
            The class's other parameters, and `store`, `words` and `fit` of `UECVectorStore`.
        """
        own = cls._take_own(kwargs)
        store = UECVectorStore.from_texts(texts, uec, metadatas, ids=ids, **kwargs)
        return cls(vectorstore=store, k=k, **own)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        uec: Embedding = None,
        ids: Sequence[str | None] | None = None,
        k: int = 4,
        **kwargs: Any,
    ) -> Self:
        """Index documents and return a retriever over them; parameters as in `from_texts`.

        A document keeps its id if `ids` is not given.
        """
        own = cls._take_own(kwargs)
        named = {} if ids is None else {"ids": ids}
        store = UECVectorStore.from_documents(documents, uec, **named, **kwargs)
        return cls(vectorstore=store, k=k, **own)

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
            Number of documents to request from a vector store for each question; at least k.
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
        if isinstance(theirs, UECVectorStore) or not isinstance(
            theirs, VectorStore | BaseRetriever
        ):
            raise TypeError(
                "theirs: expected a retriever or a VectorStore other than UECVectorStore (for "
                f"which there is from_store), got {type(theirs).__name__}."
            )
        source = source_of(theirs, max(check_k(candidates, "candidates"), check_k(k)))
        own = getattr(theirs, "embeddings", None)
        made = index_over(source, embedding, own, vectors, words=words, fit=fit)
        return cls(vectorstore=UECVectorStore(made), k=k, **kwargs)

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
            Other parameters of the class, and those of `Retriever.load`.
        """
        own = cls._take_own(kwargs)
        return cls(vectorstore=UECVectorStore.load(path, embedding, **kwargs), k=k, **own)

    @classmethod
    def _take_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Take the parameters of the class out of options."""
        return {name: options.pop(name) for name in [*options] if name in cls.model_fields}

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.vectorstore.index

    def fit_from(self, documents: Iterable[Document] | None = None, **options: Any) -> Self:
        """Fit the ensemble without labels on documents, or its own; see `Retriever.fit_from`."""
        passages = None
        if documents is not None:
            given = check_documents(documents, Document, "Document", "Document(text)")
            passages = passages_of(given)
        self.index.fit_from(passages, **options)
        return self

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
        index, arguments = self._request(queries, **self._options(options))
        return index.search(**arguments)

    async def asearch(self, queries: Sequence[str], **options: Any) -> SearchResult:
        """Run `search` in a thread; an asynchronous advisor is asked in this event loop."""
        prepare = partial(self._request, queries, **self._options(options))
        index, arguments = await run_in_executor(None, prepare)
        return await index.asearch(**arguments)

    def _options(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's options, with defaults from `search_kwargs`, then from the retriever."""
        given = {name: value for name, value in call.items() if value is not None}
        return {"k": self.k, "filter": self.filter, **self.search_kwargs, **given}

    def _request(
        self,
        queries: Sequence[str],
        *,
        k: int,
        filter: DocumentFilter | None,
        history: Sequence[object] | None = None,
        within: Within | None = None,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        score_threshold: float | None = None,
    ) -> tuple[Retriever, dict[str, Any]]:
        """Return the index to search, and the arguments of its search."""
        if score_threshold is not None and self.search_type != "similarity_score_threshold":
            raise ValueError(
                'score_threshold: it needs search_type="similarity_score_threshold", got '
                f"{self.search_type!r}."
            )
        index = self.index
        if self._gate is not None or self.threshold is not None:
            index = index.with_gate(self.gate)
        arguments: dict[str, Any] = {"queries": queries, "k": k, "within": within}
        arguments["filter"] = passage_filter(filter)
        arguments["history"] = history and [turns(before) for before in history]
        if self.search_type == "mmr":
            arguments["diversity"] = Diversity(fetch_k, lambda_mult)
        return index, arguments

    # A question may also be a mapping that has its history.
    def invoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Retrieve documents for a question, in its conversation if there is one."""
        question, history = question_and_history(input, kwargs.pop("history", None))
        before = None if history is None else [history]
        return super().invoke(question, config, history=before, **kwargs)

    async def ainvoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """Run `invoke` without blocking the event loop."""
        question, history = question_and_history(input, kwargs.pop("history", None))
        before = None if history is None else [history]
        return await super().ainvoke(question, config, history=before, **kwargs)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._hits(self.search([query], **kwargs), run_manager, kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._hits(await self.asearch([query], **kwargs), run_manager, kwargs)

    def _hits(
        self, result: SearchResult, run: BaseRunManager, options: Mapping[str, Any]
    ) -> Hits[Document]:
        """Return the documents of a question."""
        documents = Hits(with_uncertainty(result, details=self.details))
        documents.decision = result[0].decision
        for key, value in outcome([documents.decision]).items():  # for tracers
            run.metadata[f"uec_{key}"] = value
        if self.on_abstain == "empty" and documents.decision.action == "abstain":
            documents.clear()
        if self.search_type == "similarity_score_threshold":
            least = self._options(options)["score_threshold"]
            documents[:] = [d for d in documents if d.metadata["uec_relevance"] >= least]
        return documents
