"""Encoders around a SentenceTransformer from the hub, from a folder, or already in memory.

They also record the input of the model's last linear layer, which the Laplace posterior is over.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from uec_rag.base.progress import progress_bar
from uec_rag.encoders import hub
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    LastLayer,
    NotCopied,
    Role,
    check_vectors,
    prepare_texts,
)
from uec_rag.encoders.hub import Precision

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle


class SentenceTransformerEncoder(NotCopied):
    """An encoder around a SentenceTransformer.

    Parameters
    ----------
    model_or_name
        Hub name, optionally with "@revision" (a commit or tag), local folder, or a
        SentenceTransformer. Code shipped with a model is never run: if a model needs it, load it
        yourself with `trust_remote_code`, and pass the SentenceTransformer.
    name
        By default the last part of the hub name or folder.
    last_layer
        "projection": the model's closing linear Dense if it has one, else the identity on the
        pooled output. "ffn": the output layer of the last transformer block (BERT, RoBERTa and
        similar models).
    device
        "cpu", "cuda" or "mps". None selects the best available device, and leaves a model in memory
        on its own.
    dtype
        By default float16 on an accelerator and float32 on a CPU; a model in memory keeps its own.
    batch_size
        Largest number of texts per forward pass. Texts of similar length form a batch.
    query_prompt, passage_prompt
        Text to prepend to each input. By default the prompt of the model's configuration, else that
        of a known family (e5, bge, arctic-embed), else none. "" disables a prompt.
    spec
        The `spec` from which `load_encoder` rebuilds this encoder; by default the name or folder.
    fetch
        Whether to use the hub; otherwise only models already downloaded are found.

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is unreachable.
    ValueError
        If the model does not have the requested last layer, or an argument is out of range.
    """

    def __init__(
        self,
        model_or_name: "str | Path | SentenceTransformer",
        *,
        name: str | None = None,
        last_layer: LastLayer = "projection",
        device: str | None = None,
        dtype: Precision | None = None,
        batch_size: int = 32,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
        spec: str | None = None,
        fetch: bool = True,
    ) -> None:
        if last_layer not in ("projection", "ffn"):
            raise ValueError(f"last_layer must be 'projection' or 'ffn', got {last_layer!r}")
        loaded_here = isinstance(model_or_name, (str, Path))
        source, model = hub.load_model(model_or_name, device, fetch)
        own_prompts = query_prompt is None and passage_prompt is None
        prompts_of_model = hub.prompts_of(model, source)
        self.prompts: dict[Role, str] = {
            "query": prompts_of_model["query"] if query_prompt is None else query_prompt,
            "passage": prompts_of_model["passage"] if passage_prompt is None else passage_prompt,
        }
        self.tokenizer = getattr(model, "tokenizer", None)
        self.name = name or hub.without_revision(source) or "sentence-transformer"
        self.spec = spec or (source if own_prompts else "") or None
        self.last_layer: LastLayer = last_layer
        self.batch_size = batch_size
        self.device, self.dtype = device, dtype
        self.model: SentenceTransformer = model
        # Computed before `place` casts the weights: half precision must not change the revision, or
        # an index made on a GPU would be refused on a CPU.
        self.revision = hub.revision_of(model, self.prompts, last_layer)
        hub.place(model, device, dtype, loaded_here=loaded_here)
        self.tap = _tap_ffn(model) if last_layer == "ffn" else _tap_projection(model)
        self._lock = threading.Lock()
        # Encoding a short text gives the dimension, and fails early if the model does not support
        # this precision.
        self.dimension: int = self._encode(["dimension"], "passage", False).embedding.shape[1]

    @property
    def feature_dimension(self) -> int:
        """The dimension m of the last layer's input."""
        return self.tap.feature_dimension or self.dimension

    @property
    def gain(self) -> Float32Array:
        """Ones, or the last LayerNorm's weight for `last_layer="ffn"`, shape (d,)."""
        return np.ones(self.dimension, np.float32) if self.tap.gain is None else self.tap.gain

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> Encoded:
        """Embed texts as queries or as passages; the model truncates long ones.

        Raises
        ------
        TypeError, ValueError
            If texts or role are invalid, or the model returns NaN, infinity or a vector of zeros.
        """
        checked = prepare_texts(texts, role)
        if not checked:
            return Encoded.empty(self.dimension, self.feature_dimension)
        return self._encode(checked, role, show_progress)

    def _encode(self, texts: list[str], role: Role, show_progress: bool | None) -> Encoded:
        # Tokenizers modify their padding while they work, and are not thread-safe.
        with self._lock, self.tap.record_features():
            output = self._output(texts, role, show_progress)
        width = self.tap.feature_dimension or 0
        own = output.shape[1] - width
        embedding = check_vectors(output[:, :own], rows=len(texts), encoder=self.name)
        return Encoded(embedding, output[:, own:].copy() if width else embedding)

    def _output(self, texts: list[str], role: Role, show_progress: bool | None) -> Float32Array:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        parts = []
        with progress_bar("Encoding texts", len(texts), show_progress) as bar:
            for start in range(0, len(texts), _WINDOW):
                window = texts[start : start + _WINDOW]
                output = encode(
                    window,
                    prompt=self.prompts[role],
                    batch_size=self.batch_size,
                    show_progress_bar=False,
                    truncate_dim=None if self.tap.register is None else sys.maxsize,
                )
                parts.append(np.asarray(output, dtype=np.float32))
                bar.update(len(parts[-1]))
        return np.concatenate(parts)


_WINDOW = 512  # texts between two updates of the progress bar

_Captured: TypeAlias = "dict[str, Tensor]"
_Register: TypeAlias = "Callable[[_Captured, Callable[[], bool]], Sequence[RemovableHandle]]"

# Pooling modes whose output is linear in the token embeddings.
_LINEAR_POOLING = ("mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")


@dataclass(frozen=True)
class LastLayerTap:
    """A hook that makes a SentenceTransformer return its last layer's input with its embedding.

    Attributes
    ----------
    model
        The model to record.
    feature_dimension
        The dimension m of the input; None if the last layer is the identity on the embedding.
    gain
        The factor of each row of the last layer's weights in the output, (d,); None for ones.
    register
        Registers the hooks that compute "features": the input of the layer, divided by the length
        of the resulting vector.
    """

    model: "SentenceTransformer"
    feature_dimension: int | None = None
    gain: Float32Array | None = None
    register: "_Register | None" = None

    @contextmanager
    def record_features(self) -> Iterator[None]:
        """Append the features to every embedding, so that the library sorts both together.

        Affects the calling thread only, not calls of the same model in other threads.
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
                # The model's own pooling handles masks and prompts in the same way.
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
        or type(pooling).__name__ != "Pooling"
        or pooling.pooling_mode not in _LINEAR_POOLING
    ):
        found = ", ".join(type(module).__name__ for module in model)
        raise ValueError(
            "last_layer='ffn' needs a BERT-like transformer (one whose last block ends in "
            "output.dense and output.LayerNorm) followed by a linear pooling such as mean or cls "
            f"and nothing but a normalisation; this model is made of: {found}. "
            "Use last_layer='projection', which every model has"
        )
    return dense, layer_norm, pooling


def _without_normalize(model: "SentenceTransformer") -> "list[nn.Module]":
    modules = list(model)
    while len(modules) > 1 and type(modules[-1]).__name__ == "Normalize":
        modules.pop()
    return modules


def _length(vectors: "Tensor", truncate_dim: int | None) -> "Tensor":
    length: Tensor = vectors[..., :truncate_dim].float().norm(dim=-1, keepdim=True)
    return length
