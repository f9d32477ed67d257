"""Decisions between retriever and LLM: a postprocessor, a query engine and a tool."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Self, TypeAlias, TypedDict, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks.base import CallbackManager, EventContext
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.base import BasePromptTemplate
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer, ResponseMode
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, BeforeValidator, field_serializer

from uec_rag.adapters.indexes import as_judge, in_thread
from uec_rag.adapters.other_retrievers import judge, keeping_findings, pending_on
from uec_rag.adapters.tool import (
    TOOL_DESCRIPTION,
    TOOL_NAME,
    Outcome,
    model_prompt,
    outcome_of,
    tool_reply,
    what_to_do,
)
from uec_rag.base.checks import check_type, quote, refuse_unknown
from uec_rag.base.loops import beside, either
from uec_rag.confidence.decision import Decision
from uec_rag.ensemble import UEC
from uec_rag.gates.advisor import PROMPT, Advisor, ask_model
from uec_rag.gates.gate import Gate, check_gate
from uec_rag.gates.rulings import Pending
from uec_rag.llama_index.nodes import Whole, hits, passages_of, plain_hit, turns, with_findings
from uec_rag.questions.query import Query
from uec_rag.retrieval.results import KEY, read_by_model


class _EngineOptions(TypedDict, total=False):
    """The options of `RetrieverQueryEngine.from_args`, which ignores others."""

    response_synthesizer: BaseSynthesizer | None
    node_postprocessors: list[BaseNodePostprocessor] | None
    callback_manager: CallbackManager | None
    response_mode: ResponseMode
    text_qa_template: BasePromptTemplate | None
    refine_template: BasePromptTemplate | None
    summary_template: BasePromptTemplate | None
    simple_template: BasePromptTemplate | None
    chat_content_qa_template: BasePromptTemplate | None
    chat_content_refine_template: BasePromptTemplate | None
    output_cls: type[BaseModel] | None
    use_async: bool
    streaming: bool
    verbose: bool
    multimodal: bool


Way: TypeAlias = str | LLM | BaseQueryEngine
"""The goal of an outcome: a text, a model, or another engine."""

NOTICE = "uec-gate"
"""The id of the node that tells an LLM not to answer."""

_DECIDED = (
    "expected nodes found by a UECRetriever (UECRetriever(store.index)), or by an index over a "
    "UECVectorStore with embed_model=UECEmbedding(uec=uec)."
)


def response_metadata(decision: Decision) -> dict[str, Any]:
    """Return the metadata of a response with this decision."""
    return {f"{KEY}{name}": value for name, value in decision.metadata().items()}


def pending_on_nodes(
    nodes: list[NodeWithScore],
    gate: Gate | None,
    question: str | None,
    search: Callable[[str], list[NodeWithScore]] | None = None,
) -> Pending[list[NodeWithScore]]:
    """Decide at the threshold on nodes, for a question with the turns before it."""
    plain = [*map(plain_hit, nodes)]
    return pending_on(plain, gate, question, text_of, _DECIDED, search)


def text_of(node: NodeWithScore) -> str:
    """Return the text of a node without its metadata."""
    return node.get_content(MetadataMode.NONE)


def llm_advisor(llm: LLM, template: str = PROMPT) -> Advisor:
    """Create an advisor from an LLM.

    `template`: the prompt, with the fields `question` and `passages`.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> llm_advisor(MockLLM(max_tokens=2))("What purrs?", ["Cats purr."]).text
    'text text'
    """
    return partial(ask_model, llm.complete, template)


class UECGatePostprocessor(Whole, BaseNodePostprocessor):
    """Replaces nodes by a notice if a query should not be answered, in any LlamaIndex engine.

    The notice (`notice`) is the first node and tells the LLM what to say. The decision is in its
    metadata, and thus in the `source_nodes` of the response and in its `metadata`, under the id
    "uec-gate". No passage follows if the decision is to abstain; if it is to ask back, those that
    the query may mean follow. The LLM is still called; `UECQueryEngine` refuses without it.

    Parameters
    ----------
    gate : Gate, optional
        The gate that decides instead of the search, in which that of the index has decided.
        `to_dict` leaves it out: pass it to `from_dict`, as the next one. Rewrites of its advisor
        are not searched for, since a postprocessor does not search; `UECQueryEngine` does.
    embedding : UEC or LlamaIndex embedding, optional
        Judges nodes that any other retriever found, in its order. Let that retrieve thirty: with
        fewer, and without a fit of the ensemble, confidence is unreliable.
    **kwargs
        The parameters of every LlamaIndex postprocessor.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> found = {"uec_decision": "answer", "uec_confidence": 0.7, "uec_reason": "one stands out",
    ...          "uec_candidates": []}
    >>> nodes = [NodeWithScore(node=TextNode(text="Cats purr.", metadata=found), score=0.8)]
    >>> len(UECGatePostprocessor().postprocess_nodes(nodes))
    1
    >>> strict = UECGatePostprocessor(gate=Gate(0.9))
    >>> print(strict.postprocess_nodes(nodes)[0].text)
    Do not answer, from these passages or from memory. Reply with this alone: "Nothing found answers
    this with enough certainty."
    """

    gate: Annotated[Gate | None, BeforeValidator(check_gate)] = None
    embedding: Annotated[UEC | None, BeforeValidator(as_judge)] = None

    _members = "gate", "embedding"

    @field_serializer("gate", "embedding")
    def _mark(self, part: Gate | UEC | None) -> str | None:
        return None if part is None else type(part).__name__

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _with_notice(*self._pending(nodes, query_bundle).finish())

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        pending = await beside(self._pending, nodes, query_bundle)
        return _with_notice(*await pending.afinish())

    def _pending(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Pending[list[NodeWithScore]]:
        query = None if query_bundle is None else query_bundle.query_str
        if self.embedding is not None and query:
            nodes = hits(judge(self.embedding, query, passages_of([hit.node for hit in nodes])))
        lines = None if query_bundle is None else _lines(query_bundle)
        return pending_on_nodes(nodes, self.gate, lines)


def _lines(query_bundle: QueryBundle) -> str:
    """Return a question with the turns before it, one per line."""
    before = turns(getattr(query_bundle, "history", None))
    return Query.parse(query_bundle.query_str, before).lines


def _with_notice(outcome: tuple[Decision, list[NodeWithScore]]) -> list[NodeWithScore]:
    decision, nodes = outcome
    if decision.action == "answer":
        return nodes
    return [_notice(decision), *competing_nodes(nodes, decision)]


def _notice(decision: Decision) -> NodeWithScore:
    """Convert a decision to a node, since an engine accepts only nodes from a postprocessor."""
    asks = decision.action == "clarify"
    order = what_to_do("clarify") if asks else "Do not answer, from these passages or from memory."
    text = f"{order} Reply with this alone: {quote(decision.reason)}"
    fields = response_metadata(decision)
    node = TextNode(
        id_=NOTICE,
        text=text,
        metadata=fields,
        excluded_llm_metadata_keys=[*fields],
        excluded_embed_metadata_keys=[*fields],
    )
    return NodeWithScore(node=node, score=decision.confidence)


def competing_nodes(nodes: list[NodeWithScore], decision: Decision) -> list[NodeWithScore]:
    """Return the nodes that a question may mean, if the decision is to ask back; else none.

    These are the candidates of the decision, or all nodes if it has none.
    """
    if decision.action != "clarify":
        return []
    return [node for node in nodes if node.node_id in decision.candidates] or nodes


class UECQueryEngine(BaseQueryEngine):
    """Answers through another query engine if the search is confident enough.

    Otherwise, the LLM is not called: the response is a clarifying question, with the nodes that the
    query may mean as sources, or an abstention. If nodes are near but uncertain, they are its
    sources, and `uec_reason_code` is "uncertain"; if nothing is near, it has none.
    `response.metadata` always has `uec_decision` ("answer", "clarify" or "abstain"), `uec_reason`,
    `uec_confidence`, `uec_in_corpus`, `uec_candidates`, `uec_readings` and
    `uec_clarifying_question`. If the engine streams, so are these responses. Use `UECQueryBundle`
    for a query in a conversation.

    Parameters
    ----------
    query_engine : BaseQueryEngine
        An engine that retrieves and synthesizes: a `RetrieverQueryEngine`, a `CitationQueryEngine`,
        or one that transforms the query for these. Its retriever must be a `UECRetriever`, that of
        an index with a `UECVectorStore`, or a `QueryFusionRetriever` over these.
    gate : Gate, optional
        The gate that decides instead of the search, in which that of the index has decided. If its
        advisor says that the nodes do not answer the query, its rewrite of the query is retrieved.

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

    def __init__(self, query_engine: BaseQueryEngine, gate: Gate | None = None) -> None:
        advice = "; for a retriever: UECQueryEngine.from_args"
        expected = "a LlamaIndex query engine"
        check_type(query_engine, BaseQueryEngine, "query_engine", expected, advice)
        self._engine = query_engine
        self._gate = check_gate(gate)
        self._ways: dict[Outcome, Way | None] = {}
        super().__init__(query_engine.callback_manager)

    def route(
        self,
        answer: Way | None = None,
        clarify: Way | None = None,
        abstain: Way | None = None,
        uncertain: Way | None = None,
    ) -> Self:
        """Return an engine that sends each outcome to a text, a query engine or a model.

        An engine receives the query; a model the question with what an agent is told of it: the
        decision, what to do, and the passages or the readings.

        Parameters
        ----------
        answer, clarify, abstain : str, LLM or BaseQueryEngine, optional
            By default, the engine answers, and the clarifying question and the reason are said.
        uncertain : str, LLM or BaseQueryEngine, optional
            For nodes that are near but may not answer (`uec_reason_code` is "uncertain"), which a
            model can read with that caveat; by default, `abstain`.

        Examples
        --------
        >>> from llama_index.core.llms import MockLLM
        >>> from uec_rag.llama_index import UECRetriever
        >>> retriever = UECRetriever.from_texts(["Cats purr."], UEC(["bm25"]))
        >>> engine = UECQueryEngine.from_args(retriever, llm=MockLLM())
        >>> print(engine.route(abstain="Ask the desk.").query("What is the capital of France?"))
        Ask the desk.
        """
        ways: dict[Outcome, Way | None] = {
            "answer": answer,
            "clarify": clarify,
            "abstain": abstain,
            "uncertain": abstain if uncertain is None else uncertain,
        }
        for name, way in ways.items():
            check_type(way, str | LLM | BaseQueryEngine | None, name, "a text, an LLM or an engine")
        engine = type(self)(self._engine, self._gate)
        engine._ways = ways
        return engine

    @classmethod
    def from_args(
        cls,
        retriever: BaseRetriever,
        llm: LLM | None = None,
        gate: Gate | None = None,
        **kwargs: Unpack[_EngineOptions],
    ) -> Self:
        """Create a gated `RetrieverQueryEngine`.

        Parameters
        ----------
        retriever : BaseRetriever
        llm : LLM, optional
            `Settings.llm` by default.
        gate : Gate, optional
            As in the class.
        **kwargs
            Parameters of `RetrieverQueryEngine.from_args`: `response_mode`, `text_qa_template`,
            `node_postprocessors`, ...; TypeError for one that it does not have.
        """
        check_type(retriever, BaseRetriever, "retriever", "a retriever of LlamaIndex")
        refuse_unknown(kwargs, cls.from_args, RetrieverQueryEngine.from_args)
        engine = RetrieverQueryEngine.from_args(retriever, llm=llm, **kwargs)
        return cls(engine, gate)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"query_engine": self._engine}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._event(query_bundle) as event:
            candidates = self._retrieve(query_bundle)
            [(decision, nodes)] = self._pending(query_bundle, candidates).finish()
            way = self._way_of(decision)
            if isinstance(way, BaseQueryEngine):
                response = way.query(query_bundle)
            elif way is None and decision.action == "answer":
                response = self._engine.synthesize(query_bundle, nodes)
            else:
                if isinstance(way, LLM):
                    way = way.complete(_prompt(query_bundle, decision, nodes)).text
                response = self._respond(way, decision, nodes, is_async=False)
            return _note_decision(response, decision, event)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        with self._event(query_bundle) as event:
            with keeping_findings(text_of, _merged) as keep:
                candidates = keep(await self._engine_aretrieve(query_bundle))
            pending = await beside(self._pending, query_bundle, candidates)
            [(decision, nodes)] = await pending.afinish()
            way = self._way_of(decision)
            if isinstance(way, BaseQueryEngine):
                response = await way.aquery(query_bundle)
            elif way is None and decision.action == "answer":
                response = await self._engine.asynthesize(query_bundle, nodes)
            else:
                if isinstance(way, LLM):
                    way = (await way.acomplete(_prompt(query_bundle, decision, nodes))).text
                response = self._respond(way, decision, nodes, is_async=True)
            return _note_decision(response, decision, event)

    def _event(self, query_bundle: QueryBundle) -> AbstractContextManager[EventContext]:
        """Tell the callbacks of a query, as LlamaIndex's engines do."""
        payload: dict[str, Any] = {EventPayload.QUERY_STR: query_bundle.query_str}
        return self.callback_manager.event(CBEventType.QUERY, payload=payload)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with keeping_findings(text_of, _merged) as keep:
            return keep(either(self._engine.retrieve, self._engine_aretrieve)(query_bundle))

    @property
    def _engine_aretrieve(self) -> Callable[..., Any]:
        """The method that retrieves asynchronously, in a thread where the engine has none."""
        return getattr(self._engine, "aretrieve", None) or in_thread(self._engine.retrieve)

    def _pending(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> Pending[list[NodeWithScore]]:
        """Decide at the threshold on the nodes of a query."""
        # A rewrite may be about another reading than the one that was chosen.
        is_choice = getattr(query_bundle, "within", None) is not None
        search = None if is_choice else (lambda text: self._retrieve(QueryBundle(text)))
        return pending_on_nodes(nodes, self._gate, _lines(query_bundle), search)

    def _way_of(self, decision: Decision) -> Way | None:
        """Return where the outcome of a decision goes; None for what the class does."""
        return self._ways.get(outcome_of(decision.action, decision.code))

    def _respond(
        self, text: str | None, decision: Decision, nodes: list[NodeWithScore], *, is_async: bool
    ) -> RESPONSE_TYPE:
        """Return a text as the response: by default a clarifying question or the reason to abstain.

        It is a stream where the engine's answers are.
        """
        if text is None:
            text = decision.clarifying_question or decision.reason
        is_near = outcome_of(decision.action, decision.code) in ("answer", "uncertain")
        sources = nodes if is_near else competing_nodes(nodes, decision)
        if not _streams(self._engine):
            return Response(text, sources)
        if is_async:
            return AsyncStreamingResponse(_astream(text), sources)
        return StreamingResponse((part for part in [text]), sources)


async def _astream(text: str) -> AsyncGenerator[str, None]:
    yield text


def _prompt(query: QueryBundle, decision: Decision, nodes: list[NodeWithScore]) -> str:
    return model_prompt(query.query_str, _reply(query.query_str, (decision, nodes))["text"])


def _streams(engine: object) -> bool:
    """Return whether an engine, or the one that it wraps, streams its answers."""
    while (inner := getattr(engine, "_query_engine", None)) is not None:
        engine = inner
    return bool(getattr(getattr(engine, "_response_synthesizer", None), "_streaming", False))


def _merged(hit: NodeWithScore, findings: dict[str, Any]) -> NodeWithScore:
    return NodeWithScore(node=with_findings(hit.node, findings), score=hit.score)


def _note_decision(
    response: RESPONSE_TYPE, decision: Decision, event: EventContext
) -> RESPONSE_TYPE:
    response.metadata = {**(response.metadata or {}), **response_metadata(decision)}
    event.on_end(payload={EventPayload.RESPONSE: response})
    return response


def retriever_tool(
    retriever: BaseRetriever, name: str = TOOL_NAME, description: str = TOOL_DESCRIPTION
) -> FunctionTool:
    """Create a tool from a retriever.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages, each with its source, or the readings of the question. The `raw_output` for programs
    has the keys of `Decision.metadata`, and "query", "nodes" (the hits, with the `uec_` metadata),
    "candidates" (if the decision is "clarify", the hits that the query may mean) and "text". The
    question is searched without the turns before it.

    Parameters
    ----------
    retriever : BaseRetriever
        A `UECRetriever`, or a LlamaIndex retriever over one.
    name, description : str
        The name and description by which a model chooses the tool; describe the subject of the
        documents.
    """
    check_type(retriever, BaseRetriever, "retriever", "a retriever of LlamaIndex")

    def search(query: str) -> dict[str, Any]:
        with read_by_model():
            nodes = either(retriever.retrieve, retriever.aretrieve)(query)
        return _reply(query, *pending_on_nodes(nodes, None, query).finish())

    async def asearch(query: str) -> dict[str, Any]:
        with read_by_model():
            nodes = await retriever.aretrieve(query)
        return _reply(query, *pending_on_nodes(nodes, None, query).finish())

    reply = itemgetter("text")  # by the model
    return FunctionTool.from_defaults(search, name, description, async_fn=asearch, callback=reply)


def _reply(query: str, outcome: tuple[Decision, list[NodeWithScore]]) -> dict[str, Any]:
    decision, nodes = outcome
    hits = [(text_of(node), node.metadata) for node in nodes]
    text = tool_reply(decision.action, decision.code, decision.reason, decision.choices, hits)
    fields = {"query": query, "nodes": nodes, "candidates": competing_nodes(nodes, decision)}
    return decision.metadata() | fields | {"text": text}
