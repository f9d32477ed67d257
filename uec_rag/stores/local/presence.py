"""Whether other processes have the folder of an index open, by a shared lock on it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary


class Presence:
    """The sign by which other processes see that this one has a folder open.

    All that have the folder open in this process share one. It ends with the last of them, or with
    the process, however that ends.
    """

    _all: ClassVar[WeakValueDictionary[tuple[int, int], Presence]] = WeakValueDictionary()

    def __init__(self, folder: Path) -> None:
        self._handle = -1
        with suppress(ImportError, OSError):  # Windows has no lock of this kind
            import fcntl

            # Not on a file of SQLite's, whose own locks end when any handle of it is closed.
            self._handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._handle, fcntl.LOCK_SH)

    @classmethod
    def of(cls, folder: Path) -> Presence:
        """Return the sign of this process in a folder."""
        state = os.stat(folder)
        key = state.st_dev, state.st_ino
        return cls._all.get(key) or cls._all.setdefault(key, cls(folder))

    @classmethod
    def forget_all(cls) -> None:
        """Let a forked child make signs of its own: those that it has are its parent's."""
        cls._all.clear()

    @property
    def is_alone(self) -> bool:
        """True if no other process has the folder open; False if that cannot be known."""
        with suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            finally:  # a change of the lock that failed has ended it
                fcntl.flock(self._handle, fcntl.LOCK_SH)
        return False

    def __del__(self) -> None:
        """Take the sign away."""
        if self._handle >= 0:
            os.close(self._handle)
