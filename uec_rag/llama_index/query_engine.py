"""A query engine that answers, asks back or abstains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.llms.llm import LLM
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle

from uec_rag.base.checks import check_type
from uec_rag.confidence.advice import Advisor
from uec_rag.confidence.decision import Decision
from uec_rag.llama_index.gate import (
    adecide,
    competing_nodes,
    decide,
    gate_of,
    response_metadata,
    with_advisor,
)
from uec_rag.llama_index.nodes import turns
from uec_rag.retrieval.gate import Gate, check_gate
from uec_rag.retrieval.request import Query


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
    callback_manager : CallbackManager, optional
        That of `query_engine` by default.
    advisor : LLM or callable(question, texts) -> Advice, optional
        LLM or callable consulted once per borderline question (`Gate.advisor`). If it says that the
        nodes do not answer the query, its rewrite of the query is retrieved.

    Raises
    ------
    TypeError
        If query_engine is not a query engine with a `retrieve` of its own.

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
        callback_manager: CallbackManager | None = None,
        advisor: LLM | Advisor | None = None,
    ) -> None:
        advice = "; for a retriever: UECQueryEngine.from_args"
        expected = "a LlamaIndex query engine"
        check_type(query_engine, BaseQueryEngine, "query_engine", expected, advice)
        if type(query_engine).retrieve is BaseQueryEngine.retrieve:
            raise TypeError(
                f"query_engine: {type(query_engine).__name__} has no retrieve of its own; expected "
                "one that retrieves and synthesizes, such as a RetrieverQueryEngine."
            )
        self._engine = query_engine
        known = gate_of(query_engine) if gate is None and advisor is not None else check_gate(gate)
        self._gate = with_advisor(known, advisor)
        self._streaming = streaming
        super().__init__(callback_manager or query_engine.callback_manager)

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
        return cls(engine, gate, streaming, advisor=advisor)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._engine}

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Retrieve nodes, before the gate decides."""
        return self._engine.retrieve(query_bundle)

    async def aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Run `retrieve` without blocking the event loop."""
        native = getattr(self._engine, "aretrieve", None)  # not every engine has one
        if native is None:
            return await asyncio.to_thread(self._engine.retrieve, query_bundle)
        nodes: list[NodeWithScore] = await native(query_bundle)
        return nodes

    def synthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """Answer from nodes if the gate allows it; otherwise, ask back or abstain."""
        decision, found = decide(*self._arguments(query_bundle, nodes))
        if decision.action != "answer":
            return self._instead(decision, found)
        answer = self._engine.synthesize(query_bundle, found, additional_source_nodes)
        return _note_decision(answer, decision)

    async def asynthesize(
        self,
        query_bundle: QueryBundle,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
    ) -> RESPONSE_TYPE:
        """Run `synthesize` without blocking the event loop."""
        decision, found = await adecide(*self._arguments(query_bundle, nodes))
        if decision.action != "answer":
            return self._instead(decision, found, asynchronous=True)
        answer = await self._engine.asynthesize(query_bundle, found, additional_source_nodes)
        return _note_decision(answer, decision)

    def _arguments(self, query_bundle: QueryBundle, nodes: list[NodeWithScore]) -> tuple[Any, ...]:
        """Return the arguments of `decide`."""

        def retrieve(rewrite: str) -> list[NodeWithScore]:
            return self.retrieve(QueryBundle(rewrite))

        before = turns(getattr(query_bundle, "history", None))
        asked = Query.parse(query_bundle.query_str, before).lines
        # A rewrite may be about another reading than the one that was chosen.
        again = retrieve if getattr(query_bundle, "within", None) is None else None
        return nodes, query_bundle.query_str, self._gate, again, asked

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            response = self.synthesize(query_bundle, self.retrieve(query_bundle))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        with self.callback_manager.event(CBEventType.QUERY, payload=payload) as event:
            response = await self.asynthesize(query_bundle, await self.aretrieve(query_bundle))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _instead(
        self, decision: Decision, nodes: list[NodeWithScore], *, asynchronous: bool = False
    ) -> RESPONSE_TYPE:
        """Return a clarifying question or the reason to abstain, without an LLM."""
        rivals = competing_nodes(nodes, decision)
        text = decision.clarifying_question or decision.reason
        if not self._streaming:
            return Response(text, rivals, response_metadata(decision))
        if asynchronous:
            return AsyncStreamingResponse(_asaid(text), rivals, response_metadata(decision))
        return StreamingResponse(_text_of(text), rivals, response_metadata(decision))


def _note_decision(response: RESPONSE_TYPE, decision: Decision) -> RESPONSE_TYPE:
    response.metadata = {**(response.metadata or {}), **response_metadata(decision)}
    return response


def _text_of(text: str) -> Generator[str, None, None]:
    yield text


async def _asaid(text: str) -> AsyncGenerator[str, None]:
    yield text
