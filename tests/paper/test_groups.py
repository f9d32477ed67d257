import numpy as np
import pytest

from benchmarks.paper.plan import MAIN, Plan, make_group

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


def test_a_black_box_needs_a_revision_to_be_remembered(tmp_path):
    def letters(texts):
        return np.array([[text.count(c) + 0.5 for c in "acto"] for text in texts])

    with pytest.raises(ValueError, match="without a revision"):
        make_group(MAIN, PLAN, [letters], tmp_path)  # a cache has to know its model


def test_two_encoders_of_one_name_are_refused(bert, tmp_path):
    bert(0).save(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="different names"):
        make_group(MAIN, PLAN, [tmp_path / "model"] * 2, tmp_path / "cache")
