"""The retriever: its options, and its documents."""

import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.load import dumps, loads
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever

from tests.helpers import passages, refused
from uec_rag.langchain import UECGate, UECRetriever, UECVectorStore

TEXTS = list(dict.fromkeys(passages(30)))
QUERY = "bafima degopi lumane"


@pytest.fixture(scope="module")
def store(fitted):
    metadatas = [{"parity": i % 2} for i in range(len(TEXTS))]
    return UECVectorStore.from_texts(TEXTS, fitted, metadatas, ids=map(str, range(30)))


async def test_a_call_has_its_own_k_and_filter(store):
    retriever = UECRetriever.from_store(store, k=10, filter={"parity": 1})
    even = lambda document: document.metadata["parity"] == 0  # noqa: E731
    assert {document.metadata["parity"] for document in retriever.invoke(QUERY)} == {1}
    for found in (
        retriever.invoke(QUERY, filter=even, k=3),
        await retriever.ainvoke(QUERY, filter=even, k=3),
    ):
        assert [document.metadata["parity"] for document in found] == [0] * 3


class TestAsLangChainsStoresGiveIt:
    def test_it_has_langchains_own_options(self, store):
        retriever = store.as_retriever(search_kwargs={"k": 2, "filter": {"parity": 1}}, tags=["t"])
        assert isinstance(retriever, UECRetriever)
        assert isinstance(retriever, VectorStoreRetriever)
        found = retriever.invoke(QUERY)
        assert found == UECRetriever.from_store(store, k=2, filter={"parity": 1}).invoke(QUERY)
        retriever.search_kwargs = {"k": 3}  # as people do
        assert len(retriever.invoke(QUERY)) == 3

    @pytest.mark.parametrize(("options", "error", "message"), refused("as_retriever"))
    def test_bad_options_are_refused(self, store, options, error, message):
        with pytest.raises(error, match=message):
            store.as_retriever(**options).invoke(QUERY)


@pytest.mark.filterwarnings("ignore:The function `loads` is in beta")
def test_a_hit_is_serialised_as_any_document(store):
    [hit] = store.as_retriever().invoke(TEXTS[3], k=1)
    back = loads(dumps(hit), allowed_objects=[Document])
    assert type(back) is Document
    assert back.metadata == dict(hit.metadata)
    assert pickle.loads(pickle.dumps(hit)) == hit


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"filters": {"a": 1}}, r"filters: .* got \{'a': 1\}; did you mean 'filter'\?"),
        ({"similarity_top_k": 3}, "similarity_top_k: expected no such .* got 3; known are .* k,"),
    ],
)
def test_an_argument_that_it_has_not_is_named_with_those_that_it_has(wrong, message):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(TypeError, match=message):
        UECRetriever.over(store, **wrong)


def test_a_store_in_place_of_a_retriever_is_refused_at_once():
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(TypeError, match=r"retriever: .* \(see UECRetriever\.over\), got InMemory"):
        UECGate(retriever=store)
