"""What docs/production.md says that LangChain drops, and what it says that works instead."""

import pytest
from langchain_core.runnables import ConfigurableField, RunnableParallel

from uec_rag import UEC
from uec_rag.langchain import UECGate, UECRetriever

QUESTION, A = "Who repairs the camera?", {"t": "a"}


@pytest.fixture(scope="module")
def retriever():
    texts = ["Ann repairs the camera.", "Bob repairs the camera."]
    return UECRetriever.from_texts(texts, UEC(["bm25"]), [{"t": "a"}, {"t": "b"}], fit=False)


def texts_of(found):
    return [document.page_content for document in found]


def test_what_the_guide_says_works(retriever):
    gate = UECGate(retriever=retriever)
    field = ConfigurableField(id="tenant")
    both = RunnableParallel(found=gate.bind(tenant=A)).invoke(QUESTION)["found"]
    keyed = RunnableParallel(found=gate).invoke({"question": QUESTION, "tenant": A})["found"]
    configured = retriever.configurable_fields(tenant=field)
    for documents in (
        both["documents"],
        keyed["documents"],
        gate.bind(tenant=A).invoke(QUESTION)["documents"],
        configured.invoke(QUESTION, {"configurable": {"tenant": A}}),
        retriever.bind(tenant=A).invoke(QUESTION),
    ):
        assert texts_of(documents) == ["Ann repairs the camera."]


def test_what_the_guide_says_is_dropped_by_langchain(retriever):
    """If one of these narrows some day, the guide is to be changed."""
    gate = UECGate(retriever=retriever)
    for found in (
        gate.with_config(tenant=A).invoke(QUESTION),
        gate.invoke(QUESTION, {"configurable": {"tenant": A}}),
        RunnableParallel(found=gate).invoke(QUESTION, tenant=A)["found"],
    ):
        assert len(found["documents"]) == 2
