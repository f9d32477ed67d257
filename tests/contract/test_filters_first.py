"""What is no filter, or one that a store cannot run, is refused before a text is encoded for it."""

import pytest
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores import VectorStoreQuery

from tests.helpers import Counting, index_of, pairs, passages
from uec_rag import UEC, langchain, llama_index
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.gate import Gate
from uec_rag.stores.qdrant import QdrantStore

TEXTS = list(dict.fromkeys(passages(40)))[:30]


def found_by_llama_index(index, wrong):
    retriever = llama_index.UECRetriever(index)
    retriever.filters = wrong
    return retriever.retrieve(QueryBundle("a"))


def queried(index, wrong):
    asked = VectorStoreQuery(query_str="a", similarity_top_k=3, filters=wrong)
    return llama_index.UECVectorStore(index).query(asked)


SEARCHES = [
    lambda index, wrong: index.search(TEXTS[:2], 3, filter=wrong),
    lambda index, wrong: index.search(TEXTS[:2], 3, filter=wrong, diversity=Diversity()),
    lambda index, wrong: index.search_vector([1.0] * index.uec.dimension, filter=wrong),
    lambda index, wrong: Gate.from_labels(index, TEXTS[:2], [["p0"], ["p1"]], filter=wrong),
    lambda index, wrong: langchain.UECVectorStore(index).similarity_search("a", 3, wrong),
    lambda index, wrong: langchain.UECVectorStore(index).as_retriever().invoke("a", filter=wrong),
]


@pytest.mark.parametrize("search", [*SEARCHES, found_by_llama_index, queried])
def test_a_wrong_filter_costs_no_encoding(search):
    encoder = Counting()
    ids = [f"p{i}" for i in range(len(TEXTS))]
    uec = UEC([encoder]).fit(pairs(80))
    index = index_of(uec, TEXTS, ids)
    there = index_of(uec, TEXTS, ids, store=QdrantStore(location=":memory:"))
    encoder.count = 0
    for wrong in ("lang = 'de'", 5, ["lang"]):
        with pytest.raises(TypeError, match=r"filters?: expected"):
            search(index, wrong)
    if search in SEARCHES:
        with pytest.raises(ValueError, match=r"filter: .*unknown operator"):
            search(there, {"lang": {"$like": "d"}})
    assert encoder.count == 0
