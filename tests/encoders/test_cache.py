import numpy as np
import pytest

from uec_rag.encoders import BlackBoxEncoder, CachedEncoder, SentenceTransformerEncoder


@pytest.fixture
def cached(remote, tmp_path):
    return CachedEncoder(BlackBoxEncoder(remote), tmp_path / "cache", revision="remote/1")


def test_only_what_was_never_seen_reaches_the_encoder(cached, remote):
    cached.encode(["a", "b"], "passage")
    second = cached.encode(["c", "b", "a", "c"], "passage")
    assert remote.texts == ["a", "b", "c"]
    direct = BlackBoxEncoder(remote).encode(["c", "b", "a", "c"], "passage")
    np.testing.assert_array_equal(second.embedding, direct.embedding)
    assert second.features is second.embedding


def test_roles_and_revisions_are_kept_apart(cached, remote, tmp_path):
    cached.encode(["a"], "passage")
    cached.encode(["a"], "query")
    newer = CachedEncoder(BlackBoxEncoder(remote), tmp_path / "cache", revision="remote/2")
    newer.encode(["a"], "query")
    assert remote.texts == ["a"] * 3


def test_features_of_their_own_are_kept_too(tiny, tmp_path, texts):
    encoder = SentenceTransformerEncoder(tiny(), last_layer="ffn")
    cached = CachedEncoder(encoder, tmp_path)
    direct = encoder.encode(texts, "passage")
    for encoded in (cached.encode(texts, "passage"), cached.encode(texts, "passage")):
        np.testing.assert_allclose(encoded.embedding, direct.embedding, atol=1e-6)
        np.testing.assert_allclose(encoded.features, direct.features, atol=1e-6)
    assert cached.revision == encoder.revision
    np.testing.assert_array_equal(cached.gain, encoder.gain)
    assert cached.encode([], "passage").features.shape == (0, 24)


def test_words_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'bm25' makes no vectors to cache"):
        CachedEncoder("bm25", tmp_path)


def test_a_damaged_database_is_an_error_that_says_what_to_do(cached, remote):
    cached.encode(["a"], "passage")
    cached.path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(OSError, match="if it is damaged, delete it"):
        CachedEncoder(BlackBoxEncoder(remote), cached.path.parent, revision="remote/1")


def test_without_a_folder_there_is_a_memory_alone(remote):
    cached = CachedEncoder(BlackBoxEncoder(remote), None)
    cached.encode(["a", "b"], "query")
    cached.encode(["b", "c"], "query")
    assert remote.texts == ["a", "b", "c"]
