"""Products with rows that lie in blocks are those with whole rows."""

import numpy as np
import pytest

from uec_rag.stores.memory.vectors import row_slices, summed_products

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("queries", [0, 1, 2, 300])
@pytest.mark.parametrize("widths", [(6,), (5, 1), (2, 2, 2)])
@pytest.mark.parametrize("count", [0, 1, 9001])
def test_blocks_products_are_summed(queries, widths, count):
    query = RNG.integers(-4, 5, (queries, 6)).astype(np.float32)
    rows = RNG.integers(-4, 5, (count, 6)).astype(np.float32)
    ends = np.cumsum(widths)[:-1]
    found = summed_products(np.split(query, ends, axis=1), np.split(rows, ends, axis=1))
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, query @ rows.T)


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 10_000])
def test_slices_cover_every_row_once(count):
    assert [i for tile in row_slices(count, 5000) for i in range(count)[tile]] == list(range(count))
