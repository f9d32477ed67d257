"""What is PostgreSQL's own; the rest is in `test_contract`."""

import contextlib
import threading
import time
import uuid

import numpy as np
import psycopg
import pytest

from tests.helpers import bag_of_words
from tests.stores.kinds import at_once, beside
from tests.stores.postgres_server import server_dsn
from tests.stores.test_contract import QUERY, assert_finds, gaussians, numbered
from tests.stores.test_contract_words import with_words
from uec_rag import UEC, Gaussian, Retriever
from uec_rag.base.similarity import probit
from uec_rag.retrieval.copying import copy_index
from uec_rag.stores import Passage
from uec_rag.stores.pgvector import PgVectorStore


def make(**options):
    return PgVectorStore(server_dsn(), collection=f"t{uuid.uuid4().hex}", **options)


@pytest.fixture
def store():
    store = make()
    yield store
    store.close()


def rows(store, statement, *values):
    """What a statement finds, "{}" in it being the table."""
    with store._server.transaction() as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        found = connection.execute(statement.replace("{}", store._collection).encode(), values)
        return found.fetchall() if found.description else []


def test_the_index_looks_at_as_many_as_there_are_candidates(store, monkeypatch):
    seen, execute = [], psycopg.Connection.execute
    store.add(numbered(range(2000)), gaussians(0, 2000))

    def asking(self, text, values=None, **named):
        found = execute(self, text, values, **named)
        if "hnsw" not in str(values):
            seen.append(execute(self, "SHOW hnsw.ef_search").fetchone()[0])
        return found

    monkeypatch.setattr(psycopg.Connection, "execute", asking)
    for candidates, looked_at in ((256, "256"), (700, "700"), (1500, "1000")):
        store.candidates = candidates
        seen.clear()
        store.search(QUERY, 5, beta=1.0)
        assert looked_at in seen


def has_index(store):
    """Whether its means are indexed."""
    return "hnsw" in str(rows(store, "SELECT indexdef FROM pg_indexes WHERE tablename = '{}'"))


def test_a_table_that_is_filled_gets_its_index_when_it_is_full(store):
    stored = gaussians(0, 400)
    expected = {f"p{i}": stored[[i]] for i in range(400)}
    with store.filling():
        for some in (range(300), range(300, 400)):
            store.add(numbered(some), stored[[*some]])
            assert not has_index(store)
            assert_finds(store, {id_: expected[id_] for id_ in [*expected][: some.stop]})
    assert has_index(store)
    assert_finds(store, expected)


def test_a_filling_that_failed_goes_on_without_an_index_until_one_ends(store):
    def fail():
        with store.filling():
            store.add(numbered(range(20)), gaussians(0, 20))
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        fail()
    store.add(numbered(range(20, 30)), gaussians(1, 10))
    assert (len(store), has_index(store)) == (30, False)
    with store.filling():
        pass
    assert has_index(store)


def test_an_index_that_is_there_is_kept_while_more_is_added(store):
    with store.filling():
        pass  # nothing to index
    store.add(numbered(range(20)), gaussians(0, 20))
    with store.filling():
        assert has_index(store)
        store.add(numbered(range(20, 30)), gaussians(1, 10))
        assert has_index(store)
    indexes = "FROM pg_indexes WHERE tablename = '{}' AND indexdef LIKE '%%hnsw%%'"
    assert rows(store, f"SELECT count(*) {indexes}") == [(1,)]


def test_a_copy_is_indexed_when_all_of_it_is_there(store, monkeypatch):
    source = Retriever(UEC([bag_of_words(64, "bag")], coefficients="uniform"))
    source.add([f"text number {i}" for i in range(600)])
    seen, put = [], store._put
    monkeypatch.setattr(store, "_put", lambda rows: put(rows) or seen.append(has_index(store)))
    copy = copy_index(source, store)
    assert len(seen) > 1
    assert not any(seen)
    assert has_index(store)
    assert len(copy) == 600


@pytest.mark.parametrize(("width", "kind"), [(16, "vector"), (2500, "halfvec"), (4500, None)])
def test_means_of_any_width_are_searched_by_an_index_where_there_is_one(store, width, kind):
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((60, width)).astype(np.float32)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    stored = Gaussian.from_factors(mean, rng.gamma(1.0, 1.0, (60, 1)), np.full((1, width), 1e-3))
    store.add(numbered(range(60)), stored)
    query = stored[[3, 14, 15]]
    found = store.search(query, 2, beta=1.0)
    assert [row[0].id for row in found.passages] == ["p3", "p14", "p15"]
    np.testing.assert_allclose(found.scores, probit(found.mu, found.sigma2), rtol=1e-5)
    assert has_index(store) is (kind is not None)
    if kind is not None:
        name = "mean" if kind == "vector" else f"(mean::halfvec({width}))"
        asked = f'EXPLAIN SELECT id FROM "{{}}" ORDER BY {name} <#> %s::{kind}({width}) LIMIT 2'
        assert "Index Scan" in str(rows(store, asked, str(mean[0].tolist())))


def test_means_wider_than_pgvector_takes_are_refused(store):
    wide = Gaussian(np.ones((1, 9000)), np.ones((1, 9000)))
    with pytest.raises(ValueError, match="expected at most 16000 numbers of mean and variance"):
        store.add(numbered([1]), wide)


@pytest.mark.parametrize("width", [1750, 1751])
def test_a_mean_in_its_page_leaves_room_for_a_long_text(store, width):
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((3, width)).astype(np.float32)
    text = " ".join(map(str, rng.integers(0, 10**9, 5000)))
    given = [Passage(f"{i}" * 200, text, {"long": text, "keys": [*range(300)]}) for i in range(3)]
    store.add(given, Gaussian(mean, np.full_like(mean, 0.1)))
    found = store.search(Gaussian(mean, np.zeros_like(mean)), 1, beta=1.0)
    assert [row[0] for row in found.passages] == given


@contextlib.contextmanager
def killing(name, every):
    """End all connections of an application, over and over."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    stop = threading.Event()

    def kill():
        with psycopg.connect(server_dsn(), autocommit=True) as connection:
            while not stop.wait(every):
                connection.execute(ended, [name])

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        stop.set()
        killer.join()


@pytest.mark.slow
@pytest.mark.parametrize(("every", "timeout", "longest"), [(0.0, 3, 11), (0.5, 10, 10)])
def test_a_search_whose_connections_are_killed_ends_soon(every, timeout, longest):
    """All the time: 3 s for tries, 4 between, 3 for the last. Now and then: it finds its hits."""
    name, joined = f"t{uuid.uuid4().hex}", "&" if "?" in server_dsn() else "?"
    dsn = f"{server_dsn()}{joined}application_name={name}"  # the name of its connections
    store = PgVectorStore(dsn, collection=name, timeout=timeout)
    store.add(numbered(range(300)), gaussians(0, 300))
    allowed = () if every else ConnectionError
    began = time.monotonic()
    with killing(name, every):
        while time.monotonic() - began < 6:
            before = time.monotonic()
            with contextlib.suppress(allowed):
                store.search(QUERY, 5, beta=1.0)
            assert time.monotonic() - before < longest
    assert len(store.search(QUERY, 5, beta=1.0).passages[0]) == 5
    store.close()


def test_who_adds_and_who_removes_the_same_passages_never_wait_for_each_other(caplog):
    """A deadlock ends one of them, which is tried again and logged."""
    first = make()
    stores = [first, *(beside(first) for _ in range(5))]
    first.add(numbered(range(300)), with_words(0, 300))

    def write(place, store):
        rng = np.random.default_rng(place)
        for turn in range(8):
            some = rng.permutation(300)[:120].tolist()
            if (turn + place) % 2:
                store.add(numbered(some), with_words(turn, 120))
            else:
                store.remove([f"p{number}" for number in some])

    at_once(write, stores)
    assert "deadlock" not in caplog.text
    assert len(first) == len([*first.passages()])
    for store in stores:
        store.close()


def test_words_that_no_passage_has_any_more_are_not_kept(store):
    def kept():
        return {row[:2]: row[2] for row in rows(store, 'SELECT block, key, held FROM "{}_words"')}

    store.add(numbered(range(20)), with_words(0, 20))
    before = kept()
    store.add(numbered(range(20)), with_words(1, 20))  # in their place
    assert kept().keys() != before.keys()
    assert min(kept().values()) > 0
    store.add(numbered(range(20)), with_words(0, 20))
    assert kept() == before
    store.delete([f"p{i}" for i in range(19)])
    assert {*kept().values()} == {1}
    store.delete(["p19"])
    assert not kept()


def test_rows_that_others_delete_by_hand_are_counted_out(store):
    store.add(numbered(range(20)), with_words(0, 20))
    rows(store, 'DELETE FROM "{}" WHERE id <> %s', "p3")
    keys = with_words(0, 20).terms[0][[3]].keys
    assert len(store) == 1
    assert store.frequencies(0, np.unique(keys)).counts_of(keys).tolist() == [1] * len(keys)


def test_a_table_of_someone_else_is_refused(store):
    rows(store, 'CREATE TABLE "{}" (x int)')
    with pytest.raises(ValueError, match="exists and was not created by this version"):
        store.add(numbered([1]), gaussians(0, 1))


@pytest.mark.parametrize("end", ["_words", "_postings", "_notes"])
def test_a_collection_is_not_made_in_place_of_another(store, end):
    theirs = PgVectorStore(server_dsn(), collection=f"{store._collection}{end}")
    theirs.add(numbered(range(3)), with_words(0, 3))
    with pytest.raises((ValueError, RuntimeError), match=r"exist in this|(was|were) removed"):
        store.add(numbered(range(3)), gaussians(0, 3))
    assert len(theirs) == len([*beside(theirs).passages()]) == 3
    theirs.close()


@pytest.mark.parametrize("name", ["", "per%cent", "x" * 51, "n\0l", "\ud800"])
def test_names_that_postgres_would_change_are_refused(name):
    with pytest.raises(ValueError, match="collection: expected 1 to 50 bytes without % or NUL"):
        PgVectorStore(server_dsn(), collection=name)


@pytest.mark.parametrize("odd", ['na"me;', "$make$", "$$'; {}", "\\ ☃", "n\nl"])
def test_any_other_name_may_be_used(odd):
    store = PgVectorStore(server_dsn(), collection=f"{odd} {uuid.uuid4().hex[:20]}")
    store.add(numbered(range(3)), gaussians(0, 3))
    assert [p.id for p in beside(store).passages({"third": True})] == ["p0"]
    store.close()
