"""Servers that go while they are asked or written to, or refuse; and wrong addresses."""

import numpy as np
import pytest

from tests.helpers import assert_close
from tests.stores import qdrant_server
from tests.stores.qdrant_server import Refused
from tests.stores.test_contract import QUERY, gaussians, numbered
from tests.stores.test_contract_words import asking, with_words
from uec_rag.base import retries
from uec_rag.stores.qdrant import QdrantStore
from uec_rag.stores.urls import open_store

TRIES = 5
ASKED = {
    "search": lambda store: store.search(asking(9, 2), 5, beta=1.0).scores.tolist(),
    "passages": lambda store: [passage.id for passage in store.passages({"third": True})],
    "sample": lambda store: store.sample(600).mean.tolist(),
    "vectors": lambda store: store.vectors(["p3", "p299"]).mean.tolist(),
    "length": len,
}
CALLS = {
    **ASKED,
    "add": lambda store: store.add(numbered([7]), with_words(1, 1)),
    "delete": lambda store: store.delete(["p3"]),
}


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """How often somebody waited before another try; nobody does so for long."""
    seen = []
    monkeypatch.setattr(retries, "_wait", lambda state: seen.append(1) or 0.0)
    return seen


@pytest.fixture
def qdrant():
    with qdrant_server.running() as server:
        yield server


def hang_up(server, after, *, times):
    """Have a server hang up, so often, after some requests; return the list of those it had."""
    had = []

    def before(method, path):
        had.append(path)
        if after < len(had) <= after + times:
            raise ConnectionError

    server.before = before
    return had


@pytest.mark.parametrize("what", ASKED)
def test_a_server_that_goes_while_it_is_asked_is_an_error_and_never_a_part_of_an_answer(
    qdrant, what, waits
):
    store, ask = QdrantStore(url=qdrant.url), ASKED[what]
    store.add(numbered(range(300)), with_words(0, 300))
    ask(store)  # which looks for the keys of a filter, once
    had = hang_up(qdrant, 0, times=0)
    expected, requests = ask(store), len(had)
    for after in sorted({0, requests // 2, requests - 1}):
        hang_up(qdrant, after, times=1)
        assert ask(store) == expected
        waits.clear()
        hang_up(qdrant, after, times=9999)
        with pytest.raises(ConnectionError, match="does not answer"):
            ask(store)
        assert 0 < len(waits) <= TRIES


def test_a_server_that_goes_while_it_is_written_to_leaves_whole_parts(qdrant):
    given, part, seen = with_words(0, 600), 128, set()
    store = QdrantStore(url=qdrant.url)
    for _ in range(2):  # the second time the collection is there
        had = hang_up(qdrant, 0, times=0)
        store.add(numbered(range(600)), given)
        requests = len(had)
        store.delete([f"p{i}" for i in range(600)])
    for after in range(requests - 5, requests):
        hang_up(qdrant, after, times=9999)
        with pytest.raises(ConnectionError, match="a write may be incomplete"):
            store.add(numbered(range(600)), given)
        qdrant.before = lambda method, path: None
        there = [*store.passages()]
        rows = [int(passage.id[1:]) for passage in there]
        assert len(there) % part in (0, 600 % part)
        held = store.vectors([passage.id for passage in there])
        np.testing.assert_array_equal(held.mean.reshape(-1, 8), given[rows].mean)
        seen.add(len(there))
        store.add(numbered(range(600)), given)
        assert store.delete([f"p{i}" for i in range(600)]) == 600
    assert len(seen) > 2


def all_that_is_said(error, caplog):
    """An error, what it is the context or the cause of, and the log."""
    said, left = [caplog.text], [error]
    while left:
        one = left.pop()
        if one is not None:
            said += [str(one), repr(one), *map(str, one.args), *getattr(one, "__notes__", ())]
            left += [one.__cause__, one.__context__]
    return "\n".join(said)


@pytest.mark.filterwarnings("ignore:Api key is used")
@pytest.mark.parametrize("odd", ["", "@", "/", ":", "?#", "%2F", "\\", " ", "\n", "\ud800", "a1"])
@pytest.mark.parametrize(
    "where",
    [
        "http://me:{}@127.0.0.1:9",
        "https://{}@127.0.0.1:9/a",
        "http://127.0.0.1:9?api_key={}",
        "http://127.0.0.1:9/#{}",
        "qdrant://me:{}@127.0.0.1:9/x",
        "qdrant+https://127.0.0.1:9/x?api_key={}",
        "ftp://me:{}@h/x",
        "me:{}@h/x",
    ],
)
def test_a_secret_in_an_address_of_qdrant_is_refused_and_not_repeated(odd, where, caplog):
    address = where.format(f"s3cr{odd}3t")
    openers = [open_store, lambda url: QdrantStore(url=url), lambda url: QdrantStore(location=url)]
    for opens in openers:
        with pytest.raises(ValueError, match="expected") as caught:
            opens(address)
        told = all_that_is_said(caught.value, caplog)
        assert "s3cr" not in told
        assert "3t" not in told


FAILURES = {
    400: (ValueError, r"^store: Qdrant at '.*' rejects the request .*400"),
    401: (PermissionError, r"does not .*this key do that \(401\).*api_key="),
    403: (PermissionError, r"does not .*this key do that \(403\).*api_key="),
    404: (RuntimeError, r"Qdrant at 'http://.*' is not Qdrant, or the collection was removed"),
    413: (ValueError, r"^store: Qdrant at '.*' rejects the request .*413"),
    429: (ConnectionError, "does not answer"),
    503: (ConnectionError, "does not answer"),
}
PASSES = (429, 503)


@pytest.mark.filterwarnings("ignore:Api key is used")
@pytest.mark.parametrize("status", FAILURES)
def test_what_a_server_refuses_is_said_by_every_method_without_the_key(
    qdrant, waits, status, caplog
):
    """At once, or after some tries where it may pass; and what passes is an answer."""
    store, left = QdrantStore(url=qdrant.url, api_key="s3cret"), [0]
    store.add(numbered(range(300)), with_words(0, 300))

    def before(method, path):
        if path != "/" and left[0]:  # the version, which the client asks for when it likes
            left[0] -= 1
            raise Refused(status, "s3cret is the key")

    error, message = FAILURES[status]
    qdrant.before = before
    for name, call in CALLS.items():
        waits.clear()
        left[0] = 999
        with pytest.raises(error, match=message) as caught:
            call(store)
        assert "s3cret" not in all_that_is_said(caught.value, caplog), name
        assert (len(waits) > 0) == (status in PASSES), name
        left[0] = 2 if status in PASSES else 0
        call(store)


def test_a_server_that_is_not_there_is_asked_again_and_named(waits):
    with pytest.raises(ConnectionError, match=r"Qdrant at 'http://127.0.0.1:9' does not answer"):
        len(QdrantStore(url="http://127.0.0.1:9"))
    assert 0 < len(waits) <= TRIES


def test_a_collection_that_somebody_removed_is_no_empty_one(qdrant):
    for call in CALLS.values():
        store = QdrantStore(url=qdrant.url)
        store.add(numbered(range(300)), with_words(0, 300))
        store._client.delete_collection("uec_rag")
        with pytest.raises(RuntimeError, match=r"collection .*was removed .*added again"):
            call(store)


def test_a_collection_that_was_made_in_part_is_indexed_by_who_writes_next(qdrant):
    indexes = []

    def before(method, path):
        if path.endswith("index"):
            indexes.append(path)
            if len(indexes) <= TRIES:
                raise ConnectionError

    qdrant.before = before
    with pytest.raises(ConnectionError, match="does not answer"):
        QdrantStore(url=qdrant.url).add(numbered(range(3)), with_words(0, 3))
    QdrantStore(url=qdrant.url).add(numbered(range(3)), with_words(0, 3))
    assert len(indexes) == TRIES + 3  # facts, terms, lengths


def test_who_may_only_read_finds_what_the_owner_finds(qdrant):
    def before(method, path):
        if method == "PUT":
            raise Refused(403, "")

    owner = QdrantStore(url=qdrant.url)
    owner.add(numbered(range(100)), gaussians(0, 100))
    qdrant.before, reader = before, QdrantStore(url=qdrant.url)
    found = reader.search(QUERY, 5, beta=1.0)
    with pytest.raises(PermissionError, match="does not let this"):
        reader.add(numbered([7]), gaussians(1, 1))
    assert_close(owner.search(QUERY, 5, beta=1.0).scores, found.scores)
