import math

import numpy as np
import pytest

from benchmarks.paper.metrics import abstention_curve, nauc, var_ece


def test_the_curve_drops_the_least_confident_first_and_never_the_last():
    curve = abstention_curve([0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 1.0], rates=[0, 0.25, 0.5])
    np.testing.assert_allclose(curve, [0.5, 2 / 3, 1.0])
    assert abstention_curve([1.0, 2.0], [0.0, 1.0], rates=[1.0]).tolist() == [1.0]


def test_equally_good_queries_have_no_nauc():
    assert math.isnan(nauc([0.1, 0.2, 0.3], [0.7, 0.7, 0.7]))


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_nauc_is_mtebs_own_function_on_random_queries(seed):
    from mteb._evaluators.retrieval_metrics import nauc as mteb_nauc

    rng = np.random.default_rng(seed)
    confidence = rng.normal(size=200)
    quality = np.clip(confidence / 4 + rng.random(200), 0, 1)
    theirs = mteb_nauc(confidence, quality)
    assert nauc(confidence, quality) == pytest.approx(theirs, abs=1e-12)
