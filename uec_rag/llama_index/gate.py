"""A postprocessor between retriever and LLM that decides whether to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, get_args

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import (  # type: ignore[attr-defined]
    BaseEvent,
)
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import Field, field_serializer, field_validator

from uec_rag.confidence.decision import Action, Decision
from uec_rag.confidence.second_opinion import Judge, prompt, read_reply
from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.result import surest_decision

GateLike: TypeAlias = Callable[[float, Decision], Action]
"""From a query's confidence and the search's own decision to what to do: a `uec_rag` gate, or any
other callable."""

_dispatcher = get_dispatcher(__name__)


class UECGateEvent(BaseEvent):
    """The decision of a gate.

    Attributes
    ----------
    query : str or None
    decision : {"answer", "clarify", "abstain"}
    reason : str
    confidence, in_corpus : float
    candidates : list of str
        Ids of the nodes that compete, where the decision is "clarify".
    """

    query: str | None
    decision: Action
    reason: str
    confidence: float
    in_corpus: float
    candidates: list[str]

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "UECGateEvent"


def response_metadata(decision: Decision) -> dict[str, Any]:
    """Return what goes on a response's metadata."""
    return {
        "uec_decision": decision.action,
        "uec_reason": decision.reason,
        "uec_confidence": decision.confidence,
        "uec_in_corpus": decision.in_corpus,
        "uec_candidates": list(decision.candidates),
    }


def judge(
    nodes: Sequence[NodeWithScore],
    query: str | None = None,
    gate: GateLike | None = None,
    second: Judge | None = None,
) -> Decision:
    """Decide about the nodes found for a query, and dispatch a `UECGateEvent`.

    Where they come from several queries (of a fusion), the one of the highest confidence counts.

    Parameters
    ----------
    nodes : sequence of NodeWithScore
        None of them: abstain.
    query : str, optional
        For the event.
    gate : callable, optional
        Decides in place of the search.
    second : callable(question, texts) -> bool or float, optional
        The judge that a `uec_rag` gate was calibrated with; see `llm_judge`.

    Raises
    ------
    ValueError
        If no node says how confident its search was, the gate returns something else than an
        action, or there is a judge that the gate was not calibrated with.
    """
    decision = _judge(nodes, query, gate, second)
    if decision.action != "clarify":
        decision = replace(decision, readings=())
    _dispatcher.event(
        UECGateEvent(
            query=query,
            decision=decision.action,
            reason=decision.reason,
            confidence=decision.confidence,
            in_corpus=decision.in_corpus,
            candidates=list(decision.candidates),
        )
    )
    return decision


def llm_judge(llm: LLM) -> Judge:
    """Make a judge of a language model, which says with yes or no if the passages suffice.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> print(llm_judge(MockLLM(max_tokens=2))("What purrs?", ["Cats purr."]))
    None
    """

    def asked(question: str, texts: Sequence[str]) -> bool | None:
        return read_reply(llm.complete(prompt(question, texts)).text)

    return asked


def _judge(
    nodes: Sequence[NodeWithScore],
    query: str | None,
    gate: GateLike | None,
    second: Judge | None,
) -> Decision:
    if second is not None and not isinstance(gate, Gate):
        raise ValueError("second: expected with it the uec_rag gate that it was calibrated with.")
    if not nodes:
        return Decision("abstain", "nothing was found")
    own = surest_decision(node.metadata for node in nodes)
    if own is None:
        raise ValueError(
            "nodes: none has uec_decision in its metadata; expected nodes found by a UECRetriever "
            "or through a UECVectorStore."
        )
    if gate is None:
        return own
    if isinstance(gate, Gate):
        if second is None:
            return gate.redecide(own)
        texts = [node.get_content(MetadataMode.NONE) for node in nodes]
        return gate.redecide(own, query or "", texts, second)
    action = gate(own.confidence, own)
    if action not in get_args(Action):
        raise ValueError(f"gate: expected it to return one of {get_args(Action)}, got {action!r}.")
    if action == own.action:
        return own
    return replace(own, action=action, reason="The gate decided so.")


class UECGatePostprocessor(BaseNodePostprocessor):
    """Passes nodes on only if the query is to be answered.

    If the decision is to abstain, no node is passed on, and LlamaIndex's engines answer "Empty
    Response" without calling the LLM. If several passages compete, those are passed on. A
    postprocessor cannot change the response: for a clarifying question, or the reason in words, use
    `UECQueryEngine`. The reason is always in the `UECGateEvent`.

    Parameters
    ----------
    gate : callable(confidence, decision) -> action, optional
        Decides instead of the search; `decision` is a `uec_rag.confidence.decision.Decision`. A
        `uec_rag` gate is serialised with the postprocessor; another callable cannot be.
    second : LLM or callable(question, texts) -> bool or float, optional
        The judge that the gate was calibrated with (as ``llm_judge(llm)``); it is not serialised.
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
    >>> strict = UECGatePostprocessor(gate=lambda p, _: "answer" if p > 0.9 else "abstain")
    >>> len(strict.postprocess_nodes(nodes))
    0
    """

    gate: GateLike | None = None
    second: Judge | None = Field(default=None, exclude=True)

    @field_validator("second", mode="before")
    @classmethod
    def _as_judge(cls, second: object) -> object:
        return llm_judge(second) if isinstance(second, LLM) else second

    @field_validator("gate", mode="before")
    @classmethod
    def _restore_gate(cls, value: object) -> object:
        return Gate.restore(value) if isinstance(value, Mapping) else value

    @field_serializer("gate")
    def _dump_gate(self, gate: GateLike | None) -> dict[str, object] | None:
        if gate is None:
            return None
        if not isinstance(gate, Gate):
            raise TypeError(
                f"gate: expected a uec_rag gate to be written down, got {gate!r:.60}; make the "
                "postprocessor again where it is loaded."
            )
        return gate.metadata()

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "UECGatePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = None if query_bundle is None else query_bundle.query_str
        decision = judge(nodes, query, self.gate, self.second)
        if decision.action == "abstain":
            return []
        return nodes if decision.action == "answer" else competing(nodes, decision)


def competing(nodes: list[NodeWithScore], decision: Decision) -> list[NodeWithScore]:
    """Return the nodes that a decision names as candidates, or all where none of these is left."""
    return [node for node in nodes if node.node_id in decision.candidates] or nodes
