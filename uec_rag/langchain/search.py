"""Every way in which LangChain searches a vector store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from uec_rag.base.checks import check_k
from uec_rag.langchain.documents import (
    DocumentFilter,
    passage_filter,
    refuse_unknown,
    to_documents,
    with_numbers,
    with_uncertainty,
)
from uec_rag.langchain.embeddings import check_text
from uec_rag.retrieval import Retriever, SearchResult


class RetrieverSearch(VectorStore):
    """The searching half of `UECVectorStore`: each method asks the `retriever` and converts.

    Attributes
    ----------
    retriever : Retriever
    """

    retriever: Retriever

    def documents(self, result: SearchResult) -> list[Document]:
        """Make the documents that LangChain's own methods return of a search's first query.

        They are as they were added, since LangChain's contract is that. A subclass may return more:
        ``UECRetriever`` and `similarity_search_with_uncertainty` write what is known of a hit on
        it whatever stands here.
        """
        return to_documents(result.passages[0])

    def similarity_search(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Find the k documents of the highest s_hat, as they were added.

        Parameters
        ----------
        query : str
        k : int
            Where fewer documents match, all of them come back.
        filter : mapping or callable, optional
            Metadata values that must be equal, or operators (`uec_rag.stores.filters` says which),
            or a predicate on a `Document`. A key that no document has is warned of, once.

        Raises
        ------
        TypeError, ValueError
            If the query is empty or not a string, k < 1, or the filter is none.
        """
        return self.documents(self._search(query, k, filter, **kwargs))

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """`similarity_search` without blocking the event loop."""
        return self.documents(await self._asearch(query, k, filter, **kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        """`similarity_search`, each document with its s_hat: higher is better."""
        result = self._search(query, k, filter)
        return with_numbers(self.documents(result), result.scores[0])

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score` without blocking the event loop."""
        result = await self._asearch(query, k, filter)
        return with_numbers(self.documents(result), result.scores[0])

    def similarity_search_with_uncertainty(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[Document]:
        """`similarity_search`, with what is known about each hit in the documents' metadata.

        Returns
        -------
        list of Document
            Copies that carry `uec_score`, `uec_mu`, `uec_sigma2`, `uec_relevance`,
            `uec_confidence`, `uec_decision` and `uec_coefficients`.
        """
        return with_uncertainty(self._search(query, k, filter))

    async def asimilarity_search_with_uncertainty(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None
    ) -> list[Document]:
        """`similarity_search_with_uncertainty` without blocking the event loop."""
        return with_uncertainty(await self._asearch(query, k, filter))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Increasing map from s_hat to [0, 1]: fitted, the probability that a pair is relevant.

        The relevance of a hit among all other passages is no function of its score alone:
        `similarity_search_with_relevance_scores` and the metadata have that one.
        """
        uec = self.retriever.uec
        if not uec.is_fitted:
            return lambda score: float(np.clip((1 + score) / 2, 0, 1))
        slope, intercept = uec.slope, float(np.mean(uec.intercepts))
        return lambda score: float(1 / (1 + np.exp(-(slope * score + intercept))))

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        result = self._search(query, k, filter, **kwargs)
        return with_numbers(self.documents(result), result.relevance[0])

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, filter: DocumentFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        result = await self._asearch(query, k, filter, **kwargs)
        return with_numbers(self.documents(result), result.relevance[0])

    def similarity_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Find the k documents of the highest s_hat for a query's vector.

        Parameters
        ----------
        embedding : sequence of float
            As `store.embeddings.embed_query` makes it.
        k, filter
            As in `similarity_search`.

        Raises
        ------
        TypeError, ValueError
            If the vector is of another dimension, zero, or not finite, or k < 1.
        """
        pairs = self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)
        return [document for document, _ in pairs]

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, filter: DocumentFilter | None = None
    ) -> list[tuple[Document, float]]:
        """`similarity_search_by_vector`, each document with its s_hat."""
        found = self.retriever.search_vector(embedding, k, filter=passage_filter(filter))
        return with_numbers(self.documents(found), found.scores[0])

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Find k documents that are relevant and unlike one another.

        Parameters
        ----------
        query : str
        k : int
        fetch_k : int
            How many of the highest s_hat to choose from; k at least.
        lambda_mult : float
            1 looks at relevance only, 0 at diversity only.
        filter : mapping or callable, optional
            As in `similarity_search`.
        """
        refuse_unknown(kwargs, "max_marginal_relevance_search")
        result = self.retriever.search_diverse(
            [check_text(query, "query")],
            k,
            fetch_k=fetched(k, fetch_k),
            lambda_mult=lambda_mult,
            filter=passage_filter(filter),
        )
        return self.documents(result)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """`max_marginal_relevance_search` without blocking the event loop."""
        refuse_unknown(kwargs, "amax_marginal_relevance_search")
        result = await self.retriever.asearch_diverse(
            [check_text(query, "query")],
            k,
            fetch_k=fetched(k, fetch_k),
            lambda_mult=lambda_mult,
            filter=passage_filter(filter),
        )
        return self.documents(result)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: DocumentFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """`max_marginal_relevance_search` for a query's vector."""
        refuse_unknown(kwargs, "max_marginal_relevance_search_by_vector")
        view, where = self.retriever.snapshot(), passage_filter(filter)
        found = view.search_vector(embedding, fetched(k, fetch_k), filter=where)
        return self.documents(view.diversify(found, k, lambda_mult))

    def _search(self, query: str, k: int, filter: DocumentFilter | None) -> SearchResult:
        queries = [check_text(query, "query")]
        return self.retriever.search(queries, k, filter=passage_filter(filter))

    async def _asearch(self, query: str, k: int, filter: DocumentFilter | None) -> SearchResult:
        queries = [check_text(query, "query")]
        return await self.retriever.asearch(queries, k, filter=passage_filter(filter))


def fetched(k: int, fetch_k: int) -> int:
    """How many hits to choose k from; ValueError if fetch_k is no count."""
    check_k(k)
    if isinstance(fetch_k, bool) or not isinstance(fetch_k, (int, np.integer)) or fetch_k < 1:
        raise ValueError(f"fetch_k: expected an integer >= 1, got {fetch_k!r}.")
    return max(k, int(fetch_k))
