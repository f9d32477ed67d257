import pytest

from benchmarks.paper import tiny
from benchmarks.paper.plan import make_plan
from benchmarks.paper.systems.baselines import ALPHAS
from benchmarks.paper.systems.lineup import Lineup
from benchmarks.paper.tasks import evaluate
from uec_rag.encoders import load_encoder

PAIRS = [(f"the {a} {b}", f"{b} {a} cat") for a in "abcdefgh" for b in "ijklm"]


def lineup(bert, folder, seeds):
    for index, seed in enumerate(seeds):
        bert(seed).save(str(folder / f"model{index}"))
    encoders = [load_encoder(folder / f"model{index}") for index in range(len(seeds))]
    return Lineup(encoders, PAIRS, lambda encoder: encoder)


def test_the_alpha_of_merged_weights_is_one_of_the_papers_grid(bert, tmp_path):
    system = lineup(bert, tmp_path, (0, 1, 2)).merged_by_arithmetic()
    assert system.name in {f"merged, alpha {alpha:g}" for alpha in ALPHAS}
    assert system.embed(["a cat"], "query").mean.shape == (1, 8)


def test_of_alphas_that_are_equally_good_the_largest_is_taken(bert, tmp_path):
    alike = lineup(bert, tmp_path, (0, 0, 0)).merged_by_arithmetic()
    assert alike.name == "merged, alpha 1"


def test_black_boxes_are_not_merged(bags):
    with pytest.raises(TypeError, match="merging needs models with their weights at hand"):
        Lineup(bags, PAIRS, lambda encoder: encoder).merged_by_arithmetic()


def test_the_papers_own_ensemble_ranks_with_encoders_of_one_dimension(tiny_data, bags):
    plan = make_plan(tiny_data, sets=["tiny_search"], fit=[tiny.FIT], proxy=tiny.PROXY)
    entries = Lineup(bags, plan.pairs, lambda encoder: encoder).entries()
    found = {
        entry.name: evaluate(plan.tasks[0], entry.build())[0]["ndcg10"]
        for entry in entries
        if entry.name in ("UEC.paper", "three")
    }
    assert found["UEC.paper"] > found["three"]
