"""A tenant's view of an index shows its passages alone, and changes no others."""

import asyncio
import copy
import json
import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import TextNode
from starlette.testclient import TestClient

from tests.helpers import index_of
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.evaluation.labelling import questions_to_ask
from uec_rag.gates import Gate
from uec_rag.server import create_app
from uec_rag.stores import LocalStore
from uec_rag.stores.qdrant import QdrantStore

WORDS = UEC(["bm25"])
TEXTS = [f"The bell of {name} rings at noon." for name in ("Ulm", "Ghent", "Turku", "Split")]
IDS = ["u", "g", "t", "s"]
OF = [{"of": {"house": letter}, "year": at} for at, letter in enumerate("xxyy")]
X, Y = {"of": {"house": "x"}}, {"of": {"house": "y"}}
QUESTION = "When does the bell ring?"


@pytest.fixture(params=["memory", "folder"])
def index(request, tmp_path):
    store = LocalStore(tmp_path / "idx") if request.param == "folder" else None
    return index_of(WORDS, TEXTS, IDS, OF, store=store, fit=False)


SHOWN = {
    "search": lambda view: view.search([QUESTION]).ids[0],
    "asearch": lambda view: asyncio.run(view.asearch([QUESTION])).ids[0],
    "with a call's tenant": lambda view: view.search([QUESTION], tenant={"year": {"$gte": 0}}).ids[
        0
    ],
    "snapshot": lambda view: view.snapshot().search([QUESTION]).ids[0],
    "another gate": lambda view: view.with_gate(Gate(0.3)).search([QUESTION]).ids[0],
    "fixed weights": lambda view: view.with_weights({"bm25": 1.0}).search([QUESTION]).ids[0],
    "gate": lambda view: Gate(0.3).search(view, [QUESTION]).ids[0],
    "passages": lambda view: [p.id for p in view.passages()],
    "get": lambda view: [p.id for p in view.get(IDS)],
    "copy": lambda view: copy.copy(view).search([QUESTION]).ids[0],
    "deep copy": lambda view: copy.deepcopy(view).search([QUESTION]).ids[0],
    "pickle": lambda view: pickle.loads(pickle.dumps(view)).search([QUESTION]).ids[0],
    "pickled snapshot": lambda view: (
        pickle.loads(pickle.dumps(view.snapshot())).search([QUESTION]).ids[0]
    ),
    "narrowed": lambda view: view.of_tenant({"year": {"$gte": 0}}).search([QUESTION]).ids[0],
    "closed": lambda view: view.requiring_tenant().search([QUESTION]).ids[0],
    "LangChain": lambda view: [
        d.id for d in langchain.UECVectorStore(view).as_retriever().invoke(QUESTION)
    ],
    "LangChain's documents": lambda view: [
        d.id for d in langchain.UECVectorStore(view).get_by_ids(IDS)
    ],
    "LlamaIndex": lambda view: [
        n.node_id for n in llama_index.UECRetriever(view).retrieve(QUESTION)
    ],
    "LlamaIndex's nodes": lambda view: [
        n.node_id for n in llama_index.UECVectorStore(view).get_nodes()
    ],
    "store": lambda view: [p.id for p in view.store.passages()],
    "store's ids": lambda view: [p.id for p in view.store.get(IDS)],
    "store's examples": lambda view: [p.id for p in view.store.examples()],
    "store of a snapshot": lambda view: [p.id for p in view.snapshot().store.get(IDS)],
    "store of a view of its store": lambda view: [
        p.id for p in view.with_gate(None).store.snapshot({"year": {"$gte": 0}}).passages()
    ],
    "server": lambda view: [
        p["id"]
        for p in TestClient(create_app(view), base_url="http://localhost")
        .post("/ask", json={"question": QUESTION})
        .json()["passages"]
    ],
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_view_shows_its_own(index, shown):
    assert {*shown(index.of_tenant(X))} == {"u", "g"}
    assert not shown(index.of_tenant(X).of_tenant(Y))
    assert not index.of_tenant(X).search([QUESTION], tenant=Y).ids[0]


def test_numbers_of_a_view_are_its_own(index):
    view = index.of_tenant(X)
    assert (len(view), bool(view), bool(view.of_tenant(Y)), view.changes) == (2, True, False, 0)
    with pytest.raises(KeyError, match="is not in the store"):
        view.vectors(["t"])
    client = TestClient(create_app(view), base_url="http://localhost")
    assert client.get("/index").json()["passages"] == 2
    closed = TestClient(create_app(index, tenants=True), base_url="http://localhost")
    assert closed.get("/index").json()["passages"] is None
    named = {"tenant": json.dumps(Y)}
    assert closed.get("/index", params=named).json()["passages"] == 2
    for wrong in ("{}", "[]", "null", "{", '{"a": {"$b": 1}}'):
        assert closed.get("/index", params={"tenant": wrong}).status_code == 422
    assert questions_to_ask(view) == questions_to_ask(index, X)


ADDING = {
    "index": lambda view, ids, of: view.add(["A bell."] * len(ids), ids, [of] * len(ids)),
    "LangChain": lambda view, ids, of: langchain.UECVectorStore(view).add_documents(
        [Document("A bell.", id=id_, metadata=of) for id_ in ids]
    ),
    "LlamaIndex": lambda view, ids, of: llama_index.UECVectorStore(view).add(
        [TextNode(text="A bell.", id_=id_, metadata=of) for id_ in ids]
    ),
}


def over_vectors():
    """An index over a store of LangChain."""
    vectors = DeterministicFakeEmbedding(size=8)
    store = InMemoryVectorStore.from_texts(TEXTS, vectors, OF, ids=IDS)
    return langchain.UECRetriever.over(store, WORDS, fit=False).index


def in_qdrant():
    uec = UEC([DeterministicFakeEmbedding(size=8), "bm25"])
    return index_of(uec, TEXTS, IDS, OF, store=QdrantStore(location=":memory:"), fit=False)


ELSEWHERE = {"Qdrant": in_qdrant, "LangChain": over_vectors}


@pytest.mark.parametrize("make", ELSEWHERE.values(), ids=ELSEWHERE)
def test_the_store_of_a_view_elsewhere_shows_its_own(make):
    store = make().of_tenant(X).store
    assert {p.id for p in store.get(IDS)} == {"u", "g"}
    assert {p.id for p in store.examples()} == {"u", "g"}
    assert not {"t", "s"}.intersection(p.id for p in store.passages())
    assert {*store.fingerprints(IDS)} == {"u", "g"}
    assert {*map(len, store.vectors(["u", "g"]))} == {2}
    with pytest.raises(KeyError, match="is not in"):
        store.vectors(["u", "t"])


@pytest.mark.parametrize("make", ELSEWHERE.values(), ids=ELSEWHERE)
def test_labels_of_others_are_unknown_elsewhere(make):
    index = make()
    with pytest.raises(ValueError, match="1 of 2 ids are not in the index, first 't'"):
        Gate.from_labels(index, [QUESTION] * 2, [["u"], ["t"]], max_risk=0.5, tenant=X)


def test_a_view_opens_no_index(index):
    index.tenant_required = True
    with pytest.raises(ValueError, match="tenant's view"):
        index.of_tenant(X).tenant_required = False
    assert index.tenant_required


DELETING = {
    "index": lambda view, ids: view.delete(ids),
    "all": lambda view, ids: view.clear(),
    "LangChain": lambda view, ids: langchain.UECVectorStore(view).delete(ids),
    "LangChain's all": lambda view, ids: langchain.UECVectorStore(view).delete(),
    "LlamaIndex": lambda view, ids: llama_index.UECVectorStore(view).delete_nodes(ids),
    "LlamaIndex's all": lambda view, ids: llama_index.UECVectorStore(view).clear(),
}


@pytest.mark.parametrize("add", ADDING.values(), ids=ADDING)
def test_a_view_adds_what_is_its_own(index, add):
    index.add(["The bell of Nice."], ["n"], [{"year": 9, "house": "y"}])
    view = index.of_tenant({"year": {"$lt": 2}})
    before = {p.id: p.text for p in index.passages()}
    with pytest.raises(ValueError, match="is not selected by the tenant"):
        add(view, ["new"], {"year": 7})
    for ids in (["t"], ["u", "s"], ["new", "n"]):
        with pytest.raises(ValueError, match=r"ids: '.' cannot be used"):
            add(view, ids, {"year": 1})
    assert {p.id: p.text for p in index.passages()} == before
    add(view, ["u", "new"], {"year": 0})
    assert {p.id for p in view.passages()} == {"u", "g", "new"}
    assert len(index) == 6


@pytest.mark.parametrize("delete", DELETING.values(), ids=DELETING)
def test_a_view_deletes_what_is_its_own(index, delete):
    delete(index.of_tenant(X), IDS)
    assert {p.id for p in index.passages()} == {"t", "s"}


def test_a_view_changes_nothing_that_is_of_all(index, tmp_path):
    view = index.of_tenant(X)
    for work in (
        lambda: view.save(tmp_path / "saved"),
        lambda: view.snapshot().save(tmp_path / "saved"),
        lambda: view.fit_from(),
        lambda: view.calibrate([QUESTION], [["u"]]),
        lambda: setattr(view, "gate", Gate(0.1)),
    ):
        with pytest.raises(ValueError, match="this is a tenant's view; "):
            work()
    assert not (tmp_path / "saved").exists()
    index.save(tmp_path / "saved")
    view.label(QUESTION, ["u"])
    assert (view.labels, index.labels) == ({QUESTION: {"u"}}, {})
    assert Retriever.load(index.folder, WORDS).labels_of(X) == {QUESTION: {"u"}}
    with pytest.raises(ValueError, match="relevant_ids: expected ids of passages"):
        view.label(QUESTION, ["t"])
    assert view.uec is index.uec
    index.add(["The bell of Riga."], ["r"], [OF[0]])
    assert len(view) == 3


@pytest.mark.parametrize("ids", [["t"], ["u", "t"], ["nowhere"]])
def test_a_gate_of_a_tenant_knows_no_ids_of_others(index, ids):
    for make in (
        lambda: Gate.from_labels(index, [QUESTION] * 20, [ids] * 20, tenant=X),
        lambda: Gate.from_labels(index.of_tenant(X), [QUESTION] * 20, [ids] * 20),
        lambda: langchain.UECGate.from_labels(
            langchain.UECVectorStore(index).as_retriever(tenant=X), [QUESTION] * 20, [ids] * 20
        ),
    ):
        with pytest.raises(ValueError, match=r"1 of . ids are not in the index, first '[tn]"):
            make()
    gate = Gate.from_labels(index, [QUESTION] * 20, [["u"]] * 20, tenant=X)
    assert {id_ for id_, _ in gate.stamp.passages} <= {"u", "g"}


def test_what_is_below_a_closed_retriever_is_closed(index):
    store = langchain.UECVectorStore(index)
    made = store.as_retriever(tenant_required=True)
    over = llama_index.UECRetriever(index, tenant=X, tenant_required=True)
    gate = langchain.UECGate(
        retriever=store.as_retriever(),
        gate=Gate.from_labels(index, [QUESTION] * 20, [["u"]] * 20),
        tenant_required=True,
    )
    for ask in (
        lambda: made.vectorstore.similarity_search(QUESTION),
        lambda: made.vectorstore.get_by_ids(["u"]),
        lambda: made.vectorstore.as_retriever().invoke(QUESTION),
        lambda: made.index.search([QUESTION]),
        lambda: len(made.index),
        lambda: over.index.search([QUESTION]),
        lambda: llama_index.UECVectorStore(over.index).get_nodes(),
        lambda: gate.retriever.vectorstore.similarity_search(QUESTION),
        lambda: gate.drift([QUESTION] * 40),
        lambda: made.model_copy(update={"k": 2}).vectorstore.similarity_search(QUESTION),
    ):
        with pytest.raises(ValueError, match="tenant: expected a filter"):
            ask()
    assert len(made.vectorstore.similarity_search(QUESTION, tenant=X)) == 2
    opened = made.model_copy(update={"tenant_required": False})
    assert len(opened.vectorstore.similarity_search(QUESTION)) == 4
    assert len(store.similarity_search(QUESTION)) == 4
    of_x = gate.model_copy(update={"retriever": gate.retriever.model_copy(update={"tenant": X})})
    assert of_x.drift([QUESTION] * 40) is None or isinstance(of_x.drift([QUESTION] * 40), str)
