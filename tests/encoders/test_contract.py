"""What every encoder that makes vectors does, whatever makes them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.encoders.vectors import save_vectors
from tests.helpers import noise
from uec_rag.encoders import (
    BlackBoxEncoder,
    CachedEncoder,
    SentenceTransformerEncoder,
    load_encoder,
)

MAKE = {
    "sentence transformer": lambda at: SentenceTransformerEncoder(
        at("tiny")(dense={"out_features": 6}, prompts={"query": "query: "})
    ),
    "of a folder": lambda at: SentenceTransformerEncoder(at("saved")("e5-tiny")),
    "black box": lambda at: BlackBoxEncoder(noise),
    "cached": lambda at: CachedEncoder(BlackBoxEncoder(noise), at("tmp_path"), revision="1"),
    "token vectors": lambda at: load_encoder(save_vectors(at("tmp_path") / "vectors")),
    "wordllama": lambda at: load_encoder("wordllama"),
    "pypi:bot-brain": lambda at: load_encoder("pypi:bot-brain"),
}
OF_MODELS = ["sentence transformer", "of a folder", "pypi:bot-brain"]  # they cut long texts


def every(kinds):
    marked = [
        pytest.param(kind, marks=pytest.mark.slow if kind.startswith("pypi:") else ())
        for kind in kinds
    ]
    return pytest.mark.parametrize("encoder", marked, indirect=True)


@pytest.fixture
def encoder(request):
    return MAKE[request.param](request.getfixturevalue)


@every(MAKE)
def test_embeddings_are_unit_vectors_with_features_and_gains_of_their_widths(encoder, texts):
    encoded, none = encoder.encode(texts, "passage"), encoder.encode([], "query")
    assert encoded.embedding.shape == (len(texts), encoder.dimension)
    assert encoded.features.shape == (len(texts), encoder.feature_dimension)
    assert (none.embedding.shape, none.features.shape) == (
        (0, encoder.dimension),
        (0, encoder.feature_dimension),
    )
    assert encoded.embedding.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(encoded.embedding, axis=1), 1, rtol=1e-6)
    assert encoder.gain.shape == (encoder.dimension,)


@every(MAKE)
def test_a_text_has_one_vector_whatever_is_encoded_with_it(encoder, texts):
    together = encoder.encode(texts, "query").embedding
    alone = np.concatenate([encoder.encode([text], "query").embedding for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(texts[::-1], "query").embedding[::-1], together)


@every(MAKE)
@pytest.mark.parametrize(
    "decorated",
    [
        "\U0001d413\U0001d421\U0001d41e \U0001d5f9\U0001d5ee\U0001d5fa\U0001d5fd",
        "\uff34\uff48\uff45 \uff4c\uff41\uff4d\uff50",
        "\u24c9\u24d7\u24d4 \u24db\u24d0\u24dc\u24df",
    ],
)
def test_letters_that_are_decorated_are_read_as_plain_ones(encoder, decorated):
    expected = encoder.encode(["The lamp"], "query").embedding
    np.testing.assert_allclose(encoder.encode([decorated], "query").embedding, expected, atol=1e-6)


@every(MAKE)
def test_threads_may_share_an_encoder(encoder, texts):
    expected, rng = encoder.encode(texts, "passage"), np.random.default_rng(0)
    orders = [rng.permutation(len(texts)) for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda order: encoder.encode([texts[i] for i in order], "passage"), orders)
        for order, one in zip(orders, found, strict=True):
            np.testing.assert_allclose(one.embedding, expected.embedding[order], atol=1e-5)
            np.testing.assert_allclose(one.features, expected.features[order], atol=1e-5)


@every(MAKE)
def test_what_is_no_text_or_no_role_is_refused(encoder):
    for texts, role, message in (
        (["a", ""], "query", "expected a text"),
        (["a"], "title", "role must"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder.encode(texts, role)


@every(OF_MODELS)
def test_what_is_longer_than_the_model_takes_is_cut_off(encoder):
    vectors = encoder.encode(["cat " * 600, "cat " * 900], "passage").embedding
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


@every(["of a folder", "token vectors", "wordllama", "pypi:bot-brain"])
def test_the_spec_rebuilds_the_same_encoder(encoder, texts):
    again = load_encoder(encoder.spec)
    assert (again.name, again.revision) == (encoder.name, encoder.revision)
    assert len(encoder.revision) == 64
    expected = encoder.encode(texts, "passage").embedding
    np.testing.assert_array_equal(again.encode(texts, "passage").embedding, expected)


@every(MAKE)
def test_another_process_gets_the_same_encoder_and_a_copy_is_the_encoder_itself(encoder, texts):
    there = pickle.loads(pickle.dumps(encoder))
    assert (type(there), there.name, there.spec) == (type(encoder), encoder.name, encoder.spec)
    assert there.revision == encoder.revision
    ours, theirs = encoder.encode(texts, "query"), there.encode(texts, "query")
    np.testing.assert_array_equal(ours.embedding, theirs.embedding)
    np.testing.assert_array_equal(ours.features, theirs.features)
    assert copy.deepcopy({"deep": encoder})["deep"] is copy.copy(encoder) is encoder
