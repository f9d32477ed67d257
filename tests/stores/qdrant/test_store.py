"""What is Qdrant's own; the rest is in `test_contract`."""

import threading
import uuid

import pytest
from qdrant_client import QdrantClient, models

from tests.helpers import refused
from tests.stores.kinds import beside
from tests.stores.qdrant_server import running, server_url
from tests.stores.test_contract import gaussians, numbered
from tests.stores.test_contract_words import with_words
from uec_rag.stores.qdrant import QdrantStore
from uec_rag.stores.qdrant.points import CollectionSchema


@pytest.fixture
def store():
    store = QdrantStore(location=":memory:")
    yield store
    store.close()


def test_a_collection_of_someone_else_is_not_taken_for_that_of_the_mark():
    client = QdrantClient(":memory:")
    theirs = QdrantStore(client=client, collection="docs_kept")
    theirs.add(numbered(range(3)), gaussians(0, 3))
    ours = QdrantStore(client=client, collection="docs")
    with pytest.raises(ValueError, match="stored in 'docs_kept', which exists and has other"):
        ours.add(numbered(range(3)), gaussians(0, 3))
    assert (len(theirs), ours.schema()) == (3, None)


@pytest.mark.parametrize("version", ["1.13.2", "1.15.5-dev"])
@pytest.mark.filterwarnings("ignore:Qdrant client version")
def test_a_server_that_is_too_old_is_refused(version):
    with running() as server:
        server.api.version = version
        with pytest.raises(RuntimeError, match=rf"version {version}, expected 1\.16 or newer"):
            QdrantStore(url=server.url)


def test_a_collection_of_someone_else_is_refused():
    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("theirs", vectors_config=vectors)
    store = QdrantStore(client=client, collection="theirs")
    for call in (lambda: len(store), lambda: store.add(numbered([1]), gaussians(0, 1))):
        with pytest.raises(ValueError, match="'theirs' exists and was not created by"):
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


@pytest.mark.parametrize(("given", "error", "message"), refused("QdrantStore"))
def test_what_cannot_be_opened_is_refused_naming_the_argument(given, error, message):
    with pytest.raises(error, match=message):
        QdrantStore(**given)


def test_a_collection_in_memory_cannot_be_saved(store, tmp_path):
    store.add(numbered(range(3)), gaussians(0, 3))
    with pytest.raises(ValueError, match=r"a collection in memory, .* cannot be reopened"):
        store.save(tmp_path)


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
    second._make(CollectionSchema.from_gaussians(gaussians(1, 2), None))
    assert {passage.id for passage in first.passages()} == {"p0", "p1", "p2"}
    second.add(numbered(range(3, 5)), gaussians(1, 2))
    assert len(first) == 5
    first.close()
    second.close()
