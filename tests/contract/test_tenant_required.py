"""Where a tenant is required, nothing is searched, labelled, listed or counted without one."""

import asyncio
import csv

import pytest
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from starlette.testclient import TestClient

from tests.helpers import index_of
from uec_rag import UEC, Retriever, langchain, llama_index
from uec_rag.adapters.tool import count_by_source, report_of
from uec_rag.evaluation.labelling import questions_to_ask, questions_to_label, search_labels
from uec_rag.evaluation.rates import estimate_rates
from uec_rag.gates import Gate
from uec_rag.server import create_app, create_mcp
from uec_rag.stores.base import EVERYONE

QUESTION = "Who repairs the camera?"
TEXTS = [f"The camera of {name} is repaired by {name}." for name in ("Ann", "Bob", "Cleo", "Dan")]
CUSTOMERS = [{"customer": name} for name in ("north", "north", "south", "south")]
NORTH, SOUTH = {"customer": "north"}, {"customer": "south"}
THEIRS = MetadataFilters(filters=[MetadataFilter(key="customer", value="north")])
WORDS = UEC(["bm25"])


def filled(uec=WORDS, **options):
    index = Retriever(uec, fit=False, **options)
    index.add(TEXTS, [*"0123"], CUSTOMERS)
    return index


@pytest.fixture
def index():
    return filled(tenant_required=True)


@pytest.fixture
def saved(tmp_path):
    index = filled(tenant_required=True)
    index.save(tmp_path / "index")
    return Retriever.load(tmp_path / "index", WORDS)


def vector_of(index):
    return index.uec.embed([QUESTION], "query").mean[0]


CALLS = {
    "search": lambda index, **named: index.search([QUESTION], **named).ids,
    "asearch": lambda index, **named: asyncio.run(index.asearch([QUESTION], **named)).ids,
    "snapshot": lambda index, **named: index.snapshot().search([QUESTION], **named).ids,
    "view": lambda index, **named: index.with_gate(Gate(0.6)).search([QUESTION], **named).ids,
    "gate": lambda index, **named: Gate(0.6).search(index, [QUESTION], **named).ids,
    "passages": lambda index, **named: [[p.id for p in index.passages(**named)]],
    "filtered": lambda index, **named: [[p.id for p in index.passages({"$id": [*"012"]}, **named)]],
    "get": lambda index, **named: [[p.id for p in index.get([*"02"], **named)]],
    "count": lambda index, **named: [[*"0123"][: len(index.passages(**named))]],
    "labels of": lambda index, **named: [*index.labels_of(named.get("tenant", EVERYONE)).values()],
    "labelled": lambda index, **named: [
        result.ids for result in questions_to_label(index, [QUESTION], 3, **named)
    ],
    "from_labels": lambda index, **named: [
        Gate.from_labels(index, [QUESTION] * 20, [["0"]] * 20, **named) and ["0"]
    ],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_without_a_tenant_is_refused(index, call):
    for named in ({}, {"tenant": EVERYONE}, {"tenant": None}):
        with pytest.raises(ValueError, match=r"tenant: expected a filter.*Pass one"):
            call(index, **named)
    hits = {id_ for ids in call(index, tenant=NORTH) for id_ in ids}
    assert hits <= {"0", "1"}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_none_is_never_everyone(call):
    index = filled()
    with pytest.raises(ValueError, match=r"got None\. Leave it out"):
        call(index, tenant=None)
    call(index)
    call(index, tenant=EVERYONE)
    with pytest.raises(ValueError, match="selects all of them"):
        call(index, tenant={})


def test_numbers_and_lists_of_everyone_are_closed(saved):
    for closed in (
        lambda: len(saved),
        lambda: saved.labels,
        lambda: saved.label(QUESTION, ["0"]),
        lambda: saved.vectors(["0"]),
        lambda: questions_to_ask(saved),
        lambda: search_labels(saved),
        lambda: estimate_rates(saved),
        lambda: count_by_source(saved),
        lambda: report_of(saved),
    ):
        with pytest.raises(ValueError, match="tenant: expected a filter"):
            closed()
    assert saved  # which tells no number
    saved.add(["The camera of Eve is repaired by Eve."], ["4"], [SOUTH])
    saved.delete(["4"])
    assert len(saved.passages(tenant=NORTH)) == 2
    assert report_of(saved.of_tenant(NORTH)).startswith("2 passages.")


def test_vectors_are_those_of_the_tenant():
    index = index_of(
        UEC([lambda texts: [[len(text), 1.0] for text in texts]]), TEXTS, [*"0123"], CUSTOMERS
    )
    index.tenant_required = True
    assert len(index.vectors(["0"], tenant=NORTH).mean) == 1
    for ids in (["2"], ["0", "2"], ["unknown"]):
        with pytest.raises(KeyError, match="is not in the store"):
            index.vectors(ids, tenant=NORTH)
    vector = vector_of(index)
    with pytest.raises(ValueError, match="tenant: expected a filter"):
        index.search_vector(vector)
    assert {*index.search_vector(vector, tenant=NORTH).ids[0]} == {"0", "1"}


def test_labels_of_a_tenant_are_apart(saved, tmp_path):
    saved.label(QUESTION, ["0"], tenant=NORTH)
    saved.label(QUESTION, ["2"], tenant=SOUTH)
    saved.label("Who repairs the lamp?", [], tenant=SOUTH)
    with pytest.raises(ValueError, match="relevant_ids: expected ids of passages"):
        saved.label(QUESTION, ["2"], tenant=NORTH)
    with pytest.raises(TypeError, match="tenant: expected a mapping"):
        saved.label(QUESTION, ["0"], tenant=lambda passage: True)
    again = Retriever.load(tmp_path / "index", WORDS)
    assert again.tenant_required
    for index in (saved, again):
        assert index.labels_of(NORTH) == {QUESTION: {"0"}}
        assert index.labels_of({"customer": "south"}) == {
            QUESTION: {"2"},
            "Who repairs the lamp?": set(),
        }
        assert index.labels_of({"customer": "east"}) == {}
    assert search_labels(again, tenant=NORTH).relevant == [{"0"}]
    again.label(QUESTION, None, tenant=NORTH)
    assert again.labels_of(NORTH) == {}
    again.tenant_required = False
    assert again.labels == {}
    again.save(tmp_path / "copy")
    copy = Retriever.load(tmp_path / "copy", WORDS)
    assert copy.labels_of(SOUTH)[QUESTION] == {"2"}
    assert not copy.tenant_required


def test_rates_of_a_tenant_count_its_passages_alone(index):
    assert estimate_rates(index, tenant=NORTH)["facts"]["passages"] == 2


def test_a_table_of_labels_is_searched_among_a_tenants_passages(index, tmp_path):
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["query", "relevant_ids"], [QUESTION, "0"]])
    searched = search_labels(index, tmp_path / "labels.csv", tenant=NORTH)
    assert {*searched.result.ids[0]} == {"0", "1"}


class TestInLangChain:
    @pytest.fixture
    def made(self):
        return langchain.UECRetriever.from_texts(
            TEXTS, WORDS, CUSTOMERS, [*"0123"], fit=False, tenant_required=True
        )

    def test_a_retriever_and_a_gate_are_closed_without_a_tenant(self, made):
        free = made.model_copy(update={"tenant_required": False})
        gate = langchain.UECGate(retriever=free, tenant_required=True)
        for one in (made, gate, langchain.UECGate(retriever=made)):
            for call in (
                lambda one=one: one.invoke(QUESTION),
                lambda one=one: one.invoke(QUESTION, filter=NORTH),
                lambda one=one: one.invoke(QUESTION, tenant=EVERYONE),
                lambda one=one: asyncio.run(one.ainvoke(QUESTION)),
                lambda one=one: one.as_tool().invoke(QUESTION),
                lambda one=one: langchain.retrieval_node(one).invoke({"question": QUESTION}),
            ):
                with pytest.raises(ValueError, match="tenant: expected a filter"):
                    call()
            for call in (one.bind(tenant=NORTH), one):
                found = call.invoke({"question": QUESTION, "tenant": NORTH})
                found = found["documents"] if isinstance(found, dict) else found
                assert {document.id for document in found} == {"0", "1"}
        assert len(free.invoke(QUESTION)) == 4
        with pytest.raises(TypeError, match="tenant_required: a UECGate over Runnable"):
            langchain.UECGate(retriever=free.bind(k=3) | (lambda hits: hits), tenant_required=True)

    @pytest.mark.parametrize("given", [None, {}])
    def test_none_is_refused_where_a_retriever_is_made(self, made, given):
        store = made.vectorstore
        for make in (
            lambda: langchain.UECRetriever(vectorstore=store, tenant=given).invoke(QUESTION),
            lambda: store.as_retriever(tenant=given).invoke(QUESTION),
            lambda: store.as_retriever(search_kwargs={"tenant": given}).invoke(QUESTION),
        ):
            with pytest.raises(ValueError, match="expected a filter"):
                make()

    def test_a_store_is_closed_without_a_tenant(self, made):
        store = langchain.UECVectorStore(made.index, tenant_required=True)
        for call, ids in (
            (store.similarity_search, {"0", "1"}),
            (store.max_marginal_relevance_search, {"0", "1"}),
            (lambda _, **named: store.get_by_ids(["0", "2"], **named), {"0"}),
        ):
            for named in ({}, {"tenant": None}):
                with pytest.raises(ValueError, match="tenant: expected a filter"):
                    call(QUESTION, **named)
            assert {document.id for document in call(QUESTION, tenant=NORTH)} == ids
        for scored in (
            store.similarity_search_with_score,
            store.similarity_search_with_relevance_scores,
        ):
            with pytest.raises(ValueError, match="tenant: expected a filter"):
                scored(QUESTION)
            assert {document.id for document, _ in scored(QUESTION, tenant=NORTH)} == {"0", "1"}
        store.delete(["3"])
        store.add_texts(["The camera of Eve."], [SOUTH], ids=["4"])


class TestInLlamaIndex:
    def test_a_retriever_is_closed_without_a_tenant(self):
        index = filled()
        for tenant in (NORTH, THEIRS):
            made = llama_index.UECRetriever(index, tenant=tenant, tenant_required=True)
            assert {hit.node_id for hit in made.retrieve(QUESTION)} == {"0", "1"}
            made.tenant = EVERYONE
            with pytest.raises(ValueError, match="tenant: expected a filter"):
                made.retrieve(QUESTION)
        for options in ({"tenant_required": True}, {"tenant": None}):
            with pytest.raises(ValueError, match="tenant: expected a filter"):
                llama_index.UECRetriever(index, **options)

    async def test_a_store_is_closed_without_a_tenant(self):
        store = llama_index.UECVectorStore(filled(), tenant_required=True)
        query = VectorStoreQuery(query_str=QUESTION, similarity_top_k=4)
        for named in ({}, {"tenant": None}):
            for call in (
                lambda named=named: store.query(query, **named),
                lambda named=named: store.get_nodes(["0", "2"], **named),
                lambda named=named: store.get_nodes(**named),
            ):
                with pytest.raises(ValueError, match="tenant: expected a filter"):
                    call()
            with pytest.raises(ValueError, match="tenant: expected a filter"):
                await store.aquery(query, **named)
        for tenant in (NORTH, THEIRS):
            assert {*store.query(query, tenant=tenant).ids} == {"0", "1"}
            assert [n.node_id for n in store.get_nodes(["0", "2"], tenant=tenant)] == ["0"]
            assert {n.node_id for n in store.get_nodes(tenant=tenant)} == {"0", "1"}
        store.delete_nodes(["3"])


def test_a_server_asks_for_what_its_index_requires(saved):
    with TestClient(create_app(saved, write=True), base_url="http://localhost") as client:
        asked = {"question": QUESTION}
        assert client.post("/ask", json=asked).status_code == 422
        found = client.post("/ask", json={**asked, "tenant": NORTH}).json()
        assert {passage["id"] for passage in found["passages"]} == {"0", "1"}
        assert client.get("/index").json()["passages"] is None
        assert client.get("/labels").status_code == 422
        assert client.post("/report", json={}).status_code == 422


async def test_agents_need_a_filter_where_the_index_requires_a_tenant(index):
    for tool, given in (
        ("search", {"question": QUESTION}),
        ("get", {"ids": ["0"]}),
        ("sources", {}),
    ):
        with pytest.raises(Exception, match="tenant: expected a filter"):
            await create_mcp(index).call_tool(tool, given)
        assert "Cleo" not in str(await create_mcp(index, NORTH).call_tool(tool, given))


def test_everyone_lifts_no_tenant():
    index = filled()
    made = langchain.UECRetriever.from_texts([], index, tenant=NORTH)
    for one in (made, langchain.UECGate(retriever=made), made.bind(tenant=NORTH)):
        for call in (
            lambda one=one: one.invoke(QUESTION, tenant=EVERYONE),
            lambda one=one: one.invoke({"question": QUESTION, "tenant": EVERYONE}),
            lambda one=one: one.bind(tenant=EVERYONE).invoke(QUESTION),
            lambda one=one: one.as_tool(tenant=EVERYONE) and one.invoke(QUESTION),
        ):
            found = call()
            found = found["documents"] if isinstance(found, dict) else found
            assert {document.id for document in found} == {"0", "1"}
