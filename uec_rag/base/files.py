"""Files that are flushed to disk, and checked when they are read.

Pickle is never used, and only regular files are opened: links, pipes and devices could lead
elsewhere, never end or never answer.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from uec_rag.base.checks import check_type
from uec_rag.base.errors import NotRegularError, as_corrupted, corruption

DATABASE = "index.db"
"""The file name of the database in the folder of an index."""

ENSEMBLE = "uec.safetensors"
"""The file name of an ensemble in its folder."""

APPLICATION = 0x55454352
"""The application id of the database, "UECR" at byte 68 of its file."""

_POLL = 0.01  # seconds between two attempts at a lock, which others hold for tenths of a second


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path; "~" is the user's folder, also where no shell has expanded it.

    TypeError if it is none.
    """
    check_type(path, str | os.PathLike, "path", "a str or a path")
    return Path(os.path.expanduser(path)).absolute()


def is_index(folder: Path) -> bool:
    """Return whether a folder is that of an index, without opening its database."""
    try:
        with open_regular(folder / DATABASE) as file:
            head = file.read(72)
    except OSError:
        return False
    return head[68:] == APPLICATION.to_bytes(4, "big")


def refuse_outdated(folder: Path) -> None:
    """Raise IndexCorrupted if a folder is an index from before its format had a number."""
    if os.path.isfile(folder / "manifest.json") and os.path.isdir(folder / "generations"):
        raise corruption(
            folder,
            "has a format without a number, which another version of uec-rag made. Make the index "
            "again, elsewhere or after removing this: uec-rag index FOLDER --out INDEX",
        )


def is_saved(folder: Path) -> bool:
    """Return whether a folder is that of an index or of an ensemble."""
    return os.path.isfile(folder / ENSEMBLE) or is_index(folder)


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file for reading; never blocks, even if the file is replaced meanwhile.

    Raises
    ------
    NotRegularError
        If `path` is not a regular file, but a link, for example.
    OSError
        If there is no such file, or it cannot be read.
    """
    _check_regular(os.lstat(path), path)  # even opening a pipe or a tape has side effects
    # In case the file is replaced: do not wait for the other end of a pipe, nor follow a link.
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):  # which not every system has
        flags |= getattr(os, name, 0)
    handle = os.open(path, flags)
    try:
        _check_regular(os.fstat(handle), path)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _check_regular(state: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(state.st_mode):
        kinds = {"l": "a link", "p": "a pipe", "d": "a folder"}
        kind = kinds.get(stat.filemode(state.st_mode)[0], "a device")
        raise NotRegularError(errno.EINVAL, f"no regular file but {kind}", str(path))


def read_bytes(file: Path) -> bytes:
    """Read a regular file of a saved folder.

    Raises IndexCorrupted if it is missing or is not a regular file, OSError if it cannot be read.
    """
    with as_corrupted(file), open_regular(file) as stream:
        return stream.read()


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object from a regular file.

    Raises IndexCorrupted if the file is missing, is not a regular file or not a JSON object.
    """
    content = read_bytes(file)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise corruption(file, f"is not JSON ({error}): make it again.") from error
    if not isinstance(value, dict):
        raise corruption(file, f"holds {type(value).__name__}, expected an object.")
    return value


def replace_file(file: Path, content: str | bytes) -> None:
    """Replace the contents of a file, a text as UTF-8, atomically, by a rename."""
    # A random name and mode "x", so that a planted link is not followed.
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    stream = draft.open("xb")
    try:
        with stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        to_disk(draft)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
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
    from filelock import FileLock, Timeout

    try:
        with FileLock(file).acquire(timeout=wait, poll_interval=_POLL):
            yield
    except Timeout as error:
        raise BlockingIOError(busy) from error


def to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk, so that they survive a power failure."""
    if os.name == "nt" and path.is_dir():  # there a folder cannot be opened
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Return the folder for models: `UEC_CACHE`, else one in the user's cache folder."""
    usual = f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/uec_rag"
    return Path(os.environ.get("UEC_CACHE") or usual).expanduser()
