"""The ensemble's index as a LangChain `VectorStore`, and the retriever that it gives."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from uec_rag.corpora.questions import QuestionGenerator
from uec_rag.encoders import MemberLike
from uec_rag.ensemble import UEC
from uec_rag.langchain.adding import RetrieverAdding
from uec_rag.langchain.embeddings import UECEmbeddings, as_ensemble
from uec_rag.langchain.over import LangChainEngine
from uec_rag.langchain.retrieving import UncertainRetriever
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.elsewhere import Stored, elsewhere


class UECVectorStore(RetrieverAdding):
    """A vector store that knows the variance of every similarity.

    Drop-in for LangChain's `InMemoryVectorStore`: the same methods, with scores that are s_hat
    (higher is better), and `similarity_search_with_uncertainty` besides. Where a method takes no
    text but a vector, the query's own variance is unknown and taken as 0 (that of the passages
    still counts), and the encoders' weights are those the vector was made with, which were not
    chosen in the light of this corpus.

    Parameters
    ----------
    embedding : UEC, UECEmbeddings, Embeddings or Retriever, optional
        By default `UEC()`, which is fitted. With any other LangChain `Embeddings` this is a plain
        vector search, variance 0. A `uec_rag.retrieval.retriever.Retriever` is taken as it is, with
        the passages it holds.

    Attributes
    ----------
    retriever : Retriever
        The index behind it, which does the work.

    Raises
    ------
    TypeError
        If embedding is none of these.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = UECVectorStore(DeterministicFakeEmbedding(size=8))
    >>> store.add_texts(["cats purr", "dogs bark"], ids=["1", "2"])
    ['1', '2']
    >>> store.similarity_search("dogs bark", k=1)
    [Document(id='2', metadata={}, page_content='dogs bark')]
    """

    def __init__(self, embedding: UEC | Embeddings | Retriever | None = None) -> None:
        self.retriever = (
            embedding if isinstance(embedding, Retriever) else Retriever(as_ensemble(embedding))
        )

    def __repr__(self) -> str:
        return f"UECVectorStore({self.retriever!r})"

    @property
    def embeddings(self) -> UECEmbeddings:
        """The ensemble as `Embeddings`; its vectors fit the methods that take one."""
        return UECEmbeddings(self.retriever.uec)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: UEC | Embeddings | Retriever | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store and add texts; parameters as in the class and `add_texts`."""
        store = cls(embedding)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: UEC | Embeddings | Retriever | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """`from_texts` without blocking the event loop."""
        store = cls(embedding)
        await store.aadd_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: UEC | Embeddings | Retriever | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store and add documents; parameters as in the class and `add_documents`."""
        store = cls(embedding)
        store.add_documents(documents, **kwargs)
        return store

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: UEC | Embeddings | Retriever | None = None,
        **kwargs: Any,
    ) -> Self:
        """`from_documents` without blocking the event loop."""
        store = cls(embedding)
        await store.aadd_documents(documents, **kwargs)
        return store

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Save documents, vectors and ensemble to a folder, atomically: `Retriever.save`."""
        self.retriever.save(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        embedding: UEC | Embeddings | None = None,
        *,
        encoders: Mapping[str, MemberLike] | None = None,
        device: str | None = None,
        trust: bool = False,
        verify: bool = True,
    ) -> Self:
        """Load what `dump`, or `Retriever.save`, saved.

        Parameters
        ----------
        path : path
        embedding : UEC, UECEmbeddings or Embeddings, optional
            What the store was made with; by default the ensemble saved in the folder is loaded.
        encoders, device, trust, verify
            As in `UEC.load`.

        Raises
        ------
        FileNotFoundError, ValueError
            If the folder is not a whole saved index, or `embedding` is not what it was made with.
        """
        uec = None if embedding is None else as_ensemble(embedding)
        return cls(
            Retriever.load(path, uec, encoders=encoders, device=device, trust=trust, verify=verify)
        )

    def as_retriever(self, **kwargs: Any) -> UECRetriever:
        """Return a retriever over this store, whose documents carry their uncertainty.

        Parameters
        ----------
        **kwargs
            As LangChain has them, `search_type`, `search_kwargs` and `tags`, or as `UECRetriever`:
            ``as_retriever(search_type="mmr", search_kwargs={"k": 6, "lambda_mult": 0.3})``.
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return UECRetriever(vectorstore=self, tags=tags, **kwargs)


class UECRetriever(UncertainRetriever):
    """Finds the k best documents for a question and writes on each how sure it is.

    The documents' metadata gains `uec_score` (the score they are ordered by), `uec_mu` and
    `uec_sigma2` (mean and variance of the similarity), `uec_relevance` (probability that the
    document is relevant), `uec_coefficients` (how much each encoder counted), and, the same on all
    documents of a question, `uec_confidence` (probability that they answer it), `uec_decision`
    ("answer", "clarify" or "abstain"), `uec_reason` and `uec_candidates` (ids of those that
    compete). There are always k documents where that many match: what to do about a low confidence
    is the chain's choice.

    Parameters
    ----------
    vectorstore : UECVectorStore
    k : int
        How many documents; also per call, ``retriever.invoke(question, k=2)``.
    filter : mapping or callable, optional
        Metadata values that must be equal, or a predicate on a `Document`; also per call.
    search_type : {"similarity", "mmr", "similarity_score_threshold"}
        As LangChain's vector stores have it. The score that a threshold is for is `uec_relevance`.
    search_kwargs : dict
        `k`, `filter`; `fetch_k` and `lambda_mult` for "mmr", `score_threshold` for the third; they
        count more than the options above, and a call's own most.
    prefer : Preferences, optional
        What counts beside similarity: sources that must not crowd out others, boosts.
    docstore : BaseStore, optional
        Where passages are pieces of larger documents, that of these documents: what comes back is
        the larger document of each hit, once, with what is known of its best piece, and the
        piece's id as `uec_passage`. LangChain's `ParentDocumentRetriever` and
        `MultiVectorRetriever` fill it, and lose what is known of a hit themselves.
    id_key : str
        Under which a piece's metadata names its document.
    **kwargs
        What every LangChain retriever takes: `tags`, `metadata`, `name`.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> texts = ["cats purr", "dogs bark", "birds sing"]
    >>> retriever = UECRetriever.from_texts(texts, DeterministicFakeEmbedding(size=8), k=2)
    >>> [document.page_content for document in retriever.invoke("dogs bark", k=1)]
    ['dogs bark']

    To let a configuration choose k:

    >>> from langchain_core.runnables import ConfigurableField
    >>> configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    >>> len(configurable.invoke("dogs bark", config={"configurable": {"k": 3}}))
    3
    """

    vectorstore: UECVectorStore

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        uec: UEC | Embeddings | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        ids: Sequence[str] | None = None,
        k: int = 4,
        *,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Index texts and return a retriever over them.

        Parameters
        ----------
        texts : sequence of str
        uec : UEC, optional
            By default `UEC()`, which is fitted. Or a `UECEmbeddings`, or any LangChain
            `Embeddings` (then without uncertainty).
        metadatas, ids : sequence, optional
            One per text.
        k : int
        show_progress : bool
        **kwargs
            The class's other parameters.
        """
        retriever = cls(vectorstore=UECVectorStore(uec), k=k, **kwargs)
        retriever.vectorstore.add_texts(texts, metadatas, ids=ids, show_progress=show_progress)
        return retriever

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        uec: UEC | Embeddings | None = None,
        ids: Sequence[str] | None = None,
        k: int = 4,
        *,
        show_progress: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Index documents and return a retriever over them; parameters as in `from_texts`.

        A document keeps its own id where `ids` is not given.
        """
        retriever = cls(vectorstore=UECVectorStore(uec), k=k, **kwargs)
        retriever.vectorstore.add_documents(documents, ids, show_progress=show_progress)
        return retriever

    @classmethod
    def from_store(cls, vectorstore: UECVectorStore, k: int = 4, **kwargs: Any) -> Self:
        """Return a retriever over a store, which goes on to be shared with it."""
        return cls(vectorstore=vectorstore, k=k, **kwargs)

    @classmethod
    def over(
        cls,
        vectorstore: VectorStore,
        uec: UEC,
        k: int = 4,
        *,
        candidates: int = 50,
        stored: Stored | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a retriever over any other vector store: it names candidates, `uec` ranks them.

        Candidates' texts are encoded, and remembered; where the vectors that lie there are the
        ensemble's, or one encoder's, those are used. Confidence is about the whole store: what it
        finds near random directions stands for the documents that are no candidates.

        Parameters
        ----------
        vectorstore : VectorStore
            Filled and written to by its own means.
        uec : UEC
            Words, too, count in the order: how rare they are is told by the candidates and by
            what the store finds near random directions.
        k : int
        candidates : int
            How many documents the store is asked for in each search, at least.
        stored : callable(list of id) -> list of vectors, optional
            How to ask the store for vectors; an `InMemoryVectorStore` is known.
        size : int, optional
            How many documents the store holds, which confidence depends on; by default what was
            seen of it.
        **kwargs
            The class's other parameters. A filter is handed to the store as it is; where it is
            neither a mapping nor a callable, in `search_kwargs` or with the call.

        Raises
        ------
        TypeError, ValueError
            If vectorstore is none or a `UECVectorStore`.
        """
        if not isinstance(vectorstore, VectorStore) or isinstance(vectorstore, UECVectorStore):
            raise TypeError(
                "vectorstore: expected a LangChain VectorStore other than UECVectorStore (for "
                f"which there is from_store), got {type(vectorstore).__name__}."
            )
        found = elsewhere(uec, LangChainEngine(vectorstore), candidates, stored=stored, size=size)
        return cls(vectorstore=UECVectorStore(found), k=k, **kwargs)

    @property
    def report(self) -> str:
        """What relevance and confidence rest on, in plain words."""
        return self.index.report

    def calibrate(
        self,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        unanswerable: float = 0.1,
        k: int = 10,
    ) -> Self:
        """Fit relevance and confidence to labelled queries; as `Retriever.calibrate`."""
        self.index.calibrate(queries, relevant_ids, unanswerable=unanswerable, k=k)
        return self

    def self_calibrate(
        self, generate: QuestionGenerator | None = None, *, k: int = 10, seed: int = 0
    ) -> Self:
        """Learn from the passages alone whom to trust here; as `Retriever.self_calibrate`."""
        self.index.self_calibrate(generate, k=k, seed=seed)
        return self
