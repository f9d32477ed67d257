"""The promise of `Encoded.features`, d embedding = gain * (dW @ features), on real networks."""

import numpy as np
import pytest
import torch

from tests.helpers import beside
from uec_rag.encoders import SentenceTransformerEncoder


def forward(model, texts):
    """One padded batch in the order given, straight through the network."""
    with torch.no_grad():
        return model(model.preprocess(texts))["sentence_embedding"].double().numpy()


def change(weight, seed=0, size=1.0):
    """Add a random change to a weight; returns the change."""
    generator = torch.Generator().manual_seed(seed)
    delta = size * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    with torch.no_grad():
        weight.add_(delta)
    return delta.double().numpy()


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def freeze_statistics(layer_norm, model, texts):
    """Make a LayerNorm keep the means and deviations that it has for these texts."""
    seen = []
    handle = layer_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    forward(model, texts)
    handle.remove()
    mean = seen[0].mean(-1, keepdim=True)
    deviation = (seen[0].var(-1, correction=0, keepdim=True) + layer_norm.eps).sqrt()
    layer_norm.forward = lambda x: (x - mean) / deviation * layer_norm.weight + layer_norm.bias


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken", "mean_sqrt_len_tokens"])
def test_ffn_features_give_the_change_of_the_embedding(tiny, texts, pooling):
    model = tiny(pooling, normalize=False)
    encoder = SentenceTransformerEncoder(model, last_layer="ffn", batch_size=2)
    encoded = encoder.encode(texts, "passage")
    assert encoded.features.shape == (len(texts), encoder.feature_dimension) == (len(texts), 24)

    block = model[0].auto_model.encoder.layer[-1].output
    freeze_statistics(block.LayerNorm, model, texts)
    before = forward(model, texts)
    delta = change(block.dense.weight)
    after = forward(model, texts)

    length = np.linalg.norm(before, axis=1, keepdims=True)
    expected = encoder.gain * (encoded.features @ delta.T)
    np.testing.assert_allclose((after - before) / length, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(expected).max() > 0.1  # a change that could be missed would prove nothing


def test_ffn_gain_is_the_weight_of_the_last_layer_norm(tiny):
    model = tiny()
    weight = model[0].auto_model.encoder.layer[-1].output.LayerNorm.weight
    gain = SentenceTransformerEncoder(model, last_layer="ffn").gain
    np.testing.assert_array_equal(gain, weight.detach().numpy())
    assert gain.dtype == np.float32
    assert gain.std() > 0.1


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_a_closing_dense_layer_is_the_last_layer(tiny, texts, normalize, bias):
    model = tiny(dense={"out_features": 6, "bias": bias}, normalize=normalize)
    encoder = SentenceTransformerEncoder(model)
    encoded = encoder.encode(texts, "passage")
    assert encoded.embedding.shape == (len(texts), 6)
    assert encoded.features.shape == (len(texts), encoder.feature_dimension) == (len(texts), 16)

    size = 1e-4
    before = unit(forward(model, texts))
    delta = change(model[2].linear.weight, size=size)
    after = unit(forward(model, texts))

    step = encoded.features @ delta.T
    tangent = step - (step * before).sum(1, keepdims=True) * before  # the length is kept at one
    np.testing.assert_allclose((after - before) / size, tangent / size, rtol=0.02, atol=0.02)
    assert np.abs(tangent / size).max() > 1
    np.testing.assert_array_equal(encoder.gain, np.ones(6))


def test_without_a_bias_the_features_lead_exactly_to_the_embedding(tiny, texts):
    model = tiny(dense={"out_features": 6, "bias": False})
    encoded = SentenceTransformerEncoder(model).encode(texts, "query")
    weight = model[2].linear.weight.detach().numpy()
    np.testing.assert_allclose(encoded.features @ weight.T, encoded.embedding, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": False},
        {"pooling": "max"},
        {"dense": {"out_features": 6, "activation_function": torch.nn.Tanh()}},
        {"dense": {"out_features": 6, "use_residual": True}},
    ],
)
def test_without_a_closing_linear_layer_the_features_are_the_embedding(tiny, texts, options):
    encoder = SentenceTransformerEncoder(tiny(**options))
    encoded = encoder.encode(texts, "passage")
    assert encoded.features is encoded.embedding
    assert encoder.feature_dimension == encoder.dimension


@pytest.mark.parametrize("last_layer", ["projection", "ffn"])
def test_reading_the_last_layer_leaves_the_embedding_as_it_is(tiny, texts, last_layer):
    dense = {"out_features": 6} if last_layer == "projection" else None
    model = tiny(dense=dense)
    encoded = SentenceTransformerEncoder(model, last_layer=last_layer).encode(texts, "passage")
    np.testing.assert_allclose(encoded.embedding, unit(model.encode(texts)), atol=1e-6)


@pytest.mark.parametrize("last_layer", ["projection", "ffn"])
def test_a_model_cut_to_fewer_dimensions_keeps_its_features_right(tiny, texts, last_layer):
    dense = {"out_features": 12, "bias": False} if last_layer == "projection" else None
    model = tiny(dense=dense, truncate_dim=5)
    encoder = SentenceTransformerEncoder(model, last_layer=last_layer)
    encoded = encoder.encode(texts, "passage")
    assert encoder.dimension == encoded.embedding.shape[1] == len(encoder.gain) == 5
    np.testing.assert_allclose(encoded.embedding, unit(model.encode(texts)), atol=1e-6)
    if last_layer == "projection":
        weight = model[2].linear.weight.detach().numpy()[:5]
        np.testing.assert_allclose(encoded.features @ weight.T, encoded.embedding, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{"pooling": "max"}, {"dense": {"out_features": 6}}, {"pooling": ("cls", "mean")}]
)
def test_ffn_is_refused_where_the_formula_would_not_hold(tiny, options):
    with pytest.raises(ValueError, match="last_layer='ffn' needs a BERT-like transformer"):
        SentenceTransformerEncoder(tiny(**options), last_layer="ffn")


def test_the_users_own_calls_of_a_shared_model_are_left_alone(tiny, texts):
    model = tiny(dense={"out_features": 6})
    encoder = SentenceTransformerEncoder(model, batch_size=1)
    widths = set()

    def own_call():
        features = model.preprocess(texts)
        with torch.no_grad():
            widths.add(model(features)["sentence_embedding"].shape[1])

    with beside(own_call):
        for _ in range(10):
            assert encoder.encode(texts, "passage").features.shape == (len(texts), 16)
    assert widths == {6}
    assert not model._forward_hooks
