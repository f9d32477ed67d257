"""What works only awaited, or only synchronously, works below ours in both ways."""

import asyncio
import threading

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexBaseRetriever
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.vector_stores import SimpleVectorStore

from tests.helpers import data_of
from uec_rag import UEC, llama_index
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore
from uec_rag.llama_index import UECGatePostprocessor, UECQueryEngine

SHOP = data_of("shop.json")["texts"]
ASKED, ANSWER = "How long is the warranty on lamps?", "The warranty on lamps is two years."
DOCUMENTS = [Document(text, id=text) for text in SHOP]
pytestmark = pytest.mark.filterwarnings("ignore:This UEC is not fitted", "ignore:Fewer than 30")


class Loops:
    """The event loops and threads in which something was asked."""

    def __init__(self):
        self.seen = []

    def note(self):
        self.seen.append(asyncio._get_running_loop() or threading.current_thread())


class AwaitedRetriever(BaseRetriever):
    loops: object

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError("await it")

    async def _aget_relevant_documents(self, query, *, run_manager):
        self.loops.note()
        await asyncio.sleep(0)
        return DOCUMENTS


class PlainRetriever(BaseRetriever):
    loops: object

    def _get_relevant_documents(self, query, *, run_manager):
        self.loops.note()
        return DOCUMENTS


class AwaitedStore(InMemoryVectorStore):
    def similarity_search(self, *_, **__):
        raise NotImplementedError("await it")

    similarity_search_by_vector = get_by_ids = similarity_search

    async def asimilarity_search(self, query, k=4, **kwargs):
        self.loops.note()
        return InMemoryVectorStore.similarity_search(self, query, k, **kwargs)

    async def asimilarity_search_by_vector(self, embedding, k=4, **kwargs):
        self.loops.note()
        return InMemoryVectorStore.similarity_search_by_vector(self, embedding, k, **kwargs)

    async def aget_by_ids(self, ids, /):
        return InMemoryVectorStore.get_by_ids(self, ids)


class RefusingStore(AwaitedStore):
    """As PGVector in async mode."""

    def similarity_search(self, *_, **__):
        raise AssertionError("This method must be called without async_mode")

    similarity_search_by_vector = similarity_search

    def get_by_ids(self, ids, /):
        raise ValueError("Attempting to use a sync method")

    asimilarity_search = AwaitedStore.asimilarity_search
    asimilarity_search_by_vector = AwaitedStore.asimilarity_search_by_vector
    aget_by_ids = AwaitedStore.aget_by_ids


class StoreWithoutClient(InMemoryVectorStore):
    """One that was made without its asynchronous client, as LlamaIndex's for Qdrant may be."""

    async def asimilarity_search(self, *_, **__):
        raise ValueError("Async client is not initialized!")

    asimilarity_search_by_vector = aget_by_ids = asimilarity_search


class PlainStore(InMemoryVectorStore):
    asimilarity_search = VectorStore.asimilarity_search

    def similarity_search(self, *arguments, **options):
        self.loops.note()
        return super().similarity_search(*arguments, **options)

    def similarity_search_by_vector(self, *arguments, **options):
        self.loops.note()
        return super().similarity_search_by_vector(*arguments, **options)


def filled(kind, loops):
    store = kind(DeterministicFakeEmbedding(size=8))
    store.loops = loops
    InMemoryVectorStore.add_documents(store, DOCUMENTS)
    return store


class AwaitedNodes(LlamaIndexBaseRetriever):
    def __init__(self, loops):
        self.loops = loops
        super().__init__()

    def _retrieve(self, query_bundle):
        raise NotImplementedError("await it")

    async def _aretrieve(self, query_bundle):
        self.loops.note()
        await asyncio.sleep(0)
        return nodes()


class PlainNodes(AwaitedNodes):
    def _retrieve(self, query_bundle):
        self.loops.note()
        return nodes()

    async def _aretrieve(self, query_bundle):
        raise NotImplementedError("call it")


class AwaitedNodeStore(SimpleVectorStore):
    stores_text: bool = False

    def query(self, *_, **__):
        raise NotImplementedError("await it")

    async def aquery(self, query, **options):
        _noting[-1].note()
        return SimpleVectorStore.query(self, query, **options)


class RefusingNodeStore(AwaitedNodeStore):
    def query(self, *_, **__):
        raise AssertionError("This method must be called without async_mode")

    aquery = AwaitedNodeStore.aquery


class NodeStoreWithoutClient(SimpleVectorStore):
    stores_text: bool = False

    async def aquery(self, *_, **__):
        raise ValueError("Async client is not initialized!")


class PlainNodeStore(SimpleVectorStore):
    def query(self, query, **options):
        _noting[-1].note()
        return super().query(query, **options)


_noting = []


def nodes():
    return [NodeWithScore(node=TextNode(text=text, id_=text), score=0.5) for text in SHOP]


def node_index(kind, loops):
    _noting.append(loops)
    own = [hit.node for hit in nodes()]
    storage = StorageContext.from_defaults(vector_store=kind())
    return VectorStoreIndex(own, embed_model=MockEmbedding(8), storage_context=storage)


WORDS = UEC(["bm25"])
BELOW = {
    "LangChain's retriever": [
        lambda loops: AwaitedRetriever(loops=loops),
        lambda loops: PlainRetriever(loops=loops),
    ],
    "LangChain's store": [
        lambda loops: filled(AwaitedStore, loops),
        lambda loops: filled(PlainStore, loops),
    ],
    "LlamaIndex's retriever": [AwaitedNodes, PlainNodes],
    "LlamaIndex's store": [
        lambda loops: node_index(AwaitedNodeStore, loops),
        lambda loops: node_index(PlainNodeStore, loops),
    ],
}


def of_langchain(theirs):
    below = theirs if isinstance(theirs, BaseRetriever) else theirs.as_retriever()
    judge = UECGate(retriever=below, embedding=WORDS)
    over = UECGate(retriever=UECRetriever.over(theirs, None if theirs is not below else WORDS))
    for gate in (judge, over):
        yield gate.invoke, gate.ainvoke, lambda found: found["documents"]


def of_llama_index(theirs):
    over = llama_index.UECRetriever.over(theirs, WORDS)
    yield over.retrieve, over.aretrieve, lambda found: found
    engine = UECQueryEngine.from_args(over, MockLLM())
    yield engine.query, engine.aquery, lambda found: found.source_nodes
    tool = llama_index.retriever_tool(over)
    yield tool.call, tool.acall, lambda found: found.raw_output["nodes"]


def text_of(hit):
    return getattr(hit, "page_content", None) or hit.text


@pytest.mark.parametrize("at", [0, 1], ids=["only awaited", "only synchronous"])
@pytest.mark.parametrize("kind", BELOW)
async def test_it_works_in_both_ways_and_in_the_loop_of_the_caller_or_a_thread(kind, at):
    loops = Loops()
    theirs = BELOW[kind][at](loops)
    own = of_langchain if kind.startswith("LangChain") else of_llama_index
    here = asyncio.get_running_loop()
    for call, acall, hits in own(theirs):
        loops.seen.clear()
        found = hits(await acall(ASKED))
        assert found
        if isinstance(theirs, BaseRetriever | LlamaIndexBaseRetriever):  # which find all
            assert ANSWER in map(text_of, found)
        assert loops.seen
        if at == 0:  # its connections may belong to the loop
            assert {*loops.seen} == {here}
        else:
            assert here not in loops.seen
            assert threading.main_thread() not in loops.seen
        again = hits(await asyncio.to_thread(call, ASKED))
        assert [text_of(hit) for hit in again] == [text_of(hit) for hit in found]


@pytest.mark.parametrize("cls", [RefusingStore, StoreWithoutClient])
async def test_awaited_a_method_of_a_store_comes_first_and_the_other_where_it_fails(cls):
    loops = Loops()
    assert await UECRetriever.over(filled(cls, loops)).ainvoke(ASKED)
    assert {*loops.seen} <= {asyncio.get_running_loop()}


@pytest.mark.parametrize("cls", [RefusingNodeStore, NodeStoreWithoutClient])
async def test_awaited_a_method_of_a_node_store_comes_first_and_the_other_where_it_fails(cls):
    loops = Loops()
    assert await llama_index.UECRetriever.over(node_index(cls, loops), WORDS).aretrieve(ASKED)
    assert {*loops.seen} <= {asyncio.get_running_loop()}


async def test_a_postprocessor_judges_nodes_that_were_awaited():
    gate = UECGatePostprocessor(embedding=WORDS)
    engine = RetrieverQueryEngine.from_args(
        AwaitedNodes(Loops()), llm=MockLLM(), node_postprocessors=[gate]
    )
    response = await engine.aquery(ASKED)
    assert response.source_nodes[0].metadata["uec_decision"] == "answer"


async def test_retrievers_are_made_and_loaded_beside_the_event_loop(tmp_path):
    made = await UECRetriever.afrom_texts(SHOP, WORDS)
    assert isinstance(made, UECRetriever)
    assert len((await UECRetriever.afrom_documents(DOCUMENTS, WORDS)).index) == len(SHOP)
    assert len((await UECVectorStore.afrom_texts(SHOP, WORDS)).index) == len(SHOP)
    made.save(tmp_path / "index")
    assert len((await UECRetriever.aload(tmp_path / "index", k=2)).invoke(ASKED)) == 2
    theirs = llama_index.UECRetriever
    assert len((await theirs.afrom_texts(SHOP, WORDS)).index) == len(SHOP)
    assert len((await theirs.afrom_nodes([hit.node for hit in nodes()], WORDS)).index) == len(SHOP)
    assert isinstance(await theirs.aload(tmp_path / "index"), theirs)
