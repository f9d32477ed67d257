"""A gate is made and watched as it searches: for a tenant, by the tenant's passages alone."""

import numpy as np
import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from tests.contract.test_over_filters import Member, Node
from tests.helpers import index_of, labelled
from tests.llama_index.conftest import nodes_of
from uec_rag import langchain, llama_index
from uec_rag.gates import Gate
from uec_rag.gates.labelled_search import LabelledSearch

OWN = {"t": "a"}
OF_LLAMA_INDEX = MetadataFilters(filters=[MetadataFilter(key="t", value="a")])


@pytest.fixture(scope="module")
def index(with_words, texts):
    """Passages of a tenant, and of another one about the same."""
    metadatas = [{"t": "ab"[at % 9 > 0], "n": at} for at in range(len(texts))]
    return index_of(with_words, texts, metadatas=metadatas)


@pytest.fixture(scope="module")
def asked(texts):
    """Labelled questions, of which most are about the other's passages."""
    queries, relevant = labelled(texts, 90)
    kept = [[id_ for id_ in ids if int(id_[1:]) % 9 == 0] for ids in relevant]
    return queries, kept


def of_langchain(index):
    own = {"tenant": OWN, "filter": {"n": {"$gte": 0}}}
    made = langchain.UECRetriever(vectorstore=langchain.UECVectorStore(index))
    yield made.model_copy(update=own)
    yield langchain.UECRetriever(vectorstore=made.vectorstore, search_kwargs={**own, "k": 4})
    yield made.vectorstore.as_retriever(search_kwargs={"tenant": OWN}, filter=own["filter"])


def test_confidence_is_the_same_where_a_gate_is_made_and_where_it_decides(index, asked):
    expected = [index.search([query], tenant=OWN)[0].confidence_at(4) for query in asked[0]]
    searched = LabelledSearch.from_queries(index, *asked, tenant=OWN)
    np.testing.assert_allclose(searched.confidence, expected, atol=1e-6)
    made = Gate.from_labels(index, *asked, tenant=OWN, max_wrong=0.3)
    np.testing.assert_allclose(made.confidences, np.sort(expected), atol=1e-4)
    for retriever in of_langchain(index):
        gate = langchain.UECGate.from_labels(retriever, *asked, max_wrong=0.3)
        found = [gate.invoke(query)["confidence"] for query in asked[0]]
        assert gate.gate.threshold == made.threshold
        np.testing.assert_allclose(gate.gate.confidences, np.sort(expected), atol=1e-4)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_drift_is_watched_as_the_gate_searches(index, asked):
    [retriever, *_] = of_langchain(index)
    gate = langchain.UECGate.from_labels(retriever, *asked, max_wrong=0.3)
    assert gate.drift(asked[0]) is None
    whole = index.search(asked[0], 4).confidence
    assert gate.gate.drift(whole.tolist()) is not None  # as it was searched before


def test_a_gate_of_one_hit_is_about_one_hit_wherever_it_decides(index, asked, recwarn):
    [retriever, *_] = of_langchain(index)
    single = retriever.model_copy(update={"k": 1})
    gate = langchain.UECGate.from_labels(single, *asked, max_wrong=0.3)
    assert gate.gate.k == 1
    assert gate.drift(asked[0]) is None
    hits = gate.invoke(asked[0][0])["documents"]
    assert hits[0].metadata["uec_search"]["hits"] == 1
    step = RunnableLambda(lambda _: hits)
    langchain.UECGate(retriever=step, gate=gate.gate).invoke(asked[0][0])
    assert not [one for one in recwarn if "guarantee does not" in str(one.message)]


def test_what_has_no_confidence_is_left_out_of_a_comparison_and_counted():
    gate = Gate(confidences=tuple(np.linspace(0.2, 1.0, 200)))
    later = np.linspace(0.2, 1.0, 50)
    assert gate.drift([*later, None, float("nan")]) is None
    assert gate.drift([0.1] * 31 + [None] * 9) is None  # of too few, nothing is known
    told = gate.drift([*(later / 4), None, float("nan")])
    assert "last 50 questions (and 2 without a confidence" in told


def test_a_gate_fits_searches_of_its_tenant(index, asked, recwarn):
    gate = Gate.from_labels(index, *asked, tenant=OWN, max_wrong=0.3)
    assert gate.fits(index, tenant=OWN)
    assert not gate.fits(index)
    assert not gate.fits(index, tenant={"t": "b"})
    gate.search(index, asked[0][:2], tenant=OWN)
    assert not [one for one in recwarn if "gate" in str(one.message)]


def test_a_retriever_over_a_store_makes_the_gate_of_its_tenant(with_words, texts, asked):
    ids = [f"p{at}" for at in range(len(texts))]
    metadatas = [{"t": "ab"[at % 9 > 0]} for at in range(len(texts))]
    store = InMemoryVectorStore(Member())
    store.add_texts(texts, metadatas, ids=ids)
    nodes = nodes_of(texts, ids, metadatas)
    for made in (
        langchain.UECRetriever.over(store, with_words, tenant=OWN),
        llama_index.UECRetriever.over(
            VectorStoreIndex(nodes, embed_model=Node()), with_words, tenant=OF_LLAMA_INDEX
        ),
    ):
        index = made.index
        assert (index.usual_filter, bool(index.usual_tenant)) == (None, True)
        searched = LabelledSearch.from_queries(index, asked[0][:20], asked[1][:20])
        found = index.search(asked[0][:20], tenant=index.usual_tenant)
        expected = [one.confidence_at(4) for one in found]
        np.testing.assert_allclose(searched.confidence, expected, atol=1e-5)
