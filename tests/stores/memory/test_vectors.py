"""Means in blocks against one matrix."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from uec_rag.stores.memory.vectors import Means

RNG = np.random.default_rng(0)
# Small whole numbers: sums of their products are exact in float32, in whatever order.
MATRIX = RNG.integers(-4, 5, (9000, 12)).astype(np.float32)


def written(widths, *lengths):
    """Means written in several goes."""
    means, start = Means(), 0
    for length in lengths:
        means = means.with_rows(start, MATRIX[start : start + length], widths)
        start += length
    return means


WIDTHS = st.sampled_from([(12,), (5, 7), (4, 4, 4), (1, 10, 1)])


@settings(max_examples=80, deadline=None)
@given(stored=WIDTHS, asked=WIDTHS, queries=st.integers(0, 70), chosen=st.booleans())
def test_products_are_those_of_one_matrix_however_blocks_are_stored_and_asked(
    stored, asked, queries, chosen
):
    means = written(stored, 3, 1, 8990)
    rows = RNG.integers(0, 8994, 50) if chosen else slice(8994)
    query = RNG.integers(-4, 5, (queries, 12)).astype(np.float32)
    parts = np.split(query, np.cumsum(asked)[:-1], axis=1)
    wanted = np.split(MATRIX[rows], np.cumsum(asked)[:-1], axis=1)
    for product, part, block in zip(means.products(rows, parts), parts, wanted, strict=True):
        assert product.dtype == np.float32
        np.testing.assert_array_equal(product, part @ block.T)
    np.testing.assert_array_equal(means.rows(rows), MATRIX[rows])


def test_earlier_means_stay_as_they_were_and_share_memory_where_there_is_room():
    first = Means().with_rows(0, MATRIX[:4], (12,))
    second = first.with_rows(4, MATRIX[4:5], (12,))
    third = second.with_rows(5, MATRIX[5:7], (12,))
    assert third.blocks[0] is second.blocks[0]
    again = third.with_rows(5, MATRIX[100:101], (12,))
    np.testing.assert_array_equal(again.rows(slice(6)), MATRIX[[0, 1, 2, 3, 4, 100]])
    np.testing.assert_array_equal(first.rows(slice(4)), MATRIX[:4])
