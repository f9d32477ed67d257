import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from uec_rag.base.columns import EXACT_UP_TO, NEAREST, Digest

SLOPE = 25.0


def similarities(rows, size, seed=0):
    """Those of a crowd of passages and a few that stand out."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0.3, 0.07, (rows, size))
    values[:, rng.permutation(size)[: min(5, size)]] += rng.uniform(0, 0.4, (rows, min(5, size)))
    return values.astype(np.float32)


def sums_of(values, slope):
    logits = slope * values.astype(np.float64)
    return {
        "top": logits.max(axis=1),
        "log_normaliser": logsumexp(logits, axis=1),
        "soft_normaliser": logsumexp(logits / 2, axis=1),
        "near_normaliser": logsumexp(np.sort(logits, axis=1)[:, -NEAREST:] / 2, axis=1),
        "mean_logit": (softmax(logits, axis=1) * logits).sum(axis=1),
    }


@given(
    rows=st.integers(1, 3),
    size=st.integers(1, 300),
    slope=st.floats(0.5, 80),
    seed=st.integers(0, 99),
)
def test_sums_over_few_passages_are_exact(rows, size, slope, seed):
    values = similarities(rows, size, seed)
    sums = Digest.of(values).softmax(slope)
    for name, expected in sums_of(values, slope).items():
        np.testing.assert_allclose(getattr(sums, name), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("tile", [1, 80, 2**16])
def test_the_size_of_a_tile_changes_nothing(tile, monkeypatch):
    values = similarities(7, 40)
    whole = Digest.of(values).softmax(SLOPE)
    monkeypatch.setattr("uec_rag.base.columns._TILE", tile)
    tiled = Digest.of(values)
    np.testing.assert_allclose(tiled.softmax(SLOPE).log_normaliser, whole.log_normaliser, rtol=1e-6)
    np.testing.assert_allclose(tiled.mean_and_deviation()[1], values.std(axis=1), rtol=1e-5)


@pytest.mark.parametrize("size", [EXACT_UP_TO + 1, 200_000])
def test_over_many_passages_a_sample_tells_the_sums(size):
    values = similarities(20, size)
    sums = Digest.of(values).softmax(SLOPE)
    for name, expected in sums_of(values, SLOPE).items():
        error = np.sqrt(np.mean((getattr(sums, name) - expected) ** 2))
        assert error < 0.15 if name == "mean_logit" else error < 0.06, name


def test_what_stands_out_of_many_is_never_missed():
    values = similarities(4, 100_000)
    digest = Digest.of(values)
    best = np.sort(values, axis=1)[:, -10:]
    np.testing.assert_array_equal(np.sort(digest.leaders(10), axis=1), best)
    np.testing.assert_array_equal(digest.softmax(SLOPE).top, np.float32(SLOPE) * best[:, -1])


def test_mean_and_deviation_over_many_are_those_of_a_sample():
    values = similarities(20, 100_000)
    mean, deviation = Digest.of(values).mean_and_deviation()
    np.testing.assert_allclose(mean, values.mean(axis=1), atol=0.004)
    np.testing.assert_allclose(deviation, values.std(axis=1), rtol=0.05)


def test_passages_that_alternate_are_all_in_the_sample():
    # As in a corpus that holds every passage in sixteen languages, one after the other.
    values = np.tile(np.arange(16, dtype=np.float32) / 16, (1, 6_250))
    assert Digest.of(values).mean_and_deviation()[0] == pytest.approx(values.mean(), abs=0.02)


def test_passages_that_are_all_alike_are_many():
    sums = Digest.of(np.full((2, 100_000), 0.5, dtype=np.float32)).softmax(SLOPE)
    np.testing.assert_allclose(sums.log_normaliser, 12.5 + np.log(100_000), rtol=1e-5)


def test_digesting_again_gives_the_same():
    values = similarities(2, 50_000)
    first, second = Digest.of(values), Digest.of(values.copy())
    np.testing.assert_array_equal(first.sample, second.sample)


@pytest.mark.parametrize("size", [10, 100_000])
def test_of_no_queries_there_is_nothing_to_say(size):
    digest = Digest.of(np.zeros((0, size), dtype=np.float32))
    assert digest.leaders(10).shape == (0, 10)
    assert digest.softmax(SLOPE).top.shape == digest.mean_and_deviation()[0].shape == (0,)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 40.0))
def test_logits_that_rise_change_the_sums_as_if_they_had_been_so_from_the_start(seed, slope):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, slope, (3, 50)).astype(np.float32)
    risen = logits.copy()
    risen[:, :7] += rng.gamma(1.0, slope, (3, 7)).astype(np.float32)
    sums = Digest.of(logits).softmax(1.0).replacing(logits[:, :7], risen[:, :7])
    expected = Digest.of(risen).softmax(1.0)
    for name in ("top", "log_normaliser", "soft_normaliser", "mean_logit"):
        np.testing.assert_allclose(
            getattr(sums, name), getattr(expected, name), rtol=1e-3, atol=2e-3, err_msg=name
        )


def test_where_the_nearest_rise_so_does_what_they_add_up_to():
    logits = similarities(4, 500) * SLOPE
    highest = np.sort(logits, axis=1)[:, :-8:-1]
    sums = Digest.of(logits).softmax(1.0).replacing(highest, highest + 2)
    kept = np.concatenate([highest + 2, np.sort(logits, axis=1)[:, -NEAREST:-7]], axis=1)
    np.testing.assert_allclose(sums.near_normaliser, logsumexp(kept / 2, axis=1), rtol=1e-5)
