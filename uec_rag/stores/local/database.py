"""The database of an index: its tables, connections to it, and what its errors mean.

It is SQLite's, with a write-ahead log: a transaction is on disk when it ends, readers never wait,
and writers, also of other processes, take turns.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from uec_rag.base import __version__
from uec_rag.base.errors import IndexCorrupted, OlderIndex, corruption
from uec_rag.base.files import APPLICATION, DATABASE, open_regular
from uec_rag.base.records import Living

_FORMAT = 5
WAIT = 60.0
"""Seconds that a writer waits for others."""

SCHEMA = (
    # Texts last, so that reading ids and metadata does not read them.
    "CREATE TABLE passages (row INTEGER PRIMARY KEY, id TEXT NOT NULL, sum INTEGER NOT NULL, "
    "metadata TEXT NOT NULL, dates TEXT, text TEXT NOT NULL)",
    "CREATE INDEX passages_by_id ON passages (id)",
    # Rows that were deleted or replaced. `at` is NULL once the text is gone, and `version` once no
    # segment has the row; then nothing needs it, and it goes, too.
    "CREATE TABLE dead (row INTEGER PRIMARY KEY, at REAL, version INTEGER)",
    "CREATE INDEX dead_by_at ON dead (at) WHERE at IS NOT NULL",
    "CREATE INDEX dead_by_version ON dead (version) WHERE version IS NOT NULL",
    "CREATE TABLE segments (first INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value, sum INTEGER) WITHOUT ROWID",
)


class EmptyIndex(IndexCorrupted):
    """Raised for a database without tables, which another process may be about to fill."""


def _check_format(path: Path) -> None:
    """Raise OlderIndex or IndexCorrupted for an index of another version, without opening it.

    It is neither read nor written over, and nothing is made beside it, as SQLite would.
    """
    with suppress(FileNotFoundError), open_regular(path) as file:
        head = file.read(72)
        version = int.from_bytes(head[60:64], "big")
        if head[68:] != APPLICATION.to_bytes(4, "big") or version == _FORMAT:
            return
        problem = f"path: {str(path)!r} has format {version}, expected {_FORMAT}:"
        again = "elsewhere or after removing this: uec-rag index FOLDER --out INDEX"
        over = "a fit or a gate over a store, as it was made."
        if version > _FORMAT:
            raise IndexCorrupted(
                f"{problem} a newer uec-rag than {__version__} made it; pip install --upgrade "
                f"uec-rag, or build it again, {again}; {over}"
            )
        raise OlderIndex(
            f"{problem} an earlier version of uec-rag made it. Have its texts, questions and "
            f"labels read again: uec-rag index {str(path.parent)!r} --out NEW; or index the "
            f"documents, {again}; {over}"
        )


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise IndexCorrupted unless the database has our tables and indexes, and nothing else.

    Triggers, views and indexes of expressions are code, which is not run for whoever made the file.
    """
    if not _has_tables(connection):
        raise EmptyIndex(f"path: {str(path)!r} has no tables: it is no index; build it again.")
    missing = {*SCHEMA}
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master"):
        if sql in missing:
            missing.remove(sql)
        elif sql or not name.startswith("sqlite_autoindex_"):
            raise corruption(
                path,
                f"holds {str(name)!r:.60}, which is not part of an index: it was made by another "
                "program, or changed. It was not read; build the index again.",
            )
    if missing:
        raise corruption(
            path, f"lacks {min(missing).split()[2]!r}: it is no index of uec-rag; build it again."
        )


def _has_tables(connection: sqlite3.Connection) -> bool:
    [(count,)] = connection.execute("SELECT count(*) FROM sqlite_master")
    return bool(count)


class Presence:
    """The sign by which other processes see that this one has a folder open.

    All that have the folder open in this process share one. It ends with the last of them, or with
    the process, however that ends.
    """

    _instances: ClassVar[WeakValueDictionary[tuple[int, int], Presence]] = WeakValueDictionary()

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
        return cls._instances.get(key) or cls._instances.setdefault(key, cls(folder))

    @classmethod
    def forget_all(cls) -> None:
        """Let a forked child make signs of its own: those that it has are its parent's."""
        cls._instances.clear()

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


_live = Living["Database"]()
_abandoned: list[sqlite3.Connection] = []  # a parent's connections, which a child must not close


_fork_locks = threading.local()  # the locks that a fork of this thread waited for
_LONGEST_FORK = 60.0  # seconds, since a thread with a lock may itself be waiting for the fork


def _before_fork() -> None:
    """Wait until no thread uses a database: the child would never see a lock released.

    While the locks to write are held, no thread takes one to read for long.
    """
    _fork_locks.locks = []
    end = time.monotonic() + _LONGEST_FORK
    for kind in ("writing", "reading"):
        for database in _live:
            lock: threading.RLock = getattr(database, kind)
            if lock.acquire(timeout=max(0.0, end - time.monotonic())):
                _fork_locks.locks.append(lock)


def _after_fork() -> None:
    while _fork_locks.locks:
        _fork_locks.locks.pop().release()


def _abandon() -> None:
    """Keep a parent's connections open in its forked child, where closing them would do harm."""
    Presence.forget_all()
    for database in _live:
        database.abandon()
    _after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_abandon)


@contextmanager
def kind_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors in the block into those that say what to do.

    Raises
    ------
    BlockingIOError
        If others keep writing.
    OSError
        If the disk is full, or the file cannot be read or written.
    IndexCorrupted
        If the file is damaged, or is no database.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        message = str(error)
        if "locked" in message or "busy" in message:
            raise BlockingIOError(
                f"path: other processes keep writing to {str(path)!r}; nothing was changed. Try "
                "again."
            ) from error
        if "disk is full" in message or "disk I/O error" in message:
            raise OSError(
                errno.ENOSPC,
                f"path: the disk is full or fails at {str(path)!r} ({message}). Nothing was "
                "changed; make room and try again.",
            ) from error
        if "readonly" in message or "unable to open" in message:
            raise PermissionError(
                errno.EACCES,
                f"path: {str(path)!r} cannot be written ({message}); close the index where it was "
                "written and load it with read_only=True, or change the permissions.",
            ) from error
        raise corruption(path, f"cannot be used ({message}); build the index again.") from error
    except sqlite3.DatabaseError as error:
        raise corruption(
            path, f"is damaged, or is no index ({error}); build the index again."
        ) from error
    except OSError as error:
        advice = _OF_FULL.get(error.errno or 0)
        if advice is None or "Nothing was changed" in str(error):
            raise
        raise OSError(
            error.errno,
            f"path: a file of {str(path.parent)!r} cannot be written ({error.strerror}). Nothing "
            f"was changed; {advice}, and try again.",
        ) from error


_OF_FULL = {
    errno.EFBIG: "raise the largest size of a file (ulimit -f, or another file system)",
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room in the quota",
}


class _InMemory(sqlite3.Connection):
    """A connection that never waits for a disk, not even to those who watch SQLite's methods."""

    execute = sqlite3.Connection.execute
    executemany = sqlite3.Connection.executemany


class Database:
    """Connections to an index's database: one to read and one to write, or one in memory for both.

    Threads take turns at each, for a statement to read and a transaction to write. A forked child
    opens connections of its own.

    Parameters
    ----------
    folder : Path or None
        The folder of the index; None for a database in memory.
    read_only : bool
        If not, a database is made where there is none.
    create : bool
        Whether it may be made.
    """

    def __init__(self, folder: Path | None, *, read_only: bool, create: bool = True) -> None:
        self.path = Path(":memory:") if folder is None else folder / DATABASE
        self.in_memory, self.read_only = folder is None, read_only
        self.writing = threading.RLock()
        self.reading = threading.RLock()
        self._may_create, self._is_closed = create, False
        self._identity: tuple[int, int] | None = None
        self._presence: Presence | None = None
        self._writer: int | None = None  # the thread that has a transaction
        with kind_errors(self.path):
            self._open()
        _live.add(self)

    def _open(self) -> None:
        if self.in_memory:
            self._reader = self._write = self._connect("file::memory:", create=True)
        else:
            for suffix in ("", "-wal", "-shm", "-journal"):
                file = self.path.with_name(DATABASE + suffix)
                if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
                    raise corruption(file, "is no regular file; replace it by the file itself.")
            _check_format(self.path)
            uri = self.path.as_uri()
            if self.read_only:
                self._reader = self._write = self._connect_read_only(uri)
            else:
                mode = "rwc" if self._may_create else "rw"
                self._write = self._connect(f"{uri}?mode={mode}", create=self._may_create)
                self._may_create = False
                self._reader = self._connect(f"{uri}?mode=rw")
            self._presence = Presence.of(self.path.parent)
        self._identity = self._identify()
        self._is_open = True

    @property
    def is_replaced(self) -> bool:
        """True if another file has taken the place of the one that was opened."""
        return self._identify() not in (None, self._identity)

    def is_same(self, database: Database) -> bool:
        """Return whether another database is the same file."""
        return self is database or (not self.in_memory and self._identity == database._identity)

    def _identify(self) -> tuple[int, int] | None:
        """Return the device and inode of the file; None if there is none, as in memory."""
        if self.in_memory:
            return None
        with suppress(OSError):
            state = os.stat(self.path)
            return state.st_dev, state.st_ino
        return None

    def _connect(self, uri: str, *, create: bool = False) -> sqlite3.Connection:
        """Connect to a database of ours, whose tables are made if it has none and `create`."""
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
            factory=_InMemory if self.in_memory else sqlite3.Connection,
        )
        try:
            for pragma in (
                "trusted_schema = OFF",
                "cache_size = -8192",
                "mmap_size = 1073741824",
                "synchronous = FULL",
                "secure_delete = ON",
                "journal_size_limit = 67108864",
                "temp_store = MEMORY",
                "page_size = 16384",
            ):
                connection.execute(f"PRAGMA {pragma}")
            if create and not _has_tables(connection):
                try:
                    connection.execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError:  # a network folder, without shared memory
                    connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("BEGIN IMMEDIATE")
                if not _has_tables(connection):  # another process may have been faster
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
                    for sql in SCHEMA:
                        connection.execute(sql)
                connection.execute("COMMIT")
                # So that the file itself tells what it is (`is_index`), while it is open, too.
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            _check_schema(connection, self.path)
        except BaseException:
            connection.close()  # with its transaction
            raise
        return connection

    def _connect_read_only(self, uri: str) -> sqlite3.Connection:
        """Connect to a file that may lie where nothing can be written."""
        try:
            return self._connect(f"{uri}?mode=ro")
        except sqlite3.OperationalError:
            wal = self.path.with_name(DATABASE + "-wal")
            if wal.exists() and wal.stat().st_size:
                raise  # its changes can only be read where SQLite may write beside it
        return self._connect(f"{uri}?immutable=1")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to read, for some statements."""
        with self.reading, kind_errors(self.path):
            self._reopen()
            yield self._reader

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to write, for some statements of this thread's transaction."""
        with self.writing, kind_errors(self.path):
            if self.in_memory:
                with self.reading:
                    yield self._write
            else:
                yield self._write

    @property
    def is_alone(self) -> bool:
        """True if no other process has the index open; False if that cannot be known."""
        return self._presence is not None and self._presence.is_alone

    @property
    def is_writing(self) -> bool:
        """True if this thread has a transaction, whose changes it then reads."""
        return self._writer == threading.get_ident()

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement that reads, and return its rows."""
        with self.write() if self.is_writing else self.read() as connection:
            return [*connection.execute(sql, parameters)]

    def begin(self) -> None:
        """Begin a transaction to write; `writing` is held by this thread.

        Raises
        ------
        FileNotFoundError
            If the folder was deleted or replaced since it was opened.
        """
        with kind_errors(self.path):
            self._reopen()
            self._check_in_place()
            try:
                with self.write() as connection:
                    if connection.in_transaction:  # an interrupt came before it could be ended
                        connection.execute("ROLLBACK")
                    connection.execute("BEGIN IMMEDIATE")
                self._writer = threading.get_ident()
                self._check_in_place()
            except BaseException:
                self.end("ROLLBACK")
                raise

    def end(self, how: str) -> bool:
        """Commit or roll back; return whether there was a transaction to end."""
        with self.write() as connection:
            is_open = connection.in_transaction
            if is_open:
                connection.execute(how)
            self._writer = None
        return is_open

    def _check_in_place(self) -> None:
        if self._identify() != self._identity:
            raise FileNotFoundError(
                errno.ENOENT,
                f"path: {str(self.path)!r} was deleted or replaced since the index was opened; "
                "nothing was changed. Load the index again, or save it elsewhere.",
            )

    def abandon(self) -> None:
        """Leave the connections, which are a parent's; others are opened when they are needed."""
        if not self.in_memory and self._is_open:
            _abandoned.extend((self._reader, self._write))
            self._is_open, self._writer, self._presence = False, None, None

    def _reopen(self) -> None:
        """Open it again in a forked child; RuntimeError if it was closed."""
        if self._is_closed:
            raise RuntimeError(f"path: {str(self.path)!r} was closed; load the index again.")
        if not self._is_open:
            self._open()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Wait for no other process in the block; BlockingIOError if one writes."""
        with self.write() as connection:
            connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            with self.write() as connection:
                connection.execute(f"PRAGMA busy_timeout = {WAIT * 1000:.0f}")

    def truncate_log(self) -> bool:
        """Write the log into the file, so that this can be copied alone; False if one reads it."""
        with self.reading, self.write() as connection:
            [(is_busy, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return not is_busy

    def close(self) -> None:
        """Write the log into the file, and close the connections."""
        with self.writing, self.reading:
            self._is_closed = not self.in_memory
            if self._is_open and not self.in_memory:
                with suppress(sqlite3.Error):
                    self._reader.close()
                    self._write.close()
                self._is_open, self._presence = False, None

    def check(self) -> None:
        """Raise IndexCorrupted if SQLite finds damage in its file."""
        faults = [line for (line,) in self.ask("PRAGMA integrity_check(3)")]
        if faults != ["ok"]:
            raise IndexCorrupted(
                f"path: {str(self.path)!r} is damaged ({'; '.join(faults)}); build the index again."
            )
