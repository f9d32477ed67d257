import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.embeddings import MockEmbedding

from uec_rag.encoders import (
    BlackBoxEncoder,
    CachedEncoder,
    SentenceTransformerEncoder,
    load_encoder,
)
from uec_rag.encoders.loading import load_encoders


def test_a_folder_as_text_or_path_is_loaded(saved):
    folder = saved("tiny-model")
    for spec in (folder, str(folder), f"hf:{folder}"):
        encoder = load_encoder(spec)
        assert isinstance(encoder, SentenceTransformerEncoder)
        assert (encoder.name, encoder.spec) == ("tiny-model", str(folder))


def test_a_sentence_transformer_is_wrapped_with_the_settings_given(tiny):
    encoder = load_encoder(tiny(), last_layer="ffn", batch_size=3, dtype="float32")
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert (encoder.last_layer, encoder.batch_size) == ("ffn", 3)


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
        inside, outside = load_encoders([tiny(), remote], last_layer="auto")
    assert inside.feature_dimension > inside.dimension
    assert outside.feature_dimension == outside.dimension


def model_of(kind):
    return type(kind, (), {"__module__": "sentence_transformers"})()


ACCEPTED = "expected a hub name, a folder, 'pypi:NAME'"


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        *((odd, {}, TypeError, ACCEPTED) for odd in (3, None, object(), MockEmbedding, ["a", "b"])),
        *((blank, {}, ValueError, "name must not be empty") for blank in ("", "  ")),
        ("bm52", {}, ValueError, "no encoder 'bm52'; did you mean 'bm25'?"),
        ("Arctic-Embed", {}, ValueError, "did you mean 'arctic-embed-s'?"),
        ("pypi:wordlama", {}, ValueError, "did you mean 'wordllama'?"),
        ("no-such/model", {}, OSError, "cannot load encoder 'no-such/model'"),
        (model_of("SparseEncoder"), {}, TypeError, "a SparseEncoder makes no dense vectors"),
        (model_of("CrossEncoder"), {}, TypeError, "a CrossEncoder makes no dense vectors"),
        (
            lambda texts: [],
            {"last_layer": "ffn"},
            ValueError,
            "last_layer='ffn' needs the model's inner layers",
        ),
    ],
)
def test_anything_else_is_refused_with_what_is_accepted(given, options, error, message):
    with pytest.raises(error, match=message):
        load_encoder(given, **options)
