"""Servers that go while they are asked or written to, or refuse; and wrong addresses."""

import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.helpers import assert_close
from tests.stores import qdrant_server
from tests.stores.proxy import Proxy
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


class Line:
    """Stores over one server, through a line that can be cut, and past it."""

    def __init__(self, server):
        self._name, self._stores, self._past = f"t{uuid.uuid4().hex}", [], server.url
        self.proxy = Proxy(("127.0.0.1", server.server_port))
        self._through = f"http://127.0.0.1:{self.proxy.port}"

    def store(self, *, past=False):
        place = self._past if past else self._through
        self._stores.append(QdrantStore(url=place, collection=self._name))
        return self._stores[-1]

    def close(self):
        for store in self._stores:
            store.close()
        self.proxy.close()


@pytest.fixture
def line(qdrant):
    line = Line(qdrant)
    yield line
    line.close()


def refusing(status):
    """What answers everything so."""

    def before(*asked):
        raise Refused(status, "s3cret is the key")

    return before


def answer_or_error(ask):
    """What comes of a call, or what it says of a server that has gone."""
    try:
        return ask()
    except ConnectionError as error:
        return str(error)


def sends(line, ask):
    """How often a call sends something."""
    before = line.proxy.passed
    ask()
    return line.proxy.passed - before


@pytest.mark.slow
@pytest.mark.parametrize("what", ASKED)
def test_a_server_that_goes_while_it_is_asked_is_an_error_and_never_a_part_of_an_answer(
    line, what, waits
):
    line.store(past=True).add(numbered(range(300)), with_words(0, 300))
    ask, store = ASKED[what], line.store()
    expected = ask(store)
    store = line.store()
    times = sends(line, lambda: ask(store))
    for after in sorted({0, times // 2, max(0, times - 2)}):
        for for_good in (False, True):
            store = line.store()
            waits.clear()
            line.proxy.cut(after, for_good=for_good)
            told = answer_or_error(lambda store=store: ask(store))
            if not (for_good and "does not answer" in str(told)):
                assert told == expected
                assert not for_good or after  # what is sent last may be a mere goodbye
            assert len(waits) <= TRIES
            line.proxy.mend()


@pytest.mark.slow
def test_a_server_that_goes_while_it_is_written_to_leaves_whole_parts(line, waits):
    given, parts = with_words(0, 600), 128
    ids, past, seen = [f"p{i}" for i in range(600)], line.store(past=True), set()
    past.add(numbered(range(600)), given)
    past.delete(ids)
    store = line.store()
    times = sends(line, lambda: store.add(numbered(range(600)), given))
    for after in (0, times // 2, times - 5, times - 1):
        past.delete(ids)
        store = line.store()
        line.proxy.cut(after, for_good=True)
        told = answer_or_error(lambda store=store: store.add(numbered(range(600)), given))
        line.proxy.mend()
        there = past.get(ids)
        assert len(past) == len(there)
        assert "does not answer" in told if len(there) < 600 else told is None or after
        assert len(there) % parts in (0, 600 % parts)
        rows = [int(passage.id[1:]) for passage in there]
        held = past.vectors([passage.id for passage in there])
        np.testing.assert_array_equal(held.mean.reshape(-1, 8), given[rows].mean)
        seen.add(len(there))
        line.store().add(numbered(range(600)), given)
        assert len(past) == 600
    assert len(seen) > 1


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
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    odd=st.text(st.sampled_from("@/:?#%&='\"\\ ,[]$%+;\n\t\0\ud800\N{SNOWMAN}a1"), max_size=8),
    where=st.sampled_from(
        [
            "http://me:{}@127.0.0.1:9",
            "https://{}@127.0.0.1:9/a",
            "http://127.0.0.1:9?api_key={}",
            "http://127.0.0.1:9/#{}",
            "qdrant://me:{}@127.0.0.1:9/x",
            "qdrant+https://127.0.0.1:9/x?api_key={}",
            "ftp://me:{}@h/x",
            "me:{}@h/x",
        ]
    ),
)
@example(odd="/", where="http://me:{}@127.0.0.1:9")
@example(odd="/", where="qdrant://me:{}@127.0.0.1:9/x")
def test_a_secret_in_an_address_of_qdrant_is_refused_and_not_repeated(odd, where, caplog):
    address = where.format(f"s3cr{odd}3t")
    openers = [open_store, lambda url: QdrantStore(url=url), lambda url: QdrantStore(location=url)]
    for opens in openers:
        with pytest.raises(ValueError, match="expected") as caught:
            opens(address)
        told = all_that_is_said(caught.value, caplog)
        assert "s3cr" not in told
        assert "3t" not in told


def test_a_server_that_is_not_there_is_asked_again_and_named(waits):
    with pytest.raises(ConnectionError, match=r"Qdrant at 'http://127.0.0.1:9' does not answer"):
        len(QdrantStore(url="http://127.0.0.1:9"))
    assert 0 < len(waits) <= TRIES


CALLS = {
    **ASKED,
    "add": lambda store: store.add(numbered([7]), with_words(1, 1)),
    "delete": lambda store: store.delete(["p3"]),
}
FAILURES = {
    400: (ValueError, r"^store: Qdrant at '.*' rejects the request .*400"),
    401: (PermissionError, r"does not .*this key do that \(401\).*api_key="),
    403: (PermissionError, r"does not .*this key do that \(403\).*api_key="),
    413: (ValueError, r"^store: Qdrant at '.*' rejects the request .*413"),
    422: (ValueError, r"^store: Qdrant at '.*' rejects the request .*422"),
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


@pytest.mark.filterwarnings("ignore:Api key is used")
@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (401, PermissionError, r"this key do that \(401\).*api_key="),
        (404, RuntimeError, r"Qdrant at 'http://.*' is not Qdrant"),
        (503, ConnectionError, "does not answer"),
    ],
)
def test_a_server_that_lets_nobody_in_is_said_without_the_key(
    qdrant, status, error, message, caplog
):
    qdrant.before = refusing(status)
    with pytest.raises(error, match=message) as caught:
        len(QdrantStore(url=qdrant.url, api_key="s3cret"))
    assert "s3cret" not in all_that_is_said(caught.value, caplog)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "length"])
def test_a_collection_that_somebody_removed_is_no_empty_one(line, name):
    store = line.store(past=True)
    store.add(numbered(range(300)), with_words(0, 300))
    store._client.delete_collection(store._name)
    with pytest.raises(RuntimeError, match=r"collection .*was removed .*added again"):
        CALLS[name](store)


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
    owner = QdrantStore(url=qdrant.url)
    owner.add(numbered(range(100)), gaussians(0, 100))
    qdrant.before = lambda method, path: refusing(403)() if method == "PUT" else None
    reader = QdrantStore(url=qdrant.url)
    found, sample = reader.search(QUERY, 5, beta=1.0), reader.sample(20).mean
    with pytest.raises(PermissionError, match="does not let this"):
        reader.add(numbered([7]), gaussians(1, 1))
    assert_close(owner.search(QUERY, 5, beta=1.0).scores, found.scores)
    np.testing.assert_array_equal(owner.sample(20).mean, sample)
