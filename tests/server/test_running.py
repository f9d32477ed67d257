"""What clients that send nothing, or not all of it, may take of a server."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.server.conftest import running, until
from uec_rag.server.protections import protections
from uec_rag.server.running import SETTINGS

HALF = b"GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Header: "


arrived, released = [], threading.Event()
"""The requests that wait, and whether they are answered."""


@contextmanager
def port_of(**limits):
    """The port of a server, as `serve` runs it."""

    async def page(request):
        if "wait" in request.query_params:
            arrived.append(request)
            while not released.is_set():
                await asyncio.sleep(0.01)
        return PlainTextResponse("a page")

    app = Starlette(routes=[Route("/page", page)], middleware=protections(None))
    with running(app, **SETTINGS | limits | {"log_config": None}) as address:
        yield httpx.URL(address).port


def is_closed(connection):
    connection.settimeout(600)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def half_sent(port, text=HALF):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(text)
    return connection


def drip(connection):
    for _ in range(6000):
        connection.sendall(b"x")
        time.sleep(0.1)


def test_half_sent_requests_keep_no_one_out():
    with port_of(limit_concurrency=9, timeout_keep_alive=600) as port:
        waiting = [half_sent(port) for _ in range(100)]
        for _ in range(3):
            assert httpx.get(f"http://127.0.0.1:{port}/page", timeout=600).text == "a page"
        assert all(map(is_closed, waiting[:92]))
        for connection in waiting:
            connection.close()


@pytest.mark.parametrize("first", [b"", b"GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_a_request_has_so_long_to_come(first):
    with port_of(timeout_keep_alive=1) as port, half_sent(port, first + HALF) as connection:
        if first:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionError):
            drip(connection)


@pytest.mark.parametrize("first", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_what_is_hidden_behind_a_request_of_two_lengths_gets_no_answer(first):
    lengths = [first, *({"Content-Length: 5", "Transfer-Encoding: chunked"} - {first})]
    head = "POST /page HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    hidden = "GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    sent = head + "\r\n".join(lengths) + f"\r\n\r\n0\r\n\r\n{hidden}"
    with port_of() as port, half_sent(port, sent.encode()) as connection:
        connection.settimeout(600)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_if_all_connections_are_busy_one_more_is_told_to_come_again():
    with port_of(limit_concurrency=4) as port, ThreadPoolExecutor(3) as pool:
        address = f"http://127.0.0.1:{port}/page"
        busy = [pool.submit(httpx.get, f"{address}?wait=1", timeout=600) for _ in range(3)]
        until(lambda: len(arrived) == 3)
        assert httpx.get(address, timeout=600).status_code == 503
        released.set()
        assert [one.result().text for one in busy] == ["a page"] * 3
        assert httpx.get(address, timeout=600).text == "a page"
