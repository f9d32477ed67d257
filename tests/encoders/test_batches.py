import numpy as np
import pytest

from uec_rag.encoders import SentenceTransformerEncoder
from uec_rag.encoders.batches import can_batch, cut, encode_in_batches, one_ahead, rows_of


def words(count, seed=0):
    """Texts of one to thirty words, in no order of length."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(rng.choice(["the", "cat", "dog", "q"], rng.integers(1, 30))) for _ in range(count)
    ]


def encode(model, texts, prompt, batch_size):
    return encode_in_batches(
        model,
        texts,
        prompt,
        batch_size=batch_size,
        width=None,
        show_progress=False,
    )


@pytest.mark.parametrize("batch_size", [1, 5, 32])
def test_vectors_are_those_of_the_library_over_several_windows(tiny, monkeypatch, batch_size):
    monkeypatch.setattr("uec_rag.encoders.batches._WINDOW", 16)
    model, texts = tiny(), words(50)
    got = encode(model, texts, "query: ", batch_size)
    expected = model.encode(texts, prompt="query: ")
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_only_padding_is_cut_off_on_whichever_side_it_is(tiny, side):
    model, texts = tiny(), words(6)
    model.tokenizer.padding_side = side
    features = model.preprocess(texts)
    some = rows_of(features, np.array([4, 1]), left=side == "left")
    expected = model.preprocess([texts[4], texts[1]])
    for key in ("input_ids", "attention_mask"):
        np.testing.assert_array_equal(some[key], expected[key])


def test_a_prompt_that_pooling_leaves_out_is_left_out(tiny):
    model, texts = tiny(), words(12)
    model.set_pooling_include_prompt(False)
    got = encode(model, texts, "query: ", 4)
    np.testing.assert_allclose(got, model.encode(texts, prompt="query: "), atol=1e-6)


def test_features_follow_their_texts(tiny, monkeypatch):
    encoder = SentenceTransformerEncoder(tiny(dense={"out_features": 6}), batch_size=3)
    texts = words(40)
    together = encoder.encode(texts, "passage")
    monkeypatch.setattr("uec_rag.encoders.batches._WINDOW", 8)
    for i in (0, 17, 39):
        alone = encoder.encode([texts[i]], "passage")
        np.testing.assert_allclose(together.embedding[i], alone.embedding[0], atol=1e-6)
        np.testing.assert_allclose(together.features[i], alone.features[0], atol=1e-5)


def test_a_batch_is_bounded_in_texts_and_in_tokens():
    lengths = np.array([600, 300, 300, 300, 100, 100, 100, 10])
    sizes = [some.stop - some.start for some in cut(lengths, 3, 500)]
    assert sizes == [1, 1, 1, 1, 3, 1]
    assert [some.stop - some.start for some in cut(lengths, 3, None)] == [3, 3, 2]
    assert list(cut(np.array([], dtype=int), 3, None)) == []


def test_a_static_embedding_has_no_batches_to_cut(tiny):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    model = tiny()
    assert can_batch(model)
    static = SentenceTransformer(
        modules=[StaticEmbedding(model.tokenizer.backend_tokenizer, embedding_dim=8)]
    )
    assert not can_batch(static)
    assert SentenceTransformerEncoder(static).encode(
        ["a cat", "wing"], "query"
    ).embedding.shape == (2, 8)


def test_an_error_while_tokenising_ahead_is_raised():
    def fails(number):
        if number == 2:
            raise ValueError("two")
        return number

    results = one_ahead(fails, [1, 2, 3])
    assert next(results) == 1
    with pytest.raises(ValueError, match="two"):
        next(results)
