import re

import numpy as np
import pytest

from tests.helpers import data_of, random_gaussian
from uec_rag import Gaussian


def test_a_factored_variance_is_its_scales_times_its_profile(rng):
    factored = random_gaussian(rng, 5, 7, factors=2)
    np.testing.assert_allclose(factored.variance, factored.scales @ factored.profile, rtol=1e-6)
    assert factored.variance.shape == factored.mean.shape == (5, 7)


@pytest.mark.parametrize("factors", [None, 1, 3])
def test_the_trace_is_the_total_variance(rng, factors):
    g = random_gaussian(rng, 5, 7, factors)
    np.testing.assert_allclose(g.trace, g.variance.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("factors", [None, 2])
@pytest.mark.parametrize("rows", [slice(1, 3), [3, 0], np.array([True, False, True, True])])
def test_rows_are_chosen_by_slice_index_list_or_mask(rng, factors, rows):
    g = random_gaussian(rng, 4, 6, factors)
    part = g[rows]
    np.testing.assert_array_equal(part.mean, g.mean[rows])
    np.testing.assert_allclose(part.variance, g.variance[rows], rtol=1e-6)
    assert len(part) == len(part.trace) == len(g.mean[rows])


def test_coefficients_follow_their_rows():
    g = Gaussian(np.eye(2), np.zeros((2, 2)), coefficients=[[0.25, 0.75], [1.0, 0.0]])
    assert g[[1]].coefficients.tolist() == [[1.0, 0.0]]


def test_widths_are_one_block_unless_given():
    mean, zeros = np.ones((2, 5)), np.zeros((2, 5))
    assert Gaussian(mean, zeros).widths == (5,)
    assert Gaussian(mean, zeros, widths=[2, 3])[:1].widths == (2, 3)
    assert Gaussian.from_factors(mean, zeros, np.eye(5), widths=[1, 4]).widths == (1, 4)


def test_numbers_are_held_as_float32_whatever_comes_in():
    g = Gaussian([[1, 2]], np.array([[1, 0]], dtype=np.float16))
    assert g.mean.dtype == g.variance.dtype == g.trace.dtype == np.float32
    assert repr(g) == "Gaussian(n=1, dimension=2)"


def test_a_batch_of_nothing_is_a_gaussian():
    g = Gaussian(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (len(g), g.dimension, g.trace.shape) == (0, 3, (0,))


@pytest.mark.parametrize(("arguments", "message"), data_of("no_gaussians.json"))
def test_what_is_no_gaussian_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Gaussian(*arguments)
