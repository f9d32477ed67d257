"""An encoder of whatever stands for one: a name, a folder, an object, a callable."""

import copyreg
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeGuard

from uec_rag.encoders.base import Encoder, InThread, LastLayer, LastLayers, is_encoder
from uec_rag.encoders.black_box import (
    BlackBoxEncoder,
    LangChainEmbeddings,
    LlamaIndexEmbedding,
    is_langchain,
    is_llama_index,
)
from uec_rag.encoders.bundled.bert import OnnxEncoder
from uec_rag.encoders.bundled.packages import PACKAGED, load_pypi
from uec_rag.encoders.bundled.static import StaticEncoder
from uec_rag.encoders.hub import SPARSE, Precision, is_model, is_sparse_folder
from uec_rag.encoders.lexical import NAME as BM25
from uec_rag.encoders.lexical import restore_lexical
from uec_rag.encoders.onnx import BACKENDS, Backend, ExportedEncoder
from uec_rag.encoders.parallel import ParallelEncoder
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder
from uec_rag.encoders.sparse import LearnedSparse
from uec_rag.encoders.verifier import VerifierLike, is_cross_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer, SparseEncoder

EncoderLike: TypeAlias = (
    "str | Path | SentenceTransformer | SparseEncoder | Encoder | LangChainEmbeddings"
    " | LlamaIndexEmbedding | Callable[[list[str]], object]"
)
"""Whatever `load_encoder` makes an encoder of."""

MemberLike: TypeAlias = "EncoderLike | VerifierLike"
"""Whatever is given again for a member of a saved ensemble."""

_ACCEPTED = (
    "a hub name, a folder, 'pypi:NAME' (each also behind 'onnx:' or 'onnx-int8:'), 'bm25', "
    "'sparse:' and a hub name, a SentenceTransformer, a SparseEncoder, a LangChain Embeddings, "
    "a LlamaIndex BaseEmbedding, a callable(list[str]) -> (n, d) array, or an Encoder"
)


class _SparseSettings(TypedDict):
    device: str | None
    dtype: Precision | None
    batch_size: int


class _Settings(_SparseSettings):
    last_layer: LastLayer


def load_encoders(
    specs: Sequence[EncoderLike],
    *,
    last_layer: LastLayers = "projection",
    device: str | Sequence[str] | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
    backend: Backend = "torch",
) -> list[Encoder]:
    """Make the encoders of an ensemble; parameters as in `load_encoder`.

    With last_layer "auto" each is "ffn" if it is a transformer that can be looked into, and
    "projection" with a warning if it is not.

    Raises TypeError, ValueError if `specs` is not a list, or empty; else as in `load_encoder`.
    """
    if isinstance(specs, str) or not isinstance(specs, Sequence):
        raise TypeError(
            f"encoders: expected a list of encoders, got {type(specs).__name__}; "
            "write [encoder] for a single one."
        )
    if not specs:
        raise ValueError("encoders: expected at least one, got none.")

    def load(spec: EncoderLike, layer: LastLayer) -> Encoder:
        return load_encoder(
            spec,
            last_layer=layer,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            backend=backend,
        )

    return [load_layer(last_layer, partial(load, spec)) for spec in specs]


def load_layer(last_layer: LastLayers, load: Callable[[LastLayer], Encoder]) -> Encoder:
    """Load an encoder with its last layer, or with "auto" with whichever it has.

    `load` raises ValueError where the encoder has no such layer.
    """
    if last_layer != "auto":
        return load(last_layer)
    try:
        return load("ffn")
    except ValueError:
        encoder = load("projection")
    warnings.warn(
        f"Encoder {encoder.name!r} has no accessible feed-forward layer: its posterior is over "
        "the projection on its output, whose variance hardly differs between texts.",
        UserWarning,
        stacklevel=4,
    )
    return encoder


def load_encoder(
    spec: EncoderLike,
    *,
    last_layer: LastLayer = "projection",
    device: str | Sequence[str] | None = None,
    dtype: Precision | None = None,
    batch_size: int = 32,
    backend: Backend = "torch",
    fetch: bool = True,
) -> Encoder:
    """Make an encoder from a name, a folder, a model or a callable.

    Parameters
    ----------
    spec
        A hub name ("intfloat/e5-small-v2", also as "hf:intfloat/e5-small-v2", pinned as
        "intfloat/e5-small-v2@COMMIT"), a folder, an embedded model ("arctic-embed-s", or by the
        package it comes in, "pypi:wordllama"),
        "bm25" for words (see `Lexical`), "sparse:naver/splade-v3" for a SparseEncoder of the hub
        (a folder says itself that it is one, see `LearnedSparse`), a SentenceTransformer, a
        SparseEncoder, a LangChain or LlamaIndex embedding, a callable(list[str]) -> (n, d) array,
        or an Encoder, returned as it is.
    last_layer, device, dtype, batch_size
        As in `SentenceTransformerEncoder`; a SparseEncoder has no last layer to choose. A black box
        runs where and how it likes: device, dtype and batch_size do not reach it, and its last
        layer is always "projection". A model with vectors that is loaded by name may have a list
        of devices, see `ParallelEncoder`.
    backend
        What runs a model loaded by name, see `ExportedEncoder`. Also written before the name, for
        one model of several, as in "onnx-int8:intfloat/e5-small-v2"; a saved ensemble remembers it.
    fetch
        Whether to ask the hub for a model; otherwise only what was downloaded earlier is found.

    Raises
    ------
    TypeError
        If spec is none of these.
    ValueError
        If spec is empty, an unknown "pypi:" name, or a black box with last_layer="ffn"; if the
        backend cannot run the model, or not on that device or in that precision.
    ImportError
        If what the model or its backend needs is not installed.
    OSError
        If a model cannot be found or fetched.
    """
    if isinstance(spec, str) and not spec.strip():
        raise ValueError(f"an encoder's name must not be empty; expected {_ACCEPTED}")
    if is_encoder(spec):
        return spec
    if isinstance(spec, str) and (spec == BM25 or spec.startswith(f"{BM25}:")):
        return restore_lexical(spec)
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    settings = _Settings(
        last_layer=last_layer,
        device=device if isinstance(device, str | None) else None,
        dtype=dtype,
        batch_size=batch_size,
    )
    if isinstance(spec, (str, Path)):
        if isinstance(device, str | None):
            return _load_by_name(spec, settings, backend, fetch)
        return _load_parallel(spec, settings, backend, device, fetch)
    if _is_sparse_encoder(spec):
        return LearnedSparse(spec, **_of_sparse(settings))
    if _is_sentence_transformer(spec):
        return SentenceTransformerEncoder(spec, **settings)
    if is_cross_encoder(spec):
        raise TypeError(
            "encoders: a CrossEncoder scores pairs and embeds nothing; give it to the ensemble as "
            "UEC([...], verifier=...)"
        )
    if isinstance(spec, type) or not (is_langchain(spec) or is_llama_index(spec) or callable(spec)):
        raise TypeError(
            f"cannot make an encoder of {type(spec).__name__} {spec!r:.80}; expected {_ACCEPTED}"
        )
    encoder = BlackBoxEncoder(spec)
    if last_layer == "ffn":
        raise ValueError(
            f"last_layer='ffn' needs the model's inner layers, which encoder {encoder.name!r} "
            "does not expose; use last_layer='projection'"
        )
    return encoder


def _load_by_name(spec: str | Path, settings: _Settings, backend: Backend, fetch: bool) -> Encoder:
    name = str(spec)
    for known in BACKENDS:
        if name.startswith(f"{known}:"):
            backend, spec = known, name.removeprefix(f"{known}:")
            return _load_by_name(spec, settings, backend, fetch)
    if backend != "torch":
        return _load_exported(spec, settings, backend, fetch)
    name = PACKAGED.get(name, name)
    if name.startswith("pypi:"):
        return load_pypi(name.removeprefix("pypi:"), **settings)
    if isinstance(spec, str):
        spec = spec.removeprefix("hf:")
    if name.startswith(SPARSE) or is_sparse_folder(spec):
        return LearnedSparse(name.removeprefix(SPARSE), **_of_sparse(settings), fetch=fetch)
    return SentenceTransformerEncoder(spec, **settings, fetch=fetch)


def _load_parallel(
    spec: str | Path, settings: _Settings, backend: Backend, devices: Sequence[str], fetch: bool
) -> Encoder:
    if not devices or not all(isinstance(device, str) for device in devices):
        raise ValueError(f"device: expected a name or a list of names, got {devices!r}")
    here = _load_by_name(spec, {**settings, "device": devices[0]}, backend, fetch)
    if len(devices) == 1 or not isinstance(here, SentenceTransformerEncoder):
        return here  # what is no torch model uses all cores already
    return ParallelEncoder(here, partial(_load_on, spec, settings, backend, fetch), devices)


def _load_on(
    spec: str | Path, settings: _Settings, backend: Backend, fetch: bool, device: str
) -> Encoder:
    return _load_by_name(spec, {**settings, "device": device}, backend, fetch)


def _load_exported(spec: str | Path, settings: _Settings, backend: Backend, fetch: bool) -> Encoder:
    if settings["device"] not in (None, "cpu"):
        raise ValueError(
            f"backend={backend!r} runs on the CPU, got device={settings['device']!r}; leave it "
            "out, or use backend='torch'"
        )
    if settings["dtype"] not in (None, "float32"):
        raise ValueError(
            f"backend={backend!r} has a precision of its own, got dtype={settings['dtype']!r}; "
            "leave it out, or use backend='torch'"
        )
    encoder = _load_by_name(spec, {**settings, "device": "cpu", "dtype": "float32"}, "torch", fetch)
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise ValueError(
            f"backend={backend!r}: encoder {str(spec)!r} is not a sentence-transformers model; "
            f"leave it on torch, and write the backend on the others, as in '{backend}:NAME'"
        )
    return ExportedEncoder(encoder, backend)


def _of_sparse(settings: _Settings) -> _SparseSettings:
    return {
        "device": settings["device"],
        "dtype": settings["dtype"],
        "batch_size": settings["batch_size"],
    }


def _is_sparse_encoder(value: object) -> "TypeGuard[SparseEncoder]":
    return is_model(value, "SparseEncoder")


def _is_sentence_transformer(value: object) -> "TypeGuard[SentenceTransformer]":
    return is_model(value, "SentenceTransformer")


def _pickled(encoder: InThread) -> tuple[Any, ...]:
    """As pickle stores an encoder with weights: what it is loaded from, and what it must be."""
    assert is_encoder(encoder)
    if encoder.spec is None:
        raise TypeError(
            f"encoder {encoder.name!r} cannot go to another process: it is a model in memory, or "
            "has prompts of its own, and cannot be loaded by name. Save the SentenceTransformer "
            "with its prompts to a folder, and load the encoder from there"
        )
    settings = {
        key: getattr(encoder, key)
        for key in ("last_layer", "device", "dtype", "batch_size")
        if hasattr(encoder, key)
    }
    return _unpickled, (encoder.spec, settings, encoder.revision)


def _unpickled(spec: str, settings: dict[str, Any], revision: str) -> Encoder:
    encoder = load_encoder(spec, **settings)
    if encoder.revision != revision:
        raise ValueError(
            f"encoder {spec!r} is not the model that it was in the other process: its revision is "
            f"{encoder.revision[:12]}, expected {revision[:12]}; give both the same files"
        )
    return encoder


for _kind in (
    ExportedEncoder,
    LearnedSparse,
    OnnxEncoder,
    SentenceTransformerEncoder,
    StaticEncoder,
):
    copyreg.pickle(_kind, _pickled)
