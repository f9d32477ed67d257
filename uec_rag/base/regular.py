"""Safe reading of regular files, but not of links, pipes or devices."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

_AT_ONCE = 2**20  # bytes

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegularError(OSError):
    """Raised if a path is not a regular file; the message says what it is."""


def open_regular(
    path: str | Path, *, follow_symlinks: bool = False, dir_fd: int | None = None
) -> BufferedReader:
    """Open a regular file for reading; never blocks, even if the file is replaced meanwhile.

    Parameters
    ----------
    path
    follow_symlinks
        Open the target of a link, if it is a regular file.
    dir_fd
        Descriptor of the folder that a relative path is relative to.

    Raises
    ------
    NotRegularError
        If `path` is not a regular file.
    OSError
        If there is no such file, or it cannot be read.
    """
    state = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    check_regular(state, path)  # even opening a pipe or a tape has side effects
    # In case the file is replaced: do not wait for the other end of a pipe, nor follow a link.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow_symlinks:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise NotRegularError(error.errno, "a link, not a regular file", str(path)) from error
        raise
    try:
        check_regular(os.fstat(handle), path)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_regular(state: os.stat_result, path: str | Path) -> None:
    """Raise NotRegularError unless `state` is that of a regular file."""
    if not stat.S_ISREG(state.st_mode):
        kind = _KINDS.get(stat.S_IFMT(state.st_mode), "something else")
        raise NotRegularError(errno.EINVAL, f"no regular file but {kind}", str(path))


def pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Read the first `size` bytes of a file in chunks, even if it grows meanwhile.

    Raises OSError if it has fewer.
    """
    while size:
        piece = file.read(min(size, _AT_ONCE))
        if not piece:
            raise OSError(errno.EIO, "it became shorter while it was read")
        size -= len(piece)
        yield piece
