"""Small int8 transformers that run in onnxruntime on the CPU, without torch."""

import os
from collections.abc import Sequence
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

_MAX_TOKENS = 512
_MAX_THREADS = 8
_CACHED_QUERIES = 4096  # queries are often repeated; about 8 MB of vectors


class OnnxEncoder(IdentityHead):
    """A BERT-like encoder, stored as a quantised ONNX graph, with the identity as last layer.

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
        from tokenizers import Tokenizer

        model, tokenizer = Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"
        self.name, self.spec, self.prompts = name, spec, family_prompts(name)
        self._session = open_session(model, name)
        files = [model, *sorted(Path(folder).glob("*.bin")), tokenizer]
        self.revision = revision_of_files(self.prompts, *(file.read_bytes() for file in files))
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_MAX_TOKENS)
        self.dimension = int(self._session.get_outputs()[0].shape[-1])
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._cached = lru_cache(_CACHED_QUERIES)(self._embed)

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> Encoded:
        """Embed texts as queries or as passages.

        Raises TypeError or ValueError if texts or role are invalid.
        """
        prompted = [self.prompts[role] + text for text in prepare_texts(texts, role)]
        vectors = np.zeros((len(prompted), self.dimension), dtype=np.float32)
        embed = self._cached if role == "query" else self._embed
        with (
            ThreadPoolExecutor(min(cores(), _MAX_THREADS)) as pool,
            progress_bar("Encoding texts", len(prompted), show_progress) as bar,
        ):
            for position, row in enumerate(pool.map(embed, prompted)):
                vectors[position] = row
                bar.update()
        embedding = check_vectors(vectors, rows=len(prompted), encoder=self.name)
        return Encoded(embedding, embedding)

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
