"""Files of saved folders, which are flushed to disk, and checked when they are read.

Pickle is never used, and only regular files are opened: links, pipes and devices could lead
elsewhere, never end or never answer.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from numpy.typing import NDArray

from uec_rag.base import regular
from uec_rag.base.checks import are_finite
from uec_rag.base.errors import corruption

_POLL = 0.01  # seconds between two attempts at a lock, which others hold for tenths of a second


DATABASE = "index.db"
"""The file name of the database in the folder of an index."""

ENSEMBLE = "uec.json"
"""The file name of the description in the folder of an ensemble."""

APPLICATION = 0x55454352
"""The application id of the database, "UECR" at byte 68 of its file."""


def is_index(folder: Path) -> bool:
    """Return whether a folder is that of an index, without opening its database."""
    try:
        with regular.open_regular(folder / DATABASE) as file:
            head = file.read(72)
    except OSError:
        return False
    return head[68:] == APPLICATION.to_bytes(4, "big")


def is_saved(folder: Path) -> bool:
    """Return whether a folder is that of an index or of an ensemble."""
    return os.path.isfile(folder / ENSEMBLE) or is_index(folder)


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


def read_tensors(file: Path, sha256: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file with a known hash.

    Raises IndexCorrupted if the file is missing, is not a regular file or not valid, has another
    hash, or contains NaN or infinity.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with open_regular(file) as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise corruption(file, "has other contents than were saved; save it again.")
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
