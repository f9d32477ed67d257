"""A postprocessor that decides, between retriever and LLM, whether to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import BaseModel, BeforeValidator, Field, field_serializer, model_validator

from uec_rag.base.checks import quote
from uec_rag.confidence.advice import PROMPT, Advice, Advisor, Verdict, prompt, run_to_end
from uec_rag.confidence.decision import Action, Decision
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.gate import Gate, Pending, check_gate
from uec_rag.retrieval.result import KEY, surest_decision
from uec_rag.retrieval.tool import WHAT_TO_DO

NOTICE = "uec-gate"
"""The id of the node that tells an LLM not to answer."""

_dispatcher = get_dispatcher(__name__)


class UECGateEvent(BaseEvent):
    """The decision of a gate.

    Attributes
    ----------
    query : str or None
    decision : {"answer", "clarify", "abstain"}
    reason, reason_code : str
    confidence, in_corpus, underspecified : float
    candidates : list of str
        If the decision is "clarify", the ids of the nodes that the query may mean.
    readings : list of dict
        If the decision is "clarify", the readings: "title", "ids" and "probability" of each.
    clarifying_question : str
        "Do you mean A or B?" if the decision is "clarify", else "".
    advice, searched_as : str
        See `Decision`.
    """

    query: str | None
    decision: Action
    reason: str
    reason_code: str
    confidence: float
    in_corpus: float
    underspecified: float
    candidates: list[str]
    readings: list[dict[str, Any]]
    clarifying_question: str
    advice: str = ""
    searched_as: str = ""

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "UECGateEvent"


def response_metadata(decision: Decision) -> dict[str, Any]:
    """Return the metadata of a response with this decision."""
    return {f"{KEY}{name}": value for name, value in decision.metadata().items()}


Found: TypeAlias = tuple[Decision, list[NodeWithScore]]
"""A decision, with the nodes that it is about."""


def decide(
    nodes: list[NodeWithScore],
    query: str | None = None,
    gate: Gate | None = None,
    retrieve: Callable[[str], list[NodeWithScore]] | None = None,
    asked: str | None = None,
) -> Found:
    """Decide on the nodes found for a query, and dispatch a `UECGateEvent`.

    If they come from several queries, as in a fusion, the decision with the highest confidence is
    used.

    Parameters
    ----------
    nodes : list of NodeWithScore
        The nodes; if there are none, the decision is to abstain.
    query : str, optional
        The query, for the event and the advisor.
    gate : Gate, optional
        The gate that decides instead of the search.
    retrieve : callable, optional
        Retrieves nodes for an advisor's rewrite of the query.
    asked : str, optional
        The query with the turns before it, for the advisor.

    Raises
    ------
    ValueError
        If no node has the confidence of its search.
    """
    pending = _PendingNodes.of(nodes, query, gate, asked)
    return pending.settle(run_to_end(pending.consult()), retrieve)


async def adecide(
    nodes: list[NodeWithScore],
    query: str | None = None,
    gate: Gate | None = None,
    retrieve: Callable[[str], list[NodeWithScore]] | None = None,
    asked: str | None = None,
) -> Found:
    """Run `decide` in a thread; an asynchronous advisor is asked in this event loop."""
    pending = _PendingNodes.of(nodes, query, gate, asked)
    return await asyncio.to_thread(pending.settle, await pending.consult(), retrieve)


class _PendingNodes(NamedTuple):
    """Nodes with the decision on them, before the advisor of a gate is asked."""

    nodes: list[NodeWithScore]
    query: str | None
    gate: Gate | None
    decision: Decision
    pending: Pending

    @classmethod
    def of(
        cls, nodes: list[NodeWithScore], query: str | None, gate: Gate | None, asked: str | None
    ) -> Self:
        decision = decision_on(nodes)
        if gate is None or not nodes:
            return cls(nodes, query, None, decision, Pending([], [], []))
        decision = gate.decide_again(decision, len(nodes))
        texts = [[node.get_content(MetadataMode.NONE) for node in nodes]]
        pending = gate.pending([asked or query or ""], texts, [decision])
        return cls(nodes, query, gate, decision, pending)

    async def consult(self) -> list[Advice | str]:
        return [] if self.gate is None else await self.gate.consult(self.pending)

    def settle(
        self,
        replies: Sequence[Advice | str],
        retrieve: Callable[[str], list[NodeWithScore]] | None,
    ) -> Found:
        gate, decision, found = self.gate, self.decision, self.nodes

        def search(rewrites: Sequence[str]) -> list[Found]:
            assert gate is not None
            assert retrieve is not None
            rows = [retrieve(rewrite) for rewrite in rewrites]
            return [(gate.decide_again(decision_on(row), len(row)), row) for row in rows]

        if gate is not None and replies:
            again = None if retrieve is None else search
            [(decision, other)] = gate.settle([decision], self.pending, replies, again)
            found = found if other is None else other
        if decision.action != "clarify":
            decision = replace(decision, readings=())
        _dispatcher.event(UECGateEvent(query=self.query, **decision.metadata()))
        return decision, found


def decision_on(nodes: Sequence[NodeWithScore]) -> Decision:
    """Read the decision in the metadata of nodes; to abstain if there are none.

    Raises ValueError if no node has one.
    """
    if not nodes:
        return Decision.empty()
    decision = surest_decision(node.metadata for node in nodes)
    if decision is None:
        raise ValueError(
            "nodes: none has uec_decision in its metadata; expected nodes found by a UECRetriever "
            "(UECRetriever.from_index(index)), or through a UECVectorStore by the question's own "
            "vector, from the index's embed_model=UECEmbedding(uec=uec)."
        )
    return decision


class _Advice(BaseModel):
    """The verdict on whether the passages answer the question."""

    verdict: Verdict
    options: list[str] = Field(default_factory=list)
    rewrite: str = ""


def llm_advisor(llm: LLM, template: str = PROMPT) -> Advisor:
    """Create an advisor from an LLM, by structured output if it calls functions.

    `template`: the prompt, with the fields `question` and `passages`.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> llm_advisor(MockLLM(max_tokens=2))("What purrs?", ["Cats purr."])
    'text text'
    """

    def advise(question: str, texts: Sequence[str]) -> object:
        asked = prompt(question, texts, template)
        if not llm.metadata.is_function_calling_model:
            return llm.complete(asked).text
        reply = llm.as_structured_llm(_Advice).complete(asked).raw
        return reply.model_dump() if isinstance(reply, _Advice) else None

    return advise


def as_advisor(advisor: LLM | Advisor | None) -> Advisor | None:
    """Return the advisor that an LLM makes; anything else is returned unchanged."""
    return llm_advisor(advisor) if isinstance(advisor, LLM) else advisor


def with_advisor(gate: Gate | None, advisor: LLM | Advisor | None) -> Gate | None:
    """Return the gate with an advisor, if there is one."""
    reader = as_advisor(advisor)
    return gate if reader is None else replace(gate or Gate(), advisor=reader)


def _restore(gate: Mapping[str, Any] | Gate | None) -> Gate | None:
    return Gate.restore(gate) if isinstance(gate, Mapping) else check_gate(gate)


class UECGatePostprocessor(BaseNodePostprocessor):
    """Replaces nodes by a notice if a query should not be answered, in any LlamaIndex engine.

    The notice (`notice`) is the first node and tells the LLM what to say. The decision is in its
    metadata, and thus in the `source_nodes` of the response and in its `metadata`, under the id
    "uec-gate". No passage follows if the decision is to abstain; if it is to ask back, those that
    the query may mean follow. The LLM is still called; `UECQueryEngine` refuses without it.

    Parameters
    ----------
    gate : Gate, optional
        The gate that decides instead of the search, in which that of the index has decided.
    advisor : LLM or callable(question, texts) -> Advice, optional
        LLM or callable consulted once per borderline question (`Gate.advisor`); it is not
        serialised. Its rewrites are not searched for, since a postprocessor does not search;
        `UECQueryEngine` does.
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
    Do not answer, either from these passages or from memory: the documents do not contain the
    answer. Reply with this alone: "These passages may not answer the question."
    """

    gate: Annotated[Gate | None, BeforeValidator(_restore)] = None
    advisor: Annotated[Advisor | None, BeforeValidator(as_advisor)] = Field(
        default=None, exclude=True
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self.gate = with_advisor(self.gate, self.advisor)
        return self

    @field_serializer("gate")
    def _dump_gate(self, gate: Gate | None) -> dict[str, object] | None:
        return None if gate is None else gate.metadata()

    @classmethod
    def class_name(cls) -> str:
        """Return the name for serialisation."""
        return "UECGatePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = None if query_bundle is None else query_bundle.query_str
        return self._with_notice(nodes, decide(nodes, query, self.gate)[0])

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = None if query_bundle is None else query_bundle.query_str
        return self._with_notice(nodes, (await adecide(nodes, query, self.gate))[0])

    def _with_notice(self, nodes: list[NodeWithScore], decision: Decision) -> list[NodeWithScore]:
        if decision.action == "answer":
            return nodes
        return [notice(decision), *competing_nodes(nodes, decision)]


def notice(decision: Decision) -> NodeWithScore:
    """Convert a decision to a node, since an engine accepts only nodes from a postprocessor."""
    text = f"{WHAT_TO_DO[decision.action]} Reply with this alone: {quote(decision.reason)}"
    fields = response_metadata(decision)
    node = TextNode(
        id_=NOTICE,
        text=text,
        metadata=fields,
        excluded_llm_metadata_keys=[*fields],
        excluded_embed_metadata_keys=[*fields],
    )
    return NodeWithScore(node=node, score=decision.confidence)


def gate_of(source: object) -> Gate | None:
    """Return the gate that decides in the searches of a retriever or a query engine, or None."""
    while source is not None and not isinstance(source, Retriever):
        if getattr(source, "threshold", None) is not None:
            return Gate(source.threshold)  # type: ignore[attr-defined]
        source = getattr(source, "retriever", None) or getattr(source, "_vector_store", None)
    return None if source is None else source.gate


def competing_nodes(nodes: list[NodeWithScore], decision: Decision) -> list[NodeWithScore]:
    """Return the nodes that a question may mean, if the decision is to ask back; else none.

    These are the candidates of the decision, or all nodes if it has none.
    """
    if decision.action != "clarify":
        return []
    return [node for node in nodes if node.node_id in decision.candidates] or nodes
