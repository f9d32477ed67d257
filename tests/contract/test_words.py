"""What only words as a member can do, in both frameworks; `test_adapters_agree` has the rest."""

import numpy as np
import pytest
from langchain_core.runnables import ConfigurableField
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from tests.helpers import bag_of_words, index_of, pairs, passages
from tests.llama_index.conftest import build
from uec_rag import UEC, Retriever
from uec_rag.langchain import UECRetriever
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


class TestWeightsPerCall:
    QUERY, MORE = QUERIES[1], {"bm25": 2.0}

    @pytest.fixture
    def shares(self, uec):
        """What an index makes of the query with some weights: coefficients and ids."""
        index = index_of(uec, TEXTS, IDS)

        def ask(weights):
            found = index.weighting(weights).search([self.QUERY], k=5)
            return found.coefficients[0], found.ids[0], found[0].metadata(0, details=True)

        return ask

    def test_multiply_the_coefficients_of_the_query(self, shares):
        own, _, _ = shares({})
        more = own * [1, 2]
        assert shares(self.MORE)[0] == pytest.approx(more / more.sum(), abs=1e-6)
        assert shares({"bm25": 0})[0] == pytest.approx([1, 0])
        assert 0.02 < own[1] < 0.98  # else nothing was shown

    async def test_langchain(self, uec, shares):
        retriever = UECRetriever.from_texts(TEXTS, uec, ids=IDS, k=5, details=True)
        _, ids, first = shares(self.MORE)
        before = retriever.invoke(self.QUERY)[0].metadata["uec_coefficients"]
        config = {"configurable": {"weights": self.MORE}}
        by_config = retriever.configurable_fields(weights=ConfigurableField(id="weights"))
        for hits in (
            retriever.invoke(self.QUERY, weights=self.MORE),
            await retriever.ainvoke(self.QUERY, weights=self.MORE),
            retriever.batch([self.QUERY], weights=self.MORE)[0],
            by_config.invoke(self.QUERY, config),
            retriever.vectorstore.as_retriever(
                search_kwargs={"k": 5, "weights": self.MORE}, details=True
            ).invoke(self.QUERY),
        ):
            assert [hit.id for hit in hits] == ids
            assert hits[0].metadata["uec_coefficients"] == pytest.approx(first["uec_coefficients"])
        assert retriever.invoke(self.QUERY)[0].metadata["uec_coefficients"] == before

    def test_llama_index(self, uec, shares):
        _, ids, first = shares(self.MORE)
        index = build(uec, nodes())
        asked = {"similarity_top_k": 5, "vector_store_kwargs": {"weights": self.MORE}}
        assert [hit.node_id for hit in index.as_retriever(**asked).retrieve(self.QUERY)] == ids
        own = LlamaIndexRetriever(index.vector_store.retriever, 5, weights=self.MORE, details=True)
        hits = own.retrieve(self.QUERY)
        assert [hit.node_id for hit in hits] == ids
        assert hits[0].metadata["uec_coefficients"] == pytest.approx(first["uec_coefficients"])

    @pytest.mark.parametrize(
        ("weights", "message"),
        [({"bm52": 2}, r"weights: expected some of \['bag', 'bm25'\], got \['bm52'\]"),
         ({"bm25": -1}, "expected weights >= 0"), ([1, 2], "weights: expected a mapping")],
    )  # fmt: skip
    def test_bad_ones_are_refused(self, shares, weights, message):
        with pytest.raises((TypeError, ValueError), match=message):
            shares(weights)
