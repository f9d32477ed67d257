"""The ensemble as LangChain's vector store, and as its retriever, over that store or any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Annotated, Any, Self, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BeforeValidator, ConfigDict, PrivateAttr, model_validator

from uec_rag.adapters import indexes
from uec_rag.base.checks import check_documents, check_k, refuse_unknown
from uec_rag.base.loops import beside
from uec_rag.ensemble import UEC
from uec_rag.index import Retriever
from uec_rag.index.first_fit import FitMode
from uec_rag.langchain.conversion import (
    KIND,
    CallOptions,
    Embedding,
    Indexed,
    Parameters,
    Question,
    Shown,
    UECEmbeddings,
    arguments_of,
    check_config,
    check_named,
    checked_passages,
    in_run,
    plain_documents,
    select_documents,
    to_document,
    with_options,
    with_text,
)
from uec_rag.langchain.gated import TOLD, AsTool
from uec_rag.langchain.sources import index_over
from uec_rag.retrieval import SearchResult
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.search import Options
from uec_rag.stores.base import EVERYONE, Everyone, Filter, Store
from uec_rag.stores.filters import all_of, check_given, check_tenant, owned
from uec_rag.stores.stored import Vectors

_CONDITIONS = ("tenant", "filter", "search_kwargs")  # which the caller may change afterwards


# LangChain's methods take any keyword; these refuse one that is misspelt.
class UECVectorStore(indexes.OverIndex, VectorStore):
    """A vector store with the variance of every similarity.

    Scores are s_hat (higher is better). Documents are returned as they were added; a `UECRetriever`
    adds the `uec_` keys.

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
    tenant_required : bool
        Whether each search and look-up needs a `tenant`, as in `Retriever`: then also that of a
        Retriever that is passed.

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
    """

    def __init__(
        self,
        embedding: Embedding = None,
        *,
        store: Store | None = None,
        words: bool = True,
        fit: FitMode = True,
        tenant_required: bool = False,
    ) -> None:
        self._index = indexes.as_index(embedding, store, words=words, fit=fit)
        if tenant_required:
            self._index.tenant_required = True

    def requiring_tenant(self, *, must: bool = True) -> Self:
        """Return a store over the same index that requires a tenant, or if not `must`, does not."""
        twin = copy(self)
        twin._index = self._index.requiring_tenant(must=must)
        return twin

    @property
    def embeddings(self) -> UECEmbeddings:
        """The ensemble, as what makes the vectors of searches by vector."""
        return UECEmbeddings(self._index.uec)

    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Iterable[str],
        embedding: Embedding = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Unpack[indexes.MakeOptions],
    ) -> Self:
        """Create a store and add texts; parameters as in the class and `add_texts`."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

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
        texts, ids, metadatas, outdated = with_text(texts, metadatas, ids)
        self.index.delete(outdated)
        return self.index.add(texts, ids, metadatas)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Run `add_texts` in a thread; what is cancelled adds nothing."""
        return await beside(self.add_texts, texts, metadatas, **kwargs)

    async def aadd_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Run `add_documents` in a thread; what is cancelled adds nothing."""
        return await beside(self.add_documents, documents, **kwargs)

    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """Run `add_texts` on documents; their ids count unless `ids` are passed."""
        checked = check_documents(documents, Document, KIND, "add_texts")
        kwargs.pop("current_time", None)  # which LangChain's time-weighted retriever hands on
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

    def get_by_ids(
        self, ids: Sequence[str], /, *, tenant: Filter | Everyone = EVERYONE
    ) -> list[Document]:
        """Return the documents with the given ids, in that order, leaving out unknown ids.

        `tenant`: as in `similarity_search`.
        """
        return [to_document(passage) for passage in self.index.get(ids, tenant=tenant)]

    def similarity_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[Document]:
        """Find the k documents with the highest s_hat, without the `uec_` keys.

        Parameters
        ----------
        query : str
        k : int
            Number of documents; all matches are returned if there are fewer.
        filter : mapping or callable, optional
            Metadata values that must be equal, or operators (see `uec_rag.stores.filters`), or a
            predicate on a passage (`id`, `text`, `metadata`).
        tenant : mapping or callable, optional
            As in `Retriever.search`, also in the other searches.

        Raises
        ------
        TypeError, ValueError
            If the query is empty or not a string, k < 1, or the filter is invalid.
        """
        return plain_documents(self._search(query, k, filter, tenant))

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[tuple[Document, float]]:
        """Run `similarity_search`, and return each document with its s_hat (higher is better)."""
        result = self._search(query, k, filter, tenant)
        return list(zip(plain_documents(result), result.scores[0].tolist(), strict=True))

    def _similarity_search_with_relevance_scores(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[tuple[Document, float]]:
        """Return each document with its `uec_relevance`; the public method has a threshold, too."""
        result = self._search(query, k, filter, tenant)
        return list(zip(plain_documents(result), result.relevance[0].tolist(), strict=True))

    def similarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Sequence[float],
        k: int = 4,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[Document]:
        """Run `similarity_search` for a vector of `embeddings`; see `Retriever.search_vector`."""
        result = self.index.search_vector(embedding, k, filter=filter, tenant=tenant)
        return plain_documents(result)

    def max_marginal_relevance_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[Document]:
        """Find documents that are relevant and diverse; see `Diversity`."""
        diversity = Diversity(fetch_k, lambda_mult)
        options = Options(filter=filter, diversity=diversity, tenant=tenant)
        result = self.index.search([query], k, **options)
        return plain_documents(result.with_copies(k, last=True))

    def max_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        *,
        tenant: Filter | Everyone = EVERYONE,
    ) -> list[Document]:
        """Run `max_marginal_relevance_search` for a vector of `embeddings`."""
        diversity = Diversity(fetch_k, lambda_mult)
        result = self.index.search_vector(
            embedding, k, filter=filter, diversity=diversity, tenant=tenant
        )
        return plain_documents(result.with_copies(k, last=True))

    asimilarity_search = indexes.in_thread_once_fitted(similarity_search)
    asimilarity_search_with_score = indexes.in_thread_once_fitted(similarity_search_with_score)
    asimilarity_search_by_vector = indexes.in_thread_once_fitted(similarity_search_by_vector)
    _asimilarity_search_with_relevance_scores = indexes.in_thread_once_fitted(
        _similarity_search_with_relevance_scores
    )
    amax_marginal_relevance_search = indexes.in_thread_once_fitted(max_marginal_relevance_search)
    amax_marginal_relevance_search_by_vector = indexes.in_thread_once_fitted(
        max_marginal_relevance_search_by_vector
    )

    def _search(
        self, query: str, k: int, filter: Filter | None, tenant: Filter | Everyone
    ) -> SearchResult:
        """Search for one query, and keep the copies of each hit."""
        return self.index.search([query], k, filter=filter, tenant=tenant).with_copies(k)

    def as_retriever(self, **kwargs: Unpack[Parameters]) -> UECRetriever:  # type: ignore[override]
        """Return a retriever over this store, whose documents have their uncertainty.

        `**kwargs`: LangChain's `search_type`, `search_kwargs` and `tags`, and the parameters of
        `UECRetriever`: ``as_retriever(search_type="mmr", search_kwargs={"lambda_mult": 0.3})``.
        """
        return UECRetriever(vectorstore=self, **kwargs)


class UECRetriever(indexes.FitFrom, AsTool[str, list[Document]], VectorStoreRetriever):
    """Retriever that adds confidence and a decision to each document.

    The input is a question, or a mapping with a "question" or an "input" and optionally its
    "chat_history" and options of the call. A call may also have `history`, the turns before the
    question as messages or strings, and `within`, the reading that the user chose (see
    `Retriever.search`).
    `uec_rag.questions.query.turns_of` describes which turns are used.

    These keys are added to the metadata of each document: `uec_score` (the score by which documents
    are ordered), `uec_sigma2` (the variance of the similarity) and `uec_relevance` (the probability
    that the document is relevant); and, the same for all documents of a question, `uec_confidence`
    (the probability that they answer it), `uec_in_corpus` (that any document does),
    `uec_underspecified` (that it does not say which of several things it means), `uec_decision`
    ("answer", "clarify" or "abstain") and `uec_reason`; `uec_reading` is added if the decision is
    "clarify". The decision is that of the index's gate.

    Parameters
    ----------
    vectorstore : UECVectorStore
    k : int
        Number of documents; also per call, ``retriever.invoke(question, k=2)``. At least `Gate.k`,
        if the gate that decides has a guarantee.
    filter : mapping or callable, optional
        As in `UECVectorStore.similarity_search`; also per call.
    tenant : mapping or callable, optional
        The filter of all documents of one tenant, as in `Retriever.search`. That of a call limits
        it further, and cannot lift it: ``retriever.model_copy(update={"tenant": None})`` does.
        Elsewhere, None is refused.
    tenant_required : bool
        Whether a search without a tenant, here or in the call, is refused.
    search_type : {"similarity", "mmr", "similarity_score_threshold"}
        The type of search, as in LangChain's vector stores. The score threshold applies to
        `uec_relevance`.
    search_kwargs : dict
        `k`, `filter`, `tenant`; `fetch_k` and `lambda_mult` for "mmr"; `score_threshold` for
        "similarity_score_threshold". They override the options above, and the options of a call
        override both, but all tenants count.
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
    filter: Filter | None = None
    tenant: Annotated[Filter | Everyone, BeforeValidator(check_given)] = EVERYONE
    tenant_required: bool = False
    details: bool = False
    _limit: Filter | None = PrivateAttr(default=None)

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_vectorstore(cls, fields: object) -> object:
        """Tell what to call in place of the constructor, for another store or an index."""
        store = fields.get("vectorstore") if isinstance(fields, dict) else None
        if isinstance(fields, dict) and "index" in fields:
            raise TypeError(
                "index: UECRetriever expects vectorstore=. Call "
                "UECVectorStore(index).as_retriever()."
            )
        if store is not None and not isinstance(store, UECVectorStore):
            raise TypeError(
                f"vectorstore: expected a UECVectorStore, got {type(store).__name__}. Call "
                "UECRetriever.over(vectorstore, embedding) for a store or a retriever of your own."
            )
        return fields

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, owned(value) if name in _CONDITIONS else value)

    @model_validator(mode="after")
    def _close(self) -> Self:
        """Own its conditions, and close what is below a retriever that requires a tenant."""
        self.tenant, self.filter, self.search_kwargs = self.tenant, self.filter, self.search_kwargs
        if self.tenant_required:
            self.vectorstore = self.vectorstore.requiring_tenant()
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy it as pydantic does; `tenant_required` opens and closes what is below, too."""
        conditions = {
            name: owned(value) for name, value in (update or {}).items() if name in _CONDITIONS
        }
        twin = super().model_copy(update={**(update or {}), **conditions}, deep=deep)
        if self.tenant_required and not twin.tenant_required:
            twin.vectorstore = twin.vectorstore.requiring_tenant(must=False)
        elif twin.tenant_required:
            twin.vectorstore = twin.vectorstore.requiring_tenant()
        return twin

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedding = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        ids: Sequence[str | None] | None = None,
        *,
        store: Store | None = None,
        words: bool = True,
        fit: FitMode = True,
        **kwargs: Unpack[Parameters],
    ) -> Self:
        """Index texts and return a retriever over them.

        Parameters
        ----------
        texts, metadatas, ids
            As in `UECVectorStore.add_texts`.
        embedding, store, words, fit
            As in `UECVectorStore`.
        **kwargs
            The class's parameters.
        """
        refuse_unknown(kwargs, cls, cls.from_texts)
        vectorstore = UECVectorStore(embedding, store=store, words=words, fit=fit)
        retriever = cls(vectorstore=vectorstore, **kwargs)
        vectorstore.add_texts(texts, metadatas, ids=ids)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedding = None,
        ids: Sequence[str | None] | None = None,
        **kwargs: Unpack[Indexed],
    ) -> Self:
        """Index documents and return a retriever over them; parameters as in `from_texts`.

        A document keeps its id if `ids` is not given.
        """
        retriever = cls.from_texts([], embedding, **kwargs)
        retriever.vectorstore.add_documents(documents, **({} if ids is None else {"ids": ids}))
        return retriever

    afrom_texts = indexes.made_in_thread(from_texts)
    afrom_documents = indexes.made_in_thread(from_documents)

    @classmethod
    def from_store(cls, vectorstore: UECVectorStore, **kwargs: Unpack[Parameters]) -> Self:
        """Return a retriever over an existing store."""
        return cls(vectorstore=vectorstore, **kwargs)

    @classmethod
    def over(
        cls,
        theirs: VectorStore | BaseRetriever,
        embedding: UEC | Embeddings | None = None,
        k: int = 4,
        *,
        candidates: int = 50,
        vectors: Vectors | None = None,
        words: bool = True,
        fit: FitMode = True,
        **kwargs: Unpack[Shown],
    ) -> Self:
        """Return a retriever over another vector store or retriever, whose documents are ranked.

        Nothing is written to the store. Without a fit, the first search makes one on up to 2,000 of
        its texts, if it can list them (see `Retriever.fit_from`); else call `fit_from`.

        Parameters
        ----------
        theirs : VectorStore or BaseRetriever
            What finds the candidates, such as a Chroma store or an `EnsembleRetriever`.
        embedding : UEC or Embeddings, optional
            The ensemble, or the store's embedding (default), beside which words are compared. If
            the vectors in Chroma, FAISS, Qdrant or `InMemoryVectorStore` are what it makes of the
            texts, they are read, and only questions are embedded.
        k : int
        words, fit : bool
            As in `UECVectorStore`.
        candidates : int
            Number of documents to request from a vector store for each question; at least k. As
            many are looked up by their words in those stores, which list up to 20,000 for this.
        vectors : callable(list of id) -> mapping of id to vector, optional
            How to get the vectors that the encoders made from another store.
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
        count = max(check_k(candidates, "candidates"), check_k(k))
        refuse_unknown(kwargs, cls, cls.over)
        index = index_over(theirs, embedding, count, vectors, words=words, fit=fit)
        return cls(vectorstore=UECVectorStore(index), k=k, **kwargs)._with_usual_filter()

    @classmethod
    def _made_of(cls, index: Retriever, **kwargs: Any) -> Self:
        refuse_unknown(kwargs, cls, cls.load)
        return cls(vectorstore=UECVectorStore(index), **kwargs)

    def _search_in(self, index: Retriever) -> None:
        self.vectorstore = UECVectorStore(index)

    @property
    def _defaults(self) -> dict[str, Any]:
        """The options of its searches, unless a call has others."""
        if "tenant" in self.search_kwargs:
            check_named(self.search_kwargs)
        defaults = {"k": self.k, "filter": self.filter, "tenant": self.tenant, **self.search_kwargs}
        if self.tenant is None:  # as an update of a copy lifts it
            defaults["tenant"] = self.search_kwargs.get("tenant", EVERYONE)
        elif "tenant" in self.search_kwargs:
            defaults["tenant"] = all_of(self.tenant, self.search_kwargs["tenant"])
        return defaults

    def _with_usual_filter(self) -> Self:
        defaults = self._defaults
        self.index.usual_filter = defaults["filter"]
        self.index.usual_tenant = check_tenant(defaults["tenant"])
        return self

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self.vectorstore._index

    _passages = staticmethod(checked_passages)

    @property
    def limits(self) -> dict[str, Any]:
        """See `AsTool.limits`."""
        return {"tenant": self._defaults["tenant"], "filter": self._limit}

    def narrowed(self, limits: Mapping[str, Any]) -> Self:
        """See `AsTool.narrowed`."""
        twin = self.model_copy()
        twin.tenant = all_of(self.tenant, limits.get("tenant")) or self.tenant
        twin._limit = all_of(self._limit, limits.get("filter"))
        return twin

    # A question may also be a mapping that has its history.
    def invoke(  # type: ignore[override]
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Unpack[CallOptions]
    ) -> list[Document]:
        """Retrieve documents for a question, in its conversation if there is one."""
        question, options = with_options(input, kwargs, TOLD)
        check_config(config, self._defaults, {"filter": self._limit}, options)
        return super().invoke(question, config, **options)

    async def ainvoke(  # type: ignore[override]
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Unpack[CallOptions]
    ) -> list[Document]:
        """Run `invoke` without blocking the event loop."""
        question, options = with_options(input, kwargs, TOLD)
        check_config(config, self._defaults, {"filter": self._limit}, options)
        return await super().ainvoke(question, config, **options)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        required = self.tenant_required
        base, limit = self._defaults, self._limit
        call, floor = arguments_of(self.search_type, base, kwargs, limit, required=required)
        with in_run(run_manager):
            return select_documents(self.index.search([query], **call), self.details, floor)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        required = self.tenant_required
        base, limit = self._defaults, self._limit
        call, floor = arguments_of(self.search_type, base, kwargs, limit, required=required)
        with in_run(run_manager):
            return select_documents(await self.index.asearch([query], **call), self.details, floor)
