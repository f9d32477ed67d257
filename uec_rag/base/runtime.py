"""onnxruntime: how graphs are opened, and its product of matrices of bytes."""

from __future__ import annotations

import importlib
import os
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions  # type: ignore[import-untyped]

# The model y = MatMulInteger(a, b, z) as onnx.helper writes it: uint8 (m, d), int8 (d, n), uint8.
_GRAPH = (
    b'\x08\x08\x12\x00:r\n\x1b\n\x01a\n\x01b\n\x01z\x12\x01y"\rMatMulInteger\x12\x01gZ\x15\n\x01a'
    b"\x12\x10\n\x0e\x08\x02\x12\n\n\x03\x12\x01m\n\x03\x12\x01dZ\x15\n\x01b\x12\x10\n\x0e\x08\x03"
    b"\x12\n\n\x03\x12\x01d\n\x03\x12\x01nZ\x0b\n\x01z\x12\x06\n\x04\x08\x02\x12\x00b\x15\n\x01y"
    b"\x12\x10\n\x0e\x08\x06\x12\n\n\x03\x12\x01m\n\x03\x12\x01nB\x04\n\x00\x10\r"
)

ZERO = 128
"""The number that stands for 0 in the first matrix of `multiply_bytes`."""

MOST = 64
"""The largest absolute value in its second matrix: x86 processors without VNNI overflow above."""


def load_onnxruntime() -> ModuleType:
    """Import onnxruntime, which collects from its import on, without what it collects."""
    # That is a device id in the home, and events for its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return importlib.import_module("onnxruntime")


def open_session(graph: str | bytes, options: SessionOptions | None = None) -> InferenceSession:
    """Open a graph, from its file or its content, whose calls run in the caller's thread.

    Other threads would not be there in a forked child, and several calls may run in parallel.
    """
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions() if options is None else options
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


_session = cache(partial(open_session, _GRAPH))


def multiply_bytes(rows: NDArray[np.uint8], columns: NDArray[np.int8]) -> NDArray[np.int32]:
    """Multiply a matrix, shape (m, d), of numbers to which 128 is added with another, (d, n).

    Examples
    --------
    >>> multiply_bytes(np.uint8([[129, 126]]), np.int8([[3], [5]])).tolist()
    [[-7]]
    """
    product: NDArray[np.int32] = _session().run(
        None, {"a": rows, "b": columns, "z": np.array(ZERO, np.uint8)}
    )[0]
    return product
