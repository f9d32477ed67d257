import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import random_gaussian, refused, unit
from uec_rag import Gaussian
from uec_rag.base.gaussian import Terms
from uec_rag.base.similarity import moments
from uec_rag.ensemble.convolution import (
    FEATURES,
    EvidenceWeights,
    Rule,
    block_weights,
    convolve_shared,
    corpus_evidence,
    direct_sum,
    make_rule,
    standardise,
)

WORDS = Gaussian.certain(np.zeros((2, 0)), [Terms.from_keys([[1, 2], [3]])])
FACTORS = pytest.mark.parametrize("factors", [(None, None), (1, 1), (1, None), (2, 1)])


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
    assert_moments(convolve_shared(parts, pi), mixed / length[:, None])


@FACTORS
def test_in_the_direct_sum_similarity_is_the_weighted_sum_of_the_encoders_own(rng, factors):
    dimensions = (5, 3)
    queries = [random_gaussian(rng, 4, d, f) for d, f in zip(dimensions, factors, strict=True)]
    # Passages of one posterior share the queries' profile.
    passages = [
        random_gaussian(rng, 6, q.dimension)
        if q.profile is None
        else Gaussian.from_factors(
            rng.standard_normal((6, q.dimension)),
            rng.gamma(1.0, 1.0, (6, len(q.profile))),
            q.profile,
        )
        for q in queries
    ]
    pi, weights = convex(rng, 4, 2), block_weights([10.0, 30.0])
    mixed = direct_sum(queries, pi, weights)
    stored = direct_sum(passages, Rule("uniform")(passages), weights)
    mu, sigma2 = moments(mixed, stored)
    assert mu.dtype == sigma2.dtype == np.float32
    assert mixed.widths == dimensions
    assert (mixed.profile is None) == (None in factors)
    np.testing.assert_array_equal(mixed.coefficients, pi)
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
    part = Gaussian.from_factors(unit(part.mean), part.scales, part.profile)
    one = Rule("uniform")([part])
    for combined in (convolve_shared([part], one), direct_sum([part], one, block_weights([7.0]))):
        np.testing.assert_allclose(combined.mean, part.mean, rtol=1e-6)
        np.testing.assert_allclose(combined.variance, part.variance, rtol=1e-5)


def test_the_shared_mean_has_unit_length_even_where_encoders_disagree_and_is_finite_if_it_cancels():
    one, half = Gaussian([[1.0, 0.0]], [[0.1, 0.1]]), np.float32([[0.5, 0.5]])
    z, none = (
        convolve_shared([one, Gaussian([[x, 0.0]], [[0.1, 0.1]])], half) for x in (-0.9, -1.0)
    )
    np.testing.assert_allclose(z.mean, [[1.0, 0.0]], rtol=1e-5)
    np.testing.assert_array_equal(z.coefficients, half)
    assert z.variance[0, 0] == pytest.approx(0.05 / 0.05**2, rel=1e-4)  # and says it is unsure
    assert np.isfinite([none.mean, none.variance]).all()


@pytest.mark.parametrize("factors", [None, 1])
def test_words_are_scaled_as_the_vectors_are(rng, factors):
    parts = [WORDS, random_gaussian(rng, 2, 4, factors)]
    pi = np.float32([[0.75, 0.25], [0.0, 1.0]])
    (scaled,) = direct_sum(parts, pi, np.float32([1.5, 0.5])).terms
    np.testing.assert_allclose(scaled.scale, np.sqrt(2 * 1.5) * pi[:, 0], rtol=1e-6)
    alone = direct_sum(parts[:1], Rule("uniform")(parts[:1]), np.ones(1))
    assert (alone.dimension, alone.widths, len(alone.terms)) == (0, (0,), 1)


def test_there_is_a_coefficient_for_each_encoder():
    one, half = Gaussian([[0.6, 0.8]], [[0.1, 0.1]]), np.float32([[0.5, 0.5]])
    for convolve in (convolve_shared, lambda *given: direct_sum(*given, np.ones(2))):
        with pytest.raises(ValueError, match="zip"):
            convolve([one], half)


def test_the_rule_of_the_trace_is_a_softmax_of_negative_variances():
    low, high = Gaussian([[1.0], [1.0]], [[0.1], [2.0]]), Gaussian([[1.0], [1.0]], [[1.2], [2.0]])
    pi = Rule("trace", temperature=0.5)([low, high])
    np.testing.assert_allclose(pi, [[1 / (1 + np.exp(-2.2)), 1 / (1 + np.exp(2.2))], [0.5, 0.5]])


NAMES = ["a", "b", "c"]


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return [random_gaussian(rng, 5, d, 1) for d in (4, 6, 4)]


WEIGHTS = {"c": 2, "a": 1, "b": 1}


@pytest.mark.parametrize(
    ("spec", "temperature", "space", "expected"),
    [
        ("uniform", None, "direct", Rule("uniform")),
        ("trace", 0.5, "direct", Rule("trace", 0.5)),
        ("trace", None, "direct", Rule("trace", 1.5)),  # the paper's
        ([1, 1, 2], None, "direct", Rule("fixed", weights=(1.0, 1.0, 2.0))),
        (np.array([1.0, 1.0, 2.0]), None, "direct", Rule("fixed", weights=(1.0, 1.0, 2.0))),
        ([0, 0.25, 0.5], None, "direct", Rule("fixed", weights=(0.0, 0.25, 0.5))),
        (WEIGHTS, None, "shared", Rule("fixed", weights=(1.0, 1.0, 2.0))),
        (None, None, "direct", Rule("adaptive")),
        (None, 2.0, "shared", Rule("trace", 2.0)),
    ],
)
def test_a_rule_is_made_of_a_name_or_of_weights(parts, spec, temperature, space, expected):
    rule = make_rule(spec, NAMES, temperature, space)
    assert rule == expected
    pi = rule(parts)
    assert pi.dtype == np.float32
    if rule.name != "trace":
        weights = np.array(rule.weights or (1.0, 1.0, 1.0))
        np.testing.assert_allclose(pi, [weights / weights.sum()] * 5, rtol=1e-6)
    assert make_rule(None, NAMES) == Rule("adaptive")


@pytest.mark.parametrize(("given", "error", "message"), refused("make_rule"))
def test_what_is_no_rule_is_refused(given, error, message):
    spec, *others = given
    name = "temperature" if spec == "trace" else "coefficients"
    with pytest.raises(error, match=f"^{name}: .*{re.escape(message)}"):
        make_rule(spec, NAMES, *others)


def evidence_of(*similarities, slopes=None, intercepts=None):
    encoders = len(similarities)
    return corpus_evidence(
        [np.atleast_2d(np.asarray(s, np.float32)) for s in similarities],
        slopes or [1.0] * encoders,
        intercepts or [0.0] * encoders,
    )


def weights(given, prior=(0.0, 0.0)):
    return EvidenceWeights(tuple(given), (0.0,) * len(FEATURES), (1.0,) * len(FEATURES), prior)


def feature(evidence, name):
    return evidence[..., FEATURES.index(name)]


def test_features_by_hand():
    logits = np.array([4.0, 1.0, 1.0, 0.0])
    queries = np.array([logits, logits[::-1]])
    found = evidence_of(queries / 2 - 1, queries, slopes=[2.0, 1.0], intercepts=[2.0, 0.0])
    assert found.dtype == np.float32
    p = np.exp(logits) / np.exp(logits).sum()
    expected = [
        -(p * np.log(p)).sum() / np.log(4),
        np.log1p(4 - 2 / 3),
        np.log((4 - 1.5) / logits.std()),
        1.5,
        np.log(logits.std()),
    ]
    np.testing.assert_allclose(found, np.full((2, 2, 5), expected), rtol=1e-5)


def test_evidence_of_two_passages_and_of_no_query():
    found = evidence_of([0.0, np.log(3)])[0, 0]  # shares of 1/4 and 3/4
    np.testing.assert_allclose(found[:2], [2 - 0.75 * np.log2(3), np.log1p(np.log(3))], rtol=1e-6)
    assert evidence_of(np.zeros((0, 2)), np.zeros((0, 2))).shape == (0, 2, 5)


def test_an_encoder_that_finds_all_passages_alike_has_entropy_one_and_no_gap():
    found = evidence_of(np.full(50, 0.8))
    assert feature(found, "entropy")[0, 0] == 1
    assert feature(found, "top")[0, 0] == pytest.approx(np.log(0.01))
    assert feature(found, "deviation")[0, 0] == pytest.approx(np.log(1e-3))
    assert feature(found, "gap")[0, 0] == pytest.approx(0, abs=1e-6)
    assert np.isfinite(found).all()
    assert np.isfinite(evidence_of([0.3])).all()  # a corpus of one passage


def test_standardised_features_are_limited_to_six_deviations():
    found = standardise(np.float32([[3, 99, -99]]), location=[1.0] * 3, spread=[4.0] * 3)
    np.testing.assert_array_equal(found, np.float32([[0.5, 6, -6]]), strict=True)


def test_without_weights_the_prior_divides_and_one_encoder_has_it_all():
    two, alone = evidence_of([0.1, 0.9], [0.5, 0.5]), evidence_of([0.1, 0.2])
    np.testing.assert_allclose(weights([0.0] * 5).coefficients(two), [[0.5, 0.5]])
    found = weights([0.0] * 5, prior=(np.log(3.0), 0.0)).coefficients(two)
    np.testing.assert_allclose(found, [[0.75, 0.25]], rtol=1e-6)
    assert weights([-1, 0, 0, 0, 0], prior=(0.0,)).coefficients(alone).tolist() == [[1.0]]


@given(st.lists(st.floats(-5, 5), min_size=5, max_size=5), st.integers(0, 2**32 - 1))
def test_coefficients_are_convex_and_follow_the_encoders_order(given, seed):
    evidence = np.random.default_rng(seed).normal(0, 20, (4, 2, 5)).astype(np.float32)
    found = weights(given).coefficients(evidence)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    swapped = weights(given).coefficients(evidence[:, ::-1])
    np.testing.assert_allclose(swapped[:, ::-1], found, rtol=1e-5)
