"""What an embedding is passed as has one name, wherever one is taken."""

import inspect

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.embeddings import MockEmbedding

from uec_rag import langchain, llama_index

TAKING = {
    (kind, name): method
    for kind in (
        *(langchain.UECRetriever, langchain.UECVectorStore, langchain.UECGate),
        *(llama_index.UECRetriever, llama_index.UECVectorStore, llama_index.UECGatePostprocessor),
    )
    for name, method in inspect.getmembers(kind, inspect.ismethod)
    if name in ("from_texts", "from_documents", "from_nodes", "over", "load")
    and name in {own for each in kind.__mro__ for own in vars(each) if "uec_rag" in each.__module__}
    and kind is not langchain.UECGate
}


@pytest.mark.parametrize("taking", TAKING, ids=lambda one: f"{one[0].__module__}.{one[1]}")
def test_every_class_method_calls_it_embedding(taking):
    parameters = inspect.signature(TAKING[taking]).parameters
    assert "embedding" in parameters
    assert "uec" not in parameters


@pytest.mark.filterwarnings("ignore:This UEC is not fitted")
def test_it_is_taken_by_its_name():
    texts = ["Cats purr.", "Dogs bark."]
    ours, theirs = DeterministicFakeEmbedding(size=8), MockEmbedding(8)
    for kind in (langchain.UECRetriever, langchain.UECVectorStore):
        assert len(kind.from_texts(texts, embedding=ours).index) == 2
    assert len(llama_index.UECRetriever.from_texts(texts, embedding=theirs).index) == 2
    for store, own in ((langchain.UECVectorStore, ours), (llama_index.UECVectorStore, theirs)):
        assert store(embedding=own).index.uec.encoders[0].source is own
