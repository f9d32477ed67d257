import asyncio
import hmac

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.helpers import data_of, rows_of
from tests.server.conftest import HOST, TOKEN, asgi_scope
from uec_rag.server import access
from uec_rag.server.access import Access, Guard, Limits, limits_of, sanitise
from uec_rag.server.running import LogFormatter, listen

SECRET = "postgresql://me:hunter2@db.local/x in '/home/me/my docs/idx'"


def guarded(**access):
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
    return TestClient(Guard(Starlette(routes=routes), Access(**access)), base_url=f"http://{HOST}")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("host", ["0.0.0.0", "::", "192.168.0.7", "a.example"], "a token is needed: --token TOKEN"),
        ("token", ["", "short", "with blanks in its middle", "é" * 20], "expected at least 16"),
        ("origins", [["*"], ["a.example"], ["https://a.b/x"], ["https://*.x"]], "--cors: expected"),
    ],
)
def test_access_that_would_be_open_is_refused(name, values, message):
    for value in values:
        with pytest.raises(ValueError, match=message):
            Access(**{name: value})
        if name == "host":
            assert "unencrypted" in Access(value, TOKEN).warning


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_alone_needs_no_token(host):
    assert Access(host).warning is None


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
    client = guarded(token=TOKEN)
    assert client.get("/page", headers=given).status_code == status
    assert client.get("/healthz", headers=given).status_code == 200


def test_tokens_are_compared_in_constant_time(monkeypatch):
    seen = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: seen.append(both))
    guarded(token=TOKEN).get("/page", headers={"Authorization": "Bearer nearly"})
    assert seen == [(b"nearly", TOKEN.encode())]


@pytest.mark.parametrize("row", rows_of("hosts.csv"), ids=lambda row: row["host"])
def test_a_foreign_name_that_points_here_is_refused(row):
    """Whether the server's own name was given as its host, however spelt, or as another name."""
    own = {"host": "Docs.Example.com", "token": TOKEN}
    for given in ({"names": ("docs.example.com",)}, own):
        found = guarded(**given).get("/healthz", headers={"Host": row["host"]})
        assert found.status_code == int(row["status"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": f"http://{HOST}"}, 200),
        ({"Origin": "https://docs.example.com"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": f"http://evil.example/?//{HOST}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_page_of_another_site_can_write_nothing(headers, status):
    client = guarded(names=("docs.example.com",))
    assert client.post("/page", headers=headers).status_code == status


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_refused_whatever_it_announced(announced):
    client = guarded(limits=Limits(body=1000))
    pieces = [b"x" * 300] * 4
    assert client.post("/page", content=b"".join(pieces[:3])).status_code == 200
    found = client.post("/page", content=b"".join(pieces) if announced else iter(pieces))
    assert found.status_code == 413
    assert "more than 1,000 bytes; send less" in found.text


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
    [record] = [record for record in caplog.records if record.name == "uec_rag.server"]
    line = LogFormatter().format(record)
    assert "RuntimeError: no way into postgresql://db.local/x in 'idx'" in line
    record.msg, record.args, record.exc_info = "asked: %s", ("a\nERROR b\x1b[2J",), None
    assert LogFormatter().format(record).endswith(": asked: a ERROR b\\x1b[2J")
    for hidden in ("hunter2", "/home", "my docs", "\x1b", "\n", "Traceback", ".py"):
        assert hidden not in line


@pytest.mark.parametrize(("text", "shown"), data_of("sanitised.json"))
def test_folders_passwords_and_controls_are_not_shown(text, shown):
    assert sanitise(text) == shown


@pytest.mark.parametrize(
    "given", ["body", "body=", "body=0", "body=-1", "body=1e3", "size=3", "=3"]
)
def test_a_limit_is_a_known_name_and_a_number(given):
    assert limits_of(["body=7", "answer=1000", "body=20"]) == Limits(answer=1000, body=20)
    with pytest.raises(ValueError, match=r"--limit: expected NAME=NUMBER .* names body, answer, c"):
        limits_of([given])


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(access, "_BODY_SECONDS", 0.05)
    guard = guarded(limits=Limits(body=1)).app
    came, sent = [{"type": "http.request", "body": b"", "more_body": True}], []

    async def receive():
        return came.pop() if came else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await asyncio.wait_for(guard(asgi_scope("POST", "/page"), receive, send), 60)
    assert sent[0]["status"] == 408
    assert b"took too long" in sent[1]["body"]


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.name.invalid"])
def test_an_address_that_is_not_this_machines_is_named_and_not_the_port(host):
    with pytest.raises(OSError, match=f"--host {host}: expected an address or name of this"):
        listen(host, 0)
