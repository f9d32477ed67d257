"""Texts that LlamaIndex brings twice, once to the embedding and once to the store."""

import numpy as np
import pytest

from tests.helpers import bag_of_words
from uec_rag import UEC


def encode(uec, texts, role):
    return uec.with_cache().encode(texts, role)


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-6)
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-4)


def test_what_was_encoded_lately_is_not_encoded_again_and_keeps_its_variance(
    counting, fitted, texts
):
    uec, encoders = counting
    encode(uec, texts[:4], "passage")
    same(
        encode(uec, [texts[2], texts[0]], "passage"), fitted.encode([texts[2], texts[0]], "passage")
    )
    assert encoders[0].texts == texts[:4]
    wanted = [texts[5], texts[1], texts[5], texts[1]]
    same(encode(uec, wanted, "passage"), fitted.encode(wanted, "passage"))
    assert encoders[0].texts == [*texts[:4], texts[5]]
    encode(uec, texts[:1], "query")
    assert encoders[0].texts == [*texts[:4], texts[5], texts[0]]


def test_fitting_again_changes_what_is_made_of_what_is_remembered(texts):
    uec = UEC([bag_of_words(12, "a")], structure="diag")
    with pytest.warns(UserWarning, match="not fitted"):
        assert not encode(uec, texts, "passage")[0].variance.any()
    uec.fit([(" ".join(text.split()[:4]), text) for text in texts])
    same(encode(uec, texts, "passage"), uec.encode(texts, "passage"))
