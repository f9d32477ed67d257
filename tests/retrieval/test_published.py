"""What one process learns of a corpus, all that search it go by."""

import json
import uuid
import warnings

import pytest

from tests.helpers import as_before, assert_alike, bag_of_words, index_of, pairs, passages
from tests.stores.kinds import KINDS, beside
from tests.stores.postgres_server import server_dsn
from uec_rag import UEC, Retriever
from uec_rag.stores.base import CALIBRATION, put_shared_state
from uec_rag.stores.pgvector import PgVectorStore
from uec_rag.stores.places import store_at

QUESTIONS, ANSWERS = map(list, zip(*pairs(60, seed=3), strict=True))
TEXTS = [*ANSWERS, *passages(240, seed=4)]
IDS = [f"p{i}" for i in range(len(TEXTS))]
LABELS = [[f"p{i}"] for i in range(60)]


@pytest.fixture(scope="module")
def uec():
    return UEC([bag_of_words(24, "bag"), "bm25"]).fit(pairs(200))


@pytest.fixture(params=["postgres", "qdrant's engine"])
def opened(request, uec, tmp_path):
    """Opens the one index anew, as another process does."""
    stores = [KINDS[request.param](tmp_path)]

    def open_it():
        stores.append(beside(stores[0]))
        return Retriever(uec, stores[-1])

    open_it().add(TEXTS, ids=IDS)
    yield open_it
    for store in stores:
        store.close()


def agree(*indexes):
    one, other = (index.search(QUESTIONS[:5], 4) for index in indexes)
    assert one.basis == other.basis
    assert_alike(one, other, rtol=1e-5, atol=1e-7)


def test_a_calibration_counts_for_all_that_search(opened):
    first, second = opened(), opened()
    before = second.search(QUESTIONS[:5]).basis
    first.calibrate(QUESTIONS[:30], LABELS[:30], k=3)
    agree(first, second)
    assert second.search(QUESTIONS[:5]).basis != before
    assert second.calibration == first.calibration
    agree(opened(), first)
    second.calibrate(QUESTIONS[30:], LABELS[30:], k=4)
    agree(first, second)


@pytest.mark.parametrize(
    "search",
    [
        lambda index: index.search_diverse(QUESTIONS[:2]),
        lambda index: index.weighting({}).search(QUESTIONS[:2]),
    ],
    ids=["diverse", "weights"],
)
def test_what_another_has_calibrated_is_read_once(opened, search, monkeypatch):
    first, second = opened(), opened()
    first.calibrate(QUESTIONS[:30], LABELS[:30], k=3)
    read, get_state = [], type(second.store).get_state
    monkeypatch.setattr(
        type(second.store), "get_state", lambda *args: read.append(args[1]) or get_state(*args)
    )
    assert search(second).basis == search(second).basis
    assert second.calibration == first.calibration
    assert read.count(CALIBRATION) == 1


def test_who_searches_is_told_once_that_another_has_changed_what_was_calibrated(opened):
    first, second = opened(), opened()
    first.calibrate(QUESTIONS[:30], LABELS[:30], k=3)
    with warnings.catch_warnings(action="error"):
        second.search(QUESTIONS[:2])
    opened().add(["something new"], ids=["new"])
    for retriever in (first, second):
        with pytest.warns(UserWarning, match="index has changed since it was calibrated"):
            retriever.search(QUESTIONS[:2])
        with warnings.catch_warnings(action="error"):
            retriever.search(QUESTIONS[:2])


def test_a_calibration_on_other_features_is_not_taken_over_and_that_is_said_once(opened):
    first, second = opened(), opened()
    first.calibrate(QUESTIONS[:30], LABELS[:30], k=3)
    state = {"calibration": as_before(first.calibration.metadata()), "written": "before"}
    put_shared_state(first.store, CALIBRATION, json.dumps(state).encode())
    with pytest.warns(UserWarning, match="calibration on this corpus is not used. Calibrate ag"):
        second.search(QUESTIONS[:2])
    with warnings.catch_warnings(action="error"):
        second.search(QUESTIONS[:2])
    assert second.calibration is None


def test_a_saved_index_is_opened_with_what_was_learned_since(uec, tmp_path):
    store = PgVectorStore(server_dsn(), collection=f"t{uuid.uuid4().hex}")
    retriever = index_of(uec, TEXTS, IDS, store=store)
    retriever.calibrate(QUESTIONS[:30], LABELS[:30], k=3)
    retriever.save(tmp_path / "index")
    retriever.calibrate(QUESTIONS[30:], LABELS[30:], k=4)
    opened = Retriever.load(tmp_path / "index", uec, store=store_at(store.address))
    assert opened.calibration == retriever.calibration
    for one in (opened, retriever):
        one.store.close()
