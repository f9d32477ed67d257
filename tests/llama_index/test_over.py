"""A retriever over indexes of others: LlamaIndex's own store in memory, and Qdrant."""

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from tests.helpers import bag_of_words
from uec_rag import UEC
from uec_rag.llama_index import UECEmbedding, UECGatePostprocessor, UECRetriever, UECVectorStore


class Member(BaseEmbedding):
    """The ensemble's first member as LlamaIndex has it: its vectors are of any length."""

    def _get_text_embedding(self, text):
        return bag_of_words(24, "small")([text])[0].tolist()

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


def simple(nodes, embedding):
    return VectorStoreIndex(nodes, embed_model=embedding)


def qdrant(nodes, embedding):
    store = QdrantVectorStore("nodes", client=QdrantClient(":memory:"))
    storage = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes, storage_context=storage, embed_model=embedding)


@pytest.fixture
def with_uuids(nodes):
    """Qdrant takes no other ids."""
    for i, node in enumerate(nodes):
        node.id_ = f"00000000-0000-0000-0000-{i:012}"
    return nodes


@pytest.fixture(params=[simple, qdrant])
def make(request):
    return request.param


def test_with_every_node_a_candidate_it_says_what_our_own_index_says(
    make, with_uuids, fitted, texts
):
    ours = UECRetriever.from_nodes(with_uuids, fitted, details=True)
    index = make(with_uuids, Member())
    over = UECRetriever.over(index, fitted, candidates=40, size=40, details=True)
    for text in texts[:5]:
        query = " ".join(text.split()[3:8])
        expected, found = ours.retrieve(query), over.retrieve(query)
        assert [n.node_id for n in found] == [n.node_id for n in expected]
        for one, other in zip(found, expected, strict=True):
            for key in ("uec_score", "uec_mu", "uec_sigma2", "uec_relevance", "uec_confidence"):
                assert one.metadata[key] == pytest.approx(other.metadata[key], abs=2e-3), key
            assert one.metadata["uec_decision"] == other.metadata["uec_decision"]
            assert one.text == other.text
            assert "uec_score" in one.node.excluded_llm_metadata_keys
            assert one.node.ref_doc_id == other.node.ref_doc_id


def test_vectors_that_lie_there_spare_encoders(make, with_uuids, counting, fitted, question):
    uec, encoders = counting
    for embedding, vectors, spared in (
        (Member(), uec.names[0], [1]),
        (UECEmbedding(uec=fitted), "ensemble", [1, 1]),
    ):
        fresh = UEC(encoders)
        fresh.fitted = uec.fitted
        assert fresh.dimension == 56  # a black box embeds one text to tell
        for encoder in encoders:
            encoder.texts.clear()
        over = UECRetriever.over(make(with_uuids, embedding), fresh, candidates=10, vectors=vectors)
        over.retrieve(question)
        asked = [len([text for text in e.texts if text != question]) for e in encoders]
        assert asked[: len(spared)] == spared
        assert len(spared) == 2 or asked[1] > 10


async def test_filters_are_the_indexs_own_and_awaiting_is_the_same(
    make, with_uuids, fitted, question
):
    german = MetadataFilters(filters=[MetadataFilter(key="lang", value="de")])
    over = UECRetriever.over(make(with_uuids, Member()), fitted, filters=german)
    found = over.retrieve(question)
    assert {node.metadata["lang"] for node in found} == {"de"}
    assert [n.node_id for n in await over.aretrieve(question)] == [n.node_id for n in found]


def test_a_gate_decides_on_what_it_finds(make, with_uuids, fitted, question):
    over = UECRetriever.over(make(with_uuids, Member()), fitted)
    gate = UECGatePostprocessor(gate=0.5)
    assert len(gate.postprocess_nodes(over.retrieve(question), query_str=question)) == 4
    other = "who wrote this"
    [told] = gate.postprocess_nodes(over.retrieve(other), query_str=other)
    assert told.metadata["uec_decision"] == "abstain"


def test_confidence_with_some_candidates_is_near_that_of_all(make, with_uuids, fitted, question):
    ours = UECRetriever.from_nodes(with_uuids, fitted).retrieve(question)
    over = UECRetriever.over(make(with_uuids, UECEmbedding(uec=fitted)), fitted, size=40)
    confidence = over.retrieve(question)[0].metadata["uec_confidence"]
    np.testing.assert_allclose(confidence, ours[0].metadata["uec_confidence"], atol=0.1)


def test_what_it_cannot_be_over_is_said(make, with_uuids, fitted):
    index = VectorStoreIndex.from_vector_store(
        UECVectorStore(fitted), embed_model=UECEmbedding(uec=fitted)
    )
    with pytest.raises(TypeError, match="for which there is from_index"):
        UECRetriever.over(index, fitted)
    over = UECRetriever.over(make(with_uuids, Member()), fitted)
    with pytest.raises(ValueError, match="in another package's vector store"):
        over.self_calibrate()
