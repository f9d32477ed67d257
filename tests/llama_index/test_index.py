"""Inside LlamaIndex's own `VectorStoreIndex`."""

import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import QueryBundle

from tests.helpers import bag_of_words
from tests.llama_index.conftest import build
from uec_rag import UEC, Retriever
from uec_rag.llama_index import UECEmbedding, UECRetriever, UECVectorStore


@pytest.fixture
def index(fitted, nodes):
    return build(fitted, nodes)


@pytest.mark.parametrize("use_async", [False, True])
async def test_every_text_and_every_question_is_encoded_once(
    counting, nodes, texts, question, use_async
):
    uec, encoders = counting
    index = build(uec, nodes, use_async=use_async, insert_batch_size=16)
    for encoder in encoders:
        assert sorted(encoder.texts) == sorted(texts)
        encoder.texts.clear()
    assert index.vector_store.get_nodes() == nodes
    index.as_retriever().retrieve(question)
    await index.as_retriever().aretrieve(question)
    assert encoders[0].texts == [question]


def test_documents_can_be_added_replaced_and_removed(fitted, texts):
    parser = SentenceSplitter()
    index = build(fitted, parser.get_nodes_from_documents([Document(text=texts[0], id_="a")]))
    index.insert(Document(text=texts[1], id_="b"))
    index.update_ref_doc(Document(text=texts[2], id_="b"))
    held = {node.ref_doc_id: node.text for node in index.vector_store.get_nodes()}
    assert held == {"a": texts[0], "b": texts[2]}
    index.delete_ref_doc("a")
    index.delete_nodes([node.node_id for node in index.vector_store.get_nodes()])
    assert index.vector_store.get_nodes() == []


def test_an_index_persisted_with_its_storage_context_comes_back(index, fitted, tmp_path, question):
    index.storage_context.persist(str(tmp_path))
    store = UECVectorStore(Retriever.load(tmp_path / "default__vector_store.json", fitted))
    storage = StorageContext.from_defaults(persist_dir=str(tmp_path), vector_store=store)
    embedding = UECEmbedding(uec=fitted)
    before = index.as_retriever().retrieve(question)
    for back in (
        load_index_from_storage(storage, embed_model=embedding),
        VectorStoreIndex.from_vector_store(store, embed_model=embedding),
    ):
        after = back.as_retriever().retrieve(question)
        assert [hit.node_id for hit in after] == [hit.node_id for hit in before]
        assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before])


def test_a_foreign_retriever_of_the_same_question_does_not_disturb(index, question):
    bundle = QueryBundle(question, embedding=[0.1] * 7)  # as LlamaIndex leaves it on the question
    assert index.as_retriever().retrieve(bundle)[0].node_id == "n3"
    assert UECRetriever(index.vector_store.index).retrieve(bundle)[0].node_id == "n3"


def test_fitting_again_changes_what_is_made_of_what_is_remembered(texts):
    uec = UEC([bag_of_words(12, "a")], structure="diag")
    assert not uec.with_cache().encode(texts, "passage")[0].variance.any()
    uec.fit([(" ".join(text.split()[:4]), text) for text in texts])
    [remembered], [new] = uec.with_cache().encode(texts, "passage"), uec.encode(texts, "passage")
    np.testing.assert_allclose(remembered.variance, new.variance, rtol=1e-4)
