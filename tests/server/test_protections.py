"""Who may ask a server, and how much, whatever application it protects."""

import asyncio
import logging

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.helpers import data_of, rows_of
from tests.server.conftest import HOST, TOKEN, serving
from uec_rag.server.errors import HANDLERS, sanitise
from uec_rag.server.protections import BODY, check_access, is_local, protections
from uec_rag.server.running import LogFormatter

SECRET = "postgresql://me:hunter2@db.local/x in '/home/me/my docs/idx'"


def guarded(token=None, *options, open_paths=("/healthz",)):
    """A client of an application with a page to read, one to write to, and one that fails."""

    async def page(request):
        return PlainTextResponse(f"{len(await request.body())} bytes")

    async def fails(request):
        raise RuntimeError(f"no way into {SECRET}\x1b[2J")

    routes = [
        Route("/healthz", page),
        Route("/page", page, methods=["GET", "POST"]),
        Route("/fails", fails),
    ]
    guards = protections(token, *options, open_paths=open_paths, probes=["/healthz"])
    app = Starlette(routes=routes, middleware=guards, exception_handlers=HANDLERS)
    return TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("host", "token", "names", "origins", "message"), data_of("open_access.json")
)
def test_access_that_would_be_open_is_refused(host, token, names, origins, message):
    with pytest.raises(ValueError, match=message):
        check_access(host, token, names, origins)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_alone_needs_no_token(host):
    assert is_local(host)
    check_access(host, None, ["docs.example.com"], ["http://localhost:3000"])


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": "Bearer é".encode()}, 401),
        ({"Authorization": f"bearer {TOKEN}"}, 200),
    ],
)
def test_a_request_brings_the_token(given, status):
    client = guarded(TOKEN)
    answer = client.get("/page", headers=given)
    assert answer.status_code == status
    assert status == 200 or answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/healthz", headers=given).status_code == 200


@pytest.mark.parametrize("row", rows_of("hosts.csv"), ids=lambda row: row["host"])
def test_a_foreign_name_that_points_here_is_refused(row):
    client = guarded(None, ["Docs.Example.com"])
    found = client.get("/page", headers={"Host": row["host"]})
    assert found.status_code == int(row["status"])


@pytest.mark.parametrize("row", rows_of("clients.csv"), ids=lambda row: row["who"])
def test_probes_compose_names_and_proxies_are_answered(index, row):
    headers = {"Host": row["host"], "Authorization": f"Bearer {TOKEN}"}
    headers |= {"Origin": row["origin"]} if row["origin"] else {}
    if row["who"].startswith("a probe"):
        del headers["Authorization"]
    names = ["search", "Docs.Example.com"]
    with serving(index, token=TOKEN, names=names) as client:
        body = None if row["path"] == "/healthz" else {"question": "Who may park?"}
        found = client.request(row["method"], row["path"], headers=headers, json=body)
    assert found.status_code == int(row["status"])


@pytest.mark.parametrize(("headers", "status"), data_of("origins.json"))
def test_a_page_of_another_site_can_write_nothing(headers, status):
    client = guarded(None, ["docs.example.com"], ["https://app.example.com"])
    assert client.post("/page", headers=headers).status_code == status


def test_pages_of_a_named_origin_may_ask_and_read_refusals():
    named = "https://app.example.com"
    client = guarded(TOKEN, [], [named])
    before = {"Origin": named, "Access-Control-Request-Method": "POST"}
    assert client.options("/page", headers=before).headers["access-control-allow-origin"] == named
    refused = client.post("/page", headers={"Origin": named})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, named)
    foreign = client.post("/page", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_refused_whatever_it_announced(announced):
    client, pieces = guarded(), [b"x" * (BODY // 4)] * 5
    assert client.post("/page", content=b"".join(pieces[:4])).status_code == 200
    found = client.post("/page", content=b"".join(pieces) if announced else iter(pieces))
    assert found.status_code == 413


def test_every_answer_says_that_it_is_what_it_says_it_is():
    client = guarded()
    for path in ("/page", "/nowhere", "/fails"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"


def test_a_failure_shows_neither_the_caller_nor_the_log_where_things_are(caplog):
    found = guarded().get("/fails")
    said = {"detail": "The server failed on this request; its log says why."}
    assert (found.status_code, found.json()) == (500, said)
    failure = RuntimeError(f"no way into {SECRET}\x1b[2J")
    caplog.clear()
    logging.getLogger("uvicorn.error").error("failed", exc_info=failure)
    [record] = caplog.records
    line = LogFormatter().format(record)
    assert "RuntimeError: no way into postgresql://db.local/x in 'idx'" in line
    record.msg, record.args, record.exc_info = "asked: %s", ("a\nERROR b\x1b[2J",), None
    assert LogFormatter().format(record).endswith(": asked: a ERROR b\\x1b[2J")
    for hidden in ("hunter2", "/home", "my docs", "\x1b", "\n", "Traceback", ".py"):
        assert hidden not in line


@pytest.mark.parametrize(("text", "shown"), data_of("sanitised.json"))
def test_folders_passwords_and_controls_are_not_shown(text, shown):
    assert sanitise(text) == shown


async def page(request):
    return PlainTextResponse(await request.body())


async def answered(*messages, **limits):
    """What an application answers to a request whose body stops after some messages."""
    routes = [Route("/page", page, methods=["POST"])]
    app = Starlette(routes=routes, middleware=protections(None, **limits))
    came, sent = [*messages], []

    async def receive():
        return came.pop(0) if came else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    known = {"headers": [(b"host", HOST.encode())], "query_string": b""}
    scope = {"type": "http", "method": "POST", "path": "/page", **known}
    await asyncio.wait_for(app(scope, receive, send), 600)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize("end", [[], [{"type": "http.disconnect"}]])
async def test_a_body_that_does_not_come_is_not_waited_for(end):
    begun = {"type": "http.request", "body": b"x", "more_body": True}
    status, body = await answered(begun, *end, seconds=0.5)
    assert (status, b"took too long" in body) == (408, True)


@pytest.mark.parametrize(("length", "status"), [(10, 200), (11, 422)])
async def test_an_answer_that_would_be_too_long_is_refused(length, status):
    found, body = await answered({"type": "http.request", "body": b"x" * length}, limit=10)
    assert found == status
    assert status == 200 or b"more than 10 bytes; ask for fewer" in body
