"""Token vectors: a vector for each token of a vocabulary, whose mean is a text's; no model runs.

Files of WordLlama and of model2vec are read without their libraries: a tokenizer, and safetensors
with a matrix, perhaps in eight bits or of fewer rows than tokens. Those in the folder ``wordllama``
come with the package; `benchmarks/token_vectors.py` made them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import csr_array

from uec_rag.base.records import cached_property
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    IdentityHead,
    Role,
    check_vectors,
    prepare_texts,
    rarity_of,
)
from uec_rag.encoders.sentence_transformer import hub_is_reachable

Cut: TypeAlias = Callable[[str], list[str]]

MATRIX, TOKENIZER = "model.safetensors", "tokenizer.json"
"""The files of token vectors in a folder."""

SHIPPED = {"wordllama": Path(__file__).with_name("wordllama")}
"""The folders of token vectors that come with the package, by their name."""

_EMBEDDINGS = ("embeddings", "embedding.weight")  # of model2vec, and of WordLlama
_PARTS = {"weights", "mapping"}
_REMEMBERED = 2**17  # pieces of texts whose tokens are remembered, about 30 MB
_LONGEST = 32  # characters of a piece that is remembered
_BLANK = "\u2581"  # in place of a blank in vocabularies
_PIECE = re.compile(rf"{_BLANK}*[^{_BLANK}\n]+|{_BLANK}+|\n+")


class TokenVectors(IdentityHead):
    """An encoder whose vector of a text is the mean of its tokens' vectors, whatever their order.

    Nothing is truncated, questions and passages are embedded alike, and no thread is started.
    Unknown tokens are left out; a text of nothing else has the mean of all vectors.

    Parameters
    ----------
    folder
        Contains `model.safetensors` and `tokenizer.json`, or these under WordLlama's names.
    name
        Name of the model.
    spec
        The `spec` from which `load_encoder` rebuilds this encoder.

    Raises
    ------
    OSError
        If the folder lacks a file.
    ValueError
        If the files are no token vectors.
    """

    def __init__(self, folder: str | Path, *, name: str, spec: str | None = None) -> None:
        from tokenizers import Tokenizer

        matrix, tokenizer = _files_of(Path(folder))
        self.name, self.spec = name, spec
        text = tokenizer.read_text(encoding="utf-8")
        content = matrix.read_bytes()
        self.revision = hashlib.sha256(content + text.encode()).hexdigest()
        self._vectors = _read(content, str(matrix))
        self.dimension = self._vectors.shape[1]
        settings = json.loads(text)
        self.tokenizer = Tokenizer.from_str(text)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        unknown = settings["model"].get("unk_token")
        self._unknown = self.tokenizer.token_to_id(unknown) if unknown else None
        if unknown is None:  # of vocabularies with probabilities
            self._unknown = settings["model"].get("unk_id")
        if settings["model"].get("byte_fallback"):
            self._unknown = None  # there are none
        self._cut, self._piecewise = _cut_of(settings), self.tokenizer
        if self._cut is not None:  # what the normalizer does to a whole text was done before
            self._piecewise = Tokenizer.from_str(json.dumps(settings | {"normalizer": None}))
        self._tokens_by_piece = dict[str, list[int]]()

    @cached_property
    def _neutral(self) -> Float32Array:
        mean: Float32Array = self._vectors.mean(axis=0)
        return mean

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts as queries or as passages, which is the same.

        Raises TypeError or ValueError if texts or role are invalid.
        """
        checked = prepare_texts(texts, role)
        if not checked:
            return Encoded.empty(self.dimension, self.dimension)
        tokens, ends = list[int](), [0]
        for text in checked:
            tokens += self._tokens_of(text)
            ends.append(len(tokens))
        # The mean has the direction of the sum.
        shape = len(checked), len(self._vectors)
        counts = csr_array((np.ones(len(tokens), np.float32), tokens, ends), shape=shape)
        sums = counts @ self._vectors
        sums[~sums.any(axis=1)] = self._neutral
        embedding = check_vectors(sums, rows=len(checked), encoder=self.name)
        return Encoded(embedding, embedding)

    def rarity(self, word: str) -> float:
        """Compute how rare a word is; see `rarity_of`."""
        return rarity_of(self.tokenizer.encode(word, add_special_tokens=False).ids)

    def _tokens_of(self, text: str) -> list[int]:
        if self._cut is None:
            return self._encoded(text)
        by_piece, tokens = self._tokens_by_piece, list[int]()
        for piece in self._cut(text):
            ids = by_piece.get(piece)
            if ids is None:
                ids = self._encoded(piece)
                if len(piece) <= _LONGEST:
                    by_piece[piece] = ids
            tokens += ids
        if len(by_piece) > _REMEMBERED:
            self._tokens_by_piece = {}
        return tokens

    def _encoded(self, piece: str) -> list[int]:
        ids: list[int] = self._piecewise.encode(piece, add_special_tokens=False).ids
        return ids if self._unknown is None else [token for token in ids if token != self._unknown]


def _files_of(folder: Path) -> tuple[Path, Path]:
    """Return the files of matrix and tokenizer; OSError if one is not there."""
    paths = []
    for name, pattern in ((MATRIX, "*.safetensors"), (TOKENIZER, "*_tokenizer_config.json")):
        files = [folder / name] if (folder / name).is_file() else [*folder.glob(pattern)]
        if len(files) != 1:
            raise FileNotFoundError(f"folder: expected {name} in {str(folder)!r}, found none.")
        paths += files
    return paths[0], paths[1]


def _read(content: bytes, path: str) -> Float32Array:
    """Return the vector of each token: that of its row in the matrix, times its weight."""
    from safetensors.numpy import load

    arrays = load(content)
    names = [name for name in _EMBEDDINGS if name in arrays]
    if len(names) != 1 or arrays.keys() - {*names} - _PARTS or arrays[names[0]].ndim != 2:
        raise ValueError(
            f"folder: expected token vectors in {path!r}, a matrix named {_EMBEDDINGS[0]!r} or "
            f"{_EMBEDDINGS[1]!r}, got {sorted(arrays)}. Load other models by their name."
        )
    vectors: Float32Array = arrays[names[0]].astype(np.float32)
    if "mapping" in arrays:
        vectors = vectors[arrays["mapping"]]
    if "weights" in arrays:
        vectors *= arrays["weights"].astype(np.float32)[:, None]
    return vectors


def _cut_of(settings: dict[str, Any]) -> Cut | None:
    """Return what cuts a text into pieces whose tokens do not depend on each other; None if none.

    The tokenizers of Llama put a mark before each word, which no token has behind a letter.
    """
    vocabulary = settings["model"].get("vocab", {})
    normalizers = (settings["normalizer"] or {}).get("normalizers", [])
    marks = [("Prepend", None), ("Replace", {"String": " "})]
    if (
        settings["model"]["type"] != "BPE"
        or settings["pre_tokenizer"] is not None
        or [(normalizer["type"], normalizer.get("pattern")) for normalizer in normalizers] != marks
        or any(_BLANK in token.lstrip(_BLANK) or "\n" in token for token in vocabulary)
    ):
        return None
    return lambda text: _PIECE.findall(_BLANK + text.replace(" ", _BLANK))


def load_shipped(name: str) -> TokenVectors:
    """Load token vectors that come with the package, a name of `SHIPPED`; all share them."""
    encoder = _loaded.get(name)
    if encoder is None:
        encoder = _loaded[name] = TokenVectors(SHIPPED[name], name=name, spec=name)
    return encoder


# Those in use.
_loaded = WeakValueDictionary[str, TokenVectors]()


def find_token_vectors(name: str, *, fetch: bool = True) -> TokenVectors | None:
    """Load token vectors from a folder or the hub; None if it is no name of any.

    A model of the hub is known by its configuration, WordLlama's by the name.

    Parameters
    ----------
    name
        A folder, or a hub name, perhaps with "@revision".
    fetch
        Whether to use the hub; otherwise only files downloaded earlier are found.
    """
    from huggingface_hub import snapshot_download

    folder, (source, _, revision) = Path(name).expanduser().absolute(), name.partition("@")
    if folder.is_dir():
        return TokenVectors(folder, name=folder.name, spec=str(folder)) if _is_one(folder) else None
    model = source.partition("/")[2]
    patterns = [MATRIX, TOKENIZER]
    if re.match("word-?llama", model):
        patterns = ["*_256.safetensors", "*_tokenizer_config.json"]
    is_local = not (fetch and model and hub_is_reachable())
    options: dict[str, Any] = {"revision": revision or None, "local_files_only": is_local}
    # Of other models, the library that loads them tells what is wrong.
    with suppress(Exception):  # which type depends on the hub client's HTTP library
        if patterns[0] == MATRIX:
            config = Path(snapshot_download(source, allow_patterns=["config.json"], **options))
            if not _is_model2vec(config):
                return None
        there = Path(snapshot_download(source, allow_patterns=patterns, **options))
        return TokenVectors(there, name=model, spec=name)
    return None


def _is_one(folder: Path) -> bool:
    """Return whether a folder has token vectors, and is no model of another library."""
    is_other = (folder / "modules.json").is_file() or (folder / "config.json").is_file()
    if is_other:
        return _is_model2vec(folder)
    with suppress(OSError):
        return bool(_files_of(folder))
    return False


def _is_model2vec(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return isinstance(config, dict) and config.get("model_type") == "model2vec"
    return False
