"""Reading the input of a model's last linear layer while the model encodes."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from uec_rag.encoders.base import Float32Array, LastLayer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle

_Captured: TypeAlias = "dict[str, Tensor]"
_Register: TypeAlias = "Callable[[_Captured, Callable[[], bool]], Sequence[RemovableHandle]]"

# Modes whose output is linear in the token embeddings.
_LINEAR_POOLING = ("mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")


@dataclass(frozen=True)
class LastLayerTap:
    """A hook that makes a SentenceTransformer return its last layer's input beside its embedding.

    Attributes
    ----------
    model
        The model to read from.
    feature_dimension
        m; None if the last layer is the identity on the embedding and there is nothing to read.
    gain
        What multiplies the rows of the last layer's weights on their way out, (d,); None for ones.
    register
        Registers the hooks that fill in "features", the input of the layer over the length of
        the vector that it leads to.
    """

    model: "SentenceTransformer"
    feature_dimension: int | None = None
    gain: Float32Array | None = None
    register: "_Register | None" = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Append the features to every embedding, so that the library's sorting carries both.

        Only in the thread that asks: calls of the same model elsewhere are left alone.
        """
        if self.register is None:
            yield
            return
        captured: _Captured = {}
        thread = threading.get_ident()

        def here() -> bool:
            return threading.get_ident() == thread

        def append(_: object, __: object, output: "dict[str, Tensor]") -> None:
            import torch

            if here():
                embedding = output["sentence_embedding"][..., : self.model.truncate_dim]
                both = (embedding.float(), captured.pop("features").float())
                output["sentence_embedding"] = torch.cat(both, dim=-1)

        with ExitStack() as stack:
            for handle in self.register(captured, here):
                stack.callback(handle.remove)
            stack.callback(self.model.register_forward_hook(append).remove)
            yield

    @property
    def output_width(self) -> int | None:
        """Return the `truncate_dim` to encode with while recording; None for the model's own."""
        return None if self.register is None else sys.maxsize

    def split(self, output: Float32Array) -> tuple[Float32Array, Float32Array | None]:
        """Separate what the model returned while recording into embedding and features."""
        if self.feature_dimension is None:
            return output, None
        return output[:, : -self.feature_dimension], output[:, -self.feature_dimension :].copy()


def attach(model: "SentenceTransformer", last_layer: LastLayer) -> LastLayerTap:
    """Find the last linear layer of a model.

    Raises ValueError if last_layer is "ffn" and the model is not a BERT-like transformer, linearly
    pooled, with nothing but a normalisation after that.
    """
    return _tap_ffn(model) if last_layer == "ffn" else _tap_projection(model)


def _tap_projection(model: "SentenceTransformer") -> LastLayerTap:
    from torch import nn

    modules = _without_normalize(model)
    dense = modules[-1]
    is_closing_linear_layer = (
        type(dense).__name__ == "Dense"
        and isinstance(dense.activation_function, nn.Identity)
        and not getattr(dense, "use_residual", False)
        and getattr(dense, "module_output_name", "sentence_embedding") == "sentence_embedding"
    )
    if not is_closing_linear_layer:
        return LastLayerTap(model)
    linear = dense.linear
    assert isinstance(linear, nn.Linear)

    def register(captured: _Captured, here: Callable[[], bool]) -> "Sequence[RemovableHandle]":
        def record(_: object, inputs: "tuple[Tensor]", output: "Tensor") -> None:
            if here():
                captured["features"] = inputs[0].float() / _length(output, model.truncate_dim)

        return (linear.register_forward_hook(record),)

    return LastLayerTap(model, linear.in_features, register=register)


def _tap_ffn(model: "SentenceTransformer") -> LastLayerTap:
    dense, layer_norm, pooling = _ffn_modules(model)
    eps = layer_norm.eps

    def register(captured: _Captured, here: Callable[[], bool]) -> "Sequence[RemovableHandle]":
        def record_activations(_: object, inputs: "tuple[Tensor]") -> None:
            if here():
                captured["activations"] = inputs[0].float()

        def record_deviation(_: object, inputs: "tuple[Tensor]") -> None:
            if here():
                variance = inputs[0].float().var(dim=-1, correction=0, keepdim=True)
                captured["deviation"] = (variance + eps).sqrt()

        def pool(_: object, __: object, output: "dict[str, Tensor]") -> None:
            if here():
                tokens = captured.pop("activations") / captured.pop("deviation")
                # The model's own pooling, so that masks and prompts count as they do there.
                pooled = pooling.forward({**output, "token_embeddings": tokens})
                length = _length(output["sentence_embedding"], model.truncate_dim)
                captured["features"] = pooled["sentence_embedding"] / length

        return (
            dense.register_forward_pre_hook(record_activations),
            layer_norm.register_forward_pre_hook(record_deviation),
            pooling.register_forward_hook(pool),
        )

    gain: Float32Array = layer_norm.weight.detach().float().cpu().numpy()
    return LastLayerTap(model, dense.in_features, gain[: model.truncate_dim].copy(), register)


def _ffn_modules(model: "SentenceTransformer") -> "tuple[nn.Linear, nn.LayerNorm, nn.Module]":
    from torch import nn

    modules = _without_normalize(model)
    pooling = modules[-1]
    try:
        transformer = modules[0].get_submodule("auto_model")
        last = int(transformer.config.num_hidden_layers) - 1  # type: ignore[arg-type, union-attr]
        dense = transformer.get_submodule(f"encoder.layer.{last}.output.dense")
        layer_norm = transformer.get_submodule(f"encoder.layer.{last}.output.LayerNorm")
    except AttributeError:
        dense = layer_norm = modules[0]
    if (
        len(modules) != 2
        or not isinstance(dense, nn.Linear)
        or not isinstance(layer_norm, nn.LayerNorm)
        or _pooling_mode(pooling) not in _LINEAR_POOLING
    ):
        found = ", ".join(type(module).__name__ for module in model)
        raise ValueError(
            "last_layer='ffn' needs a BERT-like transformer (one whose last block ends in "
            "output.dense and output.LayerNorm) followed by a linear pooling such as mean or cls "
            f"and nothing but a normalisation; this model is made of: {found}. "
            "Use last_layer='projection', which every model has"
        )
    return dense, layer_norm, pooling


def _pooling_mode(module: "nn.Module") -> object:
    if type(module).__name__ != "Pooling":
        return None
    # An attribute since sentence-transformers 6, a method before.
    mode: object = getattr(module, "pooling_mode", None)
    return mode or module.get_pooling_mode_str()  # type: ignore[operator]


def _without_normalize(model: "SentenceTransformer") -> "list[nn.Module]":
    modules = list(model)
    while len(modules) > 1 and type(modules[-1]).__name__ == "Normalize":
        modules.pop()
    return modules


def _length(vectors: "Tensor", truncate_dim: int | None) -> "Tensor":
    length: Tensor = vectors[..., :truncate_dim].float().norm(dim=-1, keepdim=True)
    return length
