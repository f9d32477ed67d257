"""The index as a tool of LlamaIndex's own agents: a model with a script."""

import pytest
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from tests.llama_index.conftest import always
from uec_rag.llama_index import UECRetriever
from uec_rag.llama_index.agent import UECFunctionAgent, UECSearch, retriever_tool


@pytest.fixture
def tool_of(fitted, nodes):
    """The tool, whose gate decides in a given way."""
    retriever = UECRetriever.from_nodes(nodes, fitted, 2)

    def make(action):
        return retriever_tool(retriever, gate=always(action), source_key="place")

    return make


def scripted(*questions):
    """A model that searches for these, one after the other, and then answers from memory."""
    asked = iter(questions)

    def respond(messages, **kwargs):
        question = next(asked, None)
        if question is None:
            return ChatMessage(role="assistant", content="From memory: 42.")
        call = ToolCallBlock(
            tool_call_id="1", tool_name="search_documents", tool_kwargs={"query": question}
        )
        return ChatMessage(role="assistant", blocks=[call])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


@pytest.mark.parametrize("action", ["answer", "clarify", "abstain"])
async def test_the_tool_says_the_decision_first_and_hands_a_program_the_rest(
    tool_of, question, action
):
    tool = tool_of(action)
    output, again = tool.call(query=question), await tool.acall(query=question)
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


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("action", "said"),
    [("answer", "From memory: 42."), ("clarify", "Do you mean n3 "), ("abstain", "The documents")],
)
async def test_an_agent_keeps_to_what_its_search_decides(
    tool_of, question, action, said, streaming
):
    llm = scripted(question)
    agent = UECFunctionAgent(tools=[tool_of(action)], llm=llm, streaming=streaming)
    handler = agent.run(user_msg=question)
    shown = [e.response async for e in handler.stream_events() if isinstance(e, AgentStream)]
    response = await handler
    assert str(response).startswith(said)
    assert (str(response) in shown) == (streaming or action != "answer")
    if action != "answer":
        assert response.raw.decision == action
    theirs = FunctionAgent(tools=[tool_of(action)], llm=scripted(question), streaming=streaming)
    assert str(await theirs.run(user_msg=question)) == "From memory: 42."


async def test_each_turn_is_judged_by_its_own_searches(tool_of, question):
    agent = UECFunctionAgent(tools=[tool_of("abstain")], llm=scripted(question))
    refusal = "The documents do not seem to answer this."
    memory = Memory.from_defaults()
    assert str(await agent.run(question, memory=memory)) == refusal
    assert str(await agent.run("Hello", memory=memory)) == "From memory: 42."
    said = [m.content for m in await memory.aget_all() if m.role == "assistant" and m.content]
    assert said == [refusal, "From memory: 42."]
