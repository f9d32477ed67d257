"""The index as a tool of LlamaIndex's own agents: a model with a script."""

import pytest

from tests.llama_index.conftest import always
from uec_rag.llama_index import UECRetriever
from uec_rag.llama_index.agent import UECSearch, retriever_tool


@pytest.fixture
def tool_of(fitted, nodes):
    """The tool, whose gate decides in a given way."""
    retriever = UECRetriever.from_nodes(nodes, fitted, 2)

    def make(action):
        return retriever_tool(retriever, gate=always(action), source_key="place")

    return make


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_the_tool_says_the_decision_first_and_hands_a_program_the_rest(
    tool_of, question, action
):
    output = tool_of(action).call(query=question)
    again = await tool_of(action).acall(query=question)
    assert output.content == again.content
    assert output.content.startswith(f"Decision: {action}. Reason: ")
    found = output.raw_output
    assert isinstance(found, UECSearch)
    assert (found.query, found.decision) == (question, action)
    assert bool(found.candidates) == (action == "clarify")
    assert found.nodes[0].metadata["uec_confidence"] == found.confidence
    place = found.nodes[0].metadata["place"]
    shown = f'[1] ("{place}")' in output.content
    assert shown == (found.nodes[0].text in output.content) == (action != "clarify")


def test_the_source_is_what_the_passage_calls_it(fitted, nodes, question):
    for node in nodes:
        node.metadata["file_path"] = "docs/a.md"
    tool = retriever_tool(UECRetriever.from_nodes(nodes, fitted, 2), gate=always("answer"))
    assert '[1] ("docs/a.md")' in tool.call(query=question).content


def test_after_an_abstention_the_model_may_rephrase_once(tool_of, question):
    tool = tool_of("abstain")
    first, second = (tool.call(query=question).content for _ in range(2))
    assert "Search once more" in first
    assert "Search once more" not in second
    assert "Do not answer" in second
