"""What is Qdrant's own; the rest is in `test_contract`."""

import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException

from tests.helpers import bag_of_words, pairs, passages
from tests.stores.kinds import at_once
from tests.stores.test_contract import QUERY, gaussians, numbered
from uec_rag import UEC, Gaussian, Retriever
from uec_rag.base import retries
from uec_rag.base.similarity import moments, probit
from uec_rag.stores.qdrant import QdrantStore


@pytest.fixture
def store():
    store = QdrantStore(location=":memory:")
    yield store
    store.close()


def exact_order(stored, query, candidates, k):
    """Places of the best by s_hat among the nearest by mu_s."""
    mu, sigma2 = moments(query, stored)
    scores = probit(mu, sigma2, 1.0)
    near = np.argsort(-mu, axis=1)[:, :candidates]
    best = np.argsort(-np.take_along_axis(scores, near, axis=1), axis=1)[:, :k]
    return np.take_along_axis(near, best, axis=1)


def test_a_collection_of_someone_else_is_not_taken_for_what_is_kept():
    client = QdrantClient(":memory:")
    theirs = QdrantStore(client=client, collection="docs_kept")
    theirs.add(numbered(range(3)), gaussians(0, 3))
    ours = QdrantStore(client=client, collection="docs")
    with pytest.raises(ValueError, match="kept in 'docs_kept', which is there and holds something"):
        ours.add(numbered(range(3)), gaussians(0, 3))
    assert (len(theirs), ours.notes()) == (3, None)


@pytest.mark.parametrize("formulas", [True, False])
def test_the_order_is_that_of_an_exact_search_of_the_same_candidates(store, formulas):
    """In the engine by a formula, or here where the server is too old for one."""
    stored = gaussians(0, 1000)
    store.add(numbered(range(1000)), stored)
    store._place.formulas = formulas
    found = store.search(QUERY, 10, beta=1.0)
    assert not found.exact
    order = [[int(p.id[1:]) for p in row] for row in found.passages]
    assert order == exact_order(stored, QUERY, 256, 10).tolist()


def unsure(count):
    """Gaussians whose variances move the best by s_hat away from those by mu_s."""
    some = gaussians(0, count)
    return Gaussian.factored(some.mean, 100 * some.scales, some.profile, widths=some.widths)


def test_as_many_candidates_are_scored_as_were_asked_for_also_when_it_is_opened_again(tmp_path):
    stored = unsure(1000)
    store = QdrantStore(path=tmp_path / "qdrant", candidates=20)
    store.add(numbered(range(1000)), stored)
    wanted = exact_order(stored, QUERY, 20, 5).tolist()
    assert wanted != exact_order(stored, QUERY, 256, 5).tolist()
    (tmp_path / "saved").mkdir()
    store.save(tmp_path / "saved")
    for turn in (1, 2):
        found = store.search(QUERY, 5, beta=1.0)
        assert [[int(p.id[1:]) for p in row] for row in found.passages] == wanted, turn
        store.close()
        store = QdrantStore.load(tmp_path / "saved")
    store.close()


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), ("many", TypeError)])
def test_a_number_of_candidates_is_expected(given, error):
    with pytest.raises(error, match="candidates: expected an integer"):
        QdrantStore(location=":memory:", candidates=given)


def test_the_engine_returns_no_more_than_the_hits(store, monkeypatch):
    store.add(numbered(range(500)), gaussians(0, 500))
    client, answers = store._client, []
    ask = client.query_batch_points

    def counted(*arguments, **named):
        answers.extend(ask(*arguments, **named))
        return answers

    monkeypatch.setattr(client, "query_batch_points", counted)
    store.search(QUERY, 7, beta=1.0)
    assert [len(answer.points) for answer in answers] == [7] * len(QUERY)


@pytest.mark.parametrize(
    ("version", "formulas"), [("1.13.2", False), ("1.14.0", True), ("2.0.1-dev", True)]
)
def test_a_server_too_old_for_formulas_is_seen(monkeypatch, version, formulas):
    monkeypatch.setattr(QdrantClient, "info", lambda self: SimpleNamespace(version=version))
    store = QdrantStore(url="http://127.0.0.1:9", check_compatibility=False)
    assert store._place.formulas is formulas


def test_a_server_that_is_not_there_is_asked_again_and_named(monkeypatch):
    waited = []
    monkeypatch.setattr(retries, "_wait", lambda state: waited.append(1) or 0.0)
    with pytest.raises(ConnectionError, match=r"Qdrant at 'http://127.0.0.1:9' does not answer"):
        QdrantStore(url="http://127.0.0.1:9")
    assert waited


def test_a_server_that_goes_in_the_middle_of_an_upsert_loses_no_part_in_silence(store, monkeypatch):
    monkeypatch.setattr(retries, "_wait", lambda state: 0.0)
    client, calls = store._client, []
    upsert = client.upsert

    def failing(name, *arguments, **named):
        if name != store._collection:  # what is noted of the write
            return upsert(name, *arguments, **named)
        calls.append(1)
        if len(calls) == 2:
            raise ConnectionError("gone for a moment")
        if len(calls) > 4:
            raise ConnectionError("gone")
        return upsert(name, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(client, "upsert", failing)
        with pytest.raises(ConnectionError):
            store.add(numbered(range(1000)), gaussians(0, 1000))
    assert len(store) == 3 * 128  # whole parts
    store.add(numbered(range(1000)), gaussians(0, 1000))
    assert len(store) == 1000


def test_a_server_that_goes_in_the_middle_of_a_search_is_an_error(store, monkeypatch):
    """Bounded tries, and never some of the hits as if they were all."""
    monkeypatch.setattr(retries, "_wait", lambda state: 0.0)
    store.add(numbered(range(300)), gaussians(0, 300))
    tries = []

    def gone(*arguments, **named):
        tries.append(1)
        raise ResponseHandlingException(OSError("connection reset"))

    view = store.snapshot()
    ids = view.search(QUERY, 20, beta=1.0).passages[0]
    monkeypatch.setattr(store._client, "query_batch_points", gone)
    for ask in (
        lambda: store.search(QUERY, 5, beta=1.0),
        lambda: view.search(QUERY, 5, beta=1.0),
        lambda: view.similarities_near(QUERY, 20, [QUERY.mean]),
    ):
        with pytest.raises(ConnectionError, match=r"does not answer \(connection reset\)"):
            ask()
    assert len(tries) == 15
    assert len(view.vectors([passage.id for passage in ids])) == 20


def test_two_writers_leave_what_both_have_written():
    """Of Qdrant in this process: a folder is one process's at a time, and no server is here."""
    client = QdrantClient(":memory:")
    stores = [QdrantStore(client=client) for _ in range(3)]
    stores[0].add(numbered(range(10)), gaussians(9, 10))
    lock, upsert = threading.Lock(), client.upsert

    def one_at_a_time(*arguments, **named):  # as a server, which local mode is none of
        with lock:
            return upsert(*arguments, **named)

    client.upsert = one_at_a_time

    def write(place, store):
        for _ in range(3):
            store.add(numbered([*range(10), 100 + place]), gaussians(place, 11))

    at_once(write, stores)
    assert {p.id for p in stores[0].passages()} == {f"p{i}" for i in [*range(10), 100, 101, 102]}


def test_a_collection_of_someone_else_is_refused():
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=vectors)
    store = QdrantStore(client=client, collection="theirs")
    for call in (lambda: len(store), lambda: store.add(numbered([1]), gaussians(0, 1))):
        with pytest.raises(ValueError, match="'theirs' is there and was not made by"):
            call()


def test_settings_reach_the_collection():
    client = QdrantClient(":memory:")
    seen = {}
    make = client.create_collection
    client.create_collection = lambda name, **named: seen.update(named) or make(name, **named)
    quantised = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type="int8"))
    links = models.HnswConfigDiff(m=32, ef_construct=200)
    store = QdrantStore(
        client=client, shard_number=3, quantization_config=quantised, hnsw_config=links
    )
    store.add(numbered([1]), gaussians(0, 1))
    assert (seen["shard_number"], seen["quantization_config"]) == (3, quantised)
    assert seen["hnsw_config"] == links


@pytest.mark.parametrize("places", [{}, {"location": ":memory:", "url": "http://x"}])
def test_one_place_is_expected(places):
    with pytest.raises(ValueError, match="location, path, url: expected exactly one"):
        QdrantStore(**places)


def test_what_qdrant_cannot_do_is_said(store, tmp_path):
    store.add(numbered(range(3)), gaussians(0, 3))
    for filter_, message in (
        ({"third": {"$gt": "a"}}, "filter: Qdrant orders numbers only, got $gt 'a' for 'third'"),
        (lambda passage: True, "filter: a callable runs in Python"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            store.search(QUERY, 1, beta=1.0, filter=filter_)
    with pytest.raises(ValueError, match=r"a collection in memory, .* cannot be found again"):
        store.save(tmp_path)
    with pytest.raises(TypeError, match="metadata of 'p1'"):
        store.add(numbered([1], bad={1, 2}), gaussians(0, 1))


@pytest.mark.parametrize("key", ["a b", "a.b", 'quo"te', "ünï", "x[]", "-", "k" * 200])
def test_any_key_may_be_filtered_by(store, key):
    store.add(numbered([1], **{key: 5}), gaussians(0, 1))
    store.add(numbered([2], **{key: ["text"]}), gaussians(1, 1))
    for filter_, wanted in (({key: 5}, "p1"), ({key: {"$gt": 4}}, "p1")):
        assert [p.id for p in store.passages(filter_)] == [wanted]
    assert [p.id for p in store.passages({key: {"$contains": "text"}})] == ["p2"]


def test_an_index_in_a_folder_is_saved_and_opened_by_its_retriever(tmp_path):
    uec = UEC([bag_of_words(24, "words")]).fit(pairs(64))
    texts = passages(50)
    retriever = Retriever(uec, QdrantStore(path=tmp_path / "qdrant", collection="texts"))
    retriever.add(texts)
    found = retriever.search(texts[:3], k=2)
    retriever.save(tmp_path / "index")
    retriever.store.close()
    opened = Retriever.load(tmp_path / "index", uec)
    assert isinstance(opened.store, QdrantStore)
    assert opened.search(texts[:3], k=2).ids == found.ids
    opened.store.close()


def test_an_ensemble_that_was_fitted_anew_is_refused(tmp_path):
    texts = passages(20)
    client = QdrantClient(":memory:")
    first, other = (UEC([bag_of_words(24, "words")]).fit(pairs(64, seed=i)) for i in range(2))
    Retriever(first, QdrantStore(client=client)).add(texts)
    with pytest.raises(ValueError, match="holds vectors of another ensemble"):
        Retriever(other, QdrantStore(client=client))
    assert len(Retriever(first, QdrantStore(client=client))) == 20
