import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import random_gaussian
from uec_rag import Gaussian
from uec_rag.base.gaussian import Saturation, Terms
from uec_rag.base.similarity import moments
from uec_rag.ensemble.coefficients import Uniform
from uec_rag.ensemble.convolution import (
    block_diagonal,
    block_scales,
    block_weights,
    blocks,
    direct_sum,
    shared,
)

FACTORS = pytest.mark.parametrize("factors", [(None, None), (1, 1), (1, None), (2, 1)])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def convex(rng, n, k):
    return rng.dirichlet(np.ones(k), n).astype(np.float32)


def draws(gaussian, rng, count=100_000):
    noise = rng.standard_normal((count, *gaussian.mean.shape), dtype=np.float32)
    return gaussian.mean + np.sqrt(gaussian.variance) * noise


def assert_moments(gaussian, samples):
    error = np.sqrt(gaussian.variance / len(samples)) + 1e-7
    assert (np.abs(samples.mean(axis=0, dtype=np.float64) - gaussian.mean) < 5 * error).all()
    np.testing.assert_allclose(
        samples.var(axis=0, dtype=np.float64), gaussian.variance, rtol=0.03, atol=1e-7
    )


@FACTORS
def test_the_shared_convolution_equals_monte_carlo_over_the_encoders_gaussians(rng, factors):
    parts = [random_gaussian(rng, 3, 4, f) for f in factors]
    pi = convex(rng, 3, 2)
    mixed = sum(draws(p, rng) * w[:, None] for p, w in zip(parts, pi.T, strict=True))
    length = np.linalg.norm(
        sum(p.mean * w[:, None] for p, w in zip(parts, pi.T, strict=True)), axis=1
    )
    assert_moments(shared(parts, pi), mixed / length[:, None])


@FACTORS
def test_the_direct_sum_equals_monte_carlo_over_the_encoders_gaussians(rng, factors):
    parts = [random_gaussian(rng, 3, d, f) for d, f in zip((4, 2), factors, strict=True)]
    pi, weights = convex(rng, 3, 2), np.float32([0.4, 1.6])
    blocks = [
        np.sqrt(2 * w) * pi_k[:, None] * draws(part, rng)
        for part, pi_k, w in zip(parts, pi.T, weights, strict=True)
    ]
    assert_moments(direct_sum(parts, pi, weights), np.concatenate(blocks, axis=2))


@FACTORS
def test_in_the_direct_sum_similarity_is_the_weighted_sum_of_the_encoders_own(rng, factors):
    dimensions = (5, 3)
    queries = [random_gaussian(rng, 4, d, f) for d, f in zip(dimensions, factors, strict=True)]
    # Passages of one posterior share the queries' profile.
    passages = [
        random_gaussian(rng, 6, q.dimension)
        if q.profile is None
        else Gaussian.factored(
            rng.standard_normal((6, q.dimension)),
            rng.gamma(1.0, 1.0, (6, len(q.profile))),
            q.profile,
        )
        for q in queries
    ]
    pi, weights = convex(rng, 4, 2), block_weights([10.0, 30.0])
    mu, sigma2 = moments(
        direct_sum(queries, pi, weights), direct_sum(passages, Uniform()(passages), weights)
    )
    own = [moments(q, c) for q, c in zip(queries, passages, strict=True)]
    factor = (pi * weights).T[:, :, None]
    np.testing.assert_allclose(
        mu, sum(f * s for f, (s, _) in zip(factor, own, strict=True)), atol=1e-5
    )
    np.testing.assert_allclose(
        sigma2, sum(f**2 * v for f, (_, v) in zip(factor, own, strict=True)), rtol=1e-4
    )


def test_with_one_encoder_both_spaces_return_its_own_gaussian(rng):
    part = random_gaussian(rng, 3, 4, 1)
    part = Gaussian.factored(
        part.mean / np.linalg.norm(part.mean, axis=1, keepdims=True), part.scales, part.profile
    )
    one = Uniform()([part])
    for combined in (shared([part], one), direct_sum([part], one, block_weights([7.0]))):
        np.testing.assert_allclose(combined.mean, part.mean, rtol=1e-6)
        np.testing.assert_allclose(combined.variance, part.variance, rtol=1e-5)


def test_uniform_coefficients_keep_the_direct_sum_at_unit_length(rng):
    parts = [random_gaussian(rng, 3, d) for d in (4, 6, 2)]
    parts = [
        Gaussian(p.mean / np.linalg.norm(p.mean, axis=1, keepdims=True), p.variance) for p in parts
    ]
    z = direct_sum(parts, Uniform()(parts), block_weights([1.0, 5.0, 9.0]))
    np.testing.assert_allclose(np.linalg.norm(z.mean, axis=1), 1, rtol=1e-5)


def test_the_shared_mean_has_unit_length_even_where_encoders_disagree(rng):
    parts = [Gaussian([[1.0, 0.0]], [[0.1, 0.1]]), Gaussian([[-0.9, 0.0]], [[0.1, 0.1]])]
    z = shared(parts, np.float32([[0.5, 0.5]]))
    np.testing.assert_allclose(z.mean, [[1.0, 0.0]], rtol=1e-5)
    assert z.variance[0, 0] == pytest.approx(0.05 / 0.05**2, rel=1e-4)  # and says it is unsure


def test_means_that_cancel_give_finite_numbers():
    parts = [Gaussian([[1.0, 0.0]], [[0.1, 0.1]]), Gaussian([[-1.0, 0.0]], [[0.1, 0.1]])]
    z = shared(parts, np.float32([[0.5, 0.5]]))
    assert np.isfinite(z.mean).all()
    assert np.isfinite(z.variance).all()


@FACTORS
def test_the_direct_sum_knows_the_widths_of_its_blocks(rng, factors):
    parts = [random_gaussian(rng, 3, d, f) for d, f in zip((4, 6), factors, strict=True)]
    assert direct_sum(parts, Uniform()(parts), np.ones(2)).widths == (4, 6)
    same = [random_gaussian(rng, 3, 4, f) for f in factors]
    assert shared(same, Uniform()(same)).widths == (4,)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.4, 1.6], [0.4, 1.6, 1.0]])
def test_the_blocks_of_a_direct_sum_are_the_encoders_unit_vectors(rng, weights):
    dimensions = (4, 6, 5)[: len(weights)]
    parts = [random_gaussian(rng, 3, d) for d in dimensions]
    units = [p.mean / np.linalg.norm(p.mean, axis=1, keepdims=True) for p in parts]
    parts = [Gaussian(u, p.variance) for u, p in zip(units, parts, strict=True)]
    z = direct_sum(parts, Uniform()(parts), np.float32(weights))
    for block, unit, scale in zip(
        blocks(z.mean, dimensions, np.float32(weights)),
        units,
        block_scales(np.float32(weights)),
        strict=True,
    ):
        np.testing.assert_allclose(block, unit, rtol=1e-5)
        assert scale == pytest.approx(np.linalg.norm(block * scale, axis=1))


@pytest.mark.parametrize("factors", [None, 1])
def test_words_are_scaled_as_the_vectors_are(rng, factors):
    words = Terms.of([[1, 2], [3]], Saturation())
    parts = [random_gaussian(rng, 2, 4, factors), Gaussian.certain(np.zeros((2, 0)), [words])]
    pi = np.float32([[0.25, 0.75], [1.0, 0.0]])
    (scaled,) = direct_sum(parts, pi, np.float32([0.5, 1.5])).terms
    np.testing.assert_allclose(scaled.scale, np.sqrt(2 * 1.5) * pi[:, 1], rtol=1e-6)
    alone = direct_sum(parts[1:], Uniform()(parts[1:]), np.ones(1))
    assert (alone.dimension, alone.widths, len(alone.terms)) == (0, (0,), 1)


def test_words_have_no_place_in_a_shared_space():
    words = Gaussian.certain(np.zeros((2, 0)), [Terms.of([[1, 2], [3]], Saturation())])
    with pytest.raises(ValueError, match=r"^space: 'shared' averages vectors, and words have none"):
        shared([words, words], Uniform()([words, words]))


@FACTORS
def test_the_coefficients_are_carried_along(rng, factors):
    parts, pi = [random_gaussian(rng, 3, 4, f) for f in factors], convex(rng, 3, 2)
    np.testing.assert_array_equal(shared(parts, pi).coefficients, pi)
    np.testing.assert_array_equal(direct_sum(parts, pi, np.ones(2)).coefficients, pi)


@given(st.lists(st.floats(1e-2, 1e4), min_size=1, max_size=6))
def test_block_weights_have_mean_1_and_the_ratios_of_the_slopes(slopes):
    weights = block_weights(slopes)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights.mean(), 1, rtol=1e-5)
    np.testing.assert_allclose(weights / weights[0], np.array(slopes) / slopes[0], rtol=1e-5)


def test_profiles_go_on_the_diagonal_of_one_matrix():
    ones = [
        Gaussian.factored(np.ones((1, d)), np.ones((1, r)), np.full((r, d), value))
        for r, d, value in ((1, 2, 3.0), (2, 1, 5.0))
    ]
    assert block_diagonal(ones).tolist() == [[3, 3, 0], [0, 0, 5], [0, 0, 5]]


@pytest.mark.parametrize(
    ("dimensions", "coefficients", "message"),
    [
        (
            (3, 4),
            [[0.5, 0.5]] * 2,
            "space: 'shared' needs encoders of one dimension, got [3, 4]; use space='direct', "
            "which takes any.",
        ),
        ((3, 3), [[1.0]] * 2, "coefficients: expected shape (2, 2)"),
        ((3, 3), [[0.5, 0.5]], "coefficients: expected shape (2, 2)"),
        ((3, 3), [[0.5, np.nan]] * 2, "coefficients: row 0 holds NaN or infinity"),
        ((), np.zeros((2, 0)), "parts: expected one Gaussian per encoder, got none"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(rng, dimensions, coefficients, message):
    parts = [random_gaussian(rng, 2, d) for d in dimensions]
    with pytest.raises(ValueError, match=re.escape(message)):
        shared(parts, np.asarray(coefficients, dtype=np.float32))


def test_batches_of_different_length_are_refused(rng):
    parts = [random_gaussian(rng, 2, 3), random_gaussian(rng, 1, 3)]
    with pytest.raises(ValueError, match=re.escape("for parts of [2, 1] texts")):
        direct_sum(parts, np.float32([[0.5, 0.5]] * 2), np.ones(2))
