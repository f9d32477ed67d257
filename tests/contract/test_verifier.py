"""A verifier reaches both frameworks with the ensemble it belongs to."""

import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC
from uec_rag.langchain import UECRetriever, UECVectorStore
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.llama_index import UECVectorStore as LlamaIndexStore
from uec_rag.retrieval import Retriever


def shared_words(query, passages):
    return [len({*query.split()} & {*passage.split()}) for passage in passages]


@pytest.fixture(scope="module")
def members():
    return {"coarse": bag_of_words(16, "coarse"), "coarser": bag_of_words(8, "coarser", seed=1)}


@pytest.fixture(scope="module")
def uec(members, fit_pairs):
    return UEC(list(members.values()), verifier=shared_words, verify_k=8).fit(fit_pairs)


def test_both_order_by_it_and_show_what_it_said(uec, texts, queries):
    ids = [str(place) for place in range(len(texts))]
    index = Retriever(uec)
    index.add(texts, ids)
    of_langchain = UECRetriever.from_texts(texts, uec, ids=ids, k=5)
    of_llama_index = LlamaIndexRetriever.from_texts(texts, uec, ids=ids, similarity_top_k=5)
    for query in queries[:5]:
        expected = index.search([query], 5)
        documents, nodes = of_langchain.invoke(query), of_llama_index.retrieve(query)
        assert [document.id for document in documents] == expected.ids[0]
        assert [node.node.node_id for node in nodes] == expected.ids[0]
        for rank, (document, node) in enumerate(zip(documents, nodes, strict=True)):
            told = expected.metadata(0, rank)
            assert told["uec_members"]["shared_words"]["rank"]
            for key in ("uec_members", "uec_relevance", "uec_confidence", "uec_decision"):
                assert document.metadata[key] == node.metadata[key] == told[key]


def test_both_ask_for_a_callable_again_when_they_load(uec, members, texts, queries, tmp_path):
    store = UECVectorStore.from_texts(texts, uec)
    store.dump(tmp_path / "index")
    given = members | {"shared_words": shared_words}
    for load in (UECVectorStore.load, LlamaIndexStore.from_persist_path):
        with pytest.raises(ValueError, match="the verifier 'shared_words' cannot be loaded"):
            load(str(tmp_path / "index"), encoders=members)
    loaded = UECVectorStore.load(tmp_path / "index", encoders=given).retriever
    other = LlamaIndexStore.from_persist_path(str(tmp_path / "index"), encoders=given).retriever
    expected = store.retriever.search(queries, 5).ids
    assert loaded.search(queries, 5).ids == other.search(queries, 5).ids == expected
