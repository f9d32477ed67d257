"""What is awaited leaves the event loop to others, however many texts it is given."""

import asyncio
import threading

import pytest

from tests.helpers import index_of, noise, passages
from tests.ways import WAYS, of_langchain
from uec_rag import UEC, Advice, Gate, llama_index
from uec_rag.langchain import UECEmbeddings, UECGate


def of_llama_index(uec):
    return llama_index.UECEmbedding(uec=uec).aget_text_embedding_batch(["lumane", "bafima"])


@pytest.mark.parametrize(
    "embed",
    [lambda uec: UECEmbeddings(uec).aembed_documents(["lumane", "bafima"]), of_llama_index],
    ids=["LangChain", "LlamaIndex"],
)
async def test_texts_are_embedded_beside_the_event_loop(embed):
    turn = threading.Event()  # set by the loop, which an encoder waits for

    def waiting(texts):
        assert turn.wait(60)
        return noise(texts)

    asyncio.get_running_loop().call_later(0.01, turn.set)
    assert len(await embed(UEC([waiting]))) == 2


class OfOneLoop:
    """An asynchronous advisor whose client belongs to the event loop in which it was made."""

    def __init__(self):
        self.loop, self.calls = asyncio.get_running_loop(), 0

    async def __call__(self, question, texts):
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("the client belongs to another event loop")
        self.calls += 1
        return Advice("answer")


@pytest.fixture(scope="module")
def known():
    return index_of(UEC([noise]), passages(20))


@pytest.mark.parametrize("way", WAYS)
async def test_an_asynchronous_advisor_is_asked_in_the_event_loop_of_the_caller(known, way):
    advisor = OfOneLoop()
    gate = Gate(doubt=(0.0, 1.0), advisor=advisor)
    ask = WAYS[way](known.with_gate(gate), known, gate)
    for _ in range(3):
        await ask("badero fi")
    await asyncio.gather(*(ask("badero fi") for _ in range(3)))
    assert advisor.calls == 6


@pytest.mark.parametrize(
    "ask",
    [
        lambda index, gate: index.with_gate(gate).asearch(["badero fi"]),
        lambda index, gate: UECGate(retriever=of_langchain(index), gate=gate).ainvoke("badero fi"),
    ],
)
async def test_a_search_that_is_cancelled_cancels_the_advisor_that_it_waits_for(known, ask):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def advisor(question, texts):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    search = asyncio.create_task(ask(known, Gate(doubt=(0.0, 1.0), advisor=advisor)))
    await begun.wait()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    await asyncio.wait_for(ended.wait(), 600)
