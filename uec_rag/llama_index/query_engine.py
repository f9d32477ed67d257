"""A query engine that answers, asks back or abstains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from uec_rag.base.checks import check_type
from uec_rag.confidence.advice import Advisor
from uec_rag.confidence.decision import Decision
from uec_rag.llama_index.gate import (
    competing_nodes,
    gate_of,
    pending_on_nodes,
    response_metadata,
    tell,
    with_advisor,
)
from uec_rag.llama_index.nodes import turns
from uec_rag.retrieval.gate import Gate, Pending, check_gate
from uec_rag.retrieval.query import Query


class UECQueryEngine(BaseQueryEngine):
    """Answers through another query engine if the search is confident enough.

    Otherwise, the LLM is not called: the response is a clarifying question, with the nodes that the
    query may mean as sources, or an abstention, without sources. `response.metadata` always has
    `uec_decision` ("answer", "clarify" or "abstain"), `uec_reason`, `uec_confidence`,
    `uec_in_corpus`, `uec_candidates`, `uec_readings` and `uec_clarifying_question`. Use
    `UECQueryBundle` for a query in a conversation.

    Parameters
    ----------
    query_engine : BaseQueryEngine
        An engine that retrieves and synthesizes: a `RetrieverQueryEngine`, a `CitationQueryEngine`,
        or one that transforms the query for these. Its retriever must be a `UECRetriever`, that of
        an index with a `UECVectorStore`, or a `QueryFusionRetriever` over these.
    gate : Gate, optional
        The gate that decides instead of the search, in which that of the index has decided.
    streaming : bool
        Whether to stream the reply; by default, as `query_engine` does.
    advisor : LLM or callable(question, texts) -> Advice, optional
        LLM or callable consulted once per borderline question (`Gate.advisor`). If it says that the
        nodes do not answer the query, its rewrite of the query is retrieved.

    Raises
    ------
    TypeError
        If query_engine is not a query engine.

    Examples
    --------
    Set up, over words alone, to run anywhere; ``UEC()`` adds an embedding model:

    >>> from llama_index.core.llms import MockLLM
    >>> from uec_rag import UEC
    >>> from uec_rag.llama_index import UECRetriever
    >>> texts = ["Cats purr when they are content.", "Dogs bark at strangers."]
    >>> retriever = UECRetriever.from_texts(texts, UEC(["bm25"]), similarity_top_k=1)
    >>> engine = UECQueryEngine.from_args(retriever, llm=MockLLM())

    Query; the model is not called unless the decision is to answer:

    >>> response = engine.query("What is the capital of France?")
    >>> response.metadata["uec_decision"]
    'abstain'
    """

    def __init__(
        self,
        query_engine: BaseQueryEngine,
        gate: Gate | None = None,
        streaming: bool = False,
        advisor: LLM | Advisor | None = None,
    ) -> None:
        advice = "; for a retriever: UECQueryEngine.from_args"
        expected = "a LlamaIndex query engine"
        check_type(query_engine, BaseQueryEngine, "query_engine", expected, advice)
        self._engine = query_engine
        known = gate_of(query_engine) if gate is None and advisor is not None else check_gate(gate)
        self._gate = with_advisor(known, advisor)
        self._streaming = streaming
        super().__init__(query_engine.callback_manager)

    @classmethod
    def from_args(
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        gate: Gate | None = None,
        streaming: bool = False,
        advisor: LLM | Advisor | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a gated `RetrieverQueryEngine`.

        Parameters
        ----------
        retriever : BaseRetriever
        llm : LLM, optional
            `Settings.llm` by default.
        gate, streaming, advisor
            As in the class.
        **kwargs
            Parameters of `RetrieverQueryEngine.from_args`: `response_mode`, `text_qa_template`,
            `node_postprocessors`, ...
        """
        engine = RetrieverQueryEngine.from_args(retriever, llm=llm, streaming=streaming, **kwargs)
        return cls(engine, gate, streaming, advisor)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._engine}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Retrieve nodes, before the gate decides."""
        return self._engine.retrieve(query_bundle)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        [(decision, nodes)] = self._pending(query_bundle, self.retrieve(query_bundle)).finish()
        tell(query_bundle.query_str, decision)
        if decision.action != "answer":
            return self._instead(decision, nodes)
        return _note_decision(self._engine.synthesize(query_bundle, nodes), decision)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        native = getattr(self._engine, "aretrieve", None)  # not every engine has one
        if native is None:
            found = await asyncio.to_thread(self.retrieve, query_bundle)
        else:
            found = await native(query_bundle)
        pending = await asyncio.to_thread(self._pending, query_bundle, found)
        [(decision, nodes)] = await pending.afinish()
        tell(query_bundle.query_str, decision)
        if decision.action != "answer":
            return self._instead(decision, nodes, asynchronous=True)
        return _note_decision(await self._engine.asynthesize(query_bundle, nodes), decision)

    def _pending(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> Pending[list[NodeWithScore]]:
        """Decide at the threshold on the nodes of a query."""
        before = turns(getattr(query_bundle, "history", None))
        asked = Query.parse(query_bundle.query_str, before).lines
        if getattr(query_bundle, "within", None) is not None:
            # A rewrite may be about another reading than the one that was chosen.
            return pending_on_nodes(nodes, self._gate, asked)
        return pending_on_nodes(
            nodes, self._gate, asked, lambda text: self.retrieve(QueryBundle(text))
        )

    def _instead(
        self, decision: Decision, nodes: list[NodeWithScore], *, asynchronous: bool = False
    ) -> RESPONSE_TYPE:
        """Return a clarifying question or the reason to abstain, without an LLM."""
        rivals, told = competing_nodes(nodes, decision), response_metadata(decision)
        text = decision.clarifying_question or decision.reason
        if not self._streaming:
            return Response(text, rivals, told)
        if asynchronous:
            return AsyncStreamingResponse(_asaid(text), rivals, told)
        return StreamingResponse((part for part in [text]), rivals, told)


def _note_decision(response: RESPONSE_TYPE, decision: Decision) -> RESPONSE_TYPE:
    response.metadata = {**(response.metadata or {}), **response_metadata(decision)}
    return response


async def _asaid(text: str) -> AsyncGenerator[str, None]:
    yield text
