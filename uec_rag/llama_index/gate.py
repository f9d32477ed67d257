"""Whether to answer from the nodes that were found, as a step between retriever and LLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from pydantic import Field

from uec_rag.confidence.model import Action, Decision
from uec_rag.llama_index.events import UECGateEvent

Gate: TypeAlias = Callable[[float, Decision], Action]
"""From a query's confidence and the search's own decision to what to do."""

_dispatcher = get_dispatcher(__name__)


@dataclass(frozen=True)
class Verdict:
    """What to do about a query.

    Attributes
    ----------
    decision : {"answer", "clarify", "abstain"}
    reason : str
    confidence : float
        P(the query is answered by its nodes).
    candidates : tuple of str
        Ids of the nodes that compete, where the decision is "clarify".
    """

    decision: Action
    reason: str
    confidence: float
    candidates: tuple[str, ...] = ()

    def metadata(self) -> dict[str, Any]:
        """Return what goes on a response's metadata."""
        return {
            "uec_decision": self.decision,
            "uec_reason": self.reason,
            "uec_confidence": self.confidence,
            "uec_candidates": list(self.candidates),
        }


def judge(
    nodes: Sequence[NodeWithScore], query: str | None = None, gate: Gate | None = None
) -> Verdict:
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

    Raises
    ------
    ValueError
        If no node says how confident its search was, or the gate returns something else than an
        action.
    """
    verdict = _judge(nodes, gate)
    _dispatcher.event(
        UECGateEvent(
            query=query,
            decision=verdict.decision,
            reason=verdict.reason,
            confidence=verdict.confidence,
            candidates=list(verdict.candidates),
        )
    )
    return verdict


def _judge(nodes: Sequence[NodeWithScore], gate: Gate | None) -> Verdict:
    if not nodes:
        return Verdict("abstain", "nothing was found", 0.0)
    told = [node.metadata for node in nodes if "uec_decision" in node.metadata]
    if not told:
        raise ValueError(
            "nodes: none has uec_decision in its metadata; expected nodes found by a UECRetriever "
            "or through a UECVectorStore."
        )
    surest = max(told, key=lambda metadata: float(metadata["uec_confidence"]))
    confidence = float(surest["uec_confidence"])
    own = Decision(surest["uec_decision"], surest["uec_reason"], tuple(surest["uec_candidates"]))
    action = own.action if gate is None else gate(confidence, own)
    if action not in get_args(Action):
        raise ValueError(f"gate: expected it to return one of {get_args(Action)}, got {action!r}.")
    if action == own.action:
        return Verdict(action, own.reason, confidence, own.candidates)
    rivals = tuple(node.node_id for node in nodes) if action == "clarify" else ()
    return Verdict(action, f"the gate's choice at confidence {confidence:.2f}", confidence, rivals)


class UECGatePostprocessor(BaseNodePostprocessor):
    """Lets nodes through where the query is to be answered, and only then.

    Where the decision is to abstain, nothing comes through, and LlamaIndex's engines answer "Empty
    Response" without asking the LLM. Where several passages compete, those come through that do. A
    postprocessor has no say in the response: for a clarifying question, or the reason in the
    response's metadata, use `UECQueryEngine`. The reason is in the `UECGateEvent` in any case.

    Parameters
    ----------
    gate : callable(confidence, decision) -> action, optional
        Decides in place of the search; `decision` is a `uec_rag.confidence.model.Decision`.
    **kwargs
        What every LlamaIndex postprocessor takes.

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

    gate: Gate | None = Field(default=None, exclude=True)

    @classmethod
    def class_name(cls) -> str:
        """Name in serialised form."""
        return "UECGatePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = None if query_bundle is None else query_bundle.query_str
        verdict = judge(nodes, query, self.gate)
        if verdict.decision == "abstain":
            return []
        return nodes if verdict.decision == "answer" else competing(nodes, verdict)


def competing(nodes: list[NodeWithScore], verdict: Verdict) -> list[NodeWithScore]:
    """Return the nodes that a verdict names as candidates, or all where none of these is left."""
    return [node for node in nodes if node.node_id in verdict.candidates] or nodes
