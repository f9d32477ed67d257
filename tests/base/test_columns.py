import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax as expected_softmax

from uec_rag.base.columns import largest, softmax, weighted_sum


def similarities(rows, size, seed=0):
    """Those of a crowd of passages and a few that stand out."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0.3, 0.07, (rows, size))
    values[:, rng.permutation(size)[: min(5, size)]] += rng.uniform(0, 0.4, (rows, min(5, size)))
    return values.astype(np.float32)


@given(size=st.integers(1, 12_000), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_the_largest_are_the_largest_and_the_smallest_of_them_comes_first(size, share, seed):
    values, count = similarities(1, size, seed)[0], 1 + int(share * (size - 1))
    rows = largest(values, count)
    np.testing.assert_array_equal(np.sort(values[rows]), np.sort(values)[size - count :])
    assert len({*rows.tolist()}) == count
    assert values[rows[0]] == values[rows].min()


@pytest.mark.parametrize("held", [0, 5, 40, 3000])
def test_values_that_are_mostly_alike_have_largest_too(held):
    # As where most passages hold none of a question's words.
    values = np.zeros(20_000, dtype=np.float32)
    values[:held] = np.arange(1, held + 1)
    rows = largest(values, 30)
    np.testing.assert_array_equal(np.sort(values[rows]), np.sort(values)[-30:])
    assert len({*rows.tolist()}) == 30
    assert values[rows[0]] == values[rows].min()


def test_none_of_them_is_none():
    assert not len(largest(np.zeros(7, dtype=np.float32), 0))


@pytest.mark.parametrize("tile", [1, 80, 2**16])
def test_the_size_of_a_tile_changes_nothing(tile, monkeypatch):
    monkeypatch.setattr("uec_rag.base.columns._TILE", tile)
    parts, weights = [similarities(7, 40, seed) for seed in range(3)], similarities(7, 3)
    expected = np.einsum("knc,nk->nc", np.stack(parts), weights)
    np.testing.assert_allclose(weighted_sum(parts, weights), expected, rtol=1e-5)


def test_a_weighted_sum_may_be_written_over_its_first_matrix():
    parts, weights = [similarities(4, 100_000, seed) for seed in range(2)], similarities(4, 2)
    expected = weighted_sum(parts, weights)
    found = weighted_sum(parts, weights, out=parts[0])
    assert found is parts[0]
    np.testing.assert_array_equal(found, expected)


@given(seed=st.integers(0, 99), spread=st.floats(0, 300))
def test_a_softmax_of_any_logits_is_of_shares(seed, spread):
    logits = np.random.default_rng(seed).normal(0, spread, (3, 2, 9)).astype(np.float32)
    np.testing.assert_allclose(softmax(logits), expected_softmax(logits, axis=-1), atol=1e-6)
