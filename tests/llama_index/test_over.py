"""A retriever over LlamaIndex's own store: its filters, what is shown of a node, and the gate."""

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from uec_rag.llama_index import UECEmbedding, UECRetriever, UECVectorStore


@pytest.fixture
def theirs(nodes):
    return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))


async def test_filters_are_the_indexs_own_and_awaiting_is_the_same(theirs, fitted, question):
    german = MetadataFilters(filters=[MetadataFilter(key="lang", value="de")])
    over = UECRetriever.over(theirs, fitted, filters=german, candidates=40)
    found = over.retrieve(question)
    assert {node.metadata["lang"] for node in found} == {"de"}
    assert [n.node_id for n in await over.aretrieve(question)] == [n.node_id for n in found]
    assert (found[0].node_id, found[0].node.ref_doc_id) == ("n3", "doc0")
    assert "uec_score" in found[0].node.excluded_llm_metadata_keys


def test_an_index_over_a_store_of_ours_needs_none(fitted):
    embedding = UECEmbedding(uec=fitted)
    index = VectorStoreIndex.from_vector_store(UECVectorStore(fitted), embed_model=embedding)
    with pytest.raises(TypeError, match="for which there is from_index"):
        UECRetriever.over(index, fitted)
