import pytest

from benchmarks.paper.analyses import adaptivity
from benchmarks.paper.data import Collection
from benchmarks.paper.plan import MAIN, Group, Plan
from benchmarks.paper.systems.lineup import Lineup
from benchmarks.paper.tasks import Retrieval
from tests.paper.bags import BAGS, Bag

pytestmark = pytest.mark.slow

PAIRS = [
    (f"who is {name}?", f"{name} is a person of note") for name in (f"n{i}" for i in range(60))
]
COLLECTION = Collection(
    "names",
    {f"p{i}": f"m{i} is a person of note" for i in range(80)},
    {f"q{i}": f"who is m{i}?" for i in range(60)},
    {f"q{i}": {f"p{i}": 1} for i in range(60)},
)


def group():
    encoders = [Bag(name, noise) for name, noise in BAGS.items()]
    plan = Plan([Retrieval(COLLECTION, False)], PAIRS)
    return Group(MAIN, plan, Lineup(encoders, PAIRS, lambda encoder: encoder))


@pytest.fixture(scope="module")
def result():
    return adaptivity.run([group()])


def test_every_rule_is_compared_with_its_shuffle_its_mean_uniform_and_tuned_weights(result):
    assert list(result["posteriors"]) == ["pairs", "in_batch", "scaled"]
    for found in result["posteriors"].values():
        assert list(found["rules"]) == ["trace", "z", "authors", "authors, undivided"]
        assert len(found["traces"]) == 3
        for row in found["rules"].values():
            assert 0 < row["ndcg10"] <= 1
            assert sum(row["coefficients"]) == pytest.approx(1, abs=1e-3)
            assert row["tuned"] <= row["uniform"] + 0.01  # weights tuned here are no worse
            assert all(row[f"{key}_se"] >= 0 for key in ("shuffled", "mean", "uniform", "tuned"))
