"""Encoders that are copied, and that go to other processes."""

import copy
import pickle

import numpy as np
import pytest

from tests.encoders.conftest import hashed_vectors
from uec_rag.encoders import (
    BlackBoxEncoder,
    CachedEncoder,
    SentenceTransformerEncoder,
    load_encoder,
)


@pytest.fixture(scope="module")
def encoder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    tiny().save(str(folder / "model"))
    return load_encoder(folder / "model", last_layer="ffn", batch_size=2)


def test_in_another_process_an_encoder_is_loaded_by_its_name(encoder, texts):
    there = pickle.loads(pickle.dumps(encoder))
    assert type(there) is type(encoder)
    assert (there.revision, there.last_layer) == (encoder.revision, "ffn")
    ours, theirs = encoder.encode(texts, "query"), there.encode(texts, "query")
    np.testing.assert_array_equal(ours.embedding, theirs.embedding)
    np.testing.assert_array_equal(ours.features, theirs.features)


def test_a_copy_is_the_encoder_itself(encoder, remote):
    for one in (encoder, BlackBoxEncoder(remote)):
        assert copy.deepcopy({"deep": one})["deep"] is one
        assert copy.copy(one) is one


def test_a_model_that_has_changed_meanwhile_is_refused(saved):
    folder = saved("model")
    pickled = pickle.dumps(load_encoder(folder))
    saved("model", pooling="cls")
    with pytest.raises(ValueError, match="is not the same model as in the other process"):
        pickle.loads(pickled)


def test_a_model_in_memory_is_refused_at_once(tiny, saved):
    changed = SentenceTransformerEncoder(saved("model"), query_prompt="mine: ")
    for encoder in (SentenceTransformerEncoder(tiny(), query_prompt=""), changed):
        with pytest.raises(TypeError, match=r"cannot be loaded by name.*Save the model"):
            pickle.dumps(encoder)


def test_what_is_inside_goes_along(saved, tmp_path, texts):
    cached = CachedEncoder(load_encoder(saved("model")), tmp_path / "vectors")
    expected = cached.encode(texts, "passage").embedding
    there = pickle.loads(pickle.dumps(cached))
    assert there.path == cached.path
    np.testing.assert_array_equal(there.encode(texts, "passage").embedding, expected)


def test_a_function_of_a_module_goes_along_with_its_name(texts):
    there = pickle.loads(pickle.dumps(BlackBoxEncoder(hashed_vectors, name="mine")))
    assert there.name == "mine"
    assert there.encode(texts, "query").embedding.shape == (len(texts), 8)
