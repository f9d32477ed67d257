"""A retriever over vector stores of others: in memory, Chroma, FAISS, Qdrant and PostgreSQL."""

import gc
import json
import re
import warnings
import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_postgres import PGVector
from langchain_qdrant import QdrantVectorStore as LangChainQdrant
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore as LlamaIndexQdrant
from qdrant_client import QdrantClient, models

from tests.contract.postgres import address
from tests.helpers import Remembering, bag_of_words, empty_chroma, index_of, pairs, passages
from tests.llama_index.conftest import nodes_of
from uec_rag import UEC, FingerprintMismatch, langchain, llama_index
from uec_rag.base.records import Memory
from uec_rag.confidence.model import NEAREST
from uec_rag.documents.generated_questions import MOST_PAIRS
from uec_rag.encoders.base import PROBES
from uec_rag.gates.gate import Gate
from uec_rag.index import learn
from uec_rag.retrieval.diversity import Diversity
from uec_rag.stores.passage import Passage

TEXTS = list(dict.fromkeys(passages(80)))
# A first sentence is a question that the rest answers.
LONG = [f"{' '.join(text.split()[2:7])}. {text} {text}" for text in TEXTS]
IDS = [f"00000000-0000-0000-0000-{i:012}" for i in range(len(TEXTS))]  # Qdrant takes no other
QUERIES = [" ".join(text.split()[4:8]) for text in TEXTS[:6]]
ASKED = [" ".join(text.split()[2:8]) for text in TEXTS[:24]]
LABELS = [[id_] for id_ in IDS[:24]]  # what answers these
METADATAS = [{"place": i, "even": i % 2 == 0} for i in range(len(TEXTS))]
EVEN = range(0, len(TEXTS), 2)
EVERY = {"candidates": len(TEXTS)}
EMBEDDED = []  # every text that an embedding of the frameworks was given


class LangChain:
    """In memory."""

    class Member(Embeddings):
        """A member as LangChain has it: its vectors are of any length."""

        def embed_documents(self, texts):
            EMBEDDED.extend(texts)
            return bag_of_words(16, "small")(texts).tolist()

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    def store(self, embedding, texts=TEXTS):
        return self.filled(InMemoryVectorStore(embedding), texts)

    def filled(self, store, texts):
        known = [dict(metadata) for metadata in METADATAS[: len(texts)]]
        if texts:
            store.add_texts(texts, known, ids=IDS[: len(texts)])
        return store

    def vectors(self, store):
        return lambda ids: {id_: store.store[id_]["vector"] for id_ in ids}

    def over(self, store, uec=None, k=4, **options):
        return langchain.UECRetriever.over(store, uec, k=k, details=True, **options)

    def few(self, store, uec):
        """Over a retriever that has a filter of its own."""
        keep = {"k": 30, "filter": lambda found: found.metadata["place"] < 40}
        return self.over(store.as_retriever(search_kwargs=keep), uec, filter={"even": True})

    def below(self, place):
        """The option of passages before a place."""
        return {"filter": {"place": {"$lt": place}}}

    def hits(self, over, query):
        return [(d.page_content, dict(d.metadata)) for d in over.invoke(query)]

    def decision(self, over, query):
        return langchain.UECGate(retriever=over).invoke(query)["decision"]


class LangChainInChroma(LangChain):
    def store(self, embedding, texts=TEXTS):
        client = empty_chroma()
        cosine = {"hnsw": {"space": "cosine"}}
        store = Chroma("texts", embedding, client=client, collection_configuration=cosine)
        return self.filled(store, texts)


class LangChainInFaiss(LangChain):
    def store(self, embedding, texts=TEXTS):
        store = FAISS.from_texts(["none"], embedding, ids=["none"], normalize_L2=True)
        store.delete(["none"])
        return self.filled(store, texts)


class LangChainInQdrant(LangChain):
    def store(self, embedding, texts=TEXTS):
        client, width = QdrantClient(":memory:"), len(embedding.embed_query("a"))
        size = models.VectorParams(size=width, distance=models.Distance.COSINE)
        client.create_collection("texts", size)
        return self.filled(LangChainQdrant(client, "texts", embedding), texts)


class LangChainInPostgres(LangChain):
    def store(self, embedding, texts=TEXTS):
        # An id is in one collection at a time.
        store = PGVector(embedding, connection=address("psycopg"), pre_delete_collection=True)
        return self.filled(store, texts)


class LlamaIndex:
    """In memory."""

    class Member(BaseEmbedding):
        """A member as LlamaIndex has it: its vectors are of any length."""

        def _get_text_embedding(self, text):
            EMBEDDED.append(text)
            return bag_of_words(16, "small")([text])[0].tolist()

        def _get_query_embedding(self, query):
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query):
            return self._get_text_embedding(query)

    def store(self, embedding, texts=TEXTS, **options):
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
        nodes = nodes_of(texts, IDS, METADATAS, relationships=source)
        return VectorStoreIndex(nodes, embed_model=embedding, **options)

    def vectors(self, store):
        return lambda ids: store.vector_store.data.embedding_dict

    def over(self, store, uec=None, k=4, **options):
        return llama_index.UECRetriever.over(store, uec, k, details=True, **options)

    def few(self, store, uec):
        even = MetadataFilters(filters=[MetadataFilter(key="place", value=[*EVEN], operator="in")])
        found = store.as_retriever(similarity_top_k=30, **self.below(40))
        return self.over(found, uec, filters=even)

    def below(self, place):
        low = MetadataFilter(key="place", value=place, operator="<")
        return {"filters": MetadataFilters(filters=[low])}

    def hits(self, over, query):
        return [(n.text, dict(n.metadata)) for n in over.retrieve(query)]

    def decision(self, over, query):
        gate = llama_index.UECGatePostprocessor()
        first = gate.postprocess_nodes(over.retrieve(query), query_str=query)[0]
        return first.metadata["uec_decision"]


class LlamaIndexInQdrant(LlamaIndex):
    def of_nodes(self):
        return LlamaIndexQdrant("nodes", client=QdrantClient(":memory:"))

    def store(self, embedding, texts=TEXTS):
        storage = StorageContext.from_defaults(vector_store=self.of_nodes())
        return super().store(embedding, texts, storage_context=storage)


class LlamaIndexInChroma(LlamaIndexInQdrant):
    """Whose nodes cannot be listed."""

    def of_nodes(self):
        return ChromaVectorStore(chroma_collection=empty_chroma().create_collection("nodes"))


OF_LANGCHAIN = [LangChain, *LangChain.__subclasses__()]
KINDS = [*OF_LANGCHAIN, LlamaIndex, LlamaIndexInQdrant]
LISTED = [kind for kind in [*OF_LANGCHAIN, LlamaIndex] if kind is not LangChainInPostgres]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def theirs(request):
    return request.param()


@pytest.fixture(scope="module")
def fitted():
    known = [bag_of_words(16, "small"), bag_of_words(24, "large", seed=1)]
    return UEC(known).fit(pairs(120))


@pytest.fixture(scope="module")
def ours(fitted):
    return index_of(fitted, TEXTS, IDS, METADATAS)


@pytest.fixture
def remembering(fitted):
    """Makes the same ensemble of encoders that remember every text they were given."""

    def make():
        encoders = [Remembering(16, "small"), Remembering(24, "large", seed=1)]
        uec = UEC(encoders)
        uec.fitted = fitted.fitted
        assert uec.dimension == 40  # a black box embeds one text to tell
        for encoder in encoders:
            encoder.texts.clear()
        return uec, encoders

    return make


@pytest.mark.slow
def test_with_every_passage_a_candidate_it_says_what_our_own_store_says(theirs, fitted, ours):
    over = theirs.over(theirs.store(theirs.Member()), fitted, **EVERY)
    for query in QUERIES:
        expected, found = ours.search([query], 4), theirs.hits(over, query)
        assert [text for text, _ in found] == [p.text for p in expected.passages[0]]
        for rank, (_, metadata) in enumerate(found):
            known = expected.passages[0][rank].metadata | expected[0].metadata(rank, details=True)
            for key in ("uec_score", "uec_mu", "uec_sigma2", "uec_relevance", "uec_confidence"):
                assert metadata[key] == pytest.approx(known[key], abs=2e-3), key
            assert metadata["uec_decision"] == known["uec_decision"]
            assert metadata["place"] == known["place"]
            assert {*known} <= {*metadata}
        assert theirs.decision(over, query) == expected.decisions[0].action


def test_candidates_are_the_stores_own_and_are_ranked_with_uncertainty(theirs, fitted):
    over = theirs.over(theirs.store(theirs.Member()), fitted, candidates=NEAREST).index
    vectors = bag_of_words(16, "small")(TEXTS)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for query in QUERIES:
        order = np.argsort(-(vectors @ bag_of_words(16, "small")([query])[0]))
        found = over.search([query], 3)
        assert {*found.ids[0]} <= {IDS[place] for place in order[:NEAREST]}
        assert (np.diff(found.scores[0]) <= 0).all()
        assert (found.sigma2 > 0).all()
        assert not found.exact


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_vectors_that_lie_there_spare_an_encoder(theirs, fitted, remembering):
    store, (uec, encoders) = theirs.store(theirs.Member()), remembering()
    over = theirs.over(store, uec, candidates=20, vectors=theirs.vectors(store)).index
    plain = theirs.over(store, fitted, candidates=20).index
    found, expected = over.search(QUERIES, 4), plain.search(QUERIES, 4)
    assert found.ids == expected.ids
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)
    small, large = ([text for text in e.texts if text not in QUERIES] for e in encoders)
    assert len(small) <= len(QUERIES)  # to compare with a vector, of the first candidate
    assert len(large) == len({*large}) > 20


def test_candidates_are_encoded_once(theirs, remembering, ours):
    uec, encoders = remembering()
    over = theirs.over(theirs.store(theirs.Member()), uec, **EVERY).index
    for _ in range(2):
        assert over.search(QUERIES, 4).ids == ours.search(QUERIES, 4).ids
    assert {*encoders[1].texts} == {*TEXTS, *QUERIES}
    assert len(encoders[1].texts) == len({*encoders[1].texts})


KEPT = ["embeddings", "documents", "metadatas"]
CONTENTS = {
    LangChain: lambda store: store.store,
    LangChainInChroma: lambda store: store.get(include=KEPT),
    LlamaIndex: lambda store: (store.vector_store.to_dict(), store.docstore.to_dict()),
}


@pytest.mark.parametrize(("kind", "contents"), CONTENTS.items())
def test_a_store_keeps_what_it_had(kind, contents):
    theirs, written = kind(), partial(json.dumps, sort_keys=True, default=np.ndarray.tolist)
    store = theirs.store(theirs.Member(), LONG)
    before = written(contents(store))
    over = theirs.over(store)
    assert theirs.hits(over, QUERIES[0])
    assert over.index.uec.is_fitted
    assert written(contents(store)) == before


@pytest.mark.parametrize("theirs", OF_LANGCHAIN, indirect=True)  # LlamaIndex's Qdrant has none yet
def test_nothing_is_found_in_an_empty_store(theirs, fitted):
    store = theirs.store(theirs.Member(), [])
    assert theirs.hits(theirs.over(store), "ba") == []  # of which no fit is made
    over = theirs.over(store, fitted)
    assert theirs.hits(over, "ba") == []
    assert over.index.search(["ba", "de"]).ids == [[], []]
    assert len(over.index.search([])) == 0


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_filters_of_theirs_choose_candidates_and_ours_keep_some(theirs, fitted):
    over = theirs.few(theirs.store(theirs.Member()), fitted)
    found = theirs.hits(over, QUERIES[0])
    assert found
    assert all(known["even"] and known["place"] < 40 for _, known in found)


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_what_cannot_be_done_from_here_is_said(theirs, fitted):
    store = theirs.store(theirs.Member())
    index = theirs.over(store, fitted).index
    assert "50 candidates of " in repr(index)
    for refused in (lambda: index.add(["a"]), lambda: index.delete(IDS[:1])):
        with pytest.raises(ValueError, match="which only supplies candidates"):
            refused()
    with pytest.raises(TypeError, match=r"expected a UEC, .* got str"):
        theirs.over(store, "a member")
    with pytest.raises(ValueError, match="candidates: expected an integer >= 1, got 0"):
        theirs.over(store, fitted, candidates=0)
    with pytest.raises(TypeError, match=r"theirs: expected a retriever or .* got list"):
        theirs.over([store], fitted)


@pytest.mark.slow
def test_labels_make_a_gate_and_a_calibration_over_any_store(theirs, fitted):
    store = theirs.store(theirs.Member())
    over = theirs.over(store, fitted, candidates=20)
    gate = Gate.from_labels(over.index, ASKED, LABELS, max_wrong=0.2)
    assert gate.guarantee.queries == 24
    assert gate.fits(over.index)
    over.index.calibrate(ASKED, LABELS)
    assert over.index.search(QUERIES).confidence.max() <= 1
    assert "24 labelled queries" in over.report
    assert not gate.fits(over.index)  # another calibration
    diverse = over.index.search(QUERIES, 4, diversity=Diversity(fetch_k=10))
    assert [len(row) for row in diverse.ids] == [4] * len(QUERIES)


def lost_of(*changed):
    """Texts of which those at some places are others."""
    return [f"tavone {text}" if place in changed else text for place, text in enumerate(TEXTS)]


@pytest.mark.slow
@pytest.mark.parametrize("theirs", [*KINDS, LlamaIndexInChroma], indirect=True)
def test_a_gate_knows_the_passages_of_any_store_again(theirs, fitted, tmp_path):
    def over(texts):
        return theirs.over(theirs.store(theirs.Member(), texts), fitted, candidates=20).index

    Gate.from_labels(over(TEXTS[:60]), ASKED, LABELS, max_wrong=0.2).save(tmp_path / "gate.json")
    gate = Gate.load(tmp_path / "gate.json")
    assert 16 <= len(gate.stamp.passages) <= 32
    size = len(gate.stamp.passages)
    for texts, lost in (
        (TEXTS[:60], 0),
        (TEXTS, 0),  # it has grown
        (lost_of(7), 0),  # a few change
        (lost_of(*range(0, 24, 2)), 3),
        (TEXTS[24:] + TEXTS[:24], size),
        (TEXTS[60:], size),  # fewer, and others
    ):
        index = over(texts)
        index.gate = gate
        with warnings.catch_warnings(record=True, action="always") as told:
            for query in QUERIES[:2]:
                index.search([query])
        said = [
            str(one.message)
            for one in told
            if "compared passages that the gate was made" in str(one.message)
        ]
        assert [int(one.split()[0]) >= lost for one in said] == [True] * bool(lost)
        assert gate.fits(index) is not bool(lost)
    old = replace(gate, stamp=replace(gate.stamp, passages=())).metadata()
    assert Gate.restore(old).fits(index)
    with pytest.raises(ValueError, match="Gate: expected the fields of a saved Gate"):
        Gate.restore(old | {"stamp": {"passages": [["id", 3]]}})


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_a_gate_does_not_fit_another_filter_which_is_said_once(theirs, fitted, tmp_path):
    store = theirs.store(theirs.Member())
    over = theirs.over(store, fitted, candidates=20)
    over.index.gate = Gate.from_labels(over.index, ASKED, LABELS, max_wrong=0.2)
    over.save(tmp_path)
    low = theirs.below(48)
    plain = type(over).load(tmp_path, fitted, over=store, candidates=20)
    some = type(over).load(tmp_path, fitted, over=store, candidates=20, **low)
    told = []
    for retriever in (plain, some, some):
        with warnings.catch_warnings(record=True, action="always") as caught:
            for query in QUERIES:
                theirs.hits(retriever, query)
        told.append(sum("another calibration or filter" in str(one.message) for one in caught))
    assert told == [0, 1, 0]
    assert plain.index.gate.fits(plain.index)
    assert not some.index.gate.fits(some.index)
    again = theirs.over(store, fitted, candidates=20, **low)
    assert again.index.gate is None
    again.index.gate = Gate.from_labels(again.index, ASKED, LABELS, max_wrong=0.2)
    with warnings.catch_warnings(action="error"):
        theirs.hits(again, QUERIES[0])
    assert again.index.gate.fits(again.index)


def test_labelled_passages_that_are_not_found_are_counted(theirs, fitted):
    over = theirs.over(theirs.store(theirs.Member()), fitted, candidates=1).index
    far = [[IDS[-1 - place]] for place in range(20)]
    with pytest.warns(UserWarning, match=r"\d+ of 20 labelled passages are not among the candid"):
        Gate.from_labels(over, [TEXTS[place] for place in range(20)], far)


@pytest.mark.slow
@pytest.mark.parametrize("theirs", LISTED, indirect=True)
def test_its_own_embedding_is_fitted_without_labels_and_only_questions_are_encoded(theirs):
    embedding = theirs.Member()
    store = theirs.store(embedding, LONG)
    over = theirs.over(store)
    index = over.index
    assert not index.uec.is_fitted
    first = theirs.hits(over, LONG[3].split(".")[0])
    assert index.uec.is_fitted
    assert first[0][0] == LONG[3]
    assert "questions made of" in over.report
    EMBEDDED.clear()
    asked = [text.split(".")[0] for text in LONG[5:8]]
    assert (index.search(asked, 1).sigma2 > 0).all()
    assert sorted(asked) == sorted(EMBEDDED)


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_as_many_are_found_as_are_asked_for(theirs, fitted):
    over = theirs.over(theirs.store(theirs.Member()), fitted, k=70)
    assert len(theirs.hits(over, QUERIES[0])) == 70


def ensemble_retriever():
    """LangChain's rank fusion of two retrievers, over it, and documents like those of it."""
    store = LangChain().store(LangChain.Member(), LONG)
    two = [store.as_retriever(search_kwargs={"k": 40}) for _ in range(2)]
    theirs = EnsembleRetriever(retrievers=two, weights=[0.5, 0.5])
    over = langchain.UECRetriever.over(theirs, LangChain.Member(), k=4)
    return over, [Document(text) for text in LONG], langchain.UECGate(retriever=over).invoke


def fusion_retriever():
    """LlamaIndex's fusion of two retrievers, over it, and nodes like those of it."""
    member = LlamaIndex.Member()
    nodes = nodes_of(LONG, IDS, [{}] * len(LONG))
    index = VectorStoreIndex(nodes, embed_model=member)
    two = [index.as_retriever(similarity_top_k=40) for _ in range(2)]
    theirs = QueryFusionRetriever(
        two, llm=MockLLM(), num_queries=1, similarity_top_k=40, use_async=False
    )
    over = llama_index.UECRetriever.over(theirs, member, similarity_top_k=4)
    return over, nodes, over.retrieve


@pytest.mark.parametrize("make", [ensemble_retriever, fusion_retriever])
def test_a_fusion_of_retrievers_is_fitted_on_documents_that_are_given(make):
    over, documents, ask = make()
    ask(QUERIES[0])
    assert not over.index.uec.is_fitted
    assert "fit_from" in over.report
    with pytest.raises(TypeError, match=r"documents\[0\]: .* for strings there is \w+\("):
        over.fit_from(["text"])
    over.fit_from(documents)
    assert over.index.uec.is_fitted
    [found] = over.index.search([TEXTS[7]])
    assert found.passages[0].text == LONG[7]
    assert found.decision.confidence > over.index.search(["What is the weather?"]).confidence[0]


def test_a_chroma_without_metadata_is_fitted_and_searched():
    store = Chroma("plain", LangChain.Member(), client=empty_chroma())
    store.add_texts(LONG)
    over = langchain.UECRetriever.over(store, LangChain.Member(), k=1)
    [found] = over.invoke(LONG[3])
    assert found.page_content == LONG[3]
    assert over.index.uec.is_fitted


def test_filters_are_applied_in_the_store(theirs):
    """Of a filter's passages none is among the nearest, and all are found."""
    over = theirs.over(theirs.store(theirs.Member()), fit=False, candidates=5).index
    for where in ({"place": {"$in": [50, 51]}}, {"$or": [{"place": 50}, {"place": 51}]}):
        found = over.search(QUERIES[:1], 4, filter=where)
        assert {*found.ids[0]} == {IDS[50], IDS[51]}


@pytest.mark.slow
def test_a_gate_over_a_store_is_saved_with_its_fit_and_without_passages(tmp_path):
    store = LangChainInChroma().store(LangChain.Member(), LONG)
    over = langchain.UECRetriever.over(store)
    asked = [text.split(".")[0] for text in LONG[:24]]
    gate = langchain.UECGate.from_labels(over, asked, [[id_] for id_ in IDS[:24]], max_wrong=0.2)
    gate.save(tmp_path / "gate")
    new = langchain.UECRetriever.over(store)
    again = langchain.UECGate.load(tmp_path / "gate", new)
    one, two = (each.invoke(asked[3]) for each in (gate, again))
    assert one["decision"] == two["decision"]
    assert one["confidence"] == pytest.approx(two["confidence"], abs=1e-6)
    assert again.gate.report == gate.gate.report
    assert not any(
        LONG[0].encode() in file.read_bytes() for file in (tmp_path / "gate").rglob("*.*")
    )
    assert again.drift(asked * 2) is None
    assert "not like those" in again.drift(["Nothing of the kind"] * 64)


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_over_after_a_restart_has_its_fit_and_gate_and_embeds_no_passages(
    theirs, tmp_path, monkeypatch
):
    """As a pod does, which is told not to fit: the fit was made when its image was built."""
    member = theirs.Member()
    store = theirs.store(member, LONG)
    over = theirs.over(store)
    over.fit_from().index.gate = Gate(0.7)
    over.save(tmp_path)
    question = LONG[3].split(".")[0]
    expected = theirs.hits(over, question)
    with pytest.raises(ValueError, match=r"\.load\(path, over=your_store\)") as refused:
        type(over).load(tmp_path, member)
    assert not re.search(r"\d{6}", str(refused.value))  # no hashes of words
    monkeypatch.setattr(learn, "_FITS", Memory(list))  # as in another process
    EMBEDDED.clear()
    again = type(over).load(tmp_path, over=store, fit=False, details=True)
    assert (again.index.gate.threshold, again.report) == (0.7, over.report)
    assert [text for text, _ in theirs.hits(again, question)] == [text for text, _ in expected]
    # The probes alone and together, the question, and one to compare with the store.
    assert len(EMBEDDED) <= 2 * len(PROBES) + 2
    EMBEDDED.clear()
    assert theirs.hits(type(over).over(store), question)  # with the fit that was loaded
    assert len(EMBEDDED) <= 3
    with pytest.raises(FingerprintMismatch, match="the embedding alone to a class of"):
        type(over).load(tmp_path, UEC([member, "bm25"]), store=over.index.store)


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_the_first_fit_says_how_many_texts_it_embeds_and_another_filter_needs_none(theirs, caplog):
    texts = [f"Item {n} {text}" for n, text in enumerate(LONG * 3)]
    store = theirs.store(theirs.Member(), LONG)
    more = [Passage(f"m{n}", text) for n, text in enumerate(texts)]
    over = theirs.over(store)
    EMBEDDED.clear()
    over.index.fit_from(more)
    assert 200 < len(EMBEDDED) <= 300
    assert f"{2 * MOST_PAIRS} texts are embedded by" in caplog.text
    theirs.hits(theirs.over(store), QUERIES[0])
    EMBEDDED.clear()
    assert theirs.hits(theirs.over(store, **theirs.below(40)), QUERIES[1])
    assert len(EMBEDDED) <= 3  # the question, one to compare, and one for the dimension


def in_chroma():
    return LlamaIndexInChroma().store(LlamaIndexInChroma.Member(), LONG)


def of_documents():
    return LangChain().store(LangChain.Member(), LONG).as_retriever(search_kwargs={"k": 50})


@pytest.mark.parametrize(
    ("kind", "store", "options"),
    [(LlamaIndexInChroma, in_chroma, {}), (LangChain, of_documents, {"uec": LangChain.Member()})],
    ids=["index", "retriever"],
)
@pytest.mark.filterwarnings("ignore:.*vectors are missing")
def test_another_over_what_lists_nothing_has_the_fit_that_is_known(
    kind, store, options, tmp_path, monkeypatch
):
    theirs, store, question = kind(), store(), LONG[3].split(".")[0]
    over = theirs.over(store, **options)
    for count in (60, 80):  # the last one counts
        over.index.fit_from([Passage(f"m{n}", text) for n, text in enumerate(LONG[:count])])
    expected = theirs.hits(over, question)
    assert theirs.hits(theirs.over(store, **options), question) == expected
    over.save(tmp_path)
    monkeypatch.setattr(learn, "_FITS", Memory(list))  # as in another process
    arguments = dict(zip(["embedding"], options.values(), strict=False))
    type(over).load(tmp_path, over=store, fit=False, **arguments)
    again = theirs.over(store, **options)
    assert theirs.hits(again, question) == expected
    assert again.report == over.report


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_what_is_remembered_of_a_store_and_of_its_model_goes_with_them(theirs):
    member = theirs.Member()
    store = theirs.store(member, LONG)
    over = theirs.over(store)
    over.index.fit_from([Passage(f"m{n}", text) for n, text in enumerate(LONG)])
    assert theirs.hits(over, QUERIES[0])
    references = [weakref.ref(store), weakref.ref(member)]
    del over, store, member
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_the_same_model_by_another_name_is_taken_by_the_name_that_was_saved(tmp_path):
    class Renamed(LangChain.Member):
        """Makes the same vectors."""

    theirs = LangChain()
    over = theirs.over(theirs.store(LangChain.Member(), LONG)).fit_from()
    asked, answers = [text.split(".")[0] for text in LONG[:24]], [[id_] for id_ in IDS[:24]]
    gate = Gate.from_labels(over.index, asked, answers, max_wrong=0.2)
    langchain.UECGate(retriever=over, gate=gate).save(tmp_path)
    model, question = Renamed(), LONG[3].split(".")[0]
    store = theirs.store(model, LONG)
    with pytest.raises(ValueError, match=r"Pass those, as encoders=\{'Member': embedding\}"):
        type(over).load(tmp_path, over=store)
    again = type(over).load(tmp_path, over=store, encoders={"Member": model}, details=True)
    assert theirs.hits(again, question) == theirs.hits(over, question)
    assert theirs.hits(theirs.over(store), question)
    load = langchain.UECGate.load
    with pytest.raises(ValueError, match=r"as encoders=\{'Member': embedding\} of this `load`"):
        load(tmp_path, theirs.over(store))
    for gated in (
        load(tmp_path, theirs.over(store), encoders={"Member": model}),
        load(tmp_path, again),
    ):
        assert gated.gate.fits(gated.retriever.index)
        assert gated.invoke(question)["documents"]


@pytest.mark.parametrize("theirs", [LangChain, LlamaIndex], indirect=True)
def test_a_store_in_place_of_an_embedding_and_no_path_are_refused(theirs, fitted, tmp_path):
    store = theirs.store(theirs.Member())
    over = theirs.over(store, fitted)
    over.save(tmp_path)
    for given in (store, store.as_retriever()):
        with pytest.raises(TypeError, match=f"embedding: .*, got {type(given).__name__}; .* over="):
            type(over).load(tmp_path, given)
    for call in (over.save, type(over).load, Gate().save, Gate.load, fitted.save, UEC.load):
        with pytest.raises(TypeError, match="path: expected a str or a path, got NoneType"):
            call(None)


def test_a_store_of_ours_needs_none(fitted):
    with pytest.raises(TypeError, match="for which there is from_store"):
        langchain.UECRetriever.over(langchain.UECVectorStore(fitted), fitted)
    embedding, ours = llama_index.UECEmbedding(uec=fitted), llama_index.UECVectorStore(fitted)
    index = VectorStoreIndex.from_vector_store(ours, embed_model=embedding)
    with pytest.raises(TypeError, match=r"for which there is UECRetriever\(store.index\)"):
        llama_index.UECRetriever.over(index, fitted)
