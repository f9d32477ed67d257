"""Large scans read bytes or floats, and find what a product of the vectors finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uec_rag import Gaussian
from uec_rag.stores import LocalStore, Passage
from uec_rag.stores.local import segments, view

WIDTH = 8


def filled(means: np.ndarray, seed: int = 0) -> LocalStore:
    """A store of two segments."""
    store, spread = LocalStore(), np.random.default_rng(seed).random(means.shape) / 16
    given_, half = Gaussian(means, np.float32(spread)), len(means) // 2
    for rows in (range(half), range(half, len(means))):
        some = given_[rows.start : rows.stop]
        store.add([Passage(str(n), str(n), {"third": n % 3}) for n in rows], some)
    return store


WAYS = (segments.Scan.by_bytes, segments.Scan.by_floats)


def each_way(store: LocalStore, query: Gaussian, k: int, among: object, monkeypatch) -> list:
    """What is found by a product of the vectors, by bytes, and by floats."""
    found = []
    for most, way in ((2**40, WAYS[0]), *((0, way) for way in WAYS)):
        monkeypatch.setattr(view, "MANY", most)
        monkeypatch.setattr(segments, "_WAYS", (way, way))
        found.append(store.snapshot(among).search(query, k, beta=1.0))
    return found


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 600),
    distinct=st.integers(1, 40),
    k=st.integers(1, 40),
    among=st.sampled_from([None, {"third": 1}]),
    leading=st.sampled_from([1, 5, 128]),
    longest=st.sampled_from([2.0**-60, 1.0, 2.0**40]),
)
def test_hits_scores_and_ties_are_those_of_the_vectors(
    seed, count, distinct, k, among, leading, longest
):
    """Of eighths, whose products are exact in both ways, so that equal passages are equal."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(-8, 9, (distinct, WIDTH)).astype(np.float32) / 8
    means = kinds[rng.integers(distinct, size=count)] * np.float32(longest)
    query = Gaussian(np.float32(rng.integers(-8, 9, (3, WIDTH)) / 8), np.zeros((3, WIDTH)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "LEADING", leading)
        plain, *every = each_way(filled(means, seed), query, k, among, patch)
    for scanned in every:
        assert [[p.id for p in row] for row in scanned.passages] == [
            [p.id for p in row] for row in plain.passages
        ]
        np.testing.assert_array_equal(scanned.mu, plain.mu)
        np.testing.assert_array_equal(scanned.scores, plain.scores)


def test_neither_the_way_nor_how_many_are_asked_at_once_changes_a_bit(monkeypatch):
    """So that whatever is faster here may be chosen."""
    rng = np.random.default_rng(0)
    store = filled(np.float32(rng.standard_normal((900, 48))))
    asked = Gaussian(np.float32(rng.standard_normal((40, 48))), np.zeros((40, 48)))
    _, by_bytes, by_floats = each_way(store, asked, 5, None, monkeypatch)
    np.testing.assert_array_equal(by_bytes.mu, by_floats.mu)
    for row in range(40):
        alone = each_way(store, asked[row : row + 1], 5, None, monkeypatch)
        for one in alone[1:]:
            np.testing.assert_array_equal(one.mu[0], by_bytes.mu[row])


def test_scans_go_the_faster_way_and_try_the_other_ever_more_seldom(monkeypatch):
    """The clock says that floats take twice as long for one question, and half for two."""
    now = [0.0]
    monkeypatch.setattr(segments, "_scan_times", {})
    monkeypatch.setattr(segments, "perf_counter", lambda: now[0])
    for count, seconds, faster in ((1, (1.0, 2.0), 0), (2, (1.0, 0.5), 1)):
        gone = []
        for _ in range(16):
            with segments.faster_way(count, 100, (4,)) as way:
                gone.append(WAYS.index(way))
                now[0] += seconds[gone[-1]]
        others = [3, 7, 15]
        assert gone[:2] == [0, 1]
        assert gone[2:] == [1 - faster if at in others else faster for at in range(2, 16)]


def test_a_way_that_was_disturbed_once_is_found_to_be_the_faster_one(monkeypatch):
    now, gone = [0.0], []
    monkeypatch.setattr(segments, "_scan_times", {})
    monkeypatch.setattr(segments, "perf_counter", lambda: now[0])
    for number in range(12):
        with segments.faster_way(1, 100, (4,)) as way:
            gone.append(WAYS.index(way))
            now[0] += (9.0 if number == 0 else 1.0) if gone[-1] == 0 else 2.0
    assert gone == [0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    width=st.sampled_from([1, 3, 384, 1100]),
    count=st.integers(1, 300),
    longest=st.sampled_from([1e-30, 1e-3, 1.0, 1e15]),
)
def test_no_similarity_is_further_off_than_its_bound(seed, width, count, longest):
    rng = np.random.default_rng(seed)
    shape = rng.choice([1.0, 30.0, 0.0], (count, width))  # some numbers far above the others
    means = np.float32(rng.standard_normal((count, width)) * shape * longest)
    queries = np.float32(rng.standard_normal((2, width)))
    exact = queries.astype(float) @ means.T.astype(float)
    for way in WAYS:
        product, error = way(segments.Scan.from_means(means), queries)
        assert (np.abs(product - exact) <= error[:, None]).all()


@pytest.mark.slow
def test_the_highest_of_each_block_and_what_was_refined_are_exact(monkeypatch):
    monkeypatch.setattr(segments, "_WAYS", (WAYS[0], WAYS[0]))
    rng = np.random.default_rng(0)
    means = np.float32(rng.standard_normal((segments.MANY, 32)))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    queries, held = means[:2], filled(means).snapshot()
    compared, exact = held.compare([queries]), queries @ means.T
    [found] = compared.similarities
    assert 0 < compared.errors.max() < 0.02
    for row in range(2):
        best = np.argsort(-exact[row])[: segments.LEADING]
        np.testing.assert_allclose(compared.leading[0][row], exact[row, best], rtol=1e-5)
    some = np.arange(0, segments.MANY, 1000)
    assert (found[0, some] != exact[0, some]).any()
    compared.refine(0, some)
    np.testing.assert_allclose(found[0, some], exact[0, some], atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 5, 12, 33])
@pytest.mark.parametrize("size", [10, 3000])
def test_products_are_the_same_as_a_matrix_and_row_by_row(monkeypatch, count, size):
    monkeypatch.setattr(segments, "_scan_times", {})
    rng = np.random.default_rng(count)
    queries, means = (rng.standard_normal((n, 16)).astype(np.float32) for n in (count, size))
    for _ in range(4):  # of which some go each way
        np.testing.assert_allclose(segments.multiply(queries, means), queries @ means.T, atol=1e-4)
