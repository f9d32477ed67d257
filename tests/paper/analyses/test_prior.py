import numpy as np
import pytest

from benchmarks.paper.analyses.prior import Fit
from tests.helpers import LinearHead, pairs


@pytest.fixture(scope="module")
def fit():
    return Fit.of(LinearHead(), pairs(60))


def test_as_chosen_it_is_the_posterior_that_was_fitted(fit):
    found = fit.at("as chosen").covariance
    np.testing.assert_allclose(found, fit.posterior.covariance, rtol=1e-5)
    assert 0 < fit.share < 1


def test_without_data_a_trace_is_the_squared_length_of_the_layers_input(fit):
    encoded = LinearHead().encode([passage for _, passage in pairs(20)], "passage")
    trace = fit.at("no data").gaussian(encoded).trace
    ratio = trace / (encoded.features**2).sum(axis=1)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


def test_the_smaller_the_precision_the_larger_the_variance(fit):
    assert (fit.at("1e-5").covariance > fit.at("1").covariance).all()
