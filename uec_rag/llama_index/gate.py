"""A postprocessor that decides, between retriever and LLM, whether to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    field_serializer,
    model_validator,
)

from uec_rag.base.checks import quote
from uec_rag.confidence.advice import PROMPT, Advisor, prompt
from uec_rag.confidence.decision import Action, Decision
from uec_rag.ensemble import UEC
from uec_rag.llama_index.nodes import hits, passages_of
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.adapters import as_judge, judge, pending_on
from uec_rag.retrieval.gate import Gate, Pending, check_gate
from uec_rag.retrieval.result import KEY
from uec_rag.retrieval.tool import WHAT_TO_DO

NOTICE = "uec-gate"
"""The id of the node that tells an LLM not to answer."""

_DECIDED = (
    "expected nodes found by a UECRetriever (UECRetriever.from_index(index)), or by an index over "
    "a UECVectorStore with embed_model=UECEmbedding(uec=uec)."
)
_dispatcher = get_dispatcher(__name__)


class UECGateEvent(BaseEvent):
    """The decision of a gate: its `query`, and the attributes of `Decision.metadata`."""

    model_config = ConfigDict(extra="allow")

    query: str | None
    decision: Action
    reason: str
    confidence: float

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "UECGateEvent"


def response_metadata(decision: Decision) -> dict[str, Any]:
    """Return the metadata of a response with this decision."""
    return {f"{KEY}{name}": value for name, value in decision.metadata().items()}


def pending_on_nodes(
    nodes: list[NodeWithScore],
    gate: Gate | None,
    question: str = "",
    search: Callable[[str], list[NodeWithScore]] | None = None,
) -> Pending[list[NodeWithScore]]:
    """Decide at the threshold on nodes, for a question with the turns before it."""
    return pending_on(nodes, gate, question, text_of, _DECIDED, search)


def tell(query: str | None, decision: Decision) -> None:
    """Dispatch the event of a decision."""
    _dispatcher.event(UECGateEvent(query=query, **decision.metadata()))


def text_of(node: NodeWithScore) -> str:
    """Return the text of a node without its metadata."""
    return node.get_content(MetadataMode.NONE)


def llm_advisor(llm: LLM, template: str = PROMPT) -> Advisor:
    """Create an advisor from an LLM.

    `template`: the prompt, with the fields `question` and `passages`.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> llm_advisor(MockLLM(max_tokens=2))("What purrs?", ["Cats purr."])
    'text text'
    """
    return lambda question, texts: llm.complete(prompt(question, texts, template)).text


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
    embedding : UEC or LlamaIndex embedding, optional
        Judges nodes that any other retriever found, in its order; it is not serialised. Let that
        retrieve thirty: with fewer, and without a fit of the ensemble, confidence is unreliable.
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

    embedding: Annotated[UEC | None, BeforeValidator(as_judge)] = Field(default=None, exclude=True)

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
        judged = self._judge(nodes, query)
        [(decision, kept)] = pending_on_nodes(judged, self.gate, query or "").finish()
        return _with_notice(query, decision, kept)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = None if query_bundle is None else query_bundle.query_str
        judged = await asyncio.to_thread(self._judge, nodes, query)
        pending = await asyncio.to_thread(pending_on_nodes, judged, self.gate, query or "")
        [(decision, kept)] = await pending.afinish()
        return _with_notice(query, decision, kept)

    def _judge(self, nodes: list[NodeWithScore], query: str | None) -> list[NodeWithScore]:
        if self.embedding is None or not query:
            return nodes
        return hits(judge(self.embedding, query, passages_of([node.node for node in nodes])))


def _with_notice(
    query: str | None, decision: Decision, nodes: list[NodeWithScore]
) -> list[NodeWithScore]:
    tell(query, decision)
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
