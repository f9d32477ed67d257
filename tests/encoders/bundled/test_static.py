import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.encoders.conftest import WORDS
from uec_rag.encoders import load_encoder
from uec_rag.encoders.bundled.static import StaticEncoder


@pytest.fixture(scope="module")
def encoder(static_folder):
    return StaticEncoder(static_folder, name="tiny")


def test_vectors_are_those_of_sentence_transformers(encoder, static_folder, texts):
    """Over several blocks of texts, of a word to two hundred."""
    rng = np.random.default_rng(1)
    many = [*texts, *(" ".join(rng.choice(WORDS, n)) for n in rng.integers(1, 200, 300))]
    expected = load_encoder(static_folder, device="cpu").encode(many, "passage").embedding
    np.testing.assert_allclose(encoder.encode(many, "passage").embedding, expected, atol=1e-6)


def test_queries_get_the_prompt_of_the_models_family(static_folder):
    e5 = StaticEncoder(static_folder, name="e5-small")
    np.testing.assert_array_equal(
        e5.encode(["the cat"], "query").embedding,
        StaticEncoder(static_folder, name="plain").encode(["query: the cat"], "query").embedding,
    )


def test_the_revision_follows_weights_tokenizer_and_prompts(
    encoder, static_folder, tmp_path, tokenizer
):
    assert len(encoder.revision) == 64
    assert StaticEncoder(static_folder, name="another").revision == encoder.revision
    assert StaticEncoder(static_folder, name="e5-small").revision != encoder.revision
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file({"w": np.ones((len(WORDS), 6), np.float32)}, tmp_path / "model.safetensors")
    assert StaticEncoder(tmp_path, name="tiny").revision != encoder.revision


def test_a_text_without_any_token_is_refused_beside_others(tmp_path):
    from tokenizers import Tokenizer, models

    # Letters it does not know leave no token.
    Tokenizer(models.BPE({"c": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    save_file({"w": np.ones((1, 4), np.float32)}, tmp_path / "model.safetensors")
    encoder = StaticEncoder(tmp_path, name="tiny")
    assert encoder.encode(["cd"], "query").embedding.tolist() == [[0.5] * 4]
    for texts in (["c", "d"], ["d", "c"], ["d"]):
        with pytest.raises(ValueError, match="tiny"):
            encoder.encode(texts, "query")


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


@pytest.mark.slow
def test_the_embedded_model_gives_the_vectors_of_sentence_transformers(texts, tmp_path):
    from uec_rag.encoders.bundled import packages as bundled

    ours = load_encoder("pypi:wordllama")
    own = bundled.package_folder(bundled._PACKAGES["wordllama"], tmp_path)
    kind = "sentence_transformers.models.StaticEmbedding"
    module = {"idx": 0, "name": "0", "path": "", "type": kind}
    (own / "modules.json").write_text(json.dumps([module]))
    theirs = load_encoder(own, device="cpu")
    assert isinstance(ours, StaticEncoder)
    for role in ("query", "passage"):
        np.testing.assert_allclose(
            ours.encode(texts, role).embedding, theirs.encode(texts, role).embedding, atol=1e-6
        )
