"""A postprocessor that decides, between retriever and LLM, whether to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events.base import BaseEvent  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import BeforeValidator, Field, field_serializer

from uec_rag.base.checks import quoted
from uec_rag.confidence.decision import NOTHING_FOUND, Action, Decision
from uec_rag.confidence.second_opinion import Judge, prompt, read_reply
from uec_rag.retrieval import Retriever
from uec_rag.retrieval.gate import Gate, as_gate
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
    reason : str
    confidence, in_corpus, underspecified : float
    candidates : list of str
        If the decision is "clarify", the ids of the nodes that the query may mean.
    readings : list of dict
        If the decision is "clarify", the readings: "label", "ids" and "probability" of each.
    question_back : str
        "Do you mean A or B?" if the decision is "clarify", else "".
    """

    query: str | None
    decision: Action
    reason: str
    confidence: float
    in_corpus: float
    underspecified: float
    candidates: list[str]
    readings: list[dict[str, Any]]
    question_back: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised form."""
        return "UECGateEvent"


def response_metadata(decision: Decision) -> dict[str, Any]:
    """Return the metadata of a response with this decision."""
    return {f"{KEY}{name}": value for name, value in decision.metadata().items()}


def judge(
    nodes: Sequence[NodeWithScore],
    query: str | None = None,
    gate: Gate | float | None = None,
    second: Judge | None = None,
) -> Decision:
    """Decide on the nodes found for a query, and dispatch a `UECGateEvent`.

    If they come from several queries, as in a fusion, the decision with the highest confidence is
    used.

    Parameters
    ----------
    nodes : sequence of NodeWithScore
        The nodes; if there are none, the decision is to abstain.
    query : str, optional
        The query, for the event.
    gate : Gate or float, optional
        The gate that decides instead of the search, or a threshold of confidence.
    second : callable(question, texts) -> bool or float, optional
        The judge that the gate was calibrated with; see `llm_judge`.

    Raises
    ------
    ValueError
        If no node has the confidence of its search, or the gate was not calibrated with `second`.
    """
    gate = as_gate(gate)
    if second is not None and gate is None:
        raise ValueError("second: expected together with the gate that was calibrated with it.")
    nothing = Decision("abstain", NOTHING_FOUND, in_corpus=0.0)
    decision = surest_decision(node.metadata for node in nodes) if nodes else nothing
    if decision is None:
        raise ValueError(
            "nodes: none has uec_decision in its metadata; expected nodes found by a UECRetriever "
            "(UECRetriever.from_index(index)), or through a UECVectorStore by the question's own "
            "vector, from the index's embed_model=UECEmbedding(uec=uec)."
        )
    if gate is not None and nodes:
        texts = [node.get_content(MetadataMode.NONE) for node in nodes]
        decision = gate.redecide(decision, query or "", texts, second)
    if decision.action != "clarify":
        decision = replace(decision, readings=())
    _dispatcher.event(UECGateEvent(query=query, **decision.metadata()))
    return decision


def llm_judge(llm: LLM) -> Judge:
    """Create a judge from an LLM, which says with yes or no whether the passages suffice.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> print(llm_judge(MockLLM(max_tokens=2))("What purrs?", ["Cats purr."]))
    None
    """

    def asked(question: str, texts: Sequence[str]) -> bool | None:
        return read_reply(llm.complete(prompt(question, texts)).text)

    return asked


def as_judge(second: LLM | Judge | None) -> Judge | None:
    """Return the judge that an LLM makes; anything but an LLM is returned unchanged."""
    return llm_judge(second) if isinstance(second, LLM) else second


def _restored(gate: Mapping[str, Any] | Gate | float | None) -> Gate | None:
    return Gate.restore(gate) if isinstance(gate, Mapping) else as_gate(gate)


class UECGatePostprocessor(BaseNodePostprocessor):
    """Replaces nodes by a notice if a query should not be answered, in any LlamaIndex engine.

    The notice (`notice`) is the first node and tells the LLM what to say. The decision is in its
    metadata, and thus in the `source_nodes` of the response and in its `metadata`, under the id
    "uec-gate". No passage follows if the decision is to abstain; if it is to ask back, those that
    the query may mean follow. The LLM is still called; `UECQueryEngine` refuses without it.

    Parameters
    ----------
    gate : Gate or float, optional
        The gate that decides instead of the search, or a threshold of confidence. A postprocessor
        does not know the index: its saved gate is ``gate_of_index(retriever)``.
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
    >>> strict = UECGatePostprocessor(gate=0.9)
    >>> print(strict.postprocess_nodes(nodes)[0].text)
    Do not answer, either from these passages or from memory: the documents do not contain the
    answer. Reply with this alone: "It is not certain enough that these passages answer this."
    """

    gate: Annotated[Gate | None, BeforeValidator(_restored)] = None
    second: Annotated[Judge | None, BeforeValidator(as_judge)] = Field(default=None, exclude=True)

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
        decision = judge(nodes, query, self.gate, self.second)
        if decision.action == "answer":
            return nodes
        return [notice(decision), *competing(nodes, decision)]


def notice(decision: Decision) -> NodeWithScore:
    """Convert a decision to a node, since an engine accepts only nodes from a postprocessor."""
    text = f"{WHAT_TO_DO[decision.action]} Reply with this alone: {quoted(decision.reason)}"
    known = response_metadata(decision)
    node = TextNode(
        id_=NOTICE,
        text=text,
        metadata=known,
        excluded_llm_metadata_keys=[*known],
        excluded_embed_metadata_keys=[*known],
    )
    return NodeWithScore(node=node, score=decision.confidence)


def gate_of_index(source: object) -> Gate | None:
    """Return the gate saved in the index that a retriever or a query engine searches, or None."""
    while source is not None and not isinstance(source, Retriever):
        source = getattr(source, "retriever", None) or getattr(source, "_vector_store", None)
    return None if source is None else Gate.of_index(source)


def competing(nodes: list[NodeWithScore], decision: Decision) -> list[NodeWithScore]:
    """Return the nodes that a question may mean, if the decision is to ask back; else none.

    These are the candidates of the decision, or all nodes if it has none.
    """
    if decision.action != "clarify":
        return []
    return [node for node in nodes if node.node_id in decision.candidates] or nodes
