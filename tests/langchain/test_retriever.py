"""The retriever, and what it has in common with the gate over it: batches, runs and callbacks."""

import pickle

import pytest
from langchain_classic.retrievers import MultiQueryRetriever
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever
from pydantic import ValidationError

from tests.helpers import passages
from tests.langchain.conftest import Listener
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore

TEXTS = list(dict.fromkeys(passages(30)))
QUERY, QUERIES = "bafima degopi lumane", passages(3, seed=9)


@pytest.fixture(scope="module")
def store(fitted):
    metadatas = [{"parity": i % 2} for i in range(len(TEXTS))]
    return UECVectorStore.from_texts(TEXTS, fitted, metadatas, ids=map(str, range(30)))


@pytest.fixture
def retriever(store):
    return UECRetriever.from_store(store)


@pytest.mark.parametrize("gated", [False, True])
async def test_a_batch_gives_what_each_question_gives_and_tells_each_run(retriever, gated):
    runnable = UECGate(retriever=retriever) if gated else retriever
    one_by_one = [runnable.invoke(query) for query in QUERIES]
    for ask in (runnable.batch, runnable.abatch):
        heard = Listener()
        rows = ask(QUERIES, {"callbacks": [heard], "metadata": {"user": 1}})
        assert (await rows if ask == runnable.abatch else rows) == one_by_one
        assert {one["query"] for one in heard.starts} == {*QUERIES}
        assert {one["metadata"]["user"] for one in heard.starts} == {1}
        assert len(heard.ends) == len(QUERIES)


async def test_a_call_has_its_own_k_filter_name_and_tags(store):
    retriever = UECRetriever.from_store(store, k=10, filter={"parity": 1}, tags=["own"])
    even = lambda document: document.metadata["parity"] == 0  # noqa: E731
    assert {document.metadata["parity"] for document in retriever.invoke(QUERY)} == {1}
    heard = Listener()
    config = {"callbacks": [heard], "tags": ["call"], "run_name": "look up"}
    for found in (
        retriever.invoke(QUERY, config, filter=even, k=3),
        await retriever.ainvoke(QUERY, config, filter=even, k=3),
    ):
        assert [document.metadata["parity"] for document in found] == [0] * 3
    for one in heard.starts:
        assert one["name"] == "look up"
        assert {"own", "call"} <= {*one["tags"]}


class TestAsLangChainsStoresGiveIt:
    def test_it_has_langchains_own_options(self, store):
        retriever = store.as_retriever(search_kwargs={"k": 2, "filter": {"parity": 1}}, tags=["t"])
        assert isinstance(retriever, UECRetriever)
        assert isinstance(retriever, VectorStoreRetriever)
        found = retriever.invoke(QUERY)
        assert found == UECRetriever.from_store(store, k=2, filter={"parity": 1}).invoke(QUERY)
        retriever.search_kwargs = {"k": 3}  # as people do
        assert len(retriever.invoke(QUERY)) == 3

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"search_kwargs": {"k": 0}}, ValueError, "k: expected an integer >= 1, got 0"),
            ({"search_kwargs": {"score_threshold": 0.3}}, ValueError, 'search_type="similarity_sc'),
            ({"top_k": 2}, ValidationError, "top_k"),
            ({"search_type": "nearest"}, ValueError, "search_type of nearest not allowed"),
            ({"search_type": "similarity_score_threshold"}, ValueError, "score_threshold"),
            ({"search_type": "mmr", "search_kwargs": {"fetch_k": 0}}, ValueError, "fetch_k: exp"),
            ({"search_kwargs": {"lambda_malt": 0.2}}, TypeError, "keyword argument 'lambda_malt'"),
        ],
    )
    def test_bad_options_are_refused(self, store, options, error, message):
        with pytest.raises(error, match=message):
            store.as_retriever(**options).invoke(QUERY)


def test_anything_but_our_store_is_refused(plain):
    with pytest.raises(ValidationError, match="UECVectorStore"):
        UECRetriever.from_store(InMemoryVectorStore(plain))


def test_one_document_found_by_two_questions_is_one_to_a_multi_query_retriever(store):
    queries = [" ".join(TEXTS[3].split()[:6]), " ".join(TEXTS[3].split()[4:])]
    several = MultiQueryRetriever(
        retriever=store.as_retriever(search_kwargs={"k": 5}),
        llm_chain=RunnableLambda(lambda _: queries),
    )
    found = several.invoke(TEXTS[3])
    assert [document.id for document in found].count("3") == 1
    assert len({document.id for document in found}) == len(found) < 10
    assert "uec_score" in found[0].metadata
    one, other = store.as_retriever().batch([TEXTS[3], queries[0]], k=1)
    assert one == other
    assert one[0].metadata["uec_score"] != other[0].metadata["uec_score"]
    assert one[0] != store.get_by_ids(["3"])[0]


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
def test_a_hit_is_serialised_as_any_document(store):
    [hit] = store.as_retriever().invoke(TEXTS[3], k=1)
    back = loads(dumps(hit), allowed_objects=[Document])
    assert type(back) is Document
    assert back.metadata == dict(hit.metadata)
    assert pickle.loads(pickle.dumps(hit)) == hit
