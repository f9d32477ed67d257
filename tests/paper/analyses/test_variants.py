import pytest

from benchmarks.paper.analyses.calibration import pair_task
from benchmarks.paper.analyses.variants import posterior_variants
from tests.paper.bags import Bag

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
