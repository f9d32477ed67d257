import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.paper.metrics import ABSTENTION_RATES, abstention_curve, nauc, var_ece

# Computed by mteb 2.26's own `nauc` on the same numbers.
MTEB_CONFIDENCE = [0.9, 0.1, 0.4, 0.4, 0.7, 0.3, 0.8, 0.2]
MTEB_QUALITY = [1.0, 0.0, 0.5, 0.0, 1.0, 0.63, 0.39, 0.0]
MTEB_NAUC = 0.6647444566354523


def test_the_curve_drops_the_least_confident_first():
    curve = abstention_curve([0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 1.0], rates=[0, 0.25, 0.5])
    np.testing.assert_allclose(curve, [0.5, 2 / 3, 1.0])


def test_the_last_query_is_always_answered():
    assert abstention_curve([1.0, 2.0], [0.0, 1.0], rates=[1.0]).tolist() == [1.0]


def test_nauc_equals_mteb():
    assert nauc(MTEB_CONFIDENCE, MTEB_QUALITY) == pytest.approx(MTEB_NAUC, abs=1e-12)


def test_perfect_confidence_has_nauc_one():
    quality = np.linspace(0, 1, 37)
    assert nauc(quality**3, quality) == pytest.approx(1)


def test_nauc_by_hand():
    # Rates 0 and 0.5: curve .5, 0; oracle .5, 1; flat .5. Areas .125, .375, .25.
    assert nauc([1, 0], [0, 1], rates=[0, 0.5]) == pytest.approx(-1)


def test_constant_confidence_says_nothing():
    assert nauc(np.ones(50), np.linspace(0, 1, 50)) == pytest.approx(0)


def test_equally_good_queries_have_no_nauc():
    assert math.isnan(nauc([0.1, 0.2, 0.3], [0.7, 0.7, 0.7]))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=2, max_size=40))
def test_nauc_ignores_the_order_of_the_queries(pairs):
    confidence, quality = np.array(pairs, float).T
    forward, backward = nauc(confidence, quality), nauc(confidence[::-1], quality[::-1])
    assert forward == pytest.approx(backward, nan_ok=True)
    assert math.isnan(forward) or forward <= 1 + 1e-9


def test_default_rates_are_those_of_mteb():
    assert tuple(np.linspace(0, 1, 11)[:-1]) == ABSTENTION_RATES


@pytest.mark.parametrize(
    ("confidence", "quality", "message"),
    [
        ([1.0, 2.0], [1.0], "one length"),
        ([], [], "at least 1"),
        ([np.nan, 1.0], [0.0, 1.0], "confidence: holds NaN"),
        ([0.0, 1.0], [0.0, np.inf], "quality: holds NaN or infinity"),
    ],
)
def test_bad_input_is_named(confidence, quality, message):
    with pytest.raises(ValueError, match=message):
        nauc(confidence, quality)


def test_var_ece_by_hand():
    # Two bins by variance: (0.1, 0.1) with errors (0, 0.2), (0.4, 0.6) with errors (1, 0).
    mean = np.array([0.0, np.sqrt(0.2), 1.0, 0.0])
    found = var_ece(mean, [0.1, 0.1, 0.4, 0.6], np.zeros(4), bins=2)
    assert found == pytest.approx(0.5 * abs(0.1 - 0.1) + 0.5 * abs(0.5 - 0.5))
    assert var_ece(mean, [0.0, 0.0, 0.4, 0.6], np.zeros(4), bins=2) == pytest.approx(0.5 * 0.1)


def test_true_variances_have_a_small_var_ece():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.01, 1, 20_000)
    error = rng.standard_normal(20_000) * np.sqrt(variance)
    assert var_ece(error, variance, np.zeros(20_000)) < 0.03
    assert var_ece(error, 3 * variance, np.zeros(20_000)) > 0.5


@pytest.mark.parametrize("bins", [0, 3])
def test_more_bins_than_examples_are_refused(bins):
    with pytest.raises(ValueError, match="bins: expected 1 to 2"):
        var_ece([0.0, 1.0], [0.1, 0.1], [0.0, 1.0], bins=bins)


def test_negative_variance_is_refused():
    with pytest.raises(ValueError, match="variance: expected values >= 0"):
        var_ece([0.0], [-0.1], [0.0], bins=1)


@pytest.mark.parametrize("seed", range(20))
def test_nauc_is_mtebs_own_function_on_random_queries(seed):
    from mteb._evaluators.retrieval_metrics import nauc as mteb_nauc

    rng = np.random.default_rng(seed)
    confidence = rng.normal(size=200)
    quality = np.clip(confidence / 4 + rng.random(200), 0, 1)
    theirs = mteb_nauc(confidence, quality)
    assert nauc(confidence, quality) == pytest.approx(theirs, abs=1e-12)
