"""Retrieving with uncertainty from a vector store: one question, or many in one search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list
from langchain_core.stores import BaseStore
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import ConfigDict, field_validator, model_validator

from uec_rag.base.checks import check_k
from uec_rag.langchain.documents import (
    DocumentFilter,
    best_pieces,
    larger_documents,
    passage_filter,
    refuse_unknown,
    with_uncertainty,
)
from uec_rag.langchain.embeddings import check_text
from uec_rag.langchain.runs import aretriever_runs, retriever_runs
from uec_rag.langchain.search import RetrieverSearch, fetched
from uec_rag.langchain.tool import AsTool
from uec_rag.retrieval import Preferences, Retriever, SearchResult
from uec_rag.retrieval.elsewhere import Elsewhere
from uec_rag.stores.base import Filter


class SearchOptions(NamedTuple):
    """How to search: a retriever's own options with those of its `search_kwargs` and of a call."""

    k: int
    filter: DocumentFilter | None
    fetch_k: int
    lambda_mult: float
    score_threshold: float


_OF_TYPE = {
    "similarity": {"k", "filter"},
    "similarity_score_threshold": {"k", "filter", "score_threshold"},
    "mmr": {"k", "filter", "fetch_k", "lambda_mult"},
}


class UncertainRetriever(AsTool[str, list[Document]], VectorStoreRetriever):
    """What `UECRetriever` does; it adds how one is made and calibrated.

    Parameters are those of `uec_rag.langchain.UECRetriever`.
    """

    vectorstore: RetrieverSearch
    k: int = 4
    filter: DocumentFilter | None = None
    prefer: Preferences | None = None
    docstore: BaseStore[str, Document] | None = None
    id_key: str = "doc_id"

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @field_validator("k", mode="before")
    @classmethod
    def _check_k(cls, k: int) -> int:
        check_k(k)
        return int(k)

    @model_validator(mode="after")
    def _check_search_kwargs(self) -> Self:
        self.search_options({})
        if self.prefer is not None and self.search_type == "mmr":
            raise ValueError(
                'prefer: search_type "mmr" chooses by diversity alone; expected "similarity" or '
                '"similarity_score_threshold" with preferences.'
            )
        return self

    @property
    def index(self) -> Retriever:
        """The index behind it, which does the work."""
        return self.vectorstore.retriever

    def search(self, queries: Sequence[str], **options: Any) -> SearchResult:
        """Search for many questions at once: what the documents are made of.

        Parameters
        ----------
        queries : sequence of str
        **options
            `k`, `filter` and what else `search_kwargs` may hold.

        Raises
        ------
        TypeError, ValueError
            If a question is empty or not a string, or an option is unknown or out of range.
        """
        asked, checked = self.search_options(options), _checked(queries)
        where = self._where(asked)
        if self.search_type == "mmr":
            return self.index.search_diverse(
                checked,
                asked.k,
                fetch_k=asked.fetch_k,
                lambda_mult=asked.lambda_mult,
                filter=where,
            )
        return self.index.search(checked, asked.k, filter=where, **self._preferences())

    async def asearch(self, queries: Sequence[str], **options: Any) -> SearchResult:
        """`search` without blocking the event loop."""
        asked, checked = self.search_options(options), _checked(queries)
        where = self._where(asked)
        if self.search_type == "mmr":
            return await self.index.asearch_diverse(
                checked,
                asked.k,
                fetch_k=asked.fetch_k,
                lambda_mult=asked.lambda_mult,
                filter=where,
            )
        return await self.index.asearch(checked, asked.k, filter=where, **self._preferences())

    def _where(self, asked: SearchOptions) -> Filter | None:
        """The filter as the index takes it; over another's store it is one of that store's own."""
        own: Any = asked.filter
        return own if isinstance(self.index, Elsewhere) else passage_filter(own)

    def documents(self, result: SearchResult, **options: Any) -> list[list[Document]]:
        """Make the documents of each question of a result that `search` gave for these options."""
        hits = self._hits(result, options)
        if self.docstore is None:
            return hits
        named = [best_pieces(row, self.id_key) for row in hits]
        return [larger_documents(best, self.docstore.mget(list(best))) for best in named]

    async def adocuments(self, result: SearchResult, **options: Any) -> list[list[Document]]:
        """`documents` without blocking the event loop."""
        hits = self._hits(result, options)
        if self.docstore is None:
            return hits
        named = [best_pieces(row, self.id_key) for row in hits]
        return [larger_documents(best, await self.docstore.amget(list(best))) for best in named]

    def search_runs(
        self, queries: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> tuple[SearchResult, list[list[Document]]]:
        """Search for many questions at once, each a run that its config's callbacks hear of."""
        noted = self._get_ls_params(**options)
        with retriever_runs(self, queries, configs, noted) as runs:
            result = self.search(queries, **options)
            found = self.documents(result, **options)
        for run, documents in zip(runs, found, strict=True):
            run.on_retriever_end(documents)
        return result, found

    async def asearch_runs(
        self, queries: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> tuple[SearchResult, list[list[Document]]]:
        """`search_runs` without blocking the event loop."""
        noted = self._get_ls_params(**options)
        async with aretriever_runs(self, queries, configs, noted) as runs:
            result = await self.asearch(queries, **options)
            found = await self.adocuments(result, **options)
        for run, documents in zip(runs, found, strict=True):
            await run.on_retriever_end(documents)
        return result, found

    def batch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """Retrieve for many questions in one search; as `invoke` of each."""
        if not inputs:
            return []
        if return_exceptions:  # one bad question among them must not end the others' search
            return super().batch(inputs, config, return_exceptions=True, **kwargs)
        return self.search_runs(inputs, get_config_list(config, len(inputs)), **kwargs)[1]

    async def abatch(
        self,
        inputs: list[str],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[list[Document]]:
        """`batch` without blocking the event loop."""
        if not inputs:
            return []
        if return_exceptions:
            return await super().abatch(inputs, config, return_exceptions=True, **kwargs)
        found = await self.asearch_runs(inputs, get_config_list(config, len(inputs)), **kwargs)
        return found[1]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self.documents(self.search([query], **kwargs), **kwargs)[0]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return (await self.adocuments(await self.asearch([query], **kwargs), **kwargs))[0]

    def _preferences(self) -> dict[str, Any]:
        return {} if self.prefer is None else {"prefer": self.prefer}

    def search_options(self, call: Mapping[str, Any]) -> SearchOptions:
        """A call's options, for what it leaves out `search_kwargs`, then the retriever's own."""
        known = _OF_TYPE[self.search_type]
        refuse_unknown(self.search_kwargs, "search_kwargs: UECRetriever", *known)
        refuse_unknown(call, "invoke", *known)
        given = {key: value for key, value in call.items() if value is not None}
        own = {"k": self.k, "filter": self.filter, "fetch_k": 20, "lambda_mult": 0.5}
        options = SearchOptions(
            **({"score_threshold": 0.0} | own | dict(self.search_kwargs) | given)
        )
        return options._replace(fetch_k=fetched(options.k, options.fetch_k))

    def _hits(self, result: SearchResult, options: Mapping[str, Any]) -> list[list[Document]]:
        rows = [with_uncertainty(result, row) for row in range(len(result))]
        if self.search_type != "similarity_score_threshold":
            return rows
        least = self.search_options(options).score_threshold
        return [[d for d in row if d.metadata["uec_relevance"] >= least] for row in rows]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """What tracing notes of a run, as LangChain's own has it, and the encoders' names."""
        params = super()._get_ls_params(**kwargs)
        params["ls_embedding_model"] = ", ".join(self.index.uec.names)
        return params


def _checked(queries: Sequence[str]) -> list[str]:
    return [check_text(query, "query") for query in queries]
