"""Pruned search against scoring everything."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from uec_rag.base.similarity import best_rows, probit

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
        bound = {"most": lambda: slack * float(sigma2.max())}
    expected, expected_scores, expected_sigma2 = everything(mu, sigma2, k, beta)
    rows, scores, found, variances = best_rows(mu, Moments(mu, sigma2), k, beta, **bound)
    assert rows.tolist() == expected
    np.testing.assert_array_equal(scores, expected_scores)
    np.testing.assert_array_equal(found, mu[expected])
    np.testing.assert_array_equal(variances, expected_sigma2)


@settings(max_examples=400, deadline=None)
@given(problems(), st.sampled_from([0.0, 1e-6, 0.01, 0.25, 2.0]), st.integers(0, 1000))
@example((np.full(25, 1.4276111e-34, dtype=np.float32), np.zeros(25, np.float32), 4, 0.0), 1e-6, 0)
def test_it_does_where_similarities_are_known_up_to_an_error(problem, error, seed):
    mu, sigma2, k, beta = problem
    off = np.random.default_rng(seed).uniform(-error, error, len(mu)).astype(np.float32)
    off[::3] = np.sign(off[::3]) * np.float32(error)
    expected, expected_scores, _ = everything(mu, sigma2, k, beta)
    seen = mu + off
    # Rounded up: of a mu of 1e-34 beside an error of 1e-6 nothing is left, and the bound must hold.
    bound = np.nextafter(np.abs(seen.astype("f8") - mu).max(), np.inf)
    rows, scores, *_ = best_rows(seen, Moments(mu, sigma2), k, beta, error=float(bound))
    assert rows.tolist() == expected
    np.testing.assert_array_equal(scores, expected_scores)


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


@pytest.mark.parametrize("most", [0.06, 1e6, np.inf])
def test_negative_similarities_are_searched_in_passes_that_grow_fast(most):
    """With a bound of the variance few rows are looked at; without one all, but not repeatedly."""
    rng = np.random.default_rng(0)
    mu = -np.abs(rng.normal(0.3, 0.1, 16_000)).astype(np.float32) - np.float32(0.1)
    variances = Moments(mu, 0.05 + 0.001 * rng.random(16_000))
    rows = best_rows(mu, variances, 10, beta=1.0, most=lambda: most)[0]
    assert rows.tolist() == everything(mu, variances.sigma2, 10, 1.0)[0]
    assert variances.asked < (1000 if most < 1 else 40_000)
