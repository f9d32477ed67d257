"""Model merging: several checkpoints of one architecture into one model, and task arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.gaussian import FloatArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

ALPHAS = (0.0001, 0.001, 0.01, 0.1, 1.0)
"""The paper's grid for the alpha of task arithmetic."""


def merge(
    models: Sequence[SentenceTransformer], weights: Sequence[float] | None = None
) -> SentenceTransformer:
    """Average the weights of models of one architecture (Wortsman et al., 2022).

    Parameters
    ----------
    models : sequence of SentenceTransformer
        Tokenizer, pooling and prompts are the first one's.
    weights : sequence of float, optional
        One per model, summing to 1; uniform by default.

    Raises
    ------
    ValueError
        If the weights do not fit, or the architectures differ; the first tensor that differs is
        named.
    """
    shares = [1 / len(models)] * len(models) if weights is None else list(weights)
    if len(shares) != len(models) or not np.isclose(sum(shares), 1):
        raise ValueError(
            f"weights: expected {len(models)} numbers that sum to 1, one per model, got {shares}."
        )
    return _linear_combination(models, shares)


def task_arithmetic(
    base: SentenceTransformer, finetuned: Sequence[SentenceTransformer], alpha: float
) -> SentenceTransformer:
    """Task arithmetic on weights, ``base + alpha sum_i (finetuned_i - base)``.

    Ilharco et al. (2023), "Editing models with task arithmetic".

    Parameters
    ----------
    base : SentenceTransformer
        What the others were fine-tuned from.
    finetuned : sequence of SentenceTransformer
    alpha : float

    Raises
    ------
    ValueError
        If the architectures differ.
    """
    coefficients = [1 - alpha * len(finetuned)] + [alpha] * len(finetuned)
    return _linear_combination([base, *finetuned], coefficients)


def _linear_combination(
    models: Sequence[SentenceTransformer], coefficients: Sequence[float]
) -> SentenceTransformer:
    import torch

    if not models:
        raise ValueError("models: expected at least one, got none.")
    states = [_named_tensors(model) for model in models]
    for index, state in enumerate(states[1:], start=1):
        _check_alike(states[0], state, index)
    merged = _copy(models[0])
    with torch.no_grad():
        for name, target in _named_tensors(merged).items():
            if target.is_floating_point():
                parts = [
                    coefficient * state[name].to(target.device, torch.float64)
                    for coefficient, state in zip(coefficients, states, strict=True)
                ]
                target.copy_(torch.stack(parts).sum(dim=0))
    return merged


def _named_tensors(model: SentenceTransformer) -> dict[str, Tensor]:
    return dict(model.state_dict())


def _check_alike(first: dict[str, Tensor], other: dict[str, Tensor], index: int) -> None:
    for name in [*first, *other]:
        shapes = [tuple(state[name].shape) if name in state else None for state in (first, other)]
        if shapes[0] != shapes[1]:
            said = ["no such tensor" if shape is None else f"shape {shape}" for shape in shapes]
            raise ValueError(
                f"models: merging needs one architecture, but tensor {name!r} differs: {said[0]} "
                f"in models[0], {said[1]} in models[{index}]. Ensembles (UEC) take any models."
            )


def _copy(model: SentenceTransformer) -> SentenceTransformer:
    import copy

    merged = copy.deepcopy(model)
    # A copy that still gave its origin as its name would be reported, and reloaded, as that model.
    config = getattr(getattr(merged[0], "auto_model", None), "config", None)
    if config is not None:
        config._name_or_path = "merged"
    return merged


def embedding_arithmetic(a: FloatArray, b: FloatArray, c: FloatArray, alpha: float) -> FloatArray:
    """``A + alpha (B - C)`` of unit embeddings (n, d), scaled to unit length.

    Examples
    --------
    >>> a, b, c = (np.float32([row]) for row in ([1, 0], [0, 1], [1, 0]))
    >>> embedding_arithmetic(a, b, c, 1.0).tolist()
    [[0.0, 1.0]]
    """
    total = a + np.float32(alpha) * (b - c)
    unit: FloatArray = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
    return unit
