"""What is Qdrant's own; the rest is in `test_contract`."""

import threading
import uuid

import pytest
from qdrant_client import QdrantClient, models

from tests.helpers import bag_of_words, pairs, passages
from tests.stores.kinds import beside
from tests.stores.qdrant_server import running, server_url
from tests.stores.test_contract import QUERY, gaussians, numbered
from tests.stores.test_contract_engines import exact_order
from tests.stores.test_contract_words import with_words
from uec_rag import UEC, Gaussian, Retriever
from uec_rag.stores.engine.points import CollectionSchema
from uec_rag.stores.qdrant import QdrantStore


@pytest.fixture
def store():
    store = QdrantStore(location=":memory:")
    yield store
    store.close()


def test_a_collection_of_someone_else_is_not_taken_for_what_is_kept():
    client = QdrantClient(":memory:")
    theirs = QdrantStore(client=client, collection="docs_kept")
    theirs.add(numbered(range(3)), gaussians(0, 3))
    ours = QdrantStore(client=client, collection="docs")
    with pytest.raises(ValueError, match="stored in 'docs_kept', which exists and holds something"):
        ours.add(numbered(range(3)), gaussians(0, 3))
    assert (len(theirs), ours.notes()) == (3, None)


@pytest.mark.parametrize("version", ["1.13.2", "1.15.5-dev"])
@pytest.mark.filterwarnings("ignore:Qdrant client version")
def test_a_server_that_is_too_old_is_refused(version):
    with running() as server:
        server.api.version = version
        with pytest.raises(RuntimeError, match=rf"version {version}, expected 1\.16 or newer"):
            QdrantStore(url=server.url)


def unsure(count):
    """Gaussians whose variances move the best by s_hat away from those by mu_s."""
    some = gaussians(0, count)
    return Gaussian.factored(some.mean, 100 * some.scales, some.profile, widths=some.widths)


def test_as_many_candidates_are_scored_as_were_asked_for_also_when_it_is_opened_again(tmp_path):
    stored = unsure(1000)
    store = QdrantStore(url=server_url(), collection=f"t{uuid.uuid4().hex}", candidates=20)
    store.add(numbered(range(1000)), stored)
    wanted = exact_order(stored, QUERY, 20, 5).tolist()
    assert wanted != exact_order(stored, QUERY, 256, 5).tolist()
    (tmp_path / "saved").mkdir()
    store.save(tmp_path / "saved")
    for turn in (1, 2):
        found = store.search(QUERY, 5, beta=1.0)
        assert [[int(p.id[1:]) for p in row] for row in found.passages] == wanted, turn
        store.close()
        store = QdrantStore.load(tmp_path / "saved", trust=True)
    store.close()


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), ("many", TypeError)])
def test_a_number_of_candidates_is_expected(given, error):
    with pytest.raises(error, match="candidates: expected an integer"):
        QdrantStore(location=":memory:", candidates=given)
    store = QdrantStore(location=":memory:")
    with pytest.raises(error, match="candidates: expected an integer"):
        store.candidates = given
    assert store.candidates == 256


def test_a_collection_of_someone_else_is_refused():
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=vectors)
    store = QdrantStore(client=client, collection="theirs")
    for call in (lambda: len(store), lambda: store.add(numbered([1]), gaussians(0, 1))):
        with pytest.raises(ValueError, match="'theirs' exists and was not made by"):
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


@pytest.mark.parametrize("name", ["", "a/b", "..\\up", "x" * 251, "n\0l", "\ud800", "a?b", "l\n"])
def test_names_that_qdrant_does_not_take_are_refused(name, tmp_path):
    for place in ({"location": ":memory:"}, {"path": tmp_path / "qdrant"}):
        with pytest.raises(ValueError, match="collection: expected 1 to 250 bytes without any of"):
            QdrantStore(collection=name, **place)
    assert not (tmp_path / "qdrant").exists()


@pytest.mark.parametrize("places", [{}, {"location": ":memory:", "url": "http://x"}])
def test_one_place_is_expected(places):
    with pytest.raises(ValueError, match="location, path, url: expected exactly one"):
        QdrantStore(**places)


def test_settings_that_qdrant_does_not_know_are_refused_before_anything_is_encoded():
    with pytest.raises(TypeError, match=r"settings: .* takes no \['prefer_grpc', 'shards'\]"):
        QdrantStore(location=":memory:", shards=3, prefer_grpc=True)


def test_a_collection_in_memory_cannot_be_saved(store, tmp_path):
    store.add(numbered(range(3)), gaussians(0, 3))
    with pytest.raises(ValueError, match=r"a collection in memory, .* cannot be reopened"):
        store.save(tmp_path)


def test_an_index_in_a_folder_is_saved_and_opened_by_its_retriever(tmp_path):
    uec = UEC([bag_of_words(24, "words")]).fit(pairs(64))
    texts = passages(50)
    retriever = Retriever(uec, QdrantStore(path=tmp_path / "qdrant", collection="texts"))
    retriever.add(texts)
    found = retriever.search(texts[:3], k=2)
    retriever.save(tmp_path / "index")
    retriever.store.close()
    store = QdrantStore(path=tmp_path / "qdrant", collection="texts")
    opened = Retriever.load(tmp_path / "index", uec, store=store)
    assert isinstance(opened.store, QdrantStore)
    assert opened.search(texts[:3], k=2).ids == found.ids
    opened.store.close()


def test_the_words_of_a_query_are_counted_at_once_and_once_until_somebody_writes():
    query, asked, inside = with_words(9, 1), [], set()
    terms = len({*query.terms[0].keys.tolist()})
    assert 4 < terms <= 16

    def before(method, path):
        asked.append(path.rpartition("/")[2])
        if asked[-1] == "count":
            inside.add(threading.get_ident())
            waiting.wait()

    def requests(view):
        asked.clear()
        hits = view.search(query, 3, beta=1.0)
        return hits.scores.tolist(), {kind: asked.count(kind) for kind in ("count", "facet")}

    with running() as server:
        store = QdrantStore(url=server.url)
        store.add(numbered(range(50)), with_words(0, 50))
        waiting = threading.Barrier(terms, timeout=20)  # who is alone breaks it
        first, view = store.snapshot(), store.snapshot()
        assert len(first) == len(view) == 50
        server.before = before
        scores, sent = requests(first)
        assert (len(inside), sent) == (terms, {"count": terms, "facet": 1})
        waiting = threading.Barrier(1)
        for again in (view, store.snapshot(), first):
            len(again)
            assert requests(again) == (scores, {"count": 0, "facet": 0})
        beside(store).add(numbered(range(50, 60)), with_words(1, 10))
        changed, sent = requests(store)
        assert sent == {"count": 1 + terms, "facet": 1}  # one for all passages
        assert changed != scores
        assert requests(first) == (scores, {"count": 0, "facet": 0})
        store.close()


def test_a_collection_that_another_writer_has_just_made_is_not_made_again():
    first = QdrantStore(url=server_url(), collection=f"t{uuid.uuid4().hex}")
    second = beside(first)
    first.add(numbered(range(3)), gaussians(0, 3))
    second.make(CollectionSchema.of(gaussians(1, 2), None))
    assert {passage.id for passage in first.passages()} == {"p0", "p1", "p2"}
    second.add(numbered(range(3, 5)), gaussians(1, 2))
    assert len(first) == 5
    first.close()
    second.close()
