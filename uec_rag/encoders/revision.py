"""A hash of everything that decides what a SentenceTransformer answers."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from uec_rag.encoders.base import LastLayer, Role

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
    from torch import nn

# Of a transformer's configuration, what changes its output with the weights unchanged. The whole
# configuration would also change with the version of the library that read it.
_CONFIGURATION = (
    "model_type",
    "hidden_act",
    "num_attention_heads",
    "layer_norm_eps",
    "position_embedding_type",
    "rope_theta",
)


def revision_of(
    model: "SentenceTransformer | SparseEncoder",
    prompts: Mapping[Role, str],
    last_layer: LastLayer,
) -> str:
    """sha256 (hex) over weights, architecture, tokenizer, prompts and last layer.

    The same on every machine, device and storage precision; the names of weights do not count,
    since versions of the library name them differently.
    """
    digest = hashlib.sha256()
    description = {
        "modules": [_describe(module) for module in model],
        "prompts": {role: prompts[role] for role in ("query", "passage")},
        "last_layer": last_layer,
        "truncate_dim": getattr(model, "truncate_dim", None),
        "max_length": str(model.max_seq_length),
        "tokenizer": tokenizer_state(model),
    }
    digest.update(json.dumps(description, sort_keys=True, default=str).encode())
    hash_weights(digest, model)
    return digest.hexdigest()


def hash_weights(digest: "hashlib._Hash", model: "nn.Module") -> None:
    """Feed a model's weights to a hash, as they would be in single precision."""
    import torch

    for weight in model.state_dict().values():
        # Integer buffers are positions and counters, stored by some versions and not by others.
        if weight.is_floating_point():
            digest.update(str(tuple(weight.shape)).encode())
            digest.update(weight.detach().to("cpu", torch.float32).contiguous().numpy().data)


def revision_of_files(prompts: Mapping[Role, str], *contents: bytes) -> str:
    """sha256 (hex) over prompts and the bytes of a model's files, where those are all there is."""
    digest = hashlib.sha256(json.dumps(prompts, sort_keys=True).encode())
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def _describe(module: object) -> dict[str, object]:
    described: dict[str, object] = {"class": type(module).__name__}
    config = getattr(getattr(module, "auto_model", None), "config", None)
    if config is not None:
        described |= {key: getattr(config, key, None) for key in _CONFIGURATION}
    elif hasattr(module, "get_config_dict"):
        described |= module.get_config_dict()
    return described


def tokenizer_state(model: "SentenceTransformer | SparseEncoder | CrossEncoder") -> object:
    """Everything that decides how a model splits a text, but for how much of it."""
    tokenizer = model.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        state = json.loads(backend.to_str())
        # Set anew by every call.
        state.pop("padding", None)
        state.pop("truncation", None)
        return state
    return tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else None
