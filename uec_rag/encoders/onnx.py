"""A SentenceTransformer as an ONNX graph, in float32 or int8, run by onnxruntime on the CPU."""

import hashlib
import logging
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from uec_rag.base.checks import check_texts
from uec_rag.base.environment import require
from uec_rag.encoders.artifacts import cache_folder, kept
from uec_rag.encoders.base import Encoded, Float32Array, InThread, Role, check_role, check_vectors
from uec_rag.encoders.batches import Features, by_windows, can_batch, pads_left
from uec_rag.encoders.bundled.bert import open_session, threads
from uec_rag.encoders.sentence_transformer import SentenceTransformerEncoder

Backend: TypeAlias = Literal["torch", "onnx", "onnx-int8"]
"""What runs a transformer: torch, or onnxruntime with its weights in float32 or int8."""

IntArray: TypeAlias = npt.NDArray[np.int64]

BACKENDS: tuple[Backend, ...] = get_args(Backend)

_RECIPE = "dynamic-int8 per-channel 1"  # enters the revision: raise the number if vectors change
_GRAPH = "model.onnx"
_OUTPUT = "uec_output"
_PROBES = ("heat flows from hot to cold", "What does a cat look at, and for how long?")
_NEAREST = {"onnx": 0.9999, "onnx-int8": 0.9}  # least cosine of a graph's vectors to its model's
_LONGEST = 8192  # tokens, for a model that names no limit


class ExportedEncoder(InThread):
    """A transformer of sentence-transformers, run by onnxruntime.

    Its network, pooling and whatever follows become one ONNX graph, exported when first asked for
    and kept in the cache folder. Texts run one at a time, on as many threads as there are cores:
    nothing is padded, and a text's vector does not depend on its neighbours, which it would in
    batches of a graph that is quantised dynamically.

    In float32 the vectors are those of torch, and so is the revision: an index made with one may
    be searched with the other. int8 changes vectors and has a revision of its own.

    Parameters
    ----------
    encoder
        Around a model loaded for this only, on the CPU in float32: its weights are given up.
    backend
        "onnx" or "onnx-int8".

    Raises
    ------
    ImportError
        If the graph is not in the cache, and what exports it is not installed.
    ValueError
        If the model is no transformer that can be exported.
    """

    def __init__(self, encoder: SentenceTransformerEncoder, backend: Backend) -> None:
        names = _input_names(encoder, backend)
        self.name = encoder.name
        self.spec = None if encoder.spec is None else f"{backend}:{encoder.spec}"
        self.prompts = encoder.prompts
        self.last_layer = encoder.last_layer
        self.dimension = encoder.dimension
        self.feature_dimension = encoder.feature_dimension
        self.gain = encoder.gain
        self.revision = encoder.revision
        if backend == "onnx-int8":
            self.revision = _int8_revision(encoder)
        graph = _graph(encoder, backend, names)
        self._session = open_session(graph, encoder.name)
        self._inputs = [value.name for value in self._session.get_inputs()]
        self._split = encoder.tap.split
        self.tokenizer = encoder.tokenizer
        self._model = encoder.model  # for its tokenizer
        self._left = pads_left(encoder.model)
        self._lock = threading.Lock()
        self._compare(encoder, graph, _NEAREST[backend])
        self._model.to("meta")

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts as queries or as passages; the model cuts off what is too long for it.

        Raises TypeError, ValueError if texts or role are not what they must be, or the model
        returns NaN, infinity or zeros.
        """
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        check_role(role)
        checked = check_texts(texts)
        if not checked:
            return Encoded.empty(self.dimension, self.feature_dimension)

        def embed(features: Features) -> Float32Array:
            rows = pool.map(self._run, one_by_one(features, self._inputs, left=self._left))
            return np.stack(list(tqdm_over(rows)))

        def tqdm_over(rows: Iterator[Float32Array]) -> Iterator[Float32Array]:
            for row in rows:
                bar.update()
                yield row

        # A tokenizer changes its own padding while it works: one thread at a time.
        with (
            self._lock,
            ThreadPoolExecutor(min(threads(), len(checked))) as pool,
            tqdm(None, "Texts", len(checked), disable=not show_progress) as bar,
        ):
            output = by_windows(
                self._model,
                checked,
                self.prompts[role],
                embed,
            )
        vectors, features = self._split(output)
        embedding = check_vectors(vectors, rows=len(checked), encoder=self.name)
        return Encoded(embedding, embedding if features is None else features)

    def _compare(self, encoder: SentenceTransformerEncoder, graph: Path, least: float) -> None:
        """Refuse a graph from the cache that does not compute what its revision says."""
        expected, got = encoder.encode(_PROBES, "query"), self.encode(_PROBES, "query")
        for theirs, ours in (
            (expected.embedding, got.embedding),
            (expected.features, got.features),
        ):
            lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(ours, axis=1)
            cosine = float(((theirs * ours).sum(axis=1) / lengths).min())
            if not cosine >= least:
                raise ValueError(
                    f"encoder {self.name!r}: the graph {graph} gives other vectors than the model "
                    f"(cosine {cosine:.3f}): it was changed, or its export failed; delete its "
                    "folder, and it will be made anew"
                )

    def _run(self, inputs: dict[str, IntArray]) -> Float32Array:
        output: Float32Array = self._session.run([_OUTPUT], inputs)[0][0]
        return output


def one_by_one(
    features: Features, names: Sequence[str], *, left: bool
) -> list[dict[str, IntArray]]:
    """Split padded tokens of n texts into n inputs of one text each, without padding.

    `features`: as a model's tokenizer returns them, with the "attention_mask". `names`: which of
    them to keep. `left`: whether padding is before the text.
    """
    mask = features["attention_mask"].numpy()
    arrays = {name: features[name].numpy() for name in names}
    width = mask.shape[1]
    spans = [slice(width - n, None) if left else slice(n) for n in mask.sum(axis=1)]
    return [
        {name: array[row : row + 1, span] for name, array in arrays.items()}
        for row, span in enumerate(spans)
    ]


def _input_names(encoder: SentenceTransformerEncoder, backend: Backend) -> list[str]:
    """Names of the tensors that the graph takes, (n, tokens) each; says what cannot be exported."""
    model = encoder.model
    if not can_batch(model):
        raise ValueError(
            f"backend={backend!r}: encoder {encoder.name!r} is no transformer whose graph could be "
            "exported; leave it on torch, and write the backend on the others, as in "
            f"'{backend}:NAME'"
        )
    if any(getattr(module, "include_prompt", True) is False for module in model):
        raise ValueError(
            f"backend={backend!r}: encoder {encoder.name!r} leaves its prompt out of the pooling, "
            "which a graph for queries and passages alike cannot; use backend='torch'"
        )
    sample = model.preprocess(["one and two"])
    return [name for name, value in sample.items() if getattr(value, "ndim", 0) == 2]


def _graph(encoder: SentenceTransformerEncoder, backend: Backend, names: list[str]) -> Path:
    """Path of the graph in the cache folder; made if it is not there."""
    graphs = cache_folder() / "graphs"

    def export(folder: Path) -> None:
        require("models", "onnx", "onnxscript")
        _export(encoder, names, folder / _GRAPH)

    def quantise(folder: Path) -> None:
        require("models", "onnx", "onnxscript")
        _quantise(_graph(encoder, "onnx", names), folder / _GRAPH)

    if backend == "onnx":
        return kept(graphs / encoder.revision[:32], export) / _GRAPH
    return kept(graphs / _int8_revision(encoder)[:32], quantise) / _GRAPH


def _int8_revision(encoder: SentenceTransformerEncoder) -> str:
    return hashlib.sha256(f"{encoder.revision} {_RECIPE}".encode()).hexdigest()


def _export(encoder: SentenceTransformerEncoder, names: list[str], path: Path) -> None:
    import torch

    model, width = encoder.model.eval(), encoder.tap.output_width or encoder.model.truncate_dim

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            output = self.model(dict(zip(names, tensors, strict=True)))
            vectors: torch.Tensor = output["sentence_embedding"][..., :width]
            return vectors

    sample = model.preprocess(["one text, and its length may be any other"])
    tokens = torch.export.Dim("tokens", min=2, max=model.max_seq_length or _LONGEST)
    # One text at a time: the graph is of a single row.
    with encoder.tap.recording(), _quiet_export():
        torch.onnx.export(
            Network().eval(),
            tuple(sample[name] for name in names),
            str(path),
            input_names=names,
            output_names=[_OUTPUT],
            dynamic_shapes=(tuple({1: tokens} for _ in names),),
            dynamo=True,
            external_data=True,  # a graph with its weights inside must be below 2 GB
            verbose=False,
        )


def _quantise(graph: Path, path: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-untyped]

    model = onnx.load(graph)
    # Shapes noted at the export, of matrices that the quantiser transposes.
    del model.graph.value_info[:]
    with _quiet_export():
        # Embeddings stay in float32: looking them up costs no time, and rounding them is what
        # would cost most quality.
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QInt8,
        )


@contextmanager
def _quiet_export() -> Iterator[None]:
    """Keep the exporters' remarks to their developers off the user's screen."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
