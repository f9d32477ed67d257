import numpy as np
import pytest
import torch

from benchmarks.paper.analyses.layers import layer_ablation
from benchmarks.paper.analyses.pair_gradients import (
    PairLogits,
    Tail,
    last_linear_layers,
    only_trainable,
)
from uec_rag.encoders import SentenceTransformerEncoder


@pytest.fixture(scope="module")
def encoder(bert):
    model = bert(0)
    model.prompts = {"query": "q "}
    return SentenceTransformerEncoder(model)


def by_autograd(model, rows):
    """One backward pass per pair: the gradients of every layer, (n, out * in) each."""
    weights = [layer.weight for layer in model.layers]
    each = [torch.autograd.grad(model(row[None])[0, 1], weights) for row in rows]
    return [torch.stack([g[index].flatten() for g in each]) for index in range(len(weights))]


def names_of(encoder, layers):
    names = {module: name for name, module in encoder.model.named_modules()}
    return [names[layer].partition("layer.")[2] for layer in layers]


def test_layers_are_counted_from_the_output(encoder):
    assert names_of(encoder, last_linear_layers(encoder.model, 4)) == [
        "1.output.dense",
        "1.intermediate.dense",
        "1.attention.output.dense",
        "1.attention.self.value",
    ]


def test_a_layer_that_does_not_reach_the_embedding_is_left_out(encoder):
    assert encoder.model[0].auto_model.pooler is not None
    assert not any(
        "pooler" in name for name in names_of(encoder, last_linear_layers(encoder.model, 12))
    )


def test_the_lower_blocks_run_once_for_each_text(encoder):
    layers = last_linear_layers(encoder.model, 1)
    lower, upper = encoder.model[0].auto_model.encoder.layer
    ran = []
    handles = [
        block.register_forward_hook(lambda *_, name=name: ran.append(name))
        for name, block in (("lower", lower), ("upper", upper))
    ]
    tail = Tail(encoder.model, layers)
    first, again = tail.embed(["a cat", "the dog sat"]), tail.embed(["the dog sat", "a cat"])
    for handle in handles:
        handle.remove()
    assert ran == ["lower", "upper", "upper"]
    torch.testing.assert_close(first.flip(0), again, rtol=1e-5, atol=1e-6)
    assert list(encoder.model[0].auto_model.encoder.layer) == [lower, upper]


def test_a_batch_of_kept_texts_embeds_as_the_model_does(encoder):
    tail = Tail(encoder.model, last_linear_layers(encoder.model, 1))
    tail.embed(["a cat", "the dog sat on the mat"])
    texts = ["the dog sat on the mat", "dog", "a cat"]
    expected = encoder.model.encode(texts, convert_to_tensor=True, normalize_embeddings=True)
    assert torch.allclose(tail.embed(texts), expected, atol=1e-5)


def labelled(count, seed):
    rng = np.random.default_rng(seed)
    letters = list("abcdefghijklmnop")
    pairs = []
    for index in range(count):
        words = ["".join(rng.choice(letters, 3)) for _ in range(4)]
        answer = index % 2
        other = words[:3] if answer else ["".join(rng.choice(letters, 3)) for _ in range(3)]
        pairs.append((" ".join(words), " ".join(other), answer))
    return pairs


@pytest.fixture(scope="module")
def results(encoder):
    fit, tune, test = labelled(80, 0), labelled(60, 1), labelled(40, 2)
    weights = [p.detach().clone() for p in encoder.model.parameters()]
    found = layer_ablation(encoder, fit, tune, test, batch_size=8)
    assert all(
        torch.equal(a, b) for a, b in zip(weights, encoder.model.parameters(), strict=True)
    ), "the model was changed"
    return found


def test_every_number_of_layers_meets_every_fraction(results):
    assert [(r.layers, r.fraction, r.draw, r.pairs) for r in results] == [
        (layers, fraction, draw, pairs)
        for layers in (1, 2, 4, 6)
        for fraction, pairs in ((1.0, 80), (0.5, 40), (0.1, 8), (0.01, 1), (0.0, 0))
        for draw in range(3 if pairs in (40, 8, 1) else 1)
    ]


@pytest.mark.slow
def test_the_variance_is_that_of_a_posterior_written_out(encoder, results):
    """One layer, a part: the GGN by one backward pass per pair, and the linearised variance."""
    fit, test = labelled(80, 0), labelled(40, 2)
    result = next(r for r in results if (r.layers, r.fraction, r.draw) == (1, 0.5, 1))
    some = [fit[row] for row in np.random.default_rng(1).permutation(80)[:40]]
    layers = last_linear_layers(encoder.model, 1)
    with only_trainable(encoder.model, layers):
        model = PairLogits(encoder, layers, *_map(encoder, fit))

        def gradients(pairs):
            model.queries, model.passages = [p[0] for p in pairs], [p[1] for p in pairs]
            rows = torch.arange(len(pairs))[:, None].expand(-1, 2)
            return by_autograd(model, rows)[0], model(rows)[:, 1].detach().sigmoid()

        g, p = gradients(some)
        queries, passages = (encoder.encode(side, role).embedding for side, role in sides_of(some))
        logit = model.slope * (queries * passages).sum(axis=1) + model.intercept
        assert np.allclose(p, 1 / (1 + np.exp(-logit)), atol=1e-4)
        curvature = ((p * (1 - p))[:, None] * g**2).sum(0)
        g, _ = gradients(test)
        variance = (g**2 / (curvature + result.prior_precision)).sum(1) / model.slope**2
    assert np.allclose(result.variance, result.scale * variance, rtol=1e-3)


def sides_of(pairs):
    """The queries and the passages of pairs, with their roles."""
    return zip(([p[side] for p in pairs] for side in (0, 1)), ("query", "passage"), strict=True)


def _map(encoder, pairs):
    from uec_rag.laplace.likelihood import bernoulli_map

    queries, passages = (encoder.encode(side, role).embedding for side, role in sides_of(pairs))
    labels = np.array([p[2] for p in pairs])
    return bernoulli_map((queries * passages).sum(axis=1), labels)
