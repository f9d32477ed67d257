"""Many questions at once: all are answered, with however few threads of the event loop's own."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from httpx import ASGITransport, AsyncClient
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever

from tests.contract.test_over import (
    OF_LANGCHAIN,
    QUERIES,
    TEXTS,
    LangChain,
    LangChainInFaiss,
    LlamaIndex,
    LlamaIndexInChroma,
    LlamaIndexInQdrant,
)
from tests.helpers import bag_of_words, index_of
from uec_rag import UEC, langchain, llama_index
from uec_rag.langchain import UECGate
from uec_rag.server import create_app, create_mcp

pytestmark = pytest.mark.filterwarnings("ignore:Fewer than 30", "ignore:This UEC is not fitted")
LONGEST = 300  # seconds that nothing takes, as a guard against waiting for ever
COUNT = (os.cpu_count() or 1) + 8  # more than may compute at the same time
MANY = [QUERIES[at % len(QUERIES)] for at in range(COUNT)]


@pytest.fixture(autouse=True)
async def _few_threads():
    with ThreadPoolExecutor(2) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        yield


def words():
    return UEC([bag_of_words(16, "small"), "bm25"])


class InDefaultThreads(BaseRetriever):
    """One as its users write it: what is synchronous runs in a thread of the event loop's own."""

    theirs: object

    def _get_relevant_documents(self, query, *, run_manager):
        return self.theirs.invoke(query)

    async def _aget_relevant_documents(self, query, *, run_manager):
        return await asyncio.to_thread(self.theirs.invoke, query)


class AwaitedAlone(InDefaultThreads):
    """One that works in an event loop alone."""

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError


def over_store(kind):
    theirs = kind()
    return theirs.over(theirs.store(theirs.Member()), fit=False)


def in_memory():
    store = InMemoryVectorStore(LangChain.Member())
    store.add_documents([Document(text, id=text[:9] + str(at)) for at, text in enumerate(TEXTS)])
    return store.as_retriever(search_kwargs={"k": 40})


def over(theirs):
    return langchain.UECRetriever.over(theirs, words(), fit=False)


def nested(times, theirs):
    for _ in range(times):
        theirs = langchain.UECRetriever.over(theirs, words(), k=40, fit=False)
    return theirs


def nested_nodes(times):
    theirs = LlamaIndex()
    found = theirs.store(theirs.Member()).as_retriever(similarity_top_k=40)
    for _ in range(times):
        found = llama_index.UECRetriever.over(found, words(), 40, fit=False)
    return found


def ensemble(*parts):
    return EnsembleRetriever(retrievers=[*parts], weights=[1 / len(parts)] * len(parts))


def fusion():
    theirs = LlamaIndex()
    parts = [theirs.store(theirs.Member()).as_retriever(similarity_top_k=40) for _ in range(2)]
    found = QueryFusionRetriever(parts, llm=MockLLM(), num_queries=1, similarity_top_k=40)
    return llama_index.UECRetriever.over(found, words(), fit=False)


KINDS = {
    **{kind.__name__: lambda kind=kind: over_store(kind) for kind in OF_LANGCHAIN},
    "a retriever": lambda: over(in_memory()),
    "a retriever that is awaited alone": lambda: over(AwaitedAlone(theirs=in_memory())),
    "one that uses the loop's threads": lambda: over(InDefaultThreads(theirs=in_memory())),
    "an ensemble": lambda: over(
        ensemble(in_memory(), InDefaultThreads(theirs=in_memory()), over(in_memory()))
    ),
    "an index of ours": lambda: nested(2, LangChainInFaiss().store(LangChain.Member())),
    "three of ours": lambda: nested(4, InDefaultThreads(theirs=in_memory())),
    "ours in a thread over ours": lambda: over(
        ensemble(InDefaultThreads(theirs=nested(1, AwaitedAlone(theirs=in_memory()))), in_memory())
    ),
    **{
        kind.__name__: lambda kind=kind: over_store(kind)
        for kind in (LlamaIndex, LlamaIndexInQdrant, LlamaIndexInChroma)
    },
    "a fusion": fusion,
    "three of ours with nodes": lambda: nested_nodes(3),
}


def shown(found):
    """Return what is compared of hits, a decision or a reply."""
    if isinstance(found, dict) and "documents" in found:
        return found["decision"], shown(found["documents"])
    if isinstance(found, list):
        return [
            (one.id, one.page_content) if isinstance(one, Document) else (one.node_id, one.text)
            for one in found
        ]
    return str(found)


async def at_once(ask, questions=MANY):
    """Ask all questions at once; all must be answered as they are one by one."""
    expected = {question: shown(await ask(question)) for question in dict.fromkeys(questions)}
    found = await asyncio.wait_for(asyncio.gather(*map(ask, questions)), LONGEST)
    assert [*map(shown, found)] == [expected[question] for question in questions]
    return found


def retrieve(retriever):
    return getattr(retriever, "ainvoke", None) or retriever.aretrieve


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
async def test_all_are_answered_whatever_the_index_is_over(make):
    await at_once(retrieve(make()))


async def test_and_while_the_loops_own_threads_are_all_taken():
    taken = threading.Event()
    loop = asyncio.get_running_loop()
    others = [loop.run_in_executor(None, taken.wait, LONGEST) for _ in range(2)]
    try:
        index = index_of(words(), TEXTS, fit=False)
        await at_once(retrieve(langchain.UECRetriever(vectorstore=langchain.UECVectorStore(index))))
    finally:
        taken.set()
        await asyncio.gather(*others)


HOLDING = {
    "threads": lambda: over(InDefaultThreads(theirs=in_memory())),
    "three of ours": lambda: nested(3, AwaitedAlone(theirs=in_memory())),
    "FAISS": lambda: over_store(LangChainInFaiss),
}


def http_of(retriever):
    transport = ASGITransport(create_app(retriever.index))

    async def ask(question):
        async with AsyncClient(transport=transport, base_url="http://localhost") as client:
            reply = await client.post("/ask", json={"question": question}, timeout=LONGEST)
        return [passage["text"] for passage in reply.json()["passages"]], reply.json()["decision"]

    return ask


def mcp_of(retriever):
    server = create_mcp(retriever.index)
    return lambda question: server.call_tool("search", {"question": question})


WAYS = {
    "asearch": lambda made: lambda q: made.index.asearch([q]),
    "gate": lambda made: UECGate(retriever=made).ainvoke,
    "gate over another": lambda made: UECGate(retriever=ensemble(made, made)).ainvoke,
    "node": lambda made: (
        lambda q: langchain.retrieval_node(UECGate(retriever=made)).ainvoke({"question": q})
    ),
    "tool": lambda made: lambda q: made.as_tool().ainvoke({"query": q}),
    "HTTP": http_of,
    "MCP": mcp_of,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", HOLDING.values(), ids=HOLDING)
async def test_all_are_answered_whichever_way_they_are_asked(make, way):
    await at_once(way(make()))


@pytest.mark.parametrize("make", HOLDING.values(), ids=HOLDING)
async def test_a_batch_is_answered(make):
    retriever = make()
    expected = [shown(await retriever.ainvoke(question)) for question in MANY]
    found = await asyncio.wait_for(retriever.abatch(MANY), LONGEST)
    assert [*map(shown, found)] == expected
    gated = await asyncio.wait_for(UECGate(retriever=retriever).abatch(MANY), LONGEST)
    assert [shown(one["documents"]) for one in gated] == expected


def chat_of(nodes):
    async def ask(question):
        engine = ContextChatEngine.from_defaults(
            nodes, llm=MockLLM(), node_postprocessors=[llama_index.UECGatePostprocessor()]
        )
        return (await engine.achat(question)).source_nodes

    return ask


OF_NODES = {
    "chat engine": chat_of,
    "query engine": lambda nodes: llama_index.UECQueryEngine.from_args(nodes, MockLLM()).aquery,
    "tool": lambda nodes: lambda q: llama_index.retriever_tool(nodes).acall(query=q),
}


@pytest.mark.parametrize("way", OF_NODES.values(), ids=OF_NODES)
@pytest.mark.parametrize("make", [fusion, lambda: nested_nodes(3)], ids=["fusion", "nested"])
async def test_all_are_answered_with_nodes(make, way):
    await at_once(way(make()))


class Moody(BaseRetriever):
    """One that fails, or waits, for one question each; the others it answers."""

    theirs: object
    begun: object
    let_go: object
    ended: list

    def _get_relevant_documents(self, query, *, run_manager):
        if query == "hangs":
            self.begun.set()
            assert self.let_go.wait(LONGEST)
            self.ended.append("let go")
        if query == "fails":
            raise ConnectionError("gone")
        return self.theirs.invoke(query)


class MoodyAwaited(Moody):
    """The same, awaited."""

    async def _aget_relevant_documents(self, query, *, run_manager):
        if query == "hangs":
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append("cancelled")
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=None)


@pytest.fixture(params=[Moody, MoodyAwaited])
def moody(request):
    made = request.param(
        theirs=in_memory(), begun=threading.Event(), let_go=threading.Event(), ended=[]
    )
    yield made
    made.let_go.set()


@pytest.mark.parametrize("times", [1, 3])
async def test_what_hangs_or_fails_holds_up_its_own_call_alone(moody, times):
    retriever = nested(times, moody)
    ask = UECGate(retriever=retriever).ainvoke
    hanging = [asyncio.create_task(ask("hangs")) for _ in range(COUNT)]
    failing = [asyncio.create_task(ask("fails")) for _ in range(COUNT)]
    await at_once(retriever.ainvoke)
    await at_once(ask)
    for failed in await asyncio.gather(*failing, return_exceptions=True):
        assert isinstance(failed, ConnectionError)
    assert not any(task.done() for task in hanging)
    for task in hanging:
        task.cancel()
    moody.let_go.set()
    ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended)


async def until(is_so):
    async with asyncio.timeout(LONGEST):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_client_that_goes_away_ends_its_search(moody):
    app = create_app(nested(1, moody).index)
    gone, sent = asyncio.Event(), []
    body = b'{"question": "hangs"}'

    async def receive():
        if not sent:
            sent.append(body)
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/ask"}
    scope |= {"headers": headers, "query_string": b"", "raw_path": b"/ask", "scheme": "http"}
    task = asyncio.create_task(app({**scope, "server": ("localhost", 80)}, receive, send))
    await until(moody.begun.is_set)
    gone.set()
    if isinstance(moody, MoodyAwaited):
        await until(lambda: moody.ended)
    await asyncio.wait_for(task, LONGEST)  # though a synchronous store still hangs
    assert moody.ended == (["cancelled"] if isinstance(moody, MoodyAwaited) else [])
