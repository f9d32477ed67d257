"""Products by other ways than a plain matrix product give the same."""

import numpy as np
import pytest

from uec_rag.stores import products
from uec_rag.stores.products import row_slices, summed_products

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("queries", [0, 1, 2, 33, 300])
@pytest.mark.parametrize("widths", [(6,), (5, 1), (2, 2, 2)])
@pytest.mark.parametrize("count", [0, 1, 5000, 9001])
def test_blocks_products_are_summed(large, queries, widths, count, monkeypatch):
    monkeypatch.setattr(products, "_SHARE", 1)
    query = RNG.integers(-4, 5, (queries, 6)).astype(np.float32)
    rows = RNG.integers(-4, 5, (count, 6)).astype(np.float32)
    ends = np.cumsum(widths)[:-1]
    found = summed_products(
        np.split(query, ends, axis=1), np.split(rows, ends, axis=1), of=2**40 * large
    )
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, query @ rows.T)


@pytest.mark.parametrize("asked", ["1", "3", "0", "many", ""])
def test_as_many_threads_are_used_as_were_asked_for(asked, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(products, "_SHARE", 1)
    rows = RNG.standard_normal((20_000, 4), dtype=np.float32)
    np.testing.assert_allclose(
        summed_products([rows[:1]], [rows], of=2**40), rows[:1] @ rows.T, rtol=1e-5, atol=1e-6
    )
    assert products._threads() == int(asked) if asked in ("1", "3") else products._threads() >= 1


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 10_000])
def test_slices_cover_every_row_once(count):
    assert [i for tile in row_slices(count, 5000) for i in range(count)[tile]] == list(range(count))
