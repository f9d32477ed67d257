"""Files of saved folders: JSON and plain arrays, brought to the disk, checked when read.

Never pickle, and only regular files: no links, pipes or devices, which could lead elsewhere, never
end or never answer.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Sequence
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from uec_rag.base import regular
from uec_rag.base.checks import finite
from uec_rag.base.errors import IndexCorrupted


def open_regular(file: Path) -> BufferedReader:
    """Open a regular file to read its bytes; never waits, and follows no link.

    Raises IndexCorrupted if the file is missing, or something else than a regular file. OSError if
    it cannot be read.
    """
    try:
        return regular.open_regular(file)
    except regular.NotRegularError as error:
        raise IndexCorrupted(
            f"path: {str(file)!r} is {error.strerror}; replace it by the file itself, or save "
            "again."
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexCorrupted(f"path: {str(file)!r} is missing; save again.") from error


def write_json(file: Path, value: object, *, indent: int | None = 1) -> None:
    """Write JSON as UTF-8; without an indent in one line, which is several times as fast."""
    file.write_text(json.dumps(value, ensure_ascii=False, indent=indent), encoding="utf-8")


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object from a regular file.

    Raises IndexCorrupted if the file is missing or no regular one, or does not hold a JSON object.
    """
    with open_regular(file) as stream:
        content = stream.read()
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or endlessly nested
        raise IndexCorrupted(f"path: {str(file)!r} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise IndexCorrupted(
            f"path: {str(file)!r} holds {type(value).__name__}, expected an object."
        )
    return value


def read_array(
    file: Path, dtype: DTypeLike | Sequence[str], dimensions: int, *, mapped: bool = False
) -> NDArray[Any]:
    """Read an array that `numpy.save` wrote, once its header agrees with the file's size.

    Parameters
    ----------
    dtype : dtype, or sequence of str
        What its numbers must be, or may be.
    dimensions : int
        How many it must have.
    mapped : bool
        Map the file instead of reading it; what is written to the array stays in memory.

    Raises
    ------
    IndexCorrupted
        If the file is missing or no regular one, or another array than this.
    """
    with open_regular(file) as stream:
        held = os.fstat(stream.fileno()).st_size
        content = bytearray(min(held, _LONGEST_HEADER) if mapped else held)
        stream.readinto(content)
    header = _HEADER.match(content)
    if header is None:
        raise IndexCorrupted(
            f"path: {str(file)!r} is no array as numpy.save writes it; save again."
        )
    length, descr, in_columns, lengths = header.groups()
    begin = 10 + int.from_bytes(length, "little")
    wanted: list[Any] = list(dtype) if isinstance(dtype, tuple) else [dtype]
    kinds = {np.dtype(kind).str: np.dtype(kind) for kind in wanted}
    found = kinds.get(descr.decode())
    shape = tuple(int(length) for length in lengths.replace(b",", b" ").split())
    if found is None or len(shape) != dimensions:
        raise IndexCorrupted(
            f"path: {str(file)!r} holds {descr.decode()} of shape {shape}, expected "
            f"{' or '.join(map(str, kinds.values()))} in {dimensions} dimensions; save again."
        )
    size = begin + found.itemsize * math.prod(shape)  # Python's integers do not overflow
    if size != held:
        raise IndexCorrupted(
            f"path: {str(file)!r} has {held} bytes, expected {size} for an array of shape {shape}; "
            "save again."
        )
    order: Literal["F", "C"] = "F" if in_columns == b"True" else "C"
    if not mapped or size == begin:  # nothing cannot be mapped
        return np.ndarray(shape, found, content, begin, order=order)
    # Not "r": torch takes no array that it could not write to. Nothing is written, nor copied.
    return np.asarray(np.memmap(file, found, "c", begin, shape, order))


# By this pattern and not by numpy.load, which gives the header to Python's parser: there an
# interrupt becomes a SystemError (Python 3.11), and while it reads a TypeError.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|=][a-zA-Z]\d*)', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}(?:, ?|(?=\))))*)\), \} *\n?",
    re.DOTALL,
)
_LONGEST_HEADER = 1024


class GrowingArray:
    """An array as `numpy.save` writes it, some rows at a time.

    Parameters
    ----------
    first : array, shape (n, ...)
        The first rows; the others are of their type and shape.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rows.npy"
    ...     rows = GrowingArray(file, np.eye(2))
    ...     rows.append(np.ones((1, 2)))
    ...     rows.close()
    ...     np.load(file).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, file: Path, first: NDArray[Any]) -> None:
        self._like, self._rows = first[:0], 0
        self._stream = file.open("wb")
        self._stream.write(self._header())
        self.append(first)

    def _header(self) -> bytes:
        header = BytesIO()
        shape = (self._rows, *self._like.shape[1:])
        described = np.lib.format.dtype_to_descr(self._like.dtype)
        np.lib.format.write_array_header_1_0(
            header, {"descr": described, "fortran_order": False, "shape": shape}
        )
        return header.getvalue()  # as long for any number of rows: it is padded

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows."""
        self._stream.write(np.ascontiguousarray(rows, dtype=self._like.dtype).data)
        self._rows += len(rows)

    def close(self) -> None:
        """Write how many there are."""
        with self._stream:
            self._stream.seek(0)
            self._stream.write(self._header())


def read_tensors(file: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file.

    Raises IndexCorrupted if the file is missing or no regular one, or holds something else, or NaN
    or infinity.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with open_regular(file) as stream:
        content = stream.read()
    try:
        tensors = load(content)
    except (SafetensorError, KeyError) as error:  # KeyError: of a number type that NumPy lacks
        raise IndexCorrupted(
            f"path: {str(file)!r} cannot be read ({error}); save it again."
        ) from error
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f" and not finite(tensor):
            raise IndexCorrupted(
                f"path: {str(file)!r} holds NaN or infinity in {name!r}; save it again."
            )
    return tensors


def replace_file(file: Path, text: str) -> None:
    """Write UTF-8 in place of what a file holds, in one rename: all of it, or nothing changes."""
    # A name that cannot be guessed, and "x": a link that lies in wait there is never followed.
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    stream = new.open("x", encoding="utf-8")
    try:
        with stream:
            stream.write(text)
        to_disk(new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    to_disk(file.parent)


def to_disk(path: Path) -> None:
    """Wait until a file, or the list of what is in a folder, would survive a power cut."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # there a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY if folder or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
