"""The product of matrices of bytes is exact up to the largest absolute value."""

import numpy as np
import pytest

from uec_rag.base.runtime import MOST, ZERO, multiply_bytes


@pytest.mark.parametrize(("rows", "width", "columns"), [(1, 1, 1), (3, 384, 5), (17, 1024, 2)])
def test_a_product_is_that_of_whole_numbers(rng, rows, width, columns):
    left = rng.integers(0, 256, (rows, width), dtype=np.uint8)
    right = rng.integers(-MOST, MOST + 1, (width, columns), dtype=np.int8)
    exact = (left.astype(np.int64) - ZERO) @ right.astype(np.int64)
    np.testing.assert_array_equal(multiply_bytes(left, right), exact)
