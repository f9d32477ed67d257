"""Models of sentence-transformers from a folder, the hub, or memory, in the precision asked for."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder

    _Model: TypeAlias = SentenceTransformer | SparseEncoder

Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

Kind: TypeAlias = Literal["SentenceTransformer", "SparseEncoder", "CrossEncoder"]
"""What sentence-transformers calls a model, in its code and in the model's configuration."""

SPARSE = "sparse:"
"""Before a hub name or folder that is to be loaded as a SparseEncoder."""

_CONFIGURATION = "config_sentence_transformers.json"
_HUB_TIMEOUT = 5.0  # seconds to wait for a sign of life


def load_model(kind: Kind, given: str | Path, device: str | None, fetch: bool) -> tuple[str, Any]:
    """Load from a folder or the hub; what is not there is found out within seconds.

    Parameters
    ----------
    kind
        What to make of it.
    given
        Hub name, at a commit or tag where "@revision" follows it, or local folder.
    device
        "cpu", "cuda", "mps"; None for the best there is.
    fetch
        Whether to ask the hub; otherwise only what was downloaded earlier is found.

    Returns
    -------
    str
        The hub name, or the folder's absolute path.
    SentenceTransformer, SparseEncoder or CrossEncoder

    Raises
    ------
    FileNotFoundError, OSError
        If there is no such folder, or no such model on the hub, or the hub is out of reach.
    ValueError
        If a hub's SparseEncoder is asked for as a SentenceTransformer.
    """
    from uec_rag.base.environment import shield_from_broken_torchvision

    folder = Path(given).expanduser().absolute()
    name = str(given)
    if not folder.is_dir() and (isinstance(given, Path) or _looks_like_a_path(name)):
        raise FileNotFoundError(
            f"cannot load encoder {name!r}: there is no folder {folder}; a hub name has the form "
            "owner/model"
        )
    shield_from_broken_torchvision()
    with _quiet_weight_loading():
        if folder.is_dir():
            return str(folder), _load_folder(kind, folder, device)
        model = _load_from_hub(kind, name, device, fetch)
    if kind != "SparseEncoder" and _is_sparse_on_the_hub(name):
        raise ValueError(
            f"encoder {name!r} is a SparseEncoder, which gives weights of terms and no vectors; "
            f"write {SPARSE + name!r}"
        )
    return name, model


def is_sparse_folder(given: str | Path) -> bool:
    """Whether a folder holds what sentence-transformers saved as a SparseEncoder."""
    return _says_sparse(Path(given).expanduser() / _CONFIGURATION)


def _is_sparse_on_the_hub(name: str) -> bool:
    """Whether a model that has just been downloaded says that it is a SparseEncoder."""
    from huggingface_hub import try_to_load_from_cache

    model, _, revision = name.partition("@")
    home = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    found = try_to_load_from_cache(model, _CONFIGURATION, home, revision or None)
    return isinstance(found, str) and _says_sparse(Path(found))


def _says_sparse(configuration: Path) -> bool:
    try:
        said = json.loads(configuration.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("model_type") == "SparseEncoder"


def _loader(kind: Kind) -> "Callable[..., _Model]":
    import sentence_transformers

    loader: Callable[..., _Model] = getattr(sentence_transformers, kind)
    return loader


def _load_folder(kind: Kind, folder: Path, device: str | None) -> "_Model":
    try:
        return _loader(kind)(str(folder), device=device, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise OSError(
            f"folder {folder} holds no model that sentence-transformers can load: {error}"
            f"{_needs_code(error, kind)}"
        ) from error


def _load_from_hub(kind: Kind, name: str, device: str | None, fetch: bool) -> "_Model":
    model, _, revision = name.partition("@")
    try:
        return _loader(kind)(
            model,
            device=device,
            revision=revision or None,
            trust_remote_code=False,
            local_files_only=not (fetch and _hub_is_reachable()),
        )
    except ValueError as error:
        if not _needs_code(error, kind):
            raise
        raise OSError(f"cannot load encoder {name!r}: {error}{_needs_code(error, kind)}") from error
    except OSError as error:
        raise OSError(
            f"cannot load encoder {name!r}: it is not a local folder, and there is no such model "
            "on the hub or the hub is out of reach. Check the spelling, the network (HF_ENDPOINT "
            "for a mirror, HF_TOKEN for a private model), or give the path of a downloaded model, "
            "or a model that comes from the package index such as 'pypi:wordllama'"
        ) from error


def _needs_code(error: Exception, kind: Kind) -> str:
    if "trust_remote_code" not in str(error):
        return ""
    return (
        "\nHere no model's code is run: if you trust it, load it as "
        f"{kind}(..., trust_remote_code=True) and give that instead of its name"
    )


def without_revision(source: str) -> str:
    """Last part of a folder or hub name."""
    name = Path(source).name
    return name if Path(source).is_absolute() else name.partition("@")[0]


def _looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "~", "/")) or "\\" in source or source.count("/") > 1


def _hub_is_reachable() -> bool:
    """One request without retries: the hub's own client tries for over a minute when offline."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=_HUB_TIMEOUT)
    except Exception:  # which type depends on the hub client's HTTP library
        return False
    return True


@contextmanager
def _quiet_weight_loading() -> Iterator[None]:
    """Keep transformers from drawing a progress bar for a load of a second."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def origin(model: "SentenceTransformer | SparseEncoder | CrossEncoder") -> str:
    """Name or folder that a model in memory says it was loaded from; "" where it does not say."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return str(getattr(config, "_name_or_path", "") or "")


def place(
    model: "SentenceTransformer | SparseEncoder | CrossEncoder",
    device: str | None,
    dtype: Precision | None,
    *,
    loaded_here: bool,
) -> None:
    """Put a model on a device and in a precision.

    Parameters
    ----------
    model
    device
        None leaves it where it is.
    dtype
        None: float16 on an accelerator and float32 on a CPU for a model that was loaded here.
    loaded_here
        Whether it was; a model in memory keeps its own precision.
    """
    import torch

    if device is not None:
        model.to(device)
    if dtype is None and loaded_here:
        dtype = "float32" if model.device.type == "cpu" else "float16"
    if dtype is not None:
        model.to(getattr(torch, dtype))


def check_settings(dtype: str | None, batch_size: int) -> None:
    """Raise ValueError unless a precision and a batch size are what they can be."""
    if dtype not in (None, "float32", "float16", "bfloat16"):
        raise ValueError(f"dtype must be 'float32', 'float16' or 'bfloat16', got {dtype!r}")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size must be an integer of at least 1, got {batch_size!r}")
