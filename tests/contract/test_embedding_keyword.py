"""What an embedding is passed as has one name, wherever one is taken."""

import inspect

import pytest

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
