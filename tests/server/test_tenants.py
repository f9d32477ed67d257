"""A server that has tenants: what is empty is not everybody, and nothing of all is shown."""

import json

import pytest
from starlette.testclient import TestClient

from tests.helpers import data_of
from tests.server.conftest import HOST
from uec_rag import UEC, Retriever
from uec_rag.server import create_app

QUESTION = "Who repairs the camera?"
TEXTS = {
    "a": "# Amber cameras\n\nWho repairs the amber camera? Ann repairs it in the cellar.",
    "b": "# Bronze cameras\n\nWho repairs the bronze camera? Bob repairs it in the attic.",
}
EMPTY = [None, "", [], {}, "{}", " ", "null", "[]", {"$and": []}, {"x": {"$nin": []}}]
ALSO_EMPTY = [{"$or": [{}]}, {"$not": {"x": {"$in": []}}}, {"$not": {"$id": []}}, '{"$and": [{}]}']


@pytest.fixture(scope="module")
def index():
    made = Retriever(UEC(["bm25"]), fit=False)
    made.add(
        TEXTS.values(),
        [*TEXTS],
        [{"t": letter, "title": text.split()[1]} for letter, text in TEXTS.items()],
    )
    return made


def client_of(index, **options):
    return TestClient(create_app(index, **options), base_url=f"http://{HOST}")


@pytest.mark.parametrize("tenants", [False, True])
@pytest.mark.parametrize("tenant", [*EMPTY, *ALSO_EMPTY, 7, True, "a", [{"t": "a"}]], ids=repr)
def test_a_tenant_that_is_empty_is_refused(index, tenant, tenants):
    client = client_of(index, tenants=tenants, write=True)
    found = client.post("/ask", json={"question": QUESTION, "tenant": tenant})
    assert (found.status_code, "tenant" in found.json()["detail"]) == (422, True)
    found = client.post("/questions", json={"tenant": tenant})
    assert (found.status_code, "tenant" in found.json()["detail"]) == (422, True)


@pytest.mark.parametrize("tenant", [{"t": "a"}, '{"t": "a"}', {"t": {"$in": ["a"]}}])
def test_a_server_with_tenants_answers_each_from_its_own(index, tenant):
    client = client_of(index, tenants=True)
    found = client.post("/ask", json={"question": QUESTION, "tenant": tenant}).json()
    assert [passage["id"] for passage in found["passages"]] == ["a"]
    found = client.post("/ask", json={"question": QUESTION})
    assert (found.status_code, "tenant: expected" in found.json()["detail"]) == (422, True)


def test_no_heading_and_no_number_of_all_is_shown(index):
    plain, client = client_of(index, write=True), client_of(index, write=True, tenants=True)
    assert plain.get("/index").json()["passages"] == 2
    assert "Bronze" in json.dumps(plain.get("/index").json())
    described = client.get("/index").json()
    assert (described["passages"], described["examples"]) == (None, [])
    assert "Bronze" not in json.dumps(described)
    assert client.post("/questions", json={}).status_code == 422
    for one in (client, plain):
        asked = one.post("/questions", json={"tenant": {"t": "a"}}).text
        assert ("mber" in asked, "ronze" in asked) == (True, False)


@pytest.mark.parametrize("path", ["/ask", "/questions", "/report", "/gate"])
@pytest.mark.parametrize(
    "query", ['?tenant={"t": "a"}', "?tenant=", "?filter={}", "?k=2", "?Tenant=a"]
)
def test_a_query_string_is_not_dropped(index, path, query):
    client = client_of(index, write=True)
    found = client.post(path + query, json={"question": QUESTION} if path == "/ask" else {})
    assert (found.status_code, "query string" in found.json()["detail"]) == (422, True)
    for read in ("/index", "/labels", "/healthz"):
        assert client.get(f"{read}?tenant=a").status_code == 422


BODIES = data_of("tenants.json")


@pytest.mark.parametrize("body", BODIES)
def test_a_key_that_is_there_twice_is_refused(index, body):
    given = {"content": body, "headers": {"Content-Type": "application/json"}}
    assert client_of(index).post("/ask", **given).status_code == 422


def test_a_label_is_named_once_in_a_query_string(index):
    client = client_of(index, write=True)
    assert client.delete("/labels?question=who&question=what").status_code == 422
    assert client.delete("/labels?question=who&tenant=a").status_code == 422
