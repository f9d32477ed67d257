import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import random_gaussian
from uec_rag import Gaussian
from uec_rag.base.similarity import moments, probit
from uec_rag.stores import MemoryStore, Passage

PROFILE = np.float32([[0.5, 0.0, 1.0], [0.25, 2.0, 0.0]])
IDS = [*"abcdefghij"]

# Multiples of 1/4 times powers of two: sums of their products are exact in float32, in any order,
# so that the store and the reference must agree to the last bit, ties included. Products are
# multiples of 2^-8, hence 2^12 and not much more beside them, or so much more that nothing is left
# of them.
GRID = st.integers(-4, 4).map(lambda i: i / 4)
SIZES = st.sampled_from([0.0, 0.25, 1.0, 2.0**12, 2.0**60])


def passage(id_, text="text", **metadata):
    return Passage(id_, text, metadata)


def gaussian(mean, scales, factored):
    if factored:
        return Gaussian.factored(mean, scales[:, :2], PROFILE)
    return Gaussian(mean, scales)


@pytest.fixture
def store():
    store = MemoryStore()
    rng = np.random.default_rng(0)
    store.add([passage(id_, f"text of {id_}") for id_ in "abcd"], random_gaussian(rng, 4, 3, 2))
    return store


def more(store, ids, seed=7):
    """Passages of those ids, with Gaussians of the store's posterior."""
    rng = np.random.default_rng(seed)
    profile = store.vectors([]).profile
    scales = rng.gamma(1.0, 1.0, (len(ids), len(profile)))
    gaussians = Gaussian.factored(rng.standard_normal((len(ids), 3)), scales, profile)
    return [passage(id_, f"new text of {id_}") for id_ in ids], gaussians


def everything(store, query, k, beta, keep=lambda passage: True):
    """Score all passages with the pure functions, then sort; ties in the order they came."""
    chosen = [p for p in store.passages() if keep(p)]
    mu, sigma2 = moments(query, store.vectors([p.id for p in chosen]))
    scores = probit(mu, sigma2, beta)
    order = [sorted(range(len(chosen)), key=lambda i: (-row[i], i))[:k] for row in scores]
    return (
        [[chosen[i].id for i in row] for row in order],
        np.take_along_axis(scores, np.array(order, dtype=int).reshape(len(query), -1), axis=1),
    )


def ids(found):
    return [[p.id for p in row] for row in found.passages]


@st.composite
def histories(draw):
    """Writes to a store: each adds or replaces passages, or deletes some."""
    writes = []
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=8, unique=True))
        if draw(st.booleans()) or not writes:
            rows = st.lists(
                st.tuples(GRID, GRID, GRID, SIZES, SIZES, SIZES),
                min_size=len(chosen),
                max_size=len(chosen),
            )
            writes.append((chosen, np.float32(draw(rows))))
        else:
            writes.append((chosen, None))
    return writes


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@settings(max_examples=150, deadline=None)
@given(
    writes=histories(),
    factored=st.booleans(),
    queries=st.lists(
        st.tuples(GRID, GRID, GRID, *[st.sampled_from([0.0, 0.5])] * 3), min_size=1, max_size=3
    ),
    k=st.integers(1, 12),
    beta=st.sampled_from([0.0, 0.01, 1.0, 1e4]),
    letters=st.sets(st.sampled_from(IDS)),
)
def test_search_equals_scoring_everything_whatever_was_written_before(
    dtype, writes, factored, queries, k, beta, letters
):
    store, expected = MemoryStore(dtype=dtype), {}
    for chosen, rows in writes:
        before, there = store.snapshot(), [*store.passages()]
        if rows is None:
            assert store.delete(chosen) == len([expected.pop(i) for i in chosen if i in expected])
        else:
            store.add(
                [
                    passage(i, f"{i} {rows[n]}", even=IDS.index(i) % 2 == 0)
                    for n, i in enumerate(chosen)
                ],
                gaussian(rows[:, :3], rows[:, 3:], factored),
            )
            for n, i in enumerate(chosen):
                expected.pop(i, None)
                expected[i] = (f"{i} {rows[n]}", rows[n])
    assert len(store) == len(expected)
    assert [(p.id, p.text) for p in store.passages()] == [(i, t) for i, (t, _) in expected.items()]
    assert [p.id for p in store.get(IDS)] == [i for i in IDS if i in expected]
    assert [*before.passages()] == there  # as it was before the last write
    if not expected:
        return
    stored = store.vectors(list(expected))
    np.testing.assert_array_equal(stored.mean, [row[:3] for _, row in expected.values()])

    queries = np.float32(queries)
    query = gaussian(queries[:, :3], queries[:, 3:], factored)
    similarities = store.compare([query.mean])[0]
    if dtype == "float32":
        np.testing.assert_array_equal(similarities, query.mean @ stored.mean.T)
    in_letters = lambda p: p.id in letters  # noqa: E731
    cases = [(None, lambda p: True), (in_letters, in_letters)]
    if any(p.metadata["even"] for p in store.passages()):
        cases.append(({"even": True}, lambda p: p.metadata["even"]))
    for filter_, keep in cases:
        wanted, scores = everything(store, query, k, beta, keep)
        kept = [keep(p) for p in store.passages()]
        found, view = store.search(query, k, beta=beta, filter=filter_), store.snapshot(filter_)
        assert ids(found) == wanted
        np.testing.assert_array_equal(found.scores, scores)
        np.testing.assert_array_equal(probit(found.mu, found.sigma2, beta), found.scores)
        assert found.exact
        if any(kept):
            top = view.top_k(query, min(k, len(view)), beta=beta, mu=similarities[:, kept])
            assert view.gather(top.columns) == found.passages
            np.testing.assert_array_equal(top.scores, scores)


def test_where_nothing_is_similar_few_passages_are_scored(tmp_path, monkeypatch):
    """All similarities are negative: their variance is bounded by the store's largest."""
    rng, looked_at = np.random.default_rng(0), []
    mean = np.abs(rng.standard_normal((4000, 3)))
    written = MemoryStore()
    stored = Gaussian.factored(mean, rng.uniform(0.01, 0.02, (4000, 2)), PROFILE)
    written.add([passage(str(i)) for i in range(4000)], stored)
    query = Gaussian(-np.ones((1, 3)), np.full((1, 3), 0.01))
    written.save(tmp_path)

    def counted(mu, sigma2, beta):
        looked_at.append(len(mu))
        return probit(mu, sigma2, beta)

    monkeypatch.setattr("uec_rag.base.similarity.probit", counted)
    for store in (written, MemoryStore.load(tmp_path)):
        looked_at.clear()
        assert ids(store.search(query, 5, beta=1.0)) == everything(store, query, 5, 1.0)[0]
        assert sum(looked_at) < 400


def test_an_interrupted_write_leaves_the_store_as_it_was(store, monkeypatch):
    def interrupt(state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("uec_rag.stores.memory.store.compacted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.add(*more(store, ["b", "lost", "also lost"]))
    assert [p.text for p in store.get(["a", "b", "lost"])] == ["text of a", "text of b"]
    store.add(*more(store, ["e", "f"], seed=8))  # in the rows that were written in vain
    assert [p.text for p in store.get(["b", "lost", "e"])] == ["text of b", "new text of e"]
    store.add(*more(store, ["b"], seed=9))
    assert [p.text for p in store.get(["a", "b", "f"])][1:] == ["new text of b", "new text of f"]
    assert [p.id for p in store.passages()] == ["a", "c", "d", "e", "f", "b"]


@pytest.mark.parametrize("gone", ["", "a", "ad", "bc", "abcd", "eh", "bdfh"])
def test_a_loaded_store_is_saved_byte_for_byte_as_one_that_never_was(tmp_path, store, gone):
    for folder in ("first", "loaded", "other"):
        (tmp_path / folder).mkdir()
    store.save(tmp_path / "first")
    files = {file: file.read_bytes() for file in (tmp_path / "first").iterdir()}
    loaded = MemoryStore.load(tmp_path / "first")
    for one in (loaded, store):
        one.add(*more(store, ["e", "f", "b", "g", "h"]))
        one.delete([*gone])
    assert {file: file.read_bytes() for file in (tmp_path / "first").iterdir()} == files
    loaded.save(tmp_path / "loaded")
    store.save(tmp_path / "other")
    for file in (tmp_path / "other").iterdir():
        assert (tmp_path / "loaded" / file.name).read_bytes() == file.read_bytes(), file.name
    assert [*MemoryStore.load(tmp_path / "loaded").passages()] == [*store.passages()]


def test_files_that_do_not_belong_together_are_refused(tmp_path, store):
    store.save(tmp_path)
    np.save(tmp_path / "mean.0.npy", np.zeros((3, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="Save the index again"):
        MemoryStore.load(tmp_path)


def test_what_is_done_to_a_passage_that_was_read_stays_out_of_the_saved_store(tmp_path):
    store = MemoryStore()
    rng = np.random.default_rng(0)
    store.add([passage("a", tags=["law"])], random_gaussian(rng, 1, 3, 2))
    store.save(tmp_path)
    saved = MemoryStore.load(tmp_path)
    for _ in range(2):  # the second time it is remembered
        [read] = saved.get(["a"])
        assert read.metadata == {"tags": ["law"]}
        read.metadata["tags"].append("tax")


def test_a_loaded_store_lets_go_of_its_files_when_it_is_dropped(store, tmp_path):
    store.save(tmp_path)
    loaded = MemoryStore.load(tmp_path)
    assert loaded.get(["b"])[0].text == "text of b"
    held = weakref.ref(loaded._state.passages)
    gc.disable()
    try:
        del loaded
        assert held() is None
    finally:
        gc.enable()
