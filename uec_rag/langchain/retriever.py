"""The ensemble as a LangChain retriever whose documents carry their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict, field_validator

from uec_rag.base.checks import check_k
from uec_rag.ensemble import UEC
from uec_rag.langchain.documents import DocumentFilter
from uec_rag.langchain.vectorstore import UECVectorStore


class UECRetriever(BaseRetriever):
    """Finds the k best documents for a question and writes on each how sure it is.

    The documents' metadata gains `uec_score` (the score they are ordered by), `uec_mu` and
    `uec_sigma2` (mean and variance of the similarity), `uec_relevance` (probability that the
    document is relevant), `uec_coefficients` (how much each encoder counted), and, the same on all
    documents of a question, `uec_confidence` (probability that they answer it) and `uec_decision`
    ("answer", "clarify" or "abstain"). There are always k documents where that many match: what
    to do about a low confidence is the chain's choice.

    Parameters
    ----------
    vectorstore : UECVectorStore
    k : int
        How many documents; also per call, ``retriever.invoke(question, k=2)``.
    filter : mapping or callable, optional
        Metadata values that must be equal, or a predicate on a `Document`; also per call.
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
    k: int = 4
    filter: DocumentFilter | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("k", mode="before")
    @classmethod
    def _check_k(cls, k: int) -> int:
        check_k(k)
        return int(k)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        uec: UEC | Embeddings,
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
        uec : UEC
            Or a `UECEmbeddings`, or any LangChain `Embeddings` (then without uncertainty).
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
        uec: UEC | Embeddings,
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

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: DocumentFilter | None = None,
    ) -> list[Document]:
        return self.vectorstore.similarity_search_with_uncertainty(
            query, self.k if k is None else k, self.filter if filter is None else filter
        )

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: DocumentFilter | None = None,
    ) -> list[Document]:
        return await self.vectorstore.asimilarity_search_with_uncertainty(
            query, self.k if k is None else k, self.filter if filter is None else filter
        )

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """What tracing notes of a run, as LangChain's own vector-store retriever has it."""
        params = super()._get_ls_params(**kwargs)
        params["ls_vector_store_provider"] = type(self.vectorstore).__name__
        params["ls_embedding_provider"] = type(self.vectorstore.embeddings).__name__
        return params
