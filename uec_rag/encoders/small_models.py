"""Static embedding models and small int8 transformers that run on the CPU without torch.

A static model embeds a text as the mean of its token vectors. Transformers run in onnxruntime.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uec_rag.base.environment import cores
from uec_rag.base.progress import progress_bar
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    IdentityHead,
    Role,
    check_vectors,
    prepare_texts,
)
from uec_rag.encoders.hub import family_prompts, revision_of_files

if TYPE_CHECKING:
    from onnxruntime import InferenceSession  # type: ignore[import-untyped]

_BATCH = 64  # texts whose token vectors are in memory at a time


class _RowByRow(IdentityHead, ABC):
    """The base of encoders that compute vectors row by row, with the identity as last layer.

    `folder`: contains `tokenizer.json`. `model`: contents of the files of the model.
    """

    dimension: int

    def __init__(
        self, folder: str | Path, model: Sequence[bytes], name: str, spec: str | None
    ) -> None:
        from tokenizers import Tokenizer

        tokenizer = (Path(folder) / "tokenizer.json").read_bytes()
        self.name, self.spec = name, spec
        self.prompts = family_prompts(name)
        self.revision = revision_of_files(self.prompts, *model, tokenizer)
        self.tokenizer = Tokenizer.from_buffer(tokenizer)
        self.tokenizer.no_padding()

    @abstractmethod
    def _rows(self, texts: list[str], role: Role) -> Iterator[Float32Array]:
        """Yield the vector of each text."""

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> Encoded:
        """Embed texts as queries or as passages.

        Raises TypeError or ValueError if texts or role are invalid, or a text has no known token.
        """
        prompted = [self.prompts[role] + text for text in prepare_texts(texts, role)]
        vectors = np.zeros((len(prompted), self.dimension), dtype=np.float32)
        with progress_bar("Encoding texts", len(prompted), show_progress) as bar:
            for position, row in enumerate(self._rows(prompted, role)):
                vectors[position] = row
                bar.update()
        embedding = check_vectors(vectors, rows=len(prompted), encoder=self.name)
        return Encoded(embedding, embedding)


class StaticEncoder(_RowByRow):
    """A table of token vectors and a tokenizer, as model2vec and WordLlama store them.

    The vectors equal those of `StaticEmbedding` in sentence-transformers, whose import alone takes
    several times as long as a search. Texts are not truncated.

    Parameters
    ----------
    folder
        Contains `model.safetensors`, with the table as its only tensor, and `tokenizer.json`.
    name
        Name of the model, which determines its prompts.
    spec
        The `spec` from which `load_encoder` rebuilds this encoder.

    Raises
    ------
    ValueError
        If the weights are not a single table.
    """

    def __init__(self, folder: str | Path, *, name: str, spec: str | None = None) -> None:
        from safetensors.numpy import load

        weights = (Path(folder) / "model.safetensors").read_bytes()
        super().__init__(folder, [weights], name, spec)
        tables = load(weights)
        shapes = {key: table.shape for key, table in tables.items()}
        if len(tables) != 1 or any(len(shape) != 2 for shape in shapes.values()):
            raise ValueError(
                f"{folder}: expected model.safetensors to hold one table (tokens, d), got {shapes}"
            )
        (table,) = tables.values()
        self._table: Float32Array = table.astype(np.float32)
        self.dimension = int(self._table.shape[1])

    def _rows(self, texts: list[str], role: Role) -> Iterator[Float32Array]:
        for start in range(0, len(texts), _BATCH):
            yield from self._means(texts[start : start + _BATCH])

    def _means(self, texts: list[str]) -> Float32Array:
        """Compute the mean token vectors, (n, d); zeros for a text without tokens."""
        tokens = [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]
        lengths = np.array([len(ids) for ids in tokens])
        means = np.zeros((len(texts), self.dimension), dtype=np.float32)
        filled = np.flatnonzero(lengths)
        if len(filled):
            # `reduceat` gives an empty segment the first row of the next one, not zeros.
            starts = (np.cumsum(lengths) - lengths)[filled]
            vectors = self._table[np.concatenate([np.array(ids, dtype=np.int64) for ids in tokens])]
            means[filled] = np.add.reduceat(vectors, starts, axis=0) / lengths[filled, None]
        return means


_MAX_TOKENS = 512
_MAX_THREADS = 8
_CACHED_QUERIES = 4096  # queries are often repeated; about 8 MB of vectors


class OnnxEncoder(_RowByRow):
    """A BERT-like encoder, stored as a quantised ONNX graph.

    Its vector of a text is what the graph computes, or else the output of the first token.

    Each thread encodes one text at a time, with a thread per core up to eight. A dynamically
    quantised graph computes its scale over a whole batch, so a text's vector would depend on the
    rest of its batch, and short texts would be padded. Texts are truncated to 512 tokens.

    Parameters
    ----------
    folder
        Contains `model.onnx`, `tokenizer.json` and, as `*.bin`, the weights outside of the graph.
    name
        Name of the model, which determines its prompts.
    spec
        The `spec` from which `load_encoder` rebuilds this encoder.

    Raises
    ------
    ImportError
        If onnxruntime is not installed.
    """

    def __init__(self, folder: str | Path, *, name: str, spec: str | None = None) -> None:
        model = Path(folder) / "model.onnx"
        self._session = open_session(model, name)
        files = [model, *sorted(Path(folder).glob("*.bin"))]  # the graph and its weights
        super().__init__(folder, [file.read_bytes() for file in files], name, spec)
        self.tokenizer.enable_truncation(_MAX_TOKENS)
        self.dimension = int(self._session.get_outputs()[0].shape[-1])
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._cached = lru_cache(_CACHED_QUERIES)(self._embed)

    def _rows(self, texts: list[str], role: Role) -> Iterator[Float32Array]:
        with ThreadPoolExecutor(min(cores(), _MAX_THREADS)) as pool:
            yield from pool.map(self._cached if role == "query" else self._embed, texts)

    def _embed(self, text: str) -> Float32Array:
        """Compute the vector of a text."""
        encoding = self.tokenizer.encode(text)
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        inputs = {name: np.array([values[name]], dtype=np.int64) for name in self._inputs}
        output = self._session.run(None, inputs)[0][0]
        # A view would keep the states of all tokens.
        vector: Float32Array = output.copy() if output.ndim == 1 else output[0].copy()
        return vector


def open_session(graph: Path, name: str) -> "InferenceSession":
    """Open an ONNX graph whose calls use one thread each, since several run in parallel.

    `name`: that of the encoder, for the message. Raises ImportError if onnxruntime is not
    installed.
    """
    # It collects from its import on: a device id in the home, and events for its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            f"encoder {name!r} needs onnxruntime; install it with: pip install onnxruntime"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # x86 processors without VNNI overflow on 8-bit weights and return wrong vectors otherwise.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
