"""What other tenants have does not change what is decided on one's own passages."""

import functools
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from starlette.testclient import TestClient

from uec_rag import UEC, Retriever
from uec_rag.gates import Gate
from uec_rag.langchain import UECGate
from uec_rag.langchain import UECRetriever as LangChainRetriever
from uec_rag.llama_index import UECRetriever as LlamaIndexRetriever
from uec_rag.llama_index.nodes import passage_filter
from uec_rag.server import create_app
from uec_rag.stores.local.view import State

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
    for question, one, two, right in zip(ASKED, *told, ASKED.values(), strict=True):
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


def test_what_python_finds_equal_are_different_tenants():
    index = Retriever(UEC(["bm25"]), fit=False)
    tenants = [1, True, "1", [1], [True], {"n": 1}, {"n": True}, {"n": "1"}]
    index.add([f"camera {at}" for at in range(8)], map(str, range(8)), [{"t": t} for t in tenants])
    items = {0: ["0", "3"], 1: ["1", "4"]}  # a list has its items
    for _ in range(2):
        for at, tenant in enumerate(tenants):
            condition = {"$eq": tenant} if isinstance(tenant, list) else tenant
            found = index.search(["camera"], tenant={"t": condition}).ids[0]
            assert sorted(found) == items.get(at, [str(at)])


def test_a_tenant_that_is_changed_while_it_is_searched_spoils_no_later_search():
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(["camera of a", "camera of b"], ["a", "b"], [{"t": "a"}, {"t": "b"}])

    class Changing(dict):
        """A mapping that another thread changes after it was read once."""

        def items(self):
            read = [*super().items()]
            self["t"] = "b"
            return read

    index.search(["camera"], tenant=Changing(t="a"))
    assert index.search(["camera"], tenant={"t": "a"}).ids == [["a"]]


REMOVE = """
import sys
from uec_rag import Retriever
index = Retriever.load(sys.argv[1])
index.delete(["secret"])
index.compact()
"""


def test_what_another_process_has_removed_is_seen_by_no_tenant(tmp_path):
    """Nothing is known of it any more, while a view still has its text."""
    folder = str(tmp_path / "index")
    index = Retriever(UEC(["bm25"]), fit=False)
    index.save(folder)
    metadatas = [{"t": "a"}, {"t": "b"}, {"t": "b", "n": 1}]
    index.add(["camera of a", "camera of b", "lamp of b"], ["secret", "b1", "b2"], metadatas)
    view = index.snapshot()
    view.search(["camera"])
    subprocess.run([sys.executable, "-c", REMOVE, folder], check=True)
    for tenant in ({"t": {"$ne": "a"}}, {"t": {"$nin": ["a"]}}, {"$not": {"t": "a"}}):
        assert {*view.search(["camera"], tenant=tenant).ids[0]} == {"b1", "b2"}
    assert view.search(["camera"], tenant={"n": {"$exists": False}}).ids == [["b1"]]
    assert view.search(["camera"], tenant={"t": "a"}).ids == [[]]


def test_the_states_of_tenants_in_turn_are_made_once(monkeypatch):
    index = Retriever(UEC(["bm25"]), fit=False)
    every = [*map(str, range(80))]
    index.add([f"camera {name}" for name in every], every, [{"t": name} for name in every])
    made, select = [], State.select
    monkeypatch.setattr(State, "select", lambda self, mask: made.append(1) or select(self, mask))
    for name in every * 3:
        index.search(["camera"], tenant={"t": name})
    assert len(made) == 80


def test_more_tenants_than_are_remembered_are_searched_in_threads():
    index = Retriever(UEC(["bm25"]), fit=False)
    every = [*map(str, range(150))]
    index.add([f"camera {name}" for name in every], every, [{"t": name} for name in every])

    def search(name):
        return index.search(["camera"], tenant={"t": name}).ids[0] == [name]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(search, every * 4))


class Own(Mapping):
    """A mapping of another class than dict."""

    def __init__(self, **items):
        self.held = items

    def __getitem__(self, key):
        return self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


def test_a_gate_knows_a_filter_again_by_its_conditions(small):
    stamps = [small.stamp({"t": value}).basis for value in (Own(n=1), Own(n=1), {"n": 1}, Own(n=2))]
    assert len({*stamps[:3]}) == 1
    assert stamps[3] != stamps[0]


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
    filters = MetadataFilters(filters=[MetadataFilter(key="t", value="a")])
    for tenant in (filters, OWN):
        node = LlamaIndexRetriever(index, tenant=tenant).retrieve(question)[0]
        check(node.text, node.metadata)
    with TestClient(create_app(index), base_url="http://localhost") as client:
        asked = {"question": question, "tenant": OWN}
        found = client.post("/ask", json=asked).json()
        assert found["confidence"] == pytest.approx(expected, abs=1e-6)
        assert client.post("/ask", json={"question": "?", "tenant": {"t": {"$no": 1}}}).is_error


@pytest.mark.parametrize(
    ("tenant", "message"),
    [({"t": {"$no": 1}}, r"\$no"), ("a", "tenant: .* got str"), (3, "tenant: .* got int")],
)
def test_a_wrong_tenant_is_refused(small, tenant, message):
    with pytest.raises((TypeError, ValueError), match=message):
        small.search(["tavone"], tenant=tenant)


def group(*filters):
    return MetadataFilters(filters=[*filters])


EMPTY = [{}, {"$and": []}, {"x": {"$nin": []}}, {"$or": [{"t": "b"}, {}]}, {"$not": {"$or": []}}]
EMPTY_OF_LLAMA_INDEX = [
    group(),
    group(group(), group()),
    MetadataFilters(filters=[group()], condition="or"),
    group(MetadataFilter(key="x", value=[], operator=FilterOperator.NIN)),
]


@pytest.mark.parametrize("empty", [*EMPTY, *EMPTY_OF_LLAMA_INDEX], ids=repr)
def test_an_empty_tenant_is_nobody_and_lifts_no_other(empty):
    index = Retriever(UEC(["bm25"]), fit=False)
    index.add(["camera of Ann", "camera of Bob"], ["a", "b"], [{"t": "a"}, {"t": "b"}])
    theirs = isinstance(empty, MetadataFilters)
    tenant = passage_filter(empty) if theirs else empty
    for search in (index.search, functools.partial(Gate().search, index)):
        with pytest.raises(ValueError, match="tenant: expected a filter of one tenant's"):
            search(["camera"], tenant=tenant)
    with pytest.raises(ValueError, match="tenant: expected a filter of one tenant's"):
        Gate.from_labels(index, ["camera"] * 20, [["a"]] * 20, tenant=tenant)
    if theirs:
        with pytest.raises(ValueError, match="tenant: expected a filter of one tenant's"):
            LlamaIndexRetriever(index, tenant=empty)
    made = LangChainRetriever.from_texts([], index, tenant=OWN)
    for one in (
        made,
        made.bind(tenant=tenant),
        made.vectorstore.as_retriever(search_kwargs={"tenant": tenant}, tenant=OWN),
    ):
        assert [d.id for d in one.invoke("camera", tenant=tenant)] == ["a"]
        assert [d.id for d in one.invoke({"question": "camera", "tenant": tenant})] == ["a"]
    gate = UECGate(retriever=made)
    assert [d.id for d in gate.invoke("camera", tenant=tenant)["documents"]] == ["a"]
    assert [d.id for d in gate.invoke("camera", tenant={"t": "b"})["documents"]] == []
    lifted = made.model_copy(update={"tenant": None})
    assert {d.id for d in lifted.invoke("camera")} == {"a", "b"}
