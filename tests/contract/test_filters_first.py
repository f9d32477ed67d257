"""What is no filter, or one that a store cannot run, is refused before a text is encoded for it."""

import asyncio

import pytest
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from tests.helpers import Counting, index_of, pairs, passages
from uec_rag import UEC, langchain, llama_index
from uec_rag.retrieval.gate import Gate
from uec_rag.retrieval.request import Diversity
from uec_rag.stores.qdrant import QdrantStore

TEXTS = list(dict.fromkeys(passages(40)))[:30]
IDS = [f"p{i}" for i in range(len(TEXTS))]


@pytest.fixture(scope="module")
def encoder():
    return Counting()


@pytest.fixture(scope="module")
def index(encoder):
    return index_of(UEC([encoder]).fit(pairs(80)), TEXTS, IDS)


def plain(index):
    return [
        lambda wrong: index.search(TEXTS[:2], 3, filter=wrong),
        lambda wrong: asyncio.run(index.asearch(TEXTS[:2], 3, filter=wrong)),
        lambda wrong: index.search(TEXTS[:2], 3, filter=wrong, diversity=Diversity()),
        lambda wrong: index.with_weights({"head": 1.0}).search(TEXTS[:2], filter=wrong),
        lambda wrong: index.search_vector([1.0] * index.uec.dimension, filter=wrong),
        lambda wrong: Gate.from_labels(index, TEXTS[:2], [["p0"], ["p1"]], filter=wrong),
    ]


def in_langchain(index):
    store = langchain.UECVectorStore(index)
    retriever = store.as_retriever()
    return [
        lambda wrong: store.similarity_search("a", 3, wrong),
        lambda wrong: store.max_marginal_relevance_search("a", 3, filter=wrong),
        lambda wrong: retriever.invoke("a", filter=wrong),
        lambda wrong: retriever.batch(["a", "b"], filter=wrong),
        lambda wrong: asyncio.run(retriever.ainvoke("a", filter=wrong)),
    ]


def in_llama_index(index):
    retriever, store = llama_index.UECRetriever(index), llama_index.UECVectorStore(index)

    def asking(ask):
        def asked(wrong):
            retriever.filters = wrong
            return ask(QueryBundle("a"))

        return asked

    def queried(wrong, mode=VectorStoreQueryMode.DEFAULT):
        return VectorStoreQuery(query_str="a", similarity_top_k=3, filters=wrong, mode=mode)

    return [
        asking(retriever.retrieve),
        asking(lambda query: asyncio.run(retriever.aretrieve(query))),
        lambda wrong: store.query(queried(wrong)),
        lambda wrong: store.query(queried(wrong, VectorStoreQueryMode.MMR)),
    ]


@pytest.mark.parametrize("paths", [plain, in_langchain, in_llama_index])
@pytest.mark.parametrize("wrong", ["lang = 'de'", 5, ["lang"]])
def test_something_else_than_a_filter_costs_no_encoding(index, encoder, paths, wrong):
    encoder.count = 0
    for ask in paths(index):
        with pytest.raises(TypeError, match=r"filters?: expected"):
            ask(wrong)
    assert encoder.count == 0


@pytest.mark.parametrize("paths", [plain, in_langchain])
def test_nor_does_an_unknown_operator_or_what_an_engine_cannot_run(index, encoder, paths):
    there = index_of(index.uec, TEXTS, IDS, store=QdrantStore(location=":memory:"))
    encoder.count = 0
    for ask in paths(there):
        for wrong, said in (
            (lambda passage: True, "cannot run a Python"),
            ({"lang": {"$lt": "d"}}, "Qdrant orders"),
            ({"lang": {"$like": "d"}}, "unknown operator"),
        ):
            with pytest.raises(ValueError, match=f"filter: .*{said}"):
                ask(wrong)
    assert encoder.count == 0
