"""The HTTP API: what the Python API gives, and no request costs another."""

import asyncio
import itertools
import json
import logging
import shutil

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.helpers import data_of
from tests.server.conftest import ESCAPES, HOST, SCRIPT, TEXTS, TOKEN, make, serving
from uec_rag import UEC, Retriever
from uec_rag.gates import Gate
from uec_rag.server import create_app, create_mcp
from uec_rag.server.running import LogFormatter, log_to_stderr

PARKING = {"question": "who may park in the yard", "k": 3}


def nested(depth):
    found = {"source": "x"}
    for _ in range(depth):
        found = {"$and": [found]}
    return found


def test_a_slash_behind_a_path_sends_nobody_elsewhere(client):
    assert client.post("/ask/", json=PARKING, follow_redirects=False).status_code == 404


def test_an_answer_is_what_the_python_api_gives(client, index):
    [result] = Retriever.load(index).search([PARKING["question"]], 3)
    asked = client.post("/ask", json=PARKING).json()
    assert asked["question"] == PARKING["question"]
    assert [each["id"] for each in asked["passages"]] == result.ids
    assert asked["passages"][0]["metadata"] == result.passages[0].metadata
    for name, of in {"score": "scores", "mu": "mu", "sigma2": "sigma2"}.items():
        assert np.allclose([each[name] for each in asked["passages"]], getattr(result, of))
    known = result.metadata(0, details=True)
    expected = pytest.approx(known["uec_encoders"]["bm25"], rel=1e-5)  # it is rounded
    assert asked["passages"][0]["encoders"]["bm25"] == expected
    decision = result.decision
    assert (asked["decision"], asked["reason"]) == (decision.action, decision.reason)
    for name in ("confidence", "in_corpus", "underspecified"):
        assert asked[name] == pytest.approx(getattr(decision, name), rel=1e-5)
    numbers = [asked["confidence"], *(each["score"] for each in asked["passages"])]
    assert numbers == [float(f"{number:.6g}") for number in numbers]


def test_a_gate_that_is_saved_while_the_server_runs_decides_from_then_on(client, index):
    assert client.post("/ask", json=PARKING).json()["threshold"] == 0.5
    Gate(0.75).save(index / "gate.json")
    assert client.post("/ask", json={**PARKING, "k": 1}).json()["threshold"] == 0.75


async def test_an_index_that_takes_the_place_of_another_is_served_next(client, index):
    server = create_mcp(Retriever.load(index))
    shutil.rmtree(index)
    make({"bees": "Bees sleep in the hive."}).save(index)
    asked = {"question": "where do bees sleep"}
    assert [hit["id"] for hit in client.post("/ask", json=asked).json()["passages"]] == ["bees"]
    assert client.get("/index").json()["passages"] == 1
    found = await server.call_tool("search", asked)
    assert [hit["id"] for hit in found.structuredContent["passages"]] == ["bees"]
    assert (await server.call_tool("sources", {}))[1] == {"sources": {"bees.md": 1}}


def test_a_request_is_one_line_of_the_log_without_what_was_asked(client, caplog):
    caplog.set_level(logging.INFO, "uec_rag.server.requests")
    client.post("/ask", json=PARKING)
    client.get("/zebra?token=x")
    lines = [one.getMessage() for one in caplog.records if one.name == "uec_rag.server.requests"]
    assert [line.rsplit(" ", 2)[0] for line in lines] == ["POST /ask 200", "GET other 404"]


def test_a_key_that_no_passage_has_is_not_logged(index, capsys):
    log_to_stderr()
    with serving(index) as client:
        found = client.post("/ask", json={"question": "the mill", "filter": {"zebra": 1}})
    assert (found.status_code, found.json()["passages"]) == (200, [])
    assert "zebra" not in capsys.readouterr().err


@pytest.mark.parametrize(("sent", "meant"), data_of("arguments.json"), ids=str)
async def test_arguments_are_taken_as_models_and_clients_send_them(client, index, sent, meant):
    question = {"question": "and who may park there"}
    server = create_mcp(Retriever.load(index))
    expected = client.post("/ask", json=question | meant).json()
    assert client.post("/ask", json=question | sent).json() == expected
    found = await server.call_tool("search", question | sent)
    for passage in expected["passages"]:
        del passage["text"]  # which the content has
    assert {name: found.structuredContent[name] for name in expected} == expected
    if meant:
        assert expected != client.post("/ask", json=question).json()


MANY = {f"key{number}": 1 for number in range(50_000)}
LONG = "~/" * 20_000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *data_of("wrong_questions.json"),
        ({"question": "x" * 8001}, "question: String should have at most 8000"),
        ({"question": LONG}, "question: String should have at most 8000"),
        ({"question": "x", "filter": nested(60)}, "at most 64 levels"),
        ({"question": "x", "filter": nested(400)}, "at most 64 levels"),
        ({"question": "x", "filter": {f"k{i}": 1 for i in range(101)}}, "at most 100 conditions"),
        ({"question": "x", "filter": {"$and": [{"k": 1}] * 10_000}}, "at most 100 conditions"),
        ({"question": "x", "filter": {"k" * 1001: 1}}, "at most 1,000 characters in a key"),
        ({"question": "x", "filter": {"k": {"$in": [*range(10_001)]}}}, "at most 10,000 values"),
        ("[" * 200_000, ""),
        ('{"question":"x","filter":' + '{"a":' * 5000 + "1" + "}" * 5001, ""),
        ({"question": "x", "history": [" "] * 60_000}, "history: List should have at most 1000"),
        ({"question": "x", "history": [1] * 450_000}, "history.0.str: Input should be a valid"),
        ({"question": "x", "history": [{"role": "x", "content": ""}] * 900}, "history.0.Message"),
        ({"question": "x", "within": [1] * 450_000}, "Input should be a valid string"),
        ({"question": "x", "within": MANY}, "Input should be a valid string"),
        ({"question": "x", LONG: 1}, "Extra inputs are not permitted"),
        ({"question": "x", "filter": {"$" + LONG: 1}}, "filter: expected a metadata key"),
        ({"question": "x", "filter": {"year": {"$" + LONG: 1}}}, "has the unknown operator"),
        ({"question": "x", "filter": MANY}, "filter: expected at most 100 conditions"),
        (MANY, "question: Field required"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong_without_repeating_it(client, body, message):
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    found = client.post("/ask", content=text, headers={"Content-Type": "application/json"})
    assert found.status_code in ((422,) if message else (400, 422))
    assert message in found.json()["detail"]
    assert len(found.text) < 1000
    assert client.post("/ask", json=PARKING).status_code == 200


def test_a_form_of_another_page_is_no_question(client):
    form = client.post("/ask", content=json.dumps(PARKING), headers={"Content-Type": "text/plain"})
    assert form.status_code == 422


@pytest.mark.parametrize(("method", "path", "body"), data_of("paths_that_write.json"))
def test_nothing_is_written_unless_it_is_allowed(index, method, path, body):
    with serving(index) as client:
        found = client.request(method, path, json=body)
    assert (found.status_code, "--write" in found.json()["detail"]) == (403, True)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ConnectionError("http://me:hunter2@db/x does not answer"), 503, "The index cannot be re"),
        (BlockingIOError(), 409, "Another process is saving the index; nothing was changed."),
        (RuntimeError("hunter2"), 500, "The server failed on this request; its log says why."),
    ],
)
def test_what_is_not_the_clients_fault_is_told_without_where_things_are(
    index, monkeypatch, caplog, error, status, said
):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(UEC, "encode", fails)
    with serving(index, raises=False) as client:
        found = client.post("/ask", json=PARKING)
    assert (found.status_code, found.json()["detail"][: len(said)]) == (status, said)
    lines = "".join(LogFormatter().format(record) for record in caplog.records)
    assert "me:hunter2" not in lines


@pytest.mark.slow
def test_what_a_passage_holds_is_data_and_too_much_of_it_is_refused_alone(index):
    long = "zebra " + "x" * 10_000_000
    make(TEXTS | {"long": long, "longer": f"{long} ibex"}).save(index)
    with serving(index) as client:
        asked = [("alert", "script", SCRIPT), ("gnu", "escapes", ESCAPES), ("zebra", "long", long)]
        for question, id_, text in asked:
            found = client.post("/ask", json={"question": question, "k": 1})
            assert found.headers["content-type"] == "application/json"
            [document] = found.json()["passages"]
            assert (document["id"], document["text"]) == (id_, text)
            assert "\x1b" not in found.text
        both = client.post("/ask", json={"question": "zebra", "k": 2})
    assert (both.status_code, "ask for fewer (k)" in both.text) == (422, True)


def test_the_description_has_examples_and_pages_need_no_token_and_load_nothing_else(index):
    with serving(index, write=True, token=TOKEN) as client:
        for path in ("/openapi.json", "/metrics"):
            assert client.get(path).status_code == 401
        for path in ("/", "/docs"):
            page = client.get(path)
            assert (page.status_code, page.headers["content-type"][:9]) == (200, "text/html")
            assert "http" not in page.text
            assert "unsafe" not in page.headers["content-security-policy"]
        for path in ("page.js", "docs.js", "page.css"):
            assert client.get(f"/static/{path}").status_code == 200
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        found = client.get("/openapi.json").json()
        statuses = [client.get(path).status_code for path in ("/metrics", "/redoc")]
        assert statuses == [200, 404]
    assert {*found["paths"]} == {
        *("/ask", "/gate", "/index", "/labels", "/metrics", "/questions", "/report"),
        "/healthz",
    }
    schemas = found["components"]["schemas"]
    assert schemas["Question"]["examples"] == [{"question": "How do I reset my password?", "k": 3}]
    assert found["paths"]["/ask"]["post"]["operationId"] == "ask"
    assert found["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"


@pytest.mark.slow
async def test_others_are_answered_while_a_request_is_checked(index):
    app, turns = create_app(Retriever.load(index)), itertools.count()

    async def take_turns():
        while next(turns) >= 0:
            await asyncio.sleep(0)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        others = asyncio.create_task(take_turns())
        large = {"question": "who?", "filter": {"tags": {"$in": [[]] * 200_000}}}
        found = await client.post("/ask", json=large)
        others.cancel()
    assert "filter: expected at most 10,000 values" in found.text
    assert next(turns) > 100  # a few dozen, if the check holds the loop


def test_an_application_is_mounted_in_another():
    outer = FastAPI()
    outer.mount("/idx", create_app(make(), token=TOKEN))
    client = TestClient(outer, base_url=f"http://{HOST}")
    assert [client.get(f"/idx/{path}").status_code for path in ("", "healthz")] == [200, 200]
    known = {"Authorization": f"Bearer {TOKEN}"}
    for headers, status in (({}, 401), (known, 200)):
        assert client.post("/idx/ask", json=PARKING, headers=headers).status_code == status


def counted(client, name):
    """The value of a metric, by the name that Prometheus has for it."""
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_metrics_count_decisions_by_reason_and_seconds(client):
    decided = 'uec_rag_decisions_total{decision="%s",reason="'
    actions = ("answer", "clarify", "abstain")
    known = {action: counted(client, decided % action) for action in actions}
    before = counted(client, 'uec_rag_seconds_count{step="search"}')
    asked = [client.post("/ask", json={"question": q}).json() for q in ("zebra", "thanks!", "mill")]
    for action in actions:
        told = [one for one in asked if one["decision"] == action]
        assert counted(client, decided % action) == known[action] + len(told)
    assert counted(client, 'uec_rag_seconds_count{step="search"}') == before + 3
    assert counted(client, 'uec_rag_seconds_sum{step="search"}') > 0


def test_metrics_are_text_that_prometheus_reads_and_quote_no_question(client):
    client.post("/ask", json={"question": "who may park the aardvark"})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"uec_rag_decisions", "uec_rag_borderline", "uec_rag_seconds"} <= names
    assert {"uec_rag_advice_tokens", "uec_rag_advice_failures", "uec_rag_errors"} <= names
    assert "aardvark" not in answer.text
