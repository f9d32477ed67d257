"""A retriever over vector stores of others: LangChain's own in memory, and Qdrant."""

from dataclasses import replace

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from tests.helpers import bag_of_words, pairs, passages
from uec_rag import UEC, Retriever
from uec_rag.confidence.features import NEAREST
from uec_rag.langchain import UECEmbeddings, UECGate, UECRetriever, UECVectorStore
from uec_rag.retrieval.gate import Gate

TEXTS = list(dict.fromkeys(passages(60)))
IDS = [f"00000000-0000-0000-0000-{i:012}" for i in range(len(TEXTS))]
QUERIES = [" ".join(text.split()[4:8]) for text in TEXTS[:6]]
METADATAS = [{"place": i, "even": i % 2 == 0} for i in range(len(TEXTS))]


class Counting:
    def __init__(self, dimension, name, seed=0):
        self.__name__, self.texts = name, []
        self._embed = bag_of_words(dimension, name, seed)

    def __call__(self, texts):
        self.texts.extend(texts)
        return self._embed(texts)


class Member(Embeddings):
    """A member as LangChain has it: its vectors are of any length."""

    def __init__(self, dimension, name, seed=0):
        self._embed = bag_of_words(dimension, name, seed)

    def embed_documents(self, texts):
        return self._embed(texts).tolist()

    def embed_query(self, text):
        return self._embed([text])[0].tolist()


@pytest.fixture(scope="module")
def fitted():
    known = [bag_of_words(16, "small"), bag_of_words(24, "large", seed=1)]
    return UEC(known).fit(pairs(120))


@pytest.fixture
def counting(fitted):
    encoders = [Counting(16, "small"), Counting(24, "large", seed=1)]
    uec = UEC(encoders)
    uec.fitted = replace(fitted.fitted)
    assert uec.dimension == 40
    for encoder in encoders:
        encoder.texts.clear()
    return uec, encoders


def in_memory(embedding):
    store = InMemoryVectorStore(embedding)
    store.add_texts(TEXTS, [dict(m) for m in METADATAS], ids=IDS)
    return store


def qdrant(embedding):
    client, width = QdrantClient(":memory:"), len(embedding.embed_query("a"))
    size = models.VectorParams(size=width, distance=models.Distance.COSINE)
    client.create_collection("texts", size)
    store = QdrantVectorStore(client, "texts", embedding)
    store.add_texts(TEXTS, [dict(m) for m in METADATAS], ids=IDS)
    return store


def vectors_in(store):
    def stored(ids):
        found = store.client.retrieve(store.collection_name, ids, with_vectors=True)
        held = {point.id: point.vector for point in found}
        return [held[id_] for id_ in ids]

    return stored


@pytest.mark.parametrize("make", [in_memory, qdrant])
def test_with_every_document_a_candidate_it_says_what_our_own_store_says(fitted, make):
    ours = UECVectorStore(fitted)
    ours.add_texts(TEXTS, METADATAS, ids=IDS)
    over = UECRetriever.over(
        make(Member(24, "large", seed=1)),
        fitted,
        k=5,
        candidates=len(TEXTS),
        size=len(TEXTS),
        details=True,
    )
    for query in QUERIES:
        expected = ours.as_retriever(k=5, details=True).invoke(query)
        found = over.invoke(query)
        assert [d.page_content for d in found] == [d.page_content for d in expected]
        for one, other in zip(found, expected, strict=True):
            for key in ("uec_score", "uec_mu", "uec_sigma2", "uec_relevance", "uec_confidence"):
                assert one.metadata[key] == pytest.approx(other.metadata[key], abs=2e-3), key
            assert one.metadata["uec_decision"] == other.metadata["uec_decision"]
            assert one.metadata["place"] == other.metadata["place"]
            assert {*other.metadata} <= {*one.metadata}


def test_candidates_are_the_stores_own_and_are_ranked_with_uncertainty(fitted):
    store = qdrant(Member(16, "small"))
    over = UECRetriever.over(store, fitted, k=3, candidates=NEAREST)
    for query in QUERIES:
        near = {d.page_content for d in store.similarity_search(query, k=NEAREST)}
        found = over.invoke(query)
        assert {d.page_content for d in found} <= near
        scores = [d.metadata["uec_score"] for d in found]
        assert scores == sorted(scores, reverse=True)
        assert all(d.metadata["uec_sigma2"] > 0 for d in found)
    assert not over.search(QUERIES).exact


def test_confidence_with_some_candidates_is_near_that_of_all(fitted):
    ours = UECVectorStore(fitted)
    ours.add_texts(TEXTS, METADATAS, ids=IDS)
    over = UECRetriever.over(qdrant(UECEmbeddings(fitted)), fitted, candidates=12, size=len(TEXTS))
    exact = ours.retriever.search(QUERIES, 4).confidence
    np.testing.assert_allclose(over.search(QUERIES).confidence, exact, atol=0.1)


def test_a_members_stored_vectors_spare_its_encoder(counting, fitted):
    uec, encoders = counting
    store = qdrant(Member(16, "small"))
    over = UECRetriever.over(store, uec, candidates=20, vectors="small", stored=vectors_in(store))
    plain = UECRetriever.over(store, fitted, candidates=20)
    assert over.search(QUERIES).ids == plain.search(QUERIES).ids
    np.testing.assert_allclose(over.search(QUERIES).scores, plain.search(QUERIES).scores, rtol=1e-4)
    small, large = ([text for text in e.texts if text not in QUERIES] for e in encoders)
    assert len(small) == 1  # to check the vectors
    assert len(large) == len({*large}) > 20


def test_the_ensembles_own_vectors_spare_all_of_them(counting, fitted):
    uec, encoders = counting
    over = UECRetriever.over(
        in_memory(UECEmbeddings(fitted)), uec, candidates=20, vectors="ensemble"
    )
    ids = over.search(QUERIES).ids
    assert ids == UECRetriever.over(in_memory(UECEmbeddings(fitted)), fitted).search(QUERIES).ids
    for encoder in encoders:
        assert len([text for text in encoder.texts if text not in QUERIES]) == 1


def test_vectors_of_a_stranger_only_name_candidates(counting, fitted, plain):
    uec, encoders = counting
    ours = UECVectorStore(fitted)
    ours.add_texts(TEXTS)
    over = UECRetriever.over(in_memory(plain), uec, candidates=len(TEXTS))
    for query in QUERIES:
        expected = ours.similarity_search(query)
        assert [d.page_content for d in over.invoke(query)] == [d.page_content for d in expected]
    over.invoke(QUERIES[0])
    assert {*encoders[0].texts} == {*TEXTS, *QUERIES}
    assert len(encoders[0].texts) == len(TEXTS) + 7  # passages are remembered, questions not


async def test_filters_are_the_stores_own_in_every_way_to_ask(fitted):
    over = UECRetriever.over(in_memory(Member(16, "small")), fitted)
    odd = lambda document: not document.metadata["even"]  # noqa: E731
    for found in (
        over.invoke(QUERIES[0], filter=odd),
        await over.ainvoke(QUERIES[0], filter=odd),
        *over.batch(QUERIES[:2], filter=odd),
    ):
        assert len(found) == 4
        assert all(d.metadata["place"] % 2 for d in found)
    where = models.Filter(
        must=[models.FieldCondition(key="metadata.place", range=models.Range(lt=3))]
    )
    few = UECRetriever.over(
        qdrant(Member(16, "small")), fitted, search_kwargs={"filter": where, "k": 5}
    )
    assert {d.metadata["place"] for d in few.invoke(QUERIES[5])} == {0, 1, 2}


def test_a_batch_is_each_question_alone(fitted):
    over = UECRetriever.over(qdrant(Member(16, "small")), fitted, candidates=8)
    alone = [over.invoke(query) for query in QUERIES]
    together = over.batch(QUERIES)
    for one, other in zip(alone, together, strict=True):
        assert [d.page_content for d in one] == [d.page_content for d in other]
        assert [d.metadata["uec_confidence"] for d in one] == pytest.approx(
            [d.metadata["uec_confidence"] for d in other]
        )


def test_hits_can_differ_and_a_gate_can_decide(fitted):
    over = UECRetriever.over(in_memory(Member(16, "small")), fitted)
    varied = UECRetriever.over(
        in_memory(Member(16, "small")), fitted, search_type="mmr", search_kwargs={"fetch_k": 20}
    )
    assert len(varied.invoke(QUERIES[0])) == 4
    decided = UECGate(retriever=over).invoke(QUERIES[0])
    assert decided["decision"] == over.invoke(QUERIES[0])[0].metadata["uec_decision"]


def test_nothing_is_found_in_an_empty_store(fitted):
    over = UECRetriever.over(InMemoryVectorStore(Member(16, "small")), fitted)
    assert over.invoke("ba") == []
    assert over.batch(["ba", "de"]) == [[], []]
    assert over.batch([]) == []


def test_a_store_that_was_empty_at_first_is_looked_at_when_it_holds_something(fitted):
    store = InMemoryVectorStore(Member(16, "small"))
    over, fresh = (UECRetriever.over(store, fitted, candidates=8) for _ in range(2))
    assert over.invoke(QUERIES[0]) == []
    store.add_texts(TEXTS, [dict(m) for m in METADATAS], ids=IDS)
    found, expected = (some.invoke(QUERIES[0])[0] for some in (over, fresh))
    assert found.metadata["uec_confidence"] == pytest.approx(expected.metadata["uec_confidence"])


def test_nothing_is_found_for_no_questions(fitted):
    assert len(UECRetriever.over(in_memory(Member(16, "small")), fitted).search([])) == 0


def test_fitting_again_needs_no_new_vectors(fitted):
    uec = UEC([bag_of_words(16, "small")])
    over = UECRetriever.over(in_memory(Member(16, "small")), uec)
    with pytest.warns(UserWarning, match="not fitted"):
        before = over.invoke(QUERIES[0])[0]
    assert before.metadata["uec_sigma2"] == 0
    uec.fit(pairs(60))
    assert over.invoke(QUERIES[0])[0].metadata["uec_sigma2"] > 0


def test_what_cannot_be_done_from_here_is_said(fitted, monkeypatch):
    store = in_memory(Member(16, "small"))
    over = UECRetriever.over(store, fitted)
    for refused in (
        lambda: over.calibrate(TEXTS[:20], [[id_] for id_ in IDS[:20]]),
        lambda: over.vectorstore.add_texts(["a"]),
        lambda: over.vectorstore.delete(IDS[:1]),
        over.self_calibrate,
    ):
        with pytest.raises(ValueError, match="in another package's vector store"):
            refused()
    searched = []
    monkeypatch.setattr(over.index.store, "fetch", lambda *asked: searched.append(asked))
    for gate in (
        lambda: Gate.budget(over.index, QUERIES),
        lambda: Gate.calibrate(over.index, QUERIES, [[IDS[0]]] * len(QUERIES)),
    ):
        with pytest.raises(ValueError, match="in another package's vector store"):
            gate()
    assert not searched
    assert len(store.store) == len(TEXTS)
    with pytest.raises(TypeError, match="for which there is from_store"):
        UECRetriever.over(UECVectorStore(fitted), fitted)
    with pytest.raises(TypeError, match="uec: expected a UEC, got Member"):
        UECRetriever.over(store, Member(16, "small"))
    with pytest.raises(ValueError, match="candidates: expected an integer >= 1, got 0"):
        UECRetriever.over(store, fitted, candidates=0)
    assert isinstance(over.index, Retriever)
