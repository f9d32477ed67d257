"""Moments and score against slow references that share no code with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax as expected_softmax

from tests.helpers import random_gaussian
from uec_rag.base.gaussian import Saturation, Terms
from uec_rag.base.postings import Corpus, Postings
from uec_rag.base.similarity import largest, moments, probit, score, softmax, tiles, weighted_sum

SHAPES = pytest.mark.parametrize(
    ("query_factors", "candidate_factors"), [(None, None), (2, 2), (None, 2), (2, None)]
)


def of_each_pair(query, candidate, reference):
    return np.array(
        [
            [reference(q, c) for c in zip(candidate.mean, candidate.variance, strict=True)]
            for q in zip(query.mean, query.variance, strict=True)
        ]
    )


def draws(gaussian, rng, count):
    """(count, n, d) samples."""
    noise = rng.standard_normal((count, *gaussian.mean.shape), dtype=np.float32)
    return gaussian.mean + np.sqrt(gaussian.variance) * noise


@SHAPES
def test_moments_equal_the_sums_over_dimensions_of_equation_5(
    rng, query_factors, candidate_factors
):
    q, c = random_gaussian(rng, 3, 6, query_factors), random_gaussian(rng, 4, 6, candidate_factors)

    def variance(a, b):
        (mu_q, var_q), (mu_c, var_c) = ([x.astype(np.float64) for x in side] for side in (a, b))
        return mu_q @ np.diag(var_c) @ mu_q + mu_c @ np.diag(var_q) @ mu_c + (var_q * var_c).sum()

    mu, sigma2 = moments(q, c)
    np.testing.assert_allclose(mu, of_each_pair(q, c, lambda a, b: a[0] @ b[0]), atol=1e-5)
    np.testing.assert_allclose(sigma2, of_each_pair(q, c, variance), rtol=1e-5)


@SHAPES
def test_moments_equal_monte_carlo(rng, query_factors, candidate_factors):
    q, c = random_gaussian(rng, 2, 5, query_factors), random_gaussian(rng, 3, 5, candidate_factors)
    sampled = draws(q, rng, 200_000) @ draws(c, rng, 200_000).transpose(0, 2, 1)
    mu, sigma2 = moments(q, c)
    standard_error = np.sqrt(sigma2 / len(sampled))
    assert (np.abs(sampled.mean(axis=0) - mu) < 5 * standard_error).all()
    np.testing.assert_allclose(sampled.var(axis=0, dtype=np.float64), sigma2, rtol=0.03)


def test_the_score_is_the_probit_of_the_moments(rng):
    q, c = random_gaussian(rng, 3, 6), random_gaussian(rng, 4, 6)
    mu, sigma2 = (part.astype(np.float64) for part in moments(q, c))
    expected = mu / np.sqrt(1 + np.pi / 8 * 0.7 * sigma2)
    np.testing.assert_allclose(score(q, c, beta=0.7), expected, rtol=1e-5)
    np.testing.assert_array_equal(score(q, c, beta=0.0), moments(q, c)[0])
    np.testing.assert_array_equal(score(q, c), probit(*moments(q, c), beta=1.0))


def test_the_probit_makes_the_logistic_of_a_gaussian_logit_right_to_two_per_cent(rng):
    """What eq. 6 is for: sigmoid(s_hat) stands for the mean of sigmoid(s)."""
    mu, sigma2 = np.float32([-2.0, 0.3, 1.0, 3.0]), np.float32([4.0, 1.0, 0.2, 2.0])
    sampled = mu + np.sqrt(sigma2) * rng.standard_normal((400_000, 4))
    exact = (1 / (1 + np.exp(-sampled))).mean(axis=0)
    np.testing.assert_allclose(1 / (1 + np.exp(-probit(mu, sigma2))), exact, atol=0.02)


@given(
    mu=st.floats(-1e3, 1e3, width=32),
    sigma2=st.floats(0, 2.0**100, width=32),
    beta=st.floats(0, 2.0**20, width=32),
)
def test_variance_pulls_a_score_towards_0_and_never_past_it(mu, sigma2, beta):
    shrunk = probit(np.float32(mu), np.float32(sigma2), beta)
    assert abs(shrunk) <= abs(np.float32(mu))
    assert shrunk * np.float32(mu) >= 0


def test_sparse_blocks_add_to_the_mean_alone(rng):
    """As BM25 has it, with the candidates as the corpus: its own tests are those of Postings."""
    q, c = random_gaussian(rng, 2, 6), random_gaussian(rng, 4, 6)
    asked = [Terms.of(keys, Saturation()) for keys in ([[1, 2], [3]], [[5], [6, 1]])]
    held = [
        Terms.of(keys, Saturation())
        for keys in ([[1, 1, 4], [2], [3, 1], [4]], [[5, 6], [1], [6], [7]])
    ]
    mu, sigma2 = moments(q.with_terms(asked), c.with_terms(held))
    added = [Postings.of(h).similarities(a, Corpus(4)) for a, h in zip(asked, held, strict=True)]
    assert all(part.any() for part in added)
    np.testing.assert_allclose(mu, moments(q, c)[0] + added[0] + added[1], rtol=1e-5)
    np.testing.assert_array_equal(sigma2, moments(q, c)[1])


def test_batches_of_different_dimension_are_refused(rng):
    with pytest.raises(ValueError, match="candidate: expected dimension 4, the query's, got 5"):
        moments(random_gaussian(rng, 1, 4), random_gaussian(rng, 1, 5))


def test_so_are_batches_of_different_blocks_of_terms(rng):
    q, c = random_gaussian(rng, 2, 4), random_gaussian(rng, 5, 4)
    with pytest.raises(ValueError, match="expected 1 blocks of terms, the query's, got 0"):
        moments(q.with_terms([Terms.of([[1], [2]], Saturation())]), c)


def similarities(rows, size, seed=0):
    """Those of a crowd of passages and a few that stand out."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0.3, 0.07, (rows, size))
    values[:, rng.permutation(size)[: min(5, size)]] += rng.uniform(0, 0.4, (rows, min(5, size)))
    return values.astype(np.float32)


@given(size=st.integers(1, 12_000), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_the_largest_are_the_largest_and_the_smallest_of_them_comes_first(size, share, seed):
    values, count = similarities(1, size, seed)[0], 1 + int(share * (size - 1))
    rows = largest(values, count)
    np.testing.assert_array_equal(np.sort(values[rows]), np.sort(values)[size - count :])
    assert len({*rows.tolist()}) == count
    assert values[rows[0]] == values[rows].min()


@pytest.mark.parametrize("held", [0, 5, 40, 3000])
def test_values_that_are_mostly_alike_have_largest_too(held):
    # As where most passages hold none of a question's words.
    values = np.zeros(20_000, dtype=np.float32)
    values[:held] = np.arange(1, held + 1)
    assert not len(largest(values, 0))
    rows = largest(values, 30)
    np.testing.assert_array_equal(np.sort(values[rows]), np.sort(values)[-30:])
    assert len({*rows.tolist()}) == 30
    assert values[rows[0]] == values[rows].min()


@pytest.mark.parametrize("tile", [1, 80, 2**16])
def test_the_size_of_a_tile_changes_nothing(tile, monkeypatch):
    monkeypatch.setattr("uec_rag.base.similarity._TILE", tile)
    parts, weights = [similarities(7, 40, seed) for seed in range(3)], similarities(7, 3)
    expected = np.einsum("knc,nk->nc", np.stack(parts), weights)
    np.testing.assert_allclose(weighted_sum(parts, weights), expected, rtol=1e-5)


@given(seed=st.integers(0, 99), spread=st.floats(0, 300))
def test_a_softmax_of_any_logits_is_of_shares(seed, spread):
    logits = np.random.default_rng(seed).normal(0, spread, (3, 2, 9)).astype(np.float32)
    np.testing.assert_allclose(softmax(logits), expected_softmax(logits, axis=-1), atol=1e-6)


@given(rows=st.integers(1, 5), columns=st.integers(1, 200_000))
def test_tiles_cover_a_matrix_once(rows, columns):
    seen = sum(
        len(range(*row.indices(rows))) * len(range(*column.indices(columns)))
        for row, column in tiles(rows, columns)
    )
    assert seen == rows * columns
