import numpy as np
import pytest

from benchmarks.paper.systems.baselines import Fusion, all_fusions, best_fusion, borda, ranks
from tests.helpers import rows_of

MISSING = -np.inf


def test_ranks_start_at_zero_and_ties_go_to_the_smaller_index():
    assert ranks(np.float32([[1, 3, 3, 2]])).tolist() == [[3, 0, 1, 2]]


def test_what_was_not_found_has_no_rank():
    assert ranks(np.float32([[1, MISSING, 2, 3]]), depth=2).tolist() == [[4, 4, 1, 0]]


def test_borda_shares_the_points_that_are_left_among_the_unfound_candidates():
    # Of three candidates A's hits get 3 and 2, B's hit gets 3; B's other two share 2 + 1.
    a, b = np.float32([[2, 1, MISSING, MISSING]]), np.float32([[MISSING, MISSING, 5, MISSING]])
    assert borda([a, b]).tolist() == [[3 + 1.5, 2 + 1.5, 1 + 3, 0]]


@pytest.mark.parametrize("fusion", all_fusions(depth=3), ids=str)
def test_every_rule_keeps_a_unanimous_order(fusion):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(5, 8)).astype(np.float32)
    fused = fusion([scores, 3 * scores + 1])
    best = np.argsort(-scores, axis=1)[:, :3]
    assert np.array_equal(np.argsort(-fused, axis=1, kind="stable")[:, :3], best)


def test_the_best_rule_is_the_one_the_metric_prefers():
    # Passage 1 is good in both systems, 0 and 2 the best of one and the worst of the other.
    systems = [np.float32([[1.0, 0.6, 0.0]]), np.float32([[0.0, 0.6, 1.0]])]
    best = best_fusion(systems, lambda fused: float(fused[0].argmax() == 1))
    assert best(systems)[0].argmax() == 1
    assert Fusion("CombMAX", "min-max", depth=100)(systems)[0].argmax() != 1


# Three systems' scores of four passages for two queries, and what ranx 0.3.21 makes of them.
SYSTEMS = [
    np.float32([[0.9, 0.5, 0.1, 0.3], [0.2, 0.4, 0.8, 0.6]]),
    np.float32([[0.2, 0.8, 0.9, 0.1], [0.7, 0.3, 0.5, 0.1]]),
    np.float32([[0.6, 0.1, 0.7, 0.4], [0.3, 0.9, 0.2, 0.8]]),
]


@pytest.mark.parametrize("row", rows_of("fusion_of_ranx.csv"), ids=lambda row: row["rule"])
def test_rules_are_those_of_ranx(row):
    rule, *expected = row.values()
    found = Fusion(*rule.split())(SYSTEMS).ravel()
    np.testing.assert_allclose(found, np.float64(expected), rtol=1e-4, atol=1e-5)
