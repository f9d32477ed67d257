"""Files of saved folders: JSON and plain arrays, which are flushed to disk, and checked when read.

Pickle is never used, and only regular files are opened: links, pipes and devices could lead
elsewhere, never end or never answer.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import DTypeLike, NDArray

from uec_rag.base import regular
from uec_rag.base.checks import are_finite
from uec_rag.base.errors import corruption

_POLL = 0.01  # seconds between two attempts at a lock, which others hold for tenths of a second


def open_regular(file: Path) -> BufferedReader:
    """Open a regular file for reading, without blocking and without following links.

    Raises IndexCorrupted if the file is missing or is not a regular file, OSError if it cannot be
    read.
    """
    try:
        return regular.open_regular(file)
    except regular.NotRegularError as error:
        raise corruption(
            file, f"is {error.strerror}; replace it by the file itself, or save again."
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise corruption(file, "is missing; save again.") from error


def write_json(file: Path, value: object, *, indent: int | None = 1) -> None:
    """Write JSON as UTF-8; with ``indent=None`` on one line, which is several times as fast."""
    file.write_text(json.dumps(value, ensure_ascii=False, indent=indent), encoding="utf-8")


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object from a regular file.

    Raises IndexCorrupted if the file is missing, is not a regular file or not a JSON object.
    """
    with open_regular(file) as stream:
        content = stream.read()
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise corruption(file, f"is not JSON ({error}): make it again.") from error
    if not isinstance(value, dict):
        raise corruption(file, f"holds {type(value).__name__}, expected an object.")
    return value


def read_array(
    file: Path, dtype: DTypeLike | Sequence[str], dimensions: int, *, mapped: bool = False
) -> NDArray[Any]:
    """Read an array that `numpy.save` wrote, after checking its header and the file's size.

    Parameters
    ----------
    dtype : dtype, or tuple of str
        The expected type, or the allowed types.
    dimensions : int
        The expected number of dimensions.
    mapped : bool
        Map the file into memory instead of reading it. Writes to the array do not reach the file.

    Raises
    ------
    IndexCorrupted
        If the file is missing, is not a regular file, or has another type, shape or size.
    """
    with open_regular(file) as stream:
        held = os.fstat(stream.fileno()).st_size
        content = bytearray(min(held, _LONGEST_HEADER) if mapped else held)
        stream.readinto(content)
    header = _HEADER.match(content)
    if header is None:
        raise corruption(file, "is not an array as numpy.save writes it; save again.")
    length, descr, in_columns, lengths = header.groups()
    begin = 10 + int.from_bytes(length, "little")
    wanted: list[Any] = list(dtype) if isinstance(dtype, tuple) else [dtype]
    kinds = {np.dtype(kind).str: np.dtype(kind) for kind in wanted}
    found = kinds.get(descr.decode())
    shape = tuple(int(length) for length in lengths.replace(b",", b" ").split())
    if found is None or len(shape) != dimensions:
        raise corruption(
            file,
            f"holds {descr.decode()} of shape {shape}, expected "
            f"{' or '.join(map(str, kinds.values()))} in {dimensions} dimensions; save again.",
        )
    size = begin + found.itemsize * math.prod(shape)  # Python's integers do not overflow
    if size != held:
        raise corruption(
            file, f"has {held} bytes, expected {size} for an array of shape {shape}; save again."
        )
    order: Literal["F", "C"] = "F" if in_columns == b"True" else "C"
    if not mapped or size == begin:  # an empty array cannot be mapped
        return np.ndarray(shape, found, content, begin, order=order)
    # Copy-on-write instead of "r", since torch does not accept read-only arrays.
    return np.asarray(np.memmap(file, found, "c", begin, shape, order))


# A pattern instead of numpy.load, which passes the header to Python's parser: there an interrupt
# becomes a SystemError (Python 3.11), and during reads a TypeError.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|=][a-zA-Z]\d*)', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}(?:, ?|(?=\))))*)\), \} *\n?",
    re.DOTALL,
)
_LONGEST_HEADER = 1024


class GrowingArray:
    """A writer of an array in the format of `numpy.save`, some rows at a time.

    Parameters
    ----------
    first : array, shape (n, ...)
        The first rows, which determine the type and shape of all rows.

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
        return header.getvalue()  # padded, so that its length does not depend on the shape

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows."""
        self._stream.write(np.ascontiguousarray(rows, dtype=self._like.dtype).data)
        self._rows += len(rows)

    def close(self) -> None:
        """Write the number of rows to the header, and close the file."""
        with self._stream:
            self._stream.seek(0)
            self._stream.write(self._header())


def read_tensors(file: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file.

    Raises IndexCorrupted if the file is missing, is not a regular file or not valid, or contains
    NaN or infinity.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with open_regular(file) as stream:
        content = stream.read()
    try:
        tensors = load(content)
    except (SafetensorError, KeyError) as error:  # KeyError: a number type that NumPy lacks
        raise corruption(file, f"cannot be read ({error}); save it again.") from error
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f" and not are_finite(tensor):
            raise corruption(file, f"holds NaN or infinity in {name!r}; save it again.")
    return tensors


def replace_file(file: Path, text: str) -> None:
    """Replace the contents of a file by a UTF-8 text atomically, by a rename."""
    # A random name and mode "x", so that a planted link is not followed.
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


@contextmanager
def lock_file(file: Path, busy: str, wait: float = 0.0) -> Iterator[None]:
    """Lock a file against other processes and threads while the block runs.

    Parameters
    ----------
    file : Path
        A file that serves as the lock and nothing else; it is made, and stays.
    busy : str
        Message of the error.
    wait : float
        Seconds to wait for another process or thread.

    Raises
    ------
    BlockingIOError
        If another process or thread still holds the lock after that time.
    """
    lock = FileLock(file)
    try:
        try:
            lock.acquire(timeout=wait, poll_interval=_POLL)
        except Timeout as error:
            raise BlockingIOError(busy) from error
        yield
    finally:
        lock.release(force=True)


def to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk, so that they survive a power failure."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # there a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY if folder or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
