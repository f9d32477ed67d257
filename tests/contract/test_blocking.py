"""What is awaited never blocks the event loop, and an index in memory touches no file."""

import inspect
from collections.abc import AsyncIterator, Awaitable

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import TextNode

import uec_rag
from tests.contract.test_whole_interface import DOCUMENTS, KINDS, METHODS, TEXTS, UEC_, Q
from tests.ways import WAYS as PLAIN
from tests.ways import of_langchain
from uec_rag import Gate, Retriever, langchain, llama_index
from uec_rag.langchain import UECGate
from uec_rag.llama_index import UECGatePostprocessor

pytestmark = pytest.mark.filterwarnings(
    "ignore:This UEC is not fitted", "ignore:Fewer than 30", "ignore::DeprecationWarning"
)


def nodes():
    return [TextNode(text=text, id_=text) for text in TEXTS]


def is_asynchronous(base, name):
    method = inspect.getattr_static(base, name)
    method = getattr(method, "__func__", method)
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


async def used(result):
    """Await what a method returns, or loop over it."""
    if isinstance(result, AsyncIterator):
        return [one async for one in result]
    return await result if isinstance(result, Awaitable) else result


async def test_it_is_told_if_something_blocks(tmp_path):
    index = Retriever(UEC_)
    index.save(tmp_path / "index")
    with blockbuster_ctx(uec_rag), pytest.raises(BlockingError):
        Retriever.load(tmp_path / "index", UEC_)


ASYNCHRONOUS = {id_: row[2:] for id_, row in METHODS.items() if is_asynchronous(*row[:2])}


@pytest.mark.parametrize(("make", "call"), ASYNCHRONOUS.values(), ids=ASYNCHRONOUS)
async def test_no_asynchronous_method_of_a_framework_blocks(make, call, tmp_path):
    made = make()
    made.save(tmp_path / "index") if isinstance(getattr(made, "index", None), Retriever) else None
    with blockbuster_ctx(uec_rag):
        try:
            await used(call(made))
        except NotImplementedError as error:
            assert "query directly" in str(error)  # noqa: PT017


def in_a_folder(path):
    """An index that was read from a folder, where a gate lies."""
    index = Retriever(UEC_)
    index.add(TEXTS, TEXTS)
    index.gate = Gate(0.3)
    index.save(path / "index")
    return Retriever.load(path / "index", UEC_)


def over_langchain(_):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(DOCUMENTS)
    return langchain.UECRetriever.over(store, UEC_).index


def over_llama_index(_):
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(8))
    return llama_index.UECRetriever.over(index, UEC_).index


OVER_ANOTHER = "UECGate over another retriever"
WAYS = {
    **{name: lambda index, ask=ask: ask(index, index, None)(Q) for name, ask in PLAIN.items()},
    OVER_ANOTHER: lambda index: PLAIN[OVER_ANOTHER](index, index, Gate(0.2))(Q),
    "a gate that judges": lambda index: UECGate(
        retriever=InMemoryVectorStore.from_documents(
            DOCUMENTS, DeterministicFakeEmbedding(size=8)
        ).as_retriever(),
        embedding=index.uec,
    ).ainvoke(Q),
    "a route": lambda index: (
        UECGate(retriever=of_langchain(index))
        .route(*[RunnableLambda(lambda found: found["reason"])] * 3)
        .ainvoke(Q)
    ),
    "a postprocessor that judges": lambda index: UECGatePostprocessor(
        embedding=index.uec
    ).apostprocess_nodes(
        VectorStoreIndex(nodes(), embed_model=MockEmbedding(8)).as_retriever().retrieve(Q),
        query_str=Q,
    ),
}


@pytest.mark.parametrize("make", [in_a_folder, over_langchain, over_llama_index])
@pytest.mark.parametrize("way", WAYS)
async def test_no_way_to_ask_blocks_whatever_the_index_is_over(make, way, tmp_path):
    asked = WAYS[way](make(tmp_path))
    with blockbuster_ctx(uec_rag):
        await asked


def test_the_ways_that_are_tried_are_all_that_are_public():
    kinds = {type(make()).__name__ for *_, make in KINDS.values()}
    told = {"UECQueryBundle", "Gated", "chat_advisor", "llm_advisor"}  # nothing to await
    tried = kinds | {"retrieval_node", "retriever_tool"} | told
    assert {*langchain.__all__, *llama_index.__all__} - tried == set()


async def test_an_index_in_memory_touches_no_file_when_it_is_used_in_an_event_loop():
    langchain.UECRetriever.from_texts(TEXTS, UEC_).invoke(Q)  # reads what the package ships with
    with blockbuster_ctx():
        retriever = langchain.UECRetriever.from_texts(TEXTS, UEC_, ids=TEXTS)
        store = retriever.vectorstore
        store.add_documents(DOCUMENTS)
        store.delete(TEXTS[:1])
        assert len(store.get_by_ids(TEXTS)) == 2
        assert len(retriever.invoke(Q)) == 2
        assert UECGate(retriever=retriever).invoke(Q)["documents"]
        found = llama_index.UECRetriever.from_nodes(nodes(), UEC_)
        assert len(found.retrieve(Q)) == 3
        llama_index.UECVectorStore(found.index).delete_nodes(TEXTS[:1])
        found.index.clear()
        assert len(found.index) == 0
