"""What is awaited leaves the event loop to others, however many texts it is given."""

import asyncio
import threading

import pytest
from langchain_core.runnables import RunnableLambda
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from tests.helpers import index_of, noise, passages
from uec_rag import UEC, Advice, Gate, langchain, llama_index
from uec_rag.langchain import UECEmbeddings
from uec_rag.llama_index import retriever_tool as llama_index_tool


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


YES = Advice("answer")


class OfOneLoop:
    """An asynchronous advisor whose client belongs to the event loop in which it was made."""

    def __init__(self, verdict=YES):
        self.loop, self.calls, self.verdict = asyncio.get_running_loop(), 0, verdict

    async def __call__(self, question, texts):
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("the client belongs to another event loop")
        self.calls += 1
        return self.verdict


def langchain_retriever(index, **options):
    return langchain.UECRetriever(vectorstore=langchain.UECVectorStore(index), k=3, **options)


def behind_another(index):
    return RunnableLambda(str.strip) | langchain_retriever(index)


def vector_index(index):
    storage = StorageContext.from_defaults(vector_store=llama_index.UECVectorStore(index))
    embedding = llama_index.UECEmbedding(uec=index.uec)
    return VectorStoreIndex([], storage_context=storage, embed_model=embedding)


def gated(index, advisor):
    """The index, in which a gate with the advisor decides."""
    index.gate = Gate(doubt=(0.0, 1.0), advisor=advisor)
    return index


def doubting(advisor):
    return {"gate": Gate(doubt=(0.0, 1.0), advisor=advisor)}


WAYS = {
    "asearch": lambda index, advisor: lambda q: gated(index, advisor).asearch([q]),
    "UECRetriever": lambda index, advisor: langchain_retriever(gated(index, advisor)).ainvoke,
    "UECGate": lambda index, advisor: (
        langchain.UECGate(retriever=langchain_retriever(index), **doubting(advisor)).ainvoke
    ),
    "UECGate over another retriever": lambda index, advisor: (
        langchain.UECGate(retriever=behind_another(index), **doubting(advisor)).ainvoke
    ),
    "node": lambda index, advisor: (
        lambda q: langchain.retrieval_node(langchain_retriever(gated(index, advisor))).ainvoke(
            {"question": q}
        )
    ),
    "tool": lambda index, advisor: (
        lambda q: langchain_retriever(gated(index, advisor)).as_tool().ainvoke({"query": q})
    ),
    "LlamaIndex's UECRetriever": lambda index, advisor: (
        llama_index.UECRetriever(gated(index, advisor)).aretrieve
    ),
    "LlamaIndex's index": lambda index, advisor: (
        vector_index(gated(index, advisor)).as_retriever().aretrieve
    ),
    "UECQueryEngine": lambda index, advisor: (
        llama_index.UECQueryEngine.from_args(
            llama_index.UECRetriever(index), llm=MockLLM(), **doubting(advisor)
        ).aquery
    ),
    "postprocessor": lambda index, advisor: (
        RetrieverQueryEngine.from_args(
            llama_index.UECRetriever(index),
            llm=MockLLM(),
            node_postprocessors=[llama_index.UECGatePostprocessor(**doubting(advisor))],
        ).aquery
    ),
    "LlamaIndex's tool": lambda index, advisor: (
        llama_index_tool(llama_index.UECRetriever(gated(index, advisor))).acall
    ),
}


@pytest.fixture(scope="module")
def known():
    return index_of(UEC([noise]), passages(20))


@pytest.mark.parametrize("way", WAYS)
async def test_an_asynchronous_advisor_is_asked_in_the_event_loop_of_the_caller(known, way):
    index, advisor = known.snapshot(), OfOneLoop()
    ask = WAYS[way](index, advisor)
    for _ in range(3):
        await ask("badero fi")
    await asyncio.gather(*(ask("badero fi") for _ in range(3)))
    assert advisor.calls == 6


@pytest.mark.parametrize(
    "ask",
    [
        lambda index, gate: index.with_gate(gate).asearch(["badero fi"]),
        lambda index, gate: langchain.UECGate(
            retriever=langchain_retriever(index), gate=gate
        ).ainvoke("badero fi"),
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
    await asyncio.wait_for(ended.wait(), 60)
