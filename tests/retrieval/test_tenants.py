"""What other tenants have does not change what is decided on one's own passages."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from uec_rag import UEC, Retriever
from uec_rag.langchain import UECGate
from uec_rag.langchain import UECRetriever as LangChainRetriever
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.server import create_app

LOAN = [
    "The laptop can be borrowed for two weeks.",
    "The camera can be borrowed for three days.",
    "The projector can be borrowed for one day.",
    "The late fee is two euros a day.",
    "The desk can be booked for a week.",
]
SHOP = [
    "Refunds take 14 days after the parcel arrives.",
    "The warranty on lamps is two years.",
    "Gift cards are valid for three years.",
    "Invoices are sent by email on the first of the month.",
    "Complaints are answered within two working days.",
]
THINGS = "camera", "desk", "camara stand", "late pickup", "laptop sleeve"
MORE = [
    f"The {part} of the {thing} {says}"
    for thing in THINGS
    for part in ("lens", "drawer", "strap")
    for says in ("costs ten euros.", "may be borrowed for a month.", "is repaired by Quimby.")
]
ASKED = {
    "How long can I borrow the camera?": "answer",
    "How high is the late fee?": "answer",
    "How long can I borrow the laptop?": "answer",
    "Can I book a desk for a week?": "answer",
    "How long can I borrow the camara?": "answer",  # a word that only the other one has
    "Who repairs the strap of the desk?": "abstain",
    "What does the drawer of the desk cost?": "abstain",
    "How long is the warranty on lamps?": "abstain",
    "Who is the king of Spain?": "abstain",
}
OWN = {"t": "a"}


def grown():
    """An index of two tenants, before and after the second one has more."""
    index = Retriever(UEC())
    index.add(LOAN, metadatas=[OWN] * len(LOAN))
    index.add(SHOP, metadatas=[{"t": "b"}] * len(SHOP))
    yield index
    index.add(MORE, metadatas=[{"t": "b"}] * len(MORE))
    yield index


@pytest.mark.parametrize("option", ["filter", "tenant"])
def test_another_tenants_documents_change_no_decision(option):
    before, after = (index.search([*ASKED], **{option: OWN}) for index in grown())
    if option == "tenant":
        assert before.ids == after.ids
    told = [[one.action for one in result.decisions] for result in (before, after)]
    spelled = "How long can I borrow the camara?"
    for question, one, two, right in zip(ASKED, *told, ASKED.values(), strict=True):
        if option == "tenant" or question != spelled:
            assert (question, one, two) == (question, right, right)
    most = 0 if option == "tenant" else 0.2
    assert np.abs(before.confidence - after.confidence)[:4].max() <= most


def test_a_tenants_passages_are_searched_as_an_index_of_their_own(with_words, texts):
    alone, both = Retriever(with_words), Retriever(with_words)
    alone.add(texts[:80], map(str, range(80)))
    both.add(texts[:80], map(str, range(80)), [{**OWN, "n": n} for n in range(80)])
    both.add(texts[60:], metadatas=[{"t": "b"}] * len(texts[60:]))
    questions = [" ".join(text.split()[:4]) for text in texts[:100:9]]
    expected = alone.search(questions, k=9)
    for tenant in (OWN, lambda passage: passage.metadata["t"] == "a"):
        found = both.search(questions, k=9, tenant=tenant)
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
        np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-5)
    few = both.search(questions, k=9, tenant=OWN, filter={"n": {"$lt": 40}})
    assert all(int(id_) < 40 for ids in few.ids for id_ in ids)
    both.add(["golugo"], ["new"], [OWN])  # seen at once
    assert both.search(["golugo"], k=1, tenant=OWN).ids == [["new"]]
    both.delete(["new"])
    assert both.search(["golugo"], k=1, tenant=OWN).ids != [["new"]]


def test_adapters_and_server_take_the_tenant():
    *_, index = grown()
    question, right = "How long can I borrow the camara?", LOAN[1]
    expected = index.search([question], tenant=OWN).confidence[0]

    def check(text, metadata):
        assert text == right
        assert metadata["uec_confidence"] == pytest.approx(expected, abs=1e-6)

    made = LangChainRetriever.from_texts([], index)
    of_tenant = made.model_copy(update={"tenant": OWN})
    for document in (of_tenant.invoke(question)[0], made.invoke(question, tenant=OWN)[0]):
        check(document.page_content, document.metadata)
    gated = UECGate(retriever=made).invoke(question, tenant=OWN)
    assert gated["decision"] == "answer"
    check(gated["documents"][0].page_content, gated["documents"][0].metadata)
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

    filters = MetadataFilters(filters=[MetadataFilter(key="t", value="a")])
    node = LlamaIndexRetriever(index, tenant=filters).retrieve(question)[0]
    check(node.text, node.metadata)
    with TestClient(create_app(index), base_url="http://localhost") as client:
        asked = {"question": question, "tenant": OWN}
        found = client.post("/ask", json=asked).json()
        assert found["confidence"] == pytest.approx(expected, abs=1e-6)
        assert client.post("/ask", json={"question": "?", "tenant": {"t": {"$no": 1}}}).is_error


@pytest.mark.parametrize("tenant", [{"t": {"$no": 1}}, "a", 3])
def test_a_wrong_tenant_is_refused(small, tenant):
    with pytest.raises((TypeError, ValueError), match=r"filter|\$no"):
        small.search(["tavone"], tenant=tenant)
