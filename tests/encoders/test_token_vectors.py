"""Token vectors: as their own libraries embed, from folders, a hub's cache and the package."""

from pathlib import Path

import numpy as np
import pytest
import wordllama
from huggingface_hub import constants

from tests.encoders.vectors import WORDS, save_vectors
from tests.helpers import data_of
from uec_rag import UEC
from uec_rag.encoders import SentenceTransformerEncoder, load_encoder
from uec_rag.encoders.base import prepare_texts
from uec_rag.encoders.token_vectors import SHIPPED

TEXTS = [*data_of("encoded.json"), "  a  b\n\n c\t d ", "北京大学 ist  groß\n", "\n\n## x\n\n- y"]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "least"),
    [("wordllama", 0.999), pytest.param("pypi:wordllama", 1 - 1e-6, marks=pytest.mark.slow)],
)
def test_the_vectors_are_those_that_the_library_wordllama_makes(name, least):
    folder = Path(wordllama.__file__).parent
    library = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    expected = library.embed(prepare_texts(TEXTS, "passage"), norm=True)
    vectors = load_encoder(name).encode(TEXTS, "passage").embedding
    assert (vectors * expected).sum(axis=1).min() > least


def test_the_package_keeps_its_revision_and_its_licence():
    encoder = load_encoder("wordllama")
    assert encoder is load_encoder("wordllama")
    assert encoder.revision[:16] == "faf61a02b0de2934"
    assert "MIT" in (SHIPPED["wordllama"] / "LICENSE").read_text(encoding="utf-8")


def test_a_text_has_the_mean_of_its_known_tokens_and_one_of_none_that_of_all(tmp_path):
    vectors = np.eye(6, dtype=np.float32)
    encoder = load_encoder(save_vectors(tmp_path / "m", vectors))
    found = encoder.encode(["The cat, the dog", "zebra cat", "zebra"], "query").embedding
    expected = unit(np.float32([[0, 2, 1, 0, 1, 0], [0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_fewer_rows_than_tokens_and_weights_are_read(tmp_path):
    rows = np.array([0, 1, 1, 0, 1, 0])
    weights = np.arange(6, dtype=np.float16)
    vectors = (10 * np.eye(2)).astype(np.int8)
    folder = save_vectors(tmp_path / "m", vectors, mapping=rows, weights=weights)
    found = load_encoder(str(folder)).encode(["cat lamp"], "passage").embedding
    np.testing.assert_allclose(found, unit(np.float32([[3, 2]])), atol=1e-6)


def test_a_model_of_the_hub_is_known_by_its_configuration(tmp_path, monkeypatch):
    home = tmp_path / "models--owner--tiny"
    (home / "snapshots").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    save_vectors(home / "snapshots" / ("0" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    encoder = load_encoder("owner/tiny", fetch=False)
    assert (encoder.name, encoder.spec, encoder.dimension) == ("tiny", "owner/tiny", 6)


def test_another_matrix_is_refused(tmp_path):
    folder = save_vectors(tmp_path / "m", bias=np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"expected token vectors .* got \['bias', 'embeddings'\]"):
        load_encoder(folder)


def test_a_model_of_sentence_transformers_stays_one(saved):
    assert isinstance(load_encoder(saved("tiny-model")), SentenceTransformerEncoder)


def test_they_are_a_member_beside_others(tmp_path, remote):
    uec = UEC([remote, save_vectors(tmp_path / "m"), "wordllama", "bm25"])
    assert uec.names == ["remote", "m", "wordllama", "bm25"]
    assert [len(part) for part in uec.encode(WORDS[1:], "passage")] == [5] * 4
