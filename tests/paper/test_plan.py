import numpy as np
import pytest

from benchmarks.paper import tiny
from benchmarks.paper.data import (
    load_collection,
    load_labelled_texts,
    load_scored_pairs,
    sample_collection,
)
from benchmarks.paper.plan import MAIN, Plan, make_group, make_language_plan, make_plan

KINDS = ["retrieval", "reranking", "classification", "clustering", "sts", "bitext"]


def plan(data, **options):
    return make_plan(data, sets=tiny.SETS, fit=[tiny.FIT], proxy=tiny.PROXY, **options)


def test_the_files_of_a_set_say_which_task_it_is(tiny_data):
    assert [task.kind for task in plan(tiny_data).tasks] == KINDS


def test_every_text_of_a_task_is_in_the_plan_once(tiny_data):
    texts = plan(tiny_data).texts()
    for task in plan(tiny_data).tasks:
        for role, own in task.texts():
            assert set(own) <= set(texts[role])
    assert all(len(set(own)) == len(own) for own in texts.values())


def test_nothing_that_is_fitted_on_is_reported(tiny_data):
    made = plan(tiny_data)
    fitted = {query for query, _ in made.pairs}
    searched = set(made.tasks[0].data.queries.values())
    assert fitted
    assert not fitted & searched


def test_whatever_is_there_is_reported_where_no_known_set_is(tiny_data):
    made = make_plan(tiny_data, fit=[tiny.FIT], proxy=tiny.PROXY)
    assert tiny.FIT not in {task.name for task in made.tasks}
    assert {"tiny_search", "tiny_subjects"} <= {task.name for task in made.tasks}
    assert make_language_plan(tiny_data) is None
    with pytest.raises(FileNotFoundError, match="--fit"):
        make_plan(tiny_data)


def test_a_sampled_collection_keeps_what_its_queries_need(tiny_data):
    whole = load_collection(tiny_data / "tiny_search")
    some = sample_collection(whole, queries=5, passages=20)
    assert len(some.queries) == 5
    assert len(some.passages) == 20
    assert all(set(gains) <= set(some.passages) for gains in some.relevant.values())
    assert sample_collection(whole, queries=5, passages=20).queries == some.queries
    assert len(sample_collection(whole, queries=5, passages=2).passages) == 5  # all are relevant


def test_similarity_scores_end_up_between_0_and_1(tmp_path, tiny_data):
    scores = load_scored_pairs(tiny_data / "tiny_similarity").scores
    assert 0 <= scores.min() < scores.max() <= 1


def test_a_pool_of_training_texts_has_so_many_of_each_label(tiny_data):
    pool = load_labelled_texts(tiny_data / "tiny_subjects", "train", per_label=3)
    assert {pool.labels.count(label) for label in pool.labels} == {3}


PLAN = Plan([], [])


def test_one_encoding_serves_the_projection_and_the_layer_inside(bert, tmp_path):
    bert(0).save(str(tmp_path / "model"))
    group = make_group(MAIN, PLAN, [tmp_path / "model"], tmp_path / "cache")
    (encoder,), (inside,) = group.lineup.encoders, group.lineup.inside()
    outside, own = (e.encode(["a cat", "the dog"], "query") for e in (encoder, inside))
    np.testing.assert_array_equal(outside.embedding, own.embedding)
    assert outside.features is outside.embedding
    assert own.features.shape == (2, inside.feature_dimension)
    assert inside.feature_dimension != encoder.feature_dimension == encoder.dimension
    assert encoder.gain.tolist() == [1.0] * encoder.dimension


def test_two_encoders_of_one_name_are_refused(bert, tmp_path):
    bert(0).save(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="different names"):
        make_group(MAIN, PLAN, [tmp_path / "model"] * 2, tmp_path / "cache")
