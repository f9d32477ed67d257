"""What the package asks an LLM for itself is counted, and in no stream of an agent or engine."""

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import ChatMessage, CompletionResponse, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.mock import MockFunctionCallingLLM

from uec_rag import UEC, Gate
from uec_rag.llama_index import UECQueryEngine, UECRetriever, llm_advisor, retriever_tool

QUESTION = "Who repairs the lamp of the camera?"
TEXTS = ["The camera is repaired by Ann.", "The desk is repaired by Bob."]
VERDICT = '{"verdict": "answer", "passage": 1}'


class Advising(MockLLM):
    """An LLM that gives a verdict."""

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=VERDICT)


@pytest.fixture
def counter():
    return TokenCountingHandler(tokenizer=str.split)


@pytest.fixture
def retriever(counter):
    advisor = llm_advisor(Advising(callback_manager=CallbackManager([counter])))
    retriever = UECRetriever.from_texts(TEXTS, UEC(["bm25"]), fit=False)
    retriever.index.gate = Gate(ask="always", advisor=advisor)
    return retriever


def reply(messages, **_):
    if messages[-1].role == "tool":
        return ChatMessage("Ann repairs it.", role="assistant")
    call = ToolCallBlock(
        tool_call_id="1", tool_name="search_documents", tool_kwargs={"query": QUESTION}
    )
    return ChatMessage(role="assistant", blocks=[call])


async def test_advice_is_in_no_event_of_an_agent_and_its_tokens_are_counted(retriever, counter):
    model = MockFunctionCallingLLM(response_generator=reply, is_chat_model=True)
    run = FunctionAgent(tools=[retriever_tool(retriever)], llm=model).run(QUESTION)
    events = [str(event.model_dump()) async for event in run.stream_events()]
    assert "Ann repairs it." in str(await run)
    assert any("Decision: answer" in event for event in events)  # what the tool replied
    assert not [event for event in events if "verdict" in event]
    assert counter.completion_llm_token_count == len(VERDICT.split())


async def test_advice_is_in_no_stream_of_an_engine(retriever, counter):
    engine = UECQueryEngine.from_args(retriever, MockLLM(), streaming=True)
    assert "verdict" not in "".join(engine.query(QUESTION).response_gen)
    response = await engine.aquery(QUESTION)
    assert "verdict" not in "".join([part async for part in response.response_gen])
    assert counter.completion_llm_token_count == 2 * len(VERDICT.split())
