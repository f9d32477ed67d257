"""What confidence means on a corpus without labels."""

import numpy as np
import pytest

from uec_rag.confidence.level import Level, shipped_level


def test_without_spread_over_corpora_confidence_is_the_share_of_right_answers():
    level = Level(1.0, 0.0, 0.0, 0.0, 0.0, 10, 0.3, (0.1,), (0.8,))
    assert level.share_right(0.6) == pytest.approx((0.6, 0.6))


def test_the_bounds_hold_for_nine_of_ten_lines_over_corpora():
    level = shipped_level()
    covariance = [
        [level.slope_variance, level.covariance],
        [level.covariance, level.offset_variance],
    ]
    rng = np.random.default_rng(0)
    lines = rng.multivariate_normal([level.slope, level.offset], covariance, 20_000)
    share = 1 / (1 + np.exp(-(lines @ [np.log(0.6 / 0.4), 1.0])))
    low, high = level.share_right(0.6)
    assert np.mean((low < share) & (share < high)) == pytest.approx(0.9, abs=0.01)


def test_fewer_wrong_answers_take_a_higher_threshold():
    shares = np.linspace(0.001, 0.3, 50)
    thresholds = [shipped_level().threshold(share) for share in shares]
    assert np.all(np.diff(thresholds) <= 0)
    assert thresholds[0] > 0.97
    assert shipped_level().threshold(0.1) == pytest.approx(0.874)


def test_it_is_said_of_which_corpora():
    low, high = shipped_level().share_right(0.6)
    assert shipped_level().report == (
        "On a corpus like the 10 English collections that UEC() was tried on, with 30% of the "
        f"questions unanswerable, 0.6 means {low:.2f} to {high:.2f} (90% of such corpora)."
    )
