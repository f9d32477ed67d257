"""The index as a tool for LlamaIndex agents."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from uec_rag.base.text import SOURCE_KEYS, first_value
from uec_rag.confidence.decision import Action
from uec_rag.llama_index.gate import Found, adecide, competing_nodes, decide
from uec_rag.retrieval.gate import Gate, check_gate
from uec_rag.retrieval.tool import TOOL_DESCRIPTION, TOOL_NAME, is_doubted, tool_reply


class UECSearch(BaseModel):
    """The `raw_output` of `retriever_tool`, whose text the model reads.

    Attributes
    ----------
    query : str
    decision : {"answer", "clarify", "abstain"}
    reason, reason_code : str
    confidence : float
    nodes : list of NodeWithScore
        The hits, with the `uec_` metadata.
    candidates : list of NodeWithScore
        If the decision is "clarify", the hits that the query may mean.
    readings : list of dict
        If the decision is "clarify", the readings: "title", "ids" and "probability" of each.
    clarifying_question : str
        "Do you mean A or B?" if the decision is "clarify", else "".
    text : str
    """

    query: str
    decision: Action
    reason: str
    reason_code: str
    confidence: float
    nodes: list[NodeWithScore]
    candidates: list[NodeWithScore]
    readings: list[dict[str, Any]]
    clarifying_question: str
    text: str

    def __str__(self) -> str:
        return self.text


def retriever_tool(
    retriever: BaseRetriever,
    name: str = TOOL_NAME,
    description: str = TOOL_DESCRIPTION,
    *,
    gate: Gate | None = None,
    source_key: str | None = None,
) -> FunctionTool:
    """Create a tool from a retriever.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages or the readings of the question. The `raw_output` for programs is a `UECSearch`. A
    `UECRetriever` that has the `memory` of the agent's run searches with the turns in it.

    Parameters
    ----------
    retriever : BaseRetriever
        A `UECRetriever`, or a LlamaIndex retriever over one.
    name, description : str
        The name and description by which a model chooses the tool; describe the subject of the
        documents.
    gate : Gate, optional
        The gate that decides instead of the search, in which that of the index has decided.
    source_key : str, optional
        Metadata key of the source of a passage to show to the model; by default, the first of
        `SOURCE_KEYS` that the passage has.
    """
    if not isinstance(retriever, BaseRetriever):
        raise TypeError(
            "retriever: expected a UECRetriever or another retriever of LlamaIndex, got "
            f"{type(retriever).__name__}."
        )
    check_gate(gate)

    def source(node: NodeWithScore) -> object:
        found = (
            first_value(node.metadata, SOURCE_KEYS)
            if source_key is None
            else node.metadata.get(source_key)
        )
        return found or None

    nudged = False  # whether the model was told to search once more, in the last reply

    def reply_to(query: str, outcome: Found) -> UECSearch:
        nonlocal nudged
        decision, nodes = outcome
        labels = [reading["title"] for reading in decision.choices]
        passages = [(node.get_content(MetadataMode.NONE), source(node)) for node in nodes]
        hits = {"query": query, "nodes": nodes, "candidates": competing_nodes(nodes, decision)}
        may_search = not decision.advice and not nudged
        doubted = may_search and is_doubted(decision.confidence)
        text = tool_reply(
            decision.action,
            decision.reason,
            labels,
            passages,
            doubted=doubted,
            rephrases=may_search,
        )
        nudged = doubted or (may_search and decision.action == "abstain")
        return UECSearch(**decision.metadata() | hits, text=text)

    def search(query: str) -> UECSearch:
        return reply_to(query, decide(retriever.retrieve(query), query, gate))

    async def asearch(query: str) -> UECSearch:  # of a memory that belongs to the agent's loop
        return reply_to(query, await adecide(await retriever.aretrieve(query), query, gate))

    return FunctionTool.from_defaults(search, name, description, async_fn=asearch)
