"""Chat engines hand over the last message alone: the turns before it come from their memory."""

import asyncio

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer, Memory

from tests.helpers import data_of
from uec_rag import UEC, Retriever
from uec_rag.llama_index import UECGatePostprocessor, UECQueryBundle, UECRetriever

TEXTS = data_of("chat_memory.json")
TURNS = ["Who paints the bicycle shed?", "And how long does it take?"]
ENGINES = [(ContextChatEngine, {}), (CondensePlusContextChatEngine, {"skip_condense": True})]
LLM = MockLLM(max_tokens=3)


@pytest.fixture(scope="module")
def index():
    retriever = Retriever(UEC())
    retriever.add(TEXTS)
    return retriever


def chat_over(index, kind, options, memory, *, remembers=True):
    retriever = UECRetriever(index, memory=memory if remembers else None)
    gate = UECGatePostprocessor()
    return kind.from_defaults(
        retriever, memory=memory, llm=LLM, node_postprocessors=[gate], **options
    )


def decision(response):
    return response.source_nodes[0].metadata["uec_decision"]


@pytest.mark.parametrize(("kind", "options"), ENGINES)
@pytest.mark.parametrize("memory", [Memory, ChatMemoryBuffer])
def test_a_follow_up_is_searched_with_the_turns_before(index, kind, options, memory):
    without = chat_over(index, kind, options, memory.from_defaults(), remembers=False)
    assert [decision(without.chat(turn)) for turn in TURNS] == ["answer", "abstain"]
    chat = chat_over(index, kind, options, memory.from_defaults())
    responses = [chat.chat(turn) for turn in TURNS]
    assert [decision(response) for response in responses] == ["answer", "answer"]
    assert responses[1].source_nodes[0].text == TEXTS[0]
    chat.reset()
    assert decision(chat.chat(TURNS[1])) == "abstain"


@pytest.mark.parametrize(("kind", "options"), ENGINES)
async def test_awaited_and_streamed_chats_remember_as_well(index, kind, options):
    awaited = chat_over(index, kind, options, Memory.from_defaults())
    assert [decision(await awaited.achat(turn)) for turn in TURNS] == ["answer", "answer"]
    streamed = chat_over(index, kind, options, Memory.from_defaults())
    decisions = []
    for turn in TURNS:
        response = await streamed.astream_chat(turn)
        assert [part async for part in response.async_response_gen()]
        decisions.append(decision(response))
    assert decisions == ["answer", "answer"]


def test_a_history_that_is_passed_and_the_one_of_a_bundle_count(index):
    memory = Memory.from_defaults()
    chat = chat_over(index, ContextChatEngine, {}, memory)
    history = [ChatMessage(TURNS[0]), ChatMessage("The gardener.", role="assistant")]
    assert decision(chat.chat(TURNS[1], chat_history=history)) == "answer"
    retriever = UECRetriever(index, memory=memory)
    bundle = UECQueryBundle("And for students?", history=["What does a locker cost?"])
    assert retriever.retrieve(bundle)[0].text == TEXTS[2]


def test_an_agents_memory_may_end_with_the_question(index):
    memory = Memory.from_defaults(chat_history=[ChatMessage(turn) for turn in TURNS])
    [with_question] = {
        hits[0].metadata["uec_confidence"]
        for hits in [UECRetriever(index, memory=memory).retrieve(TURNS[1])]
    }
    expected = UECRetriever(index).retrieve(UECQueryBundle(TURNS[1], history=TURNS[:1]))
    assert with_question == expected[0].metadata["uec_confidence"]


def test_conversations_over_one_index_do_not_mix(index):
    first, second = (
        chat_over(index, ContextChatEngine, {}, Memory.from_defaults()) for _ in range(2)
    )

    async def ask():
        await asyncio.gather(first.achat(TURNS[0]), second.achat("What does a locker cost?"))
        return await asyncio.gather(first.achat(TURNS[1]), second.achat("And for students?"))

    texts = [response.source_nodes[0].text for response in asyncio.run(ask())]
    assert texts == [TEXTS[0], TEXTS[2]]


def test_what_is_no_memory_is_refused(index):
    with pytest.raises(TypeError, match="memory: expected a memory"):
        UECRetriever(index, memory=[ChatMessage(TURNS[0])])
