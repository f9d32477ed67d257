"""Approximate search against exact search of the same store."""

import contextlib
import copy
import hashlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch  # noqa: F401  before usearch, which makes torch.jit.script hang otherwise
from hypothesis import given, settings
from hypothesis import strategies as st
from usearch.index import Index

from tests.helpers import bag_of_words, pairs, passages, random_gaussian
from uec_rag import UEC, Gaussian, IndexCorrupted
from uec_rag.retrieval import Retriever
from uec_rag.stores import MemoryStore, Passage
from uec_rag.stores.memory.graph import Graph

ADD = Index.add
COUNT, DIMENSION = 3000, 16
PROFILE = np.random.default_rng(5).gamma(1.0, 0.05, (2, DIMENSION))


def clustered(seed, count):
    """Unit vectors around centres, with a small variance of the same profile always."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(6).standard_normal((40, DIMENSION))
    mean = centres[rng.integers(40, size=count)] + 0.5 * rng.standard_normal((count, DIMENSION))
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    return Gaussian.factored(mean, rng.gamma(1.0, 1.0, (count, 2)), PROFILE)


def numbered(numbers):
    return [Passage(str(i), f"text {i}", {"third": i % 3 == 0}) for i in numbers]


def ids(found):
    return [[p.id for p in row] for row in found.passages]


def recall(found, wanted):
    pairs = zip(ids(found), ids(wanted), strict=True)
    return np.mean([len({*a} & {*b}) / len(b) for a, b in pairs])


@pytest.fixture
def stores():
    """An approximate store and an exact one of the same history of adds, replaces and deletes."""
    both = MemoryStore(index="hnsw"), MemoryStore()
    for store in both:
        store.add(numbered(range(COUNT // 2)), clustered(0, COUNT // 2))
        store.add(numbered(range(COUNT // 2, COUNT)), clustered(1, COUNT // 2))
        store.add(numbered(range(100, 300)), clustered(2, 200))
        store.delete([str(i) for i in range(400, 900)])
    return both


QUERIES = clustered(3, 30)


def assert_alike(approximate, exact, **options):
    found = approximate.search(QUERIES, 10, beta=1.0, **options)
    wanted = exact.search(QUERIES, 10, beta=1.0, **options)
    assert recall(found, wanted) >= 0.97
    for row in range(len(QUERIES)):
        scores = dict(zip(ids(wanted)[row], wanted.scores[row], strict=True))
        for id_, score in zip(ids(found)[row], found.scores[row], strict=True):
            assert score == pytest.approx(scores.get(id_, score), rel=1e-5)
    assert (np.diff(found.scores) <= 0).all()
    return found


def test_hits_are_those_of_an_exact_search_after_adds_replaces_and_deletes(stores):
    assert_alike(*stores)


def test_hits_pass_the_filter_whether_it_lets_through_many_or_few(stores):
    for filter_ in ({"third": True}, lambda p: int(p.id) % 50 == 0):
        assert_alike(*stores, filter=filter_)


def test_a_snapshot_finds_what_was_there_and_nothing_later(stores):
    approximate, exact = stores
    views = [store.snapshot() for store in stores]
    for store in (approximate, exact):
        store.add(numbered(range(COUNT, COUNT + len(QUERIES))), QUERIES)
        store.delete([str(i) for i in range(300)])
    assert_alike(*views)
    assert_alike(approximate, exact)


def test_most_being_deleted_the_rest_is_found(stores):
    for store in stores:
        store.delete([str(i) for i in range(2500)])
    assert_alike(*stores)


def test_a_saved_graph_comes_back_and_is_written_to(stores, tmp_path):
    approximate, exact = stores
    before = approximate.search(QUERIES, 10, beta=1.0)
    approximate.save(tmp_path)
    loaded = MemoryStore.load(tmp_path)
    assert ids(loaded.search(QUERIES, 10, beta=1.0)) == ids(before)
    for store in (loaded, exact):
        store.add(numbered([5000]), clustered(9, 1))
        store.delete(["7"])
    assert_alike(loaded, exact)
    assert ids(approximate.search(QUERIES, 10, beta=1.0)) == ids(before)


def test_an_interrupted_write_leaves_nothing_in_the_graph(stores, monkeypatch):
    approximate, exact = stores
    lost = QUERIES[list(range(20))]

    def interrupt(state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("uec_rag.stores.memory.store.compacted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            approximate.add(numbered(range(6000, 6020)), lost)
    assert_alike(approximate, exact)
    for store in (approximate, exact):
        store.add(numbered(range(7000, 7020)), clustered(11, 20))
    assert_alike(approximate, exact)


def half_added(index, keys, vectors, **options):
    """What usearch leaves and says when it is interrupted."""
    half = len(keys) // 2
    ADD(index, keys[:half], vectors[:half], **options)
    raise RuntimeError("Operation has been terminated")


def test_an_interrupt_while_the_graph_grows_leaves_the_store_as_it_was(
    stores, monkeypatch, tmp_path
):
    approximate, exact = stores
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr("usearch.index.Index.add", half_added)
            with pytest.raises(KeyboardInterrupt):
                approximate.add(numbered(range(6000, 6200)), clustered(12, 200))
        assert_alike(approximate, exact)
    for store in (approximate, exact):
        store.add(numbered(range(7000, 7200)), clustered(12, 200))
    assert_alike(approximate, exact)
    approximate.save(tmp_path)
    assert_alike(MemoryStore.load(tmp_path), exact)


@pytest.mark.interrupts
@pytest.mark.parametrize("delay", [0.002, 0.01, 0.03, 0.06])
def test_a_keyboard_interrupt_at_any_time_leaves_a_store_that_works(delay):
    """Either all passages are there or none of them, and all that are there are found."""
    approximate, exact = MemoryStore(index="hnsw"), MemoryStore()
    for store in (approximate, exact):
        store.add(numbered(range(500)), clustered(0, 500))
    more = numbered(range(1000, 4000)), clustered(1, 3000)
    came = []

    def interrupt(*_):
        came.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    with contextlib.suppress(KeyboardInterrupt):  # wherever in here it comes
        try:
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
            approximate.add(*more)
        finally:
            while not came:
                time.sleep(0.001)
    signal.signal(signal.SIGINT, before)
    if len(approximate) > 500:
        exact.add(*more)
    assert len(approximate) == len(exact)
    assert_alike(approximate, exact)
    for store in (approximate, exact):
        store.add(*more)
    assert_alike(approximate, exact)


def copied(numbers, seed):
    """So many passages, nine of ten copies of others, in any order."""
    rng = np.random.default_rng(seed)
    distinct = clustered(seed, len(numbers) // 10)
    return numbered(numbers), distinct[rng.integers(len(distinct), size=len(numbers))]


def test_copies_hide_neither_each_other_nor_other_passages(tmp_path):
    approximate, exact = MemoryStore(index="hnsw"), MemoryStore()
    for store in (approximate, exact):
        store.add(*copied(range(4000), seed=0))
        store.add(*copied(range(3000, 6000), seed=1))
        store.add(*copied(range(6000, 7000), seed=0))
        store.delete([str(i) for i in range(0, 7000, 5)])
    approximate.save(tmp_path)
    loaded = MemoryStore.load(tmp_path)
    loaded.add(numbered([9999]), clustered(5, 1))
    loaded.delete(["9999"])
    asked = exact.vectors([p.id for p in exact.passages()][::20])
    queries = Gaussian(asked.mean, np.zeros_like(asked.mean))
    wanted = exact.search(queries, 10, beta=1.0)
    for store in (approximate, loaded):
        found = store.search(queries, 10, beta=1.0)
        best = np.isclose(found.scores[:, 0], wanted.scores[:, 0], rtol=1e-5)
        assert best.mean() >= 0.98
        assert np.isclose(found.scores, wanted.scores, rtol=1e-5).mean() >= 0.99


def test_the_same_passages_make_the_same_graph(tmp_path):
    written = []
    for name in ("one", "other"):
        store = MemoryStore(index="hnsw")
        store.add(numbered(range(3000)), clustered(0, 3000))
        (tmp_path / name).mkdir()
        store.save(tmp_path / name)
        written.append((tmp_path / name / "graph.usearch").read_bytes())
    assert written[0] == written[1]


def test_a_graph_has_one_node_for_each_distinct_mean():
    store = MemoryStore(index="hnsw")
    for start in (0, 1000):
        store.add(*copied(range(start, start + 1000), seed=0))
    assert len(store._state.graph._index) <= 100


def test_equal_passages_are_found_in_the_order_they_came():
    store, one = MemoryStore(index="hnsw"), clustered(0, 1)
    store.add(numbered(range(300)), clustered(1, 300))
    store.add(numbered(range(1000, 1600)), one[[0] * 600])
    query = Gaussian(one.mean, np.zeros_like(one.mean))
    assert ids(store.search(query, 4, beta=1.0)) == [["1000", "1001", "1002", "1003"]]


def test_a_graph_of_which_all_is_deleted_takes_any_dimension_again():
    store = MemoryStore(index="hnsw")
    store.add(numbered(range(20)), clustered(0, 20))
    store.delete([str(i) for i in range(20)])
    store.add(numbered([1]), Gaussian([[1.0, 0.0]], [[0.0, 0.0]]))
    assert ids(store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), 1, beta=1.0)) == [["1"]]


@pytest.mark.parametrize("place", [40, 1000, -1])
def test_a_graph_file_that_was_changed_is_refused(stores, tmp_path, place):
    approximate, _ = stores
    approximate.save(tmp_path)
    content = bytearray((tmp_path / "graph.usearch").read_bytes())
    content[place] ^= 1
    (tmp_path / "graph.usearch").write_bytes(content)
    with pytest.raises(ValueError, match=r"graph.usearch' is not the file that was saved"):
        MemoryStore.load(tmp_path)


def _sealed_again(folder, content):
    """Write a graph's file, with its right hash beside it."""
    (folder / "graph.usearch").write_bytes(content)
    settings = json.loads((folder / "store.json").read_text())
    settings["graph"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "store.json").write_text(json.dumps(settings))


# Of 40 nodes behind 8 bytes and 40 vectors of 16 numbers: what is wrong, where, and in what form.
WRONG = {
    "more nodes than vectors": (1352, "<Q", 41),
    "more links than there is room for": (1360, "<Q", 17),
    "an entry that is no node": (1384, "<Q", 40),
    "a highest level that the entry does not reach": (1376, "<Q", 9),
    "a node of another level than is listed": (1392, "<h", 1),
    "a level below the lowest": (1392, "<h", -1),
    "more links of a node than fit": (1482, "<I", 33),
    "a link out of the graph": (1486, "<I", 40),
    "numbers of another type": (1302, "<B", 11),
    "another width": (1321, "<Q", 8),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_graph_that_leads_out_of_itself_is_refused_whatever_its_hash(tmp_path, wrong):
    store = MemoryStore(index="hnsw")
    store.add(numbered(range(40)), clustered(0, 40))
    store.save(tmp_path)
    content = bytearray((tmp_path / "graph.usearch").read_bytes())
    place, form, value = WRONG[wrong]
    struct.pack_into(form, content, place, value)
    _sealed_again(tmp_path, content)
    with pytest.raises(IndexCorrupted, match="is no graph over means of dimension 16"):
        MemoryStore.load(tmp_path)


def test_a_graph_of_another_version_of_usearch_is_refused(tmp_path):
    store = MemoryStore(index="hnsw")
    store.add(numbered(range(40)), clustered(0, 40))
    store.save(tmp_path)
    content = bytearray((tmp_path / "graph.usearch").read_bytes())
    struct.pack_into("<H", content, 1295, 99)
    _sealed_again(tmp_path, content)
    with pytest.raises(IndexCorrupted, match=r"graph\.usearch' cannot be opened"):
        MemoryStore.load(tmp_path)


def test_a_link_to_a_node_that_does_not_reach_its_level_is_refused(tmp_path):
    store = MemoryStore(index="hnsw")
    store.add(numbered(range(COUNT)), clustered(0, COUNT))
    store.save(tmp_path)
    content = bytearray((tmp_path / "graph.usearch").read_bytes())
    start = 8 + COUNT * 2 * DIMENSION + 104
    levels = np.frombuffer(content, "<i2", COUNT, start)
    high, low = int(np.flatnonzero(levels > 0)[0]), int(np.flatnonzero(levels == 0)[0])
    at_level_one = start + 2 * COUNT + 142 * (high + 1) + 68 * int(levels[:high].sum())
    del levels
    assert struct.unpack_from("<I", content, at_level_one)[0] > 0
    struct.pack_into("<I", content, at_level_one + 4, low)
    _sealed_again(tmp_path, content)
    with pytest.raises(IndexCorrupted, match="whose links lead to its nodes"):
        MemoryStore.load(tmp_path)


def test_search_says_that_it_is_not_proven_exact_except_where_it_is(stores):
    approximate, _ = stores
    assert not approximate.search(QUERIES, 10, beta=1.0).exact
    few = MemoryStore(index="hnsw")
    few.add(numbered(range(50)), clustered(0, 50))
    assert few.search(QUERIES, 10, beta=1.0).exact
    # Longer than all others, along the query and certain: only a passage as long could enter.
    along = np.eye(DIMENSION)[[0] * 19 + [1]] * ([[2.0]] * 19 + [[1.9]])
    approximate.add(
        numbered(range(8000, 8020)), Gaussian.factored(along, np.zeros((20, 2)), PROFILE)
    )
    approximate.add(numbered([9000]), Gaussian.factored(2.5 * along[:1], np.zeros((1, 2)), PROFILE))
    query = Gaussian(np.eye(DIMENSION)[:1], np.zeros((1, DIMENSION)))
    found = approximate.search(query, 1, beta=1.0)
    assert ids(found) == [["9000"]]
    assert found.exact
    assert not approximate.search(query, 2, beta=1.0).exact


def test_more_hits_than_candidates_are_all_found(stores):
    approximate, exact = stores
    found = approximate.search(QUERIES, 2800, beta=1.0)
    wanted = exact.search(QUERIES, 2800, beta=1.0)
    assert found.exact
    assert [sorted(row) for row in ids(found)] == [sorted(row) for row in ids(wanted)]
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-6)


def test_an_empty_index_finds_nothing(tmp_path):
    store = MemoryStore(index="hnsw")
    assert store.search(QUERIES, 3, beta=1.0).scores.shape == (30, 0)
    store.save(tmp_path)
    loaded = MemoryStore.load(tmp_path)
    loaded.add(numbered(range(200)), clustered(0, 200))
    assert len(loaded.search(QUERIES, 3, beta=1.0).passages[0]) == 3


@pytest.mark.slow
def test_torch_still_compiles_scripts_in_a_process_that_made_a_graph_first():
    """Loaded before torch, usearch makes torch.jit.script hang: the graph loads torch first."""
    code = (
        "from uec_rag.stores import MemoryStore; MemoryStore(index='hnsw'); import torch;"
        "print(torch.jit.script(torch.nn.Linear(1, 1))(torch.ones(1)).shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_unknown_index_is_refused():
    with pytest.raises(ValueError, match=r"index: expected None \(exact search\) or 'hnsw'"):
        MemoryStore(index="ivf")


def test_known_similarities_make_the_search_exact(stores):
    approximate, exact = stores
    query = random_gaussian(np.random.default_rng(0), 3, DIMENSION)
    mu = approximate.similarities([query.mean])[0]
    found = approximate.search(query, 10, beta=1.0, mu=mu)
    assert found.exact
    assert ids(found) == ids(exact.search(query, 10, beta=1.0))


def test_a_retriever_asks_candidates_as_it_would_ask_the_corpus():
    """Coefficients and confidence rest on candidates and a sample; they are those of the whole."""
    encoders = [bag_of_words(24, "first"), bag_of_words(32, "second", seed=1)]
    uec = UEC(encoders).fit(pairs(200))
    texts, questions = passages(3000, seed=1), [q for q, _ in pairs(40, seed=1)]
    exact, approximate = Retriever(uec), Retriever(uec, MemoryStore(index="hnsw"))
    for retriever in (exact, approximate):
        retriever.add(texts, ids=[str(i) for i in range(len(texts))])
    wanted, found = (r.search(questions, k=10) for r in (exact, approximate))
    assert wanted.exact
    assert not found.exact
    overlap = [len({*a} & {*b}) / 10 for a, b in zip(wanted.ids, found.ids, strict=True)]
    assert np.mean(overlap) >= 0.95
    np.testing.assert_allclose(found.coefficients, wanted.coefficients, atol=0.1)
    assert np.corrcoef(found.confidence, wanted.confidence)[0, 1] > 0.9
    assert found.relevance.min() >= 0
    assert found.relevance.max() <= 1
    assert approximate.search([], k=3).scores.shape[0] == 0


def asked_for(store, monkeypatch):
    """How many nodes a search of the ten best asks the graph for."""
    counts, nearest = [], Graph.nearest

    def noting(self, mean, count):
        counts.append(count)
        return nearest(self, mean, count)

    monkeypatch.setattr(Graph, "nearest", noting)
    store.search(clustered(99, 1), 10, beta=1.0)
    return counts[-1]


def test_a_search_looks_at_as_many_candidates_as_were_asked_for(tmp_path, monkeypatch):
    store = MemoryStore(index="hnsw", candidates=77)
    assert store.candidates == 77
    store.add(numbered(range(600)), clustered(0, 600))
    assert asked_for(store, monkeypatch) == 77
    store.save(tmp_path)
    loaded = MemoryStore.load(tmp_path)
    assert (loaded.candidates, asked_for(loaded, monkeypatch)) == (77, 77)
    loaded.candidates = 400
    assert asked_for(loaded, monkeypatch) == 400
    loaded.delete([str(i) for i in range(100)])
    loaded.delete([str(i) for i in range(100, 550)])  # the rest is copied together
    assert loaded.candidates == 400
    assert (MemoryStore(index="hnsw").candidates, MemoryStore().candidates) == (256, None)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (0, ValueError, "candidates: expected an integer >= 1, got 0"),
        (2.5, TypeError, "candidates: expected an integer, got 2.5"),
    ],
)
def test_what_is_no_number_of_candidates_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        MemoryStore(index="hnsw", candidates=given)
    with pytest.raises(error, match=message):
        MemoryStore(index="hnsw").candidates = given
    with pytest.raises(error, match=message):
        MemoryStore(candidates=given)
    for without in (
        lambda: setattr(MemoryStore(), "candidates", 5),
        lambda: MemoryStore(candidates=5),
    ):
        with pytest.raises(ValueError, match="candidates: this store has no graph"):
            without()


GRID = [[x, y, z] for x in range(3) for y in range(3) for z in range(3) if x + y + z]
steps = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(st.integers(0, 9), st.integers(0, 25), min_size=1)),
    st.tuples(st.just("delete"), st.sets(st.integers(0, 9), min_size=1)),
    st.tuples(st.sampled_from(["saved", "pickled", "copied", "snapshot"]), st.none()),
)


def again(how, store):
    """The store as it comes back from where it was put."""
    if how == "pickled":
        return pickle.loads(pickle.dumps(store))
    if how in ("copied", "snapshot"):
        return copy.deepcopy(store if how == "copied" else store.snapshot())
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder))
        return MemoryStore.load(Path(folder))


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=14), st.sampled_from(["float32", "int8"]))
def test_whatever_was_added_and_deleted_comes_back_from_where_it_was_saved(history, dtype):
    store, held = MemoryStore(index="hnsw", dtype=dtype), {}
    query = Gaussian(np.eye(3), np.zeros((3, 3)))
    for step, what in [*history, ("saved", None)]:
        if step == "add":
            mean = np.array([GRID[place] for place in what.values()])
            store.add(numbered(what), Gaussian(mean, np.zeros((len(what), 3))))
            held = {id_: place for id_, place in held.items() if id_ not in what} | what
        elif step == "delete":
            store.delete([str(id_) for id_ in what])
            held = {id_: place for id_, place in held.items() if id_ not in what}
        else:
            store = again(step, store)
        assert [p.id for p in store.passages()] == [str(id_) for id_ in held]
        found = store.search(query, 20, beta=1.0)
        for axis, row in enumerate(ids(found)):
            wanted = sorted(held, key=lambda id_, axis=axis: -GRID[held[id_]][axis])
            assert row == [str(id_) for id_ in wanted]


def test_a_snapshot_that_is_asked_again_answers_the_same_whatever_the_graph_became():
    store, rng = MemoryStore(index="hnsw", candidates=12), np.random.default_rng(0)
    mean = rng.standard_normal((2000, DIMENSION))
    store.add(numbered(range(2000)), Gaussian(mean, np.zeros(mean.shape)))
    views = store.snapshot(), store.snapshot({"third": True})
    before = [view.search(QUERIES, 10, beta=1.0) for view in views]
    near = [view.similarities_near(QUERIES, 12, [QUERIES.mean])[0] for view in views]
    for start in range(2000, 4000, 250):
        mean = 0.9 * QUERIES.mean[rng.integers(len(QUERIES), size=250)]
        mean += 0.3 * rng.standard_normal(mean.shape)
        store.add(numbered(range(start, start + 250)), Gaussian(mean, np.zeros(mean.shape)))
    for view, was, close in zip(views, before, near, strict=True):
        found = view.search(QUERIES, 10, beta=1.0)
        assert ids(found) == ids(was)
        np.testing.assert_array_equal(found.scores, was.scores)
        same = view.similarities_near(QUERIES, 12, [QUERIES.mean])[0]
        np.testing.assert_array_equal(same, close)
    assert ids(store.search(QUERIES, 10, beta=1.0)) != ids(before[0])
