import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uec_rag.base.similarity import largest, tiles, weighted_sum


@given(rows=st.integers(1, 5), columns=st.integers(1, 200_000))
def test_tiles_cover_a_matrix_once(rows, columns):
    seen = sum(
        len(range(*row.indices(rows))) * len(range(*column.indices(columns)))
        for row, column in tiles(rows, columns)
    )
    assert seen == rows * columns


@pytest.mark.parametrize("size", [1, 10, 1000, 40_000, 100_000])
@pytest.mark.parametrize("count", [0, 1, 37, 500])
def test_the_largest_are_found_whatever_the_size(size, count):
    values = np.random.default_rng(size).random(size, dtype=np.float32)
    found = largest(values, min(count, size))
    expected = np.sort(values)[size - min(count, size) :]
    np.testing.assert_array_equal(np.sort(values[found]), expected)
    if len(found):
        assert values[found[0]] == expected[0]


def test_among_equals_any_will_do():
    assert len(set(largest(np.ones(100_000, dtype=np.float32), 10).tolist())) == 10


@pytest.mark.parametrize("positive", [0, 5, 37, 200, 2000, 40_000])
def test_the_largest_are_found_where_most_are_zero(positive):
    rng = np.random.default_rng(positive)
    values = np.zeros(100_000, dtype=np.float32)
    values[rng.choice(len(values), positive, replace=False)] = rng.random(positive)
    found = largest(values, 37)
    assert len(set(found.tolist())) == 37
    np.testing.assert_array_equal(np.sort(values[found]), np.sort(values)[-37:])
    assert values[found[0]] == values[found].min()


def test_a_weighted_sum_has_a_weight_per_row_and_matrix():
    rng = np.random.default_rng(0)
    matrices = [rng.random((3, 70_000), dtype=np.float32) for _ in range(2)]
    weights = rng.random((3, 2), dtype=np.float32)
    expected = np.einsum("knm,nk->nm", matrices, weights)
    np.testing.assert_allclose(weighted_sum(matrices, weights), expected, rtol=1e-6)
    assert weighted_sum(matrices, weights, out=matrices[0]) is matrices[0]
    np.testing.assert_allclose(matrices[0], expected, rtol=1e-6)
