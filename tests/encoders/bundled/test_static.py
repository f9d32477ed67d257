import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from uec_rag.encoders import load_encoder
from uec_rag.encoders.bundled.static import StaticEncoder

WORDS = ["[UNK]", "<s>", "a", "cat", "the", "dog", "sat", "on", "mat", "moon", "hot", "cold"]


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # A mark of the beginning, as in WordLlama's, that must not count as a word.
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return tokenizer


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    table = np.random.default_rng(0).standard_normal((len(WORDS), 6)).astype(np.float16)
    save_file({"embedding.weight": table}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "modules.json").write_text(
        '[{"idx": 0, "name": "0", "path": "", '
        '"type": "sentence_transformers.models.StaticEmbedding"}]'
    )
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return StaticEncoder(folder, name="tiny")


def test_vectors_are_those_of_sentence_transformers(encoder, folder, texts):
    """Over several blocks of texts, of a word to two hundred."""
    rng = np.random.default_rng(1)
    many = [*texts, *(" ".join(rng.choice(WORDS, n)) for n in rng.integers(1, 200, 300))]
    expected = load_encoder(folder, device="cpu").encode(many, "passage").embedding
    np.testing.assert_allclose(encoder.encode(many, "passage").embedding, expected, atol=1e-6)


def test_a_text_has_one_vector_whatever_is_encoded_with_it(encoder, texts):
    together = encoder.encode(texts, "query").embedding
    alone = np.concatenate([encoder.encode([text], "query").embedding for text in texts])
    np.testing.assert_array_equal(together, alone)


def test_embeddings_are_unit_vectors_and_their_own_features(encoder, texts):
    encoded = encoder.encode(texts, "passage")
    assert encoded.features is encoded.embedding
    assert encoded.embedding.shape == (len(texts), encoder.dimension) == (5, 6)
    assert encoder.feature_dimension == len(encoder.gain) == 6
    np.testing.assert_allclose(np.linalg.norm(encoded.embedding, axis=1), 1, rtol=1e-6)
    assert encoder.encode([], "query").embedding.shape == (0, 6)


def test_queries_get_the_prompt_of_the_models_family(folder):
    e5 = StaticEncoder(folder, name="e5-small")
    np.testing.assert_array_equal(
        e5.encode(["the cat"], "query").embedding,
        StaticEncoder(folder, name="plain").encode(["query: the cat"], "query").embedding,
    )


def test_the_revision_follows_weights_tokenizer_and_prompts(encoder, folder, tmp_path, tokenizer):
    assert len(encoder.revision) == 64
    assert StaticEncoder(folder, name="another").revision == encoder.revision
    assert StaticEncoder(folder, name="e5-small").revision != encoder.revision
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
def test_weights_that_are_no_table_are_refused(tensors, folder, tmp_path):
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"one table \(tokens, d\), got \{'"):
        StaticEncoder(tmp_path, name="tiny")


async def test_awaiting_gives_the_same_vectors(encoder, texts):
    awaited = await encoder.aencode(texts, "passage")
    np.testing.assert_array_equal(awaited.embedding, encoder.encode(texts, "passage").embedding)


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
