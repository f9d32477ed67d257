"""The index as a tool of LlamaIndex's own agents: a model with a script."""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever

from tests.llama_index.test_gate import TWO, found
from uec_rag.llama_index.agent import UECSearch, retriever_tool


class Told(BaseRetriever):
    """Finds nodes with a decision, whatever it is asked."""

    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle):
        return self.nodes


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_the_tool_says_the_decision_first_and_hands_a_program_the_rest(action):
    nodes = found(action, 0.7, "a", "b", readings=TWO)
    for node in nodes:
        node.metadata["file_path"] = "docs/a.md"
    tool = retriever_tool(Told(nodes))
    output, again = tool.call(query="How?"), await tool.acall(query="How?")
    assert output.content == again.content
    assert output.content.startswith(f"Decision: {action}. Reason: ")
    search = output.raw_output
    assert isinstance(search, UECSearch)
    told = [search[key] for key in ("query", "decision", "confidence", "nodes")]
    assert told == ["How?", action, 0.7, nodes]
    assert bool(search["candidates"]) == (action == "clarify")
    shown = '[1] ("docs/a.md") "a"' in output.content
    assert shown == (action != "clarify")
    assert ('- "the printer"' in output.content) == (action == "clarify")
