import numpy as np
import torch

from benchmarks.paper.systems.baselines import embedding_arithmetic, merge, task_arithmetic


def weight_of(model):
    return model[0].auto_model.encoder.layer[0].output.dense.weight.detach()


def test_uniform_merging_averages_every_weight(bert):
    models = [bert(seed) for seed in range(3)]
    merged = merge(models)
    states = [model.state_dict() for model in models]
    for name, value in merged.state_dict().items():
        if value.is_floating_point():
            mean = torch.stack([state[name] for state in states]).mean(dim=0)
            assert torch.allclose(value, mean, atol=1e-6), name


def test_task_arithmetic_adds_the_task_vectors(bert):
    base, first, second = (bert(seed) for seed in range(3))
    merged = task_arithmetic(base, [first, second], alpha=0.3)
    expected = weight_of(base) + 0.3 * (
        weight_of(first) - weight_of(base) + weight_of(second) - weight_of(base)
    )
    assert torch.allclose(weight_of(merged), expected, atol=1e-6)


def test_embedding_arithmetic_is_the_papers_formula():
    a, b, c = (np.random.default_rng(seed).normal(size=(3, 4)).astype("f4") for seed in range(3))
    expected = a + 0.5 * (b - c)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose(embedding_arithmetic(a, b, c, 0.5), expected, atol=1e-6)
