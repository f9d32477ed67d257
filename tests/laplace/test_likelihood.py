import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uec_rag.laplace.likelihood import (
    bernoulli_map,
    fitting_intercept,
    predictive_nll,
    variance_scale,
)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sample(rng, slope, centre, spread, count=4000):
    """Cosines as an encoder gives them, and labels drawn from the model."""
    similarity = rng.normal(centre, spread, count)
    labels = rng.random(count) < sigmoid(slope * (similarity - centre))
    return similarity, labels.astype(np.float32)


def test_the_intercept_that_fits_a_variance_is_the_best_one(rng):
    similarity, labels = sample(rng, 20.0, 0.4, 0.1)
    variance = rng.uniform(0, 0.02, len(labels))
    best = fitting_intercept(similarity, variance, labels, 20.0)
    nll = [
        predictive_nll(similarity, variance, labels, 20.0, b).mean()
        for b in (best - 0.1, best, best + 0.1)
    ]
    assert nll[1] < min(nll[0], nll[2])


@settings(max_examples=30, deadline=None)
@given(pairs=st.integers(20, 400), gap=st.floats(0.05, 1.0), seed=st.integers(0, 100))
def test_pairs_told_apart_without_an_error_give_a_slope_at_the_scale_of_their_cosines(
    pairs, gap, seed
):
    rng = np.random.default_rng(seed)
    labels = np.arange(pairs) % 2
    similarity = 0.5 + gap * (labels + rng.uniform(0, 0.5, pairs))
    slope, _ = bernoulli_map(similarity, labels)
    # Of cosines of spread 1: steep enough for hardly an error, far from infinity.
    assert 2 < slope * similarity.std() < 15
    wider, _ = bernoulli_map(100 * similarity, labels)
    assert 100 * wider == pytest.approx(slope, rel=1e-3)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), pairs=st.integers(20, 300), true=st.floats(5, 30))
def test_few_pairs_neither_take_all_variance_away_nor_blow_it_up(seed, pairs, true):
    """Whether the slope, 10, is too flat or too steep for them."""
    similarity, labels = sample(np.random.default_rng(seed), true, 0.4, 0.2, count=pairs)
    nothing, one = np.zeros(pairs), np.ones(pairs)
    for single, double in ((one, nothing), (one, one)):
        scale, _ = variance_scale(similarity, single, double, labels, 10.0)
        assert 0.1 < 100 * (scale * single + scale**2 * double).mean() <= 25.01


def test_the_predictive_averages_the_logistic_over_the_similarity(rng):
    """The probit form against Monte Carlo over s ~ N(mu_s, sigma_s^2)."""
    mu, sd = 0.5, 0.1
    sampled = sigmoid(20 * (mu + sd * rng.standard_normal(400_000)) - 7.0).mean()
    nll = predictive_nll(np.array([mu]), np.array([sd**2]), np.array([1.0]), 20.0, -7.0)
    assert np.exp(-nll[0]) == pytest.approx(sampled, abs=0.02)


@pytest.mark.parametrize("slope", [0.01, 6.0, 80.0, 2000.0])
def test_with_the_slope_given_only_the_intercept_moves_to_the_best(slope):
    # As of encoders whose cosines all lie between .7 and .9: at any slope the loss is lowest where
    # as many answers are expected as there are.
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3 == 0
    similarity = rng.normal(0.8, 0.03, 600) + 0.05 * labels
    intercept = fitting_intercept(similarity, 0.0, labels, slope)
    assert sigmoid(slope * similarity + intercept).mean() == pytest.approx(1 / 3, abs=1e-4)
