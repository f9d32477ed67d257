"""Moments and score against slow references that share no code with them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax as expected_softmax

from tests.helpers import random_gaussian, with_terms
from uec_rag.base.counts import Words
from uec_rag.base.gaussian import Terms
from uec_rag.base.similarity import best_rows, first_of_largest, largest, moments, probit, softmax

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


def test_the_score_is_the_probit_of_the_moments(rng):
    q, c = random_gaussian(rng, 3, 6), random_gaussian(rng, 4, 6)
    mu, sigma2 = (part.astype(np.float64) for part in moments(q, c))
    expected = mu / np.sqrt(1 + np.pi / 8 * 0.7 * sigma2)
    np.testing.assert_allclose(probit(*moments(q, c), beta=0.7), expected, rtol=1e-5)
    np.testing.assert_array_equal(probit(*moments(q, c), beta=0.0), moments(q, c)[0])


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
    """As BM25 has it, with the candidates as the corpus: its own tests are those of Words."""
    q, c = random_gaussian(rng, 2, 6), random_gaussian(rng, 4, 6)
    asked = [Terms.from_keys(keys) for keys in ([[1, 2], [3]], [[5], [6, 1]])]
    held = [
        Terms.from_keys(keys) for keys in ([[1, 1, 4], [2], [3, 1], [4]], [[5, 6], [1], [6], [7]])
    ]
    mu, sigma2 = moments(with_terms(q, asked), with_terms(c, held))
    words = [*map(Words.from_terms, held)]
    added = [w.similarities(w.look_up(a)) for a, w in zip(asked, words, strict=True)]
    assert all(part.any() for part in added)
    np.testing.assert_allclose(mu, moments(q, c)[0] + added[0] + added[1], rtol=1e-5)
    np.testing.assert_array_equal(sigma2, moments(q, c)[1])
    with pytest.raises(ValueError, match="zip"):
        moments(with_terms(q, asked), c)


@given(seed=st.integers(0, 99), spread=st.floats(0, 300))
def test_a_softmax_of_any_logits_is_of_shares(seed, spread):
    logits = np.random.default_rng(seed).normal(0, spread, (3, 2, 9)).astype(np.float32)
    np.testing.assert_allclose(softmax(logits), expected_softmax(logits, axis=-1), atol=1e-6)


@pytest.mark.parametrize("count", [1, 10, 64])
@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).choice([0, 1, 2], 4096, p=[0.49, 0.5, 0.01]),  # many alike
        np.zeros(4096),
        np.where(np.arange(4096) % 64, 0, np.arange(4096)),  # a few unlike the others
    ],
)
def test_the_largest_of_many_are_those_of_sorting(values, count):
    found = largest(values.astype(np.float32), count)
    assert len(set(found.tolist())) == count
    assert sorted(values[found]) == sorted(values)[-count:]
    assert values[found[0]] == values[found].min()
    order = np.argsort(-values.astype(np.float32), kind="stable")[:count]
    assert first_of_largest(values.astype(np.float32), count).tolist() == order.tolist()


# Pruned search against scoring everything.


# Few distinct values, so that ties abound; similarities of both signs; variances that turn the
# order upside down, up to ones that press every score to 0.
SIMILARITIES = st.sampled_from(
    np.float32([-1, -0.75, -0.5, -1e-20, 0, 0.25, 0.5, 0.5000001, 0.75, 1]).tolist()
)
ANY_SIMILARITY = st.floats(-1.5, 1.5, width=32)
VARIANCES = st.sampled_from(np.float32([0, 1e-6, 0.1, 0.5, 3, 1e3, 1e12, 1e30]).tolist())
ANY_VARIANCE = st.floats(0, 64, width=32)
BETAS = st.sampled_from([0.0, 0.01, 1.0, 30.0, 1e6])


class Moments:
    """mu_s and sigma_s^2 of every row, and how many rows they were asked for."""

    def __init__(self, mu, sigma2):
        self.mu = mu
        self.sigma2 = np.asarray(sigma2, dtype=np.float32)
        self.asked = 0

    def __call__(self, rows):
        self.asked += len(rows)
        return self.mu[rows], self.sigma2[rows]


def everything(mu, sigma2, k, beta):
    """Score all, then sort by score and, where that ties, by row."""
    scores = probit(mu, sigma2, beta)
    order = sorted(range(len(mu)), key=lambda row: (-scores[row], row))[:k]
    return order, scores[order], sigma2[order]


@st.composite
def problems(draw):
    similarities = draw(st.sampled_from([SIMILARITIES, ANY_SIMILARITY]))
    variances = draw(st.sampled_from([VARIANCES, ANY_VARIANCE]))
    # Of most rows, more than the candidates that are looked at first.
    count = draw(st.integers(1, 120))
    mu = draw(arrays(np.float32, count, elements=similarities))
    sigma2 = draw(arrays(np.float32, count, elements=variances))
    return mu, sigma2, draw(st.integers(1, min(count, 20))), draw(BETAS)


@settings(max_examples=600, deadline=None)
@given(problems(), st.sampled_from([None, 1.0, 1.5, 100.0]))
@example((np.full(500, 0.5, np.float32), np.zeros(500, np.float32), 3, 1.0), None)
def test_pruned_search_equals_scoring_everything(problem, slack):
    """With a bound of the variance, too; a row left out may score as much as the last hit."""
    mu, sigma2, k, beta = problem
    bound = {}
    if slack is not None:
        mu = mu - np.float32(0.5)  # most of them negative
        bound = {"bound": lambda: slack * float(sigma2.max())}
    expected, expected_scores, expected_sigma2 = everything(mu, sigma2, k, beta)
    rows, scores, found, variances = best_rows(mu, Moments(mu, sigma2), k, beta, **bound)
    assert rows.tolist() == expected
    np.testing.assert_array_equal(scores, expected_scores)
    np.testing.assert_array_equal(found, mu[expected])
    np.testing.assert_array_equal(variances, expected_sigma2)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 60), beta=BETAS)
def test_it_does_where_the_best_similarities_are_the_most_uncertain(seed, k, beta):
    """Several doublings are needed: the variance of the best thousand undoes their advantage."""
    rng = np.random.default_rng(seed)
    mu = rng.normal(0.2, 0.3, 5000).astype(np.float32)
    sigma2 = (1e4 * np.maximum(mu, 0) ** 8).astype(np.float32)
    rows, scores, *_ = best_rows(mu, Moments(mu, sigma2), k, beta)
    expected, expected_scores, _ = everything(mu, sigma2, k, beta)
    assert rows.tolist() == expected
    np.testing.assert_array_equal(scores, expected_scores)


def test_rows_that_do_not_take_part_are_never_found():
    mu = np.array([-np.inf, 0.1, -np.inf, -0.4, 0.3], dtype=np.float32)
    rows = best_rows(mu, Moments(mu, np.full(5, 0.5)), 3, beta=1.0)[0]
    assert rows.tolist() == [4, 1, 3]


@pytest.mark.parametrize("k", [1, 10, 100])
def test_only_a_few_rows_are_looked_at_where_variances_are_alike(k):
    rng = np.random.default_rng(0)
    mu = rng.normal(0.3, 0.1, 100_000).astype(np.float32)
    variances = Moments(mu, 0.05 + 0.001 * rng.random(100_000))
    rows = best_rows(mu, variances, k, beta=1.0)[0]
    assert rows.tolist() == everything(mu, variances.sigma2, k, 1.0)[0]
    assert variances.asked < 10_000


@pytest.mark.parametrize(("most", "beta"), [(0.06, 1.0), (1e6, 1.0), (np.inf, 1.0), (np.inf, 0.0)])
def test_negative_similarities_are_searched_in_passes_that_grow_fast(most, beta):
    """With a bound of the variance few rows are looked at; without one all, but not repeatedly."""
    rng = np.random.default_rng(0)
    mu = -np.abs(rng.normal(0.3, 0.1, 16_000)).astype(np.float32) - np.float32(0.1)
    variances = Moments(mu, 0.05 + 0.001 * rng.random(16_000))
    rows = best_rows(mu, variances, 10, beta, bound=lambda: most)[0]
    assert rows.tolist() == everything(mu, variances.sigma2, 10, beta)[0]
    assert variances.asked < (1000 if most < 1 or not beta else 40_000)
