"""The index as a tool for LlamaIndex agents."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool

from uec_rag.base.checks import check_type
from uec_rag.base.text import SOURCE_KEYS, first_value
from uec_rag.confidence.decision import Decision
from uec_rag.llama_index.gate import competing_nodes, pending_on_nodes, tell, text_of
from uec_rag.retrieval.tool import TOOL_DESCRIPTION, TOOL_NAME, tool_reply


class UECSearch(dict[str, Any]):
    """The `raw_output` of `retriever_tool`, a mapping whose text the model reads.

    Its keys are those of `Decision.metadata`, and "query", "nodes" (the hits, with the `uec_`
    metadata), "candidates" (if the decision is "clarify", the hits that the query may mean) and
    "text".
    """

    def __str__(self) -> str:
        text: str = self["text"]
        return text


def retriever_tool(
    retriever: BaseRetriever, name: str = TOOL_NAME, description: str = TOOL_DESCRIPTION
) -> FunctionTool:
    """Create a tool from a retriever.

    The content for the model is the decision with its reason and an instruction, followed by the
    passages, each with its source, or the readings of the question. The `raw_output` for programs
    is a `UECSearch`. A `UECRetriever` that has the `memory` of the agent's run searches with the
    turns in it.

    Parameters
    ----------
    retriever : BaseRetriever
        A `UECRetriever`, or a LlamaIndex retriever over one.
    name, description : str
        The name and description by which a model chooses the tool; describe the subject of the
        documents.
    """
    check_type(retriever, BaseRetriever, "retriever", "a retriever of LlamaIndex")

    def search(query: str) -> UECSearch:
        [(decision, nodes)] = pending_on_nodes(retriever.retrieve(query), None).finish()
        return _found(query, decision, nodes)

    async def asearch(query: str) -> UECSearch:  # of a memory that belongs to the agent's loop
        [(decision, nodes)] = pending_on_nodes(await retriever.aretrieve(query), None).finish()
        return _found(query, decision, nodes)

    return FunctionTool.from_defaults(search, name, description, async_fn=asearch)


def _found(query: str, decision: Decision, nodes: list[NodeWithScore]) -> UECSearch:
    tell(query, decision)
    text = tool_reply(
        decision.action,
        decision.reason,
        [reading["title"] for reading in decision.choices],
        [(text_of(node), first_value(node.metadata, SOURCE_KEYS) or None) for node in nodes],
    )
    found = {"query": query, "nodes": nodes, "candidates": competing_nodes(nodes, decision)}
    return UECSearch(decision.metadata() | found, text=text)
