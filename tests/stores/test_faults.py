"""Servers that go while they are asked or written to, or refuse; and wrong addresses."""

import uuid
from traceback import format_exception
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.helpers import assert_close, data_of
from tests.stores import qdrant_server
from tests.stores.postgres_server import server_dsn
from tests.stores.proxy import Proxy
from tests.stores.qdrant_server import Refused
from tests.stores.test_contract import QUERY, gaussians, numbered
from tests.stores.test_contract_words import asking, with_words
from uec_rag.base import retries
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.pgvector import server as pgvector_making
from uec_rag.stores.pgvector.server import Server, url_of
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

    def __init__(self, kind, server):
        self.kind, self._name, self._stores = kind, f"t{uuid.uuid4().hex}", []
        if kind == "qdrant":
            self._past = server.url
            self.proxy = Proxy(("127.0.0.1", server.server_port))
            self._through = f"http://127.0.0.1:{self.proxy.port}"
            return
        self._past = server_dsn()
        folder = parse_qs(urlsplit(self._past).query).get("host")
        if folder is None:
            pytest.skip("a server that POSTGRES_DSN names is not to be cut off")
        self.proxy = Proxy(f"{folder[0]}/.s.PGSQL.5432")
        self._through = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres"

    def store(self, *, past=False):
        place = self._past if past else self._through
        if self.kind == "qdrant":
            self._stores.append(QdrantStore(url=place, collection=self._name))
        else:
            # What goes past the line always answers; the pool connects anew after a second.
            soon = {} if past else {"timeout": 2}
            self._stores.append(PgVectorStore(place, collection=self._name, **soon))
        return self._stores[-1]

    def close(self):
        for store in self._stores:
            store.close()
        self.proxy.close()


@pytest.fixture(params=["qdrant", "postgres"])
def line(request):
    server = request.getfixturevalue("qdrant") if request.param == "qdrant" else None
    line = Line(request.param, server)
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
    given, parts = with_words(0, 600), {"qdrant": 128, "postgres": 500}[line.kind]
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


@pytest.mark.parametrize("dsn", ["localhost", "http://me:secret@host/db", "postgresql://h/d?no=1"])
def test_an_address_that_libpq_cannot_read_is_said_without_the_password(dsn):
    with pytest.raises(ValueError, match=r"dsn: expected .*postgresql://USER@HOST/") as said:
        PgVectorStore(dsn)
    assert "secret" not in "".join(format_exception(said.value)).partition("ValueError")[2]
    assert said.value.__context__ is None


def all_that_is_said(error, caplog):
    """An error, what it is the context or the cause of, and the log."""
    said, left = [caplog.text], [error]
    while left:
        one = left.pop()
        if one is not None:
            said += [str(one), repr(one), *map(str, one.args), *getattr(one, "__notes__", ())]
            left += [one.__cause__, one.__context__]
    return "\n".join(said)


def escaped(value):
    """As it stands in an address of libpq's own form."""
    return "'" + value.replace("\\", r"\\").replace("'", r"\'") + "'"


def encoded(value):
    """As it stands in an address that is a URL."""
    return quote(value, "", errors="replace")


AT = "127.0.0.1:9/db"
SECRET_IN = {
    "password": lambda odd: f"postgresql://me:{encoded(odd)}@{AT}",
    "raw password": lambda odd: f"postgresql://me:{odd}@{AT}",
    "raw password and a query": lambda odd: f"postgresql://me:{odd}@{AT}?sslmode=prefer",
    "no user": lambda odd: f"postgres://:{odd}@{AT}",
    **{
        f"{where}{key}": lambda odd, key=key, form=form: form(key, odd)
        for key in ("password", "sslpassword", "options", "passfile", "application_name")
        for where, form in {
            "query ": lambda key, odd: f"postgresql://me@{AT}?{key}={encoded(odd)}",
            "raw query ": lambda key, odd: f"postgresql://me@{AT}?{key}={odd}",
            "words ": lambda key, odd: f"host=127.0.0.1 port=9 {key}={escaped(odd)} user=me",
            "raw words ": lambda key, odd: f"host=127.0.0.1 port=9 {key}={odd} user=me",
        }.items()
    },
}


@pytest.mark.parametrize("opens", [PgVectorStore, open_store])
@pytest.mark.parametrize("where", SECRET_IN)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd=st.text(st.sampled_from("@/:?#%&='\"\\ ,[]$%+;\n\t\0\ud800\N{SNOWMAN}a1"), max_size=8))
@example(odd="@")
@example(odd="/")
@example(odd="p@ss/word@")
@example(odd="' user='")
@example(odd="%zz")
def test_a_secret_in_an_address_of_postgres_is_never_repeated(
    where, opens, odd, monkeypatch, caplog, tmp_path
):
    """By a driver that repeats whatever it was told."""
    secret = f"s3cr{odd}3t"
    address, said = SECRET_IN[where](secret), caplog
    caplog.clear()

    def reach(self):
        held = conninfo_to_dict(self._dsn)
        raise psycopg.OperationalError(f"no {held.get('password')} {held.get('options')}")

    with monkeypatch.context() as patch:
        patch.setattr(Server, "_reach", reach)
        with pytest.raises((ConnectionError, ValueError)) as caught:
            opens(address)
        told = all_that_is_said(caught.value, said)
        assert "s3cr" not in told, (address, told)
        assert "3t" not in told, (address, told)
        if isinstance(caught.value, ValueError):
            uri = address.startswith("postgres")
            expected = "dsn: expected a connection string of libpq" if uri else "expected"
            assert expected in str(caught.value)
            return
        assert "at 'postgresql://" in told
        patch.setattr(Server, "_reach", lambda self: None)
        store = opens(address)
        store.save(tmp_path)
        store.close()
    kept = (tmp_path / "store.json").read_text() + repr(store)
    assert not {"s3cr", "3t"} & {kept[i : i + n] for n in (2, 4) for i in range(len(kept))}
    known, place = conninfo_to_dict(address), conninfo_to_dict(store._server.url)
    shown = ("host", "port", "user", "dbname", "sslmode")
    assert place == {key: known[key] for key in shown if key in known}


def test_what_a_server_of_postgres_says_of_an_option_is_not_repeated(caplog):
    joined = "&" if "?" in server_dsn() else "?"
    with pytest.raises(ConnectionError, match=r'invalid value .*"work_mem": "\*\*\*"') as caught:
        PgVectorStore(f"{server_dsn()}{joined}options=-c%20work_mem%3Ds3cret")
    assert "s3cret" not in all_that_is_said(caught.value, caplog)


@pytest.mark.parametrize("kept", data_of("addresses_of_postgres.json"))
def test_a_place_is_read_as_the_address_that_it_is_of(kept):
    assert conninfo_to_dict(url_of(kept)) == conninfo_to_dict(kept)
    assert url_of(url_of(kept)) == url_of(kept)
    assert not {*", \n"} & {*url_of(kept)}  # it can be listed


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
        QdrantStore(url="http://127.0.0.1:9")
    assert 0 < len(waits) <= TRIES
    waits.clear()
    with pytest.raises(ConnectionError, match=r"PostgreSQL at '.*127.0.0.1.*does not") as caught:
        PgVectorStore("postgresql://me:secret@127.0.0.1:9/db", timeout=1)
    assert 0 < len(waits) <= TRIES
    assert "secret" not in str(caught.value)


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
        (404, RuntimeError, r"the server at 'http://.*' is not Qdrant"),
        (503, ConnectionError, "does not answer"),
    ],
)
def test_a_server_that_lets_nobody_in_is_said_without_the_key(
    qdrant, status, error, message, caplog
):
    qdrant.before = refusing(status)
    with pytest.raises(error, match=message) as caught:
        QdrantStore(url=qdrant.url, api_key="s3cret")
    assert "s3cret" not in all_that_is_said(caught.value, caplog)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "length"])
def test_a_collection_that_somebody_removed_is_no_empty_one(line, name):
    store = line.store(past=True)
    store.add(numbered(range(300)), with_words(0, 300))
    if line.kind == "qdrant":
        store._client.delete_collection(store._collection)
    else:
        with store._server.transaction() as connection:
            connection.execute(f'DROP TABLE "{store._collection}"')
    with pytest.raises(RuntimeError, match=r"collection .*(was|were) removed .*added again"):
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


@pytest.fixture
def poor():
    """Who may do nothing in a database, who owns it, and what runs statements there."""
    name = f"poor{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server_dsn(), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'poor'")
        owner.execute(f"CREATE DATABASE {name}")
    there = make_conninfo(server_dsn(), dbname=name)
    with psycopg.connect(there, autocommit=True) as owner:
        yield make_conninfo(there, user=name, password="poor"), there, owner.execute
    with psycopg.connect(server_dsn(), autocommit=True) as owner:
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
        owner.execute(f"DROP ROLE {name}")


def test_a_role_without_rights_is_told_what_it_lacks(poor, waits):
    dsn, there, run = poor
    store = PgVectorStore(dsn)
    with pytest.raises(PermissionError, match="superuser run CREATE EXTENSION vector in this data"):
        store.add(numbered(range(3)), gaussians(0, 3))
    run("CREATE EXTENSION vector")
    with pytest.raises(PermissionError, match=r"let this role do that \(permission denied"):
        store.add(numbered(range(3)), gaussians(0, 3))
    owner = PgVectorStore(there)
    owner.add(numbered(range(3)), gaussians(0, 3))
    with pytest.raises(PermissionError, match="permission denied for table uec_rag_notes"):
        PgVectorStore(dsn).search(QUERY, 1, beta=1.0)
    assert not waits
    for one in (store, owner):
        one.close()


def test_who_may_only_read_finds_what_the_owner_finds(poor, qdrant):
    dsn, there, run = poor
    run("CREATE EXTENSION vector")
    for owner, reader in (
        (PgVectorStore(there), lambda: PgVectorStore(dsn)),
        (QdrantStore(url=qdrant.url), lambda: QdrantStore(url=qdrant.url)),
    ):
        owner.add(numbered(range(100)), gaussians(0, 100))
        run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC")
        qdrant.before = lambda method, path: refusing(403)() if method == "PUT" else None
        reading = reader()
        found, sample = reading.search(QUERY, 5, beta=1.0), reading.sample(20).mean
        with pytest.raises(PermissionError, match="does not let this"):
            reading.add(numbered([7]), gaussians(1, 1))
        qdrant.before = lambda method, path: None
        assert_close(owner.search(QUERY, 5, beta=1.0).scores, found.scores)
        np.testing.assert_array_equal(owner.sample(20).mean, sample)
        for one in (owner, reading):
            one.close()


def test_a_database_that_is_not_there_is_named():
    with pytest.raises(ConnectionError, match=r'refuses this user or database \(.*"no_such_one"'):
        PgVectorStore(make_conninfo(server_dsn(), dbname="no_such_one"))


def test_a_server_without_pgvector_is_told_from_one_that_is_out_of_reach(monkeypatch):
    monkeypatch.setattr(
        pgvector_making, "_EXTENSION", "CREATE EXTENSION IF NOT EXISTS no_such_thing"
    )
    store = PgVectorStore(server_dsn(), collection=f"t{uuid.uuid4().hex}")
    with pytest.raises(ValueError, match="dsn: the server has no pgvector; install its package"):
        store.add(numbered([1]), gaussians(0, 1))
    store.close()
