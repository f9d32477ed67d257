import numpy as np
import pytest

from tests.paper.bags import Bag
from uec_rag.paper.calibration import (
    error_auroc,
    hard_pair_task,
    measure_probabilities,
    pair_task,
    posterior_variants,
)

PAIRS = [(f"who is {name}?", f"{name} is a person") for name in (f"n{i}" for i in range(60))]


@pytest.fixture(scope="module")
def variants():
    fit, test = pair_task(PAIRS[:40]), pair_task(PAIRS[40:])
    inside = Bag("one")
    inside.gain = inside.gain * 2
    return {row.name: row for row in posterior_variants(Bag("one"), PAIRS[:40], fit, test, inside)}


def test_the_last_layer_of_a_transformer_has_rows_of_its_own(variants):
    assert list(variants)[:6] == [
        *("kron, pairs", "kron, in_batch", "diag, pairs", "diag, in_batch"),
        *("kron, pairs, ffn", "diag, pairs, ffn"),
    ]
    assert (
        variants["kron, pairs, ffn"].ece_deterministic == variants["kron, pairs"].ece_deterministic
    )


def test_without_data_there_is_no_variance(variants):
    plain = variants["0% of the data (deterministic)"]
    assert plain.nll == plain.nll_deterministic == variants["kron, pairs"].nll_deterministic


def test_another_seed_is_another_posterior_of_the_same_classifier(variants):
    fit, test = pair_task(PAIRS[:40]), pair_task(PAIRS[40:])
    again = posterior_variants(Bag("one"), PAIRS[:40], fit, test, seed=1)
    assert again[0].name == "kron, pairs"
    assert again[0].nll != variants["kron, pairs"].nll
    assert again[0].nll_deterministic == variants["kron, pairs"].nll_deterministic


def test_hard_negatives_are_the_likeliest_of_what_does_not_answer():
    pairs = [("red cat", "a red cat"), ("red cat", "red cat"), ("dog", "dog"), ("x", "red")]
    task = hard_pair_task(pairs, [Bag("one"), Bag("two")])
    assert task.queries == 2 * ["red cat", "red cat", "dog", "x"]
    assert task.labels.tolist() == 4 * [1] + 4 * [0]
    assert task.passages[4:6] == ["red", "red"]
    assert task.passages[6] != "dog"


def test_variance_that_is_large_where_predictions_are_wrong_finds_them():
    p, labels = np.array([0.9, 0.8, 0.3, 0.1]), np.array([1, 0, 1, 0])
    assert error_auroc(np.array([1, 3, 3, 1]), p, labels) == 1
    assert error_auroc(np.array([1, 1, 1, 1]), p, labels) == 0.5
    assert np.isnan(error_auroc(np.arange(4), p, p > 0.5))
    assert measure_probabilities(p, labels)["accuracy"] == 0.5
