import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import binary_calibration_error

from uec_rag.confidence.model import fit_calibrator, sigmoid


def sample(count, seed=0, shift=0.0, scale=1.0):
    """Two features and labels whose log odds are linear in them."""
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 1, (count, 2)).astype(np.float32)
    odds = scale * (features @ [2.0, 1.0] - 1) + shift
    return features, rng.random(count) < sigmoid(odds)


def calibration_error(probabilities, labels):
    return float(
        binary_calibration_error(
            torch.as_tensor(probabilities), torch.as_tensor(labels.astype(int)), n_bins=10
        )
    )


def test_probabilities_are_right_on_what_it_was_fitted_on():
    calibrator = fit_calibrator(*sample(4000))
    features, labels = sample(4000, seed=1)
    assert calibration_error(calibrator.predict(features), labels) < 0.03


def test_a_shifted_corpus_is_wrong_before_and_right_after_recalibration():
    calibrator = fit_calibrator(*sample(4000))
    fresh = calibrator.recalibrated(*sample(400, seed=2, shift=-2.0, scale=0.5))
    features, labels = sample(4000, seed=3, shift=-2.0, scale=0.5)
    assert calibration_error(calibrator.predict(features), labels) > 0.1
    assert calibration_error(fresh.predict(features), labels) < 0.04


def test_recalibration_keeps_the_order():
    features, labels = sample(500)
    calibrator = fit_calibrator(features, labels)
    fresh = calibrator.recalibrated(features, labels[::-1])
    order = np.argsort(calibrator.predict(features))
    assert (np.diff(fresh.predict(features)[order]) >= -1e-6).all()


def test_a_handful_of_labels_moves_probabilities_a_little():
    features, labels = sample(2000)
    calibrator = fit_calibrator(features, labels)
    fresh = calibrator.recalibrated(features[:3], [True, True, True])
    moved = fresh.predict(features) - calibrator.predict(features)
    assert 0 < moved.mean() < 0.4


@given(st.integers(0, 2**32 - 1))
def test_more_evidence_never_lowers_a_probability(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 1, (60, 3)).astype(np.float32)
    labels = rng.random(60) < 0.5
    labels[:2] = [True, False]
    calibrator = fit_calibrator(features, labels)
    assert min(calibrator.weights) >= 0
    assert (calibrator.predict(features + 1) >= calibrator.predict(features) - 1e-6).all()


def test_leading_axes_are_kept():
    calibrator = fit_calibrator(*sample(200))
    assert calibrator.predict(np.zeros((4, 7, 2), np.float32)).shape == (4, 7)


def test_separable_labels_give_finite_weights():
    features = np.linspace(-1, 1, 50)[:, None].astype(np.float32)
    found = fit_calibrator(features, features[:, 0] > 0)
    assert np.isfinite([*found.weights, found.bias]).all()
    assert found.predict(features)[-1] > 0.9


@pytest.mark.parametrize("value", [True, False])
def test_labels_of_one_kind_are_refused(value):
    with pytest.raises(ValueError, match="expected some of either kind"):
        fit_calibrator(np.zeros((5, 2), np.float32), [value] * 5)


def test_recalibration_to_labels_of_one_kind_goes_a_part_of_the_way():
    calibrator, features = fit_calibrator(*sample(200)), sample(20)[0]
    before = calibrator.predict(features)
    for label in (False, True):
        after = calibrator.recalibrated(features, [label] * 20).predict(features)
        assert (after.mean() > before.mean()) == label
        assert 0.05 < after.mean() < 0.95


def test_lines_of_log_odds_are_put_on_one_another():
    calibrator, features = fit_calibrator(*sample(200)), sample(20)[0]
    lined = calibrator.on_line(2.0, 1.0).on_line(0.5, -3.0)
    np.testing.assert_allclose(lined.logits(features), calibrator.logits(features) - 2.5, rtol=1e-4)


def test_recalibration_without_labels_is_refused():
    calibrator = fit_calibrator(*sample(200))
    with pytest.raises(ValueError, match="expected at least one"):
        calibrator.recalibrated(np.zeros((0, 2), np.float32), [])
