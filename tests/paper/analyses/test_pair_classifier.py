import numpy as np
import pytest

from benchmarks.paper.analyses import calibration
from benchmarks.paper.systems import pair_moments
from tests.paper.bags import Bag
from uec_rag import UEC
from uec_rag.base.similarity import PROBIT
from uec_rag.laplace.likelihood import bernoulli_map


def test_negatives_of_the_pair_task_do_not_answer():
    pairs = [("a", "1"), ("a", "2"), ("b", "3"), ("c", "1")]
    task = calibration.pair_task(pairs)
    assert task.labels.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    positives = set(pairs)
    drawn = list(zip(task.queries, task.passages, strict=True))[4:]
    assert not positives & set(drawn)
    with pytest.raises(ValueError, match="does not answer"):
        calibration.pair_task([("a", "1"), ("a", "2")])


def test_overconfidence_is_measured_as_calibration_error():
    labels = np.array([1.0, 0.0] * 50)
    sure, fair = np.full(100, 0.9), np.full(100, 0.5001)
    assert calibration.measure_probabilities(sure, labels)["ece"] == pytest.approx(0.4, abs=1e-5)
    assert calibration.measure_probabilities(fair, labels)["ece"] < 0.01


def test_hard_negatives_are_the_likeliest_of_what_does_not_answer():
    pairs = [("red cat", "a red cat"), ("red cat", "red cat"), ("dog", "dog"), ("x", "red")]
    task = calibration.hard_pair_task(pairs, [Bag("one"), Bag("two")])
    assert task.queries == 2 * ["red cat", "red cat", "dog", "x"]
    assert task.labels.tolist() == 4 * [1] + 4 * [0]
    assert task.passages[4:6] == ["red", "red"]
    assert task.passages[6] != "dog"


def test_variance_that_is_large_where_predictions_are_wrong_finds_them():
    p, labels = np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 1, 0])
    assert calibration.error_auroc(np.array([1, 3, 3, 1]), p, labels) == 1
    assert calibration.error_auroc(np.array([1, 1, 1, 1]), p, labels) == 0.5
    assert np.isnan(calibration.error_auroc(np.arange(4), p, p > 0.5))
    assert calibration.measure_probabilities(p, labels)["accuracy"] == 0.5


def test_the_classifier_with_variance_has_its_own_slope():
    pairs = [(f"who is {name}?", f"{name} is a person") for name in (f"n{i}" for i in range(40))]
    uec, task = UEC([Bag("one")], structure="diag").fit(pairs), calibration.pair_task(pairs)
    row = calibration.calibrate(uec, task, task, "one")
    mu, sigma2 = pair_moments(uec.embed(task.queries, "query"), uec.embed(task.passages, "passage"))
    slope, intercept = bernoulli_map(mu, task.labels)
    shared = (slope * mu + intercept) / np.sqrt(1 + PROBIT * slope**2 * sigma2)
    assert row.nll < np.mean(np.logaddexp(0, shared) - task.labels * shared) - 0.001
