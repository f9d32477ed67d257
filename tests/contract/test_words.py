"""What only words as a member can do, in both frameworks; `test_adapters_agree` has the rest."""

import numpy as np
import pytest
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from tests.helpers import bag_of_words, index_of, pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.llama_index import UECVectorStore as LlamaIndexVectorStore
from uec_rag.stores import MemoryStore

QUERIES = [query for query, _ in pairs(8, seed=3)]
TEXTS = [*(passage for _, passage in pairs(8, seed=3)), *passages(60, seed=4)]
IDS = [f"p{number}" for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def uec():
    return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))


def nodes():
    return [TextNode(id_=id_, text=text) for id_, text in zip(IDS, TEXTS, strict=True)]


def test_several_texts_make_one_query(uec):
    alone = LlamaIndexRetriever.from_texts(TEXTS, uec, ids=IDS, similarity_top_k=5, details=True)
    bundle = QueryBundle("", custom_embedding_strs=QUERIES[:2])
    found = alone.retrieve(bundle)
    words = {word for hit in found for word in hit.metadata["uec_matched_terms"]}
    assert words & {*QUERIES[0].split()}
    assert words & {*QUERIES[1].split()}


@pytest.mark.parametrize("options", [{}, {"dtype": "int8"}])
def test_a_vector_alone_is_compared_with_vectors(uec, options):
    retriever = index_of(uec, TEXTS, IDS, store=MemoryStore(**options))
    mean = uec.embed([TEXTS[5]], "query").mean[0]
    found = retriever.search_vector(mean.tolist(), 3)
    assert found.ids[0][0] == IDS[5]
    assert np.isfinite(found.scores).all()


def ids_of(store, query, **options):
    asked = VectorStoreQuery(query_str=query, similarity_top_k=5, **options)
    return store.query(asked).ids


def test_modes_of_llama_index_do_what_they_say(uec):
    store = LlamaIndexVectorStore(uec=uec)
    store.add(nodes())
    words, vectors = Retriever(UEC(["bm25"])), Retriever(UEC([bag_of_words(24, "bag")]))
    for alone in (words, vectors):
        with pytest.warns(UserWarning, match="not fitted"):
            alone.add(TEXTS, ids=IDS)
    for query in QUERIES:
        by_words, by_vectors = (alone.search([query], 5).ids[0] for alone in (words, vectors))
        assert ids_of(store, query, mode="sparse") == by_words
        assert ids_of(store, query, mode="text_search") == by_words
        assert ids_of(store, query, mode="hybrid", alpha=0.0) == by_words
        assert ids_of(store, query, mode="hybrid", alpha=1.0) == by_vectors
        assert ids_of(store, query, mode="hybrid") == ids_of(store, query)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mode": "hybrid", "alpha": 1.5}, "alpha: expected a number from 0 to 1"),
        ({"mode": "svm"}, "mode: expected one of"),
    ],
)
def test_other_modes_are_refused(uec, options, match):
    with pytest.raises(ValueError, match=match):
        ids_of(LlamaIndexVectorStore(uec=uec), "badefi", **options)


def test_modes_that_look_for_words_need_a_member_that_does():
    store = LlamaIndexVectorStore(uec=UEC([bag_of_words(24, "bag")]))
    for mode in ("hybrid", "sparse", "text_search"):
        with pytest.raises(ValueError, match="add 'bm25' to its members"):
            ids_of(store, "badefi", mode=mode)
