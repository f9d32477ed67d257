"""The local index: passages in SQLite, vectors and word counts in segments."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import MOST_ROWS
from uec_rag.base.errors import (
    FingerprintMismatch,
    IndexCorrupted,
    as_corrupted,
    corruption,
)
from uec_rag.base.files import DATABASE, NotRegularError, open_regular, to_disk
from uec_rag.base.gaussian import Gaussian
from uec_rag.stores.base import (
    DateText,
    Filter,
    Passage,
    Store,
    StoreHits,
    check_addition,
    check_passage,
)
from uec_rag.stores.filters import parse
from uec_rag.stores.local.database import Database, is_database
from uec_rag.stores.local.filters import Filters, Mask
from uec_rag.stores.local.segments import Dtype, Segment, check_dtype, pack, unpack
from uec_rag.stores.local.view import (
    Part,
    PassageGone,
    State,
    View,
    with_fresh_view,
)
from uec_rag.stores.schema import Schema

_KEPT = 60.0  # seconds for which others may read the texts of deleted passages
_SMALL = 512  # passages below which a segment lies in the database, so that one flush is enough
_RUN, _FACTOR = 8, 4  # segments of a size that are merged, and the factor between two sizes
_ATTEMPTS = 10  # to read a state while others merge
_DEAD = 0.5  # share of deleted passages above which a segment is written again
_AT_ONCE = 500  # passages in one statement
_REMEMBERED, _LONG = 4096, 4096  # passages that are remembered, and characters of one too long
_NAME = re.compile(r"[0-9a-f]{32}")
_SUFFIX = ".safetensors"

_to_json = json.JSONEncoder(ensure_ascii=False).encode
_COLUMNS = "row, id, sum, metadata, dates, text"
_INSERT = f"INSERT INTO passages ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_Record = tuple[int, str, int, str, str | None, str]


def _dates(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dates of metadata as `DateText.key`, under the same keys."""
    out = dict[str, Any]()
    for key, value in metadata.items():
        if isinstance(value, DateText):
            out[key] = value.key
        elif isinstance(value, dict) and (inner := _dates(value)):
            out[key] = inner
    return out


def _restore_dates(metadata: dict[str, Any], dates: Mapping[str, Any]) -> None:
    """Make the texts of dates `DateText` again."""
    for key, value in dates.items():
        if isinstance(value, dict):
            _restore_dates(metadata[key], value)
        else:
            metadata[key] = DateText.from_text(metadata[key])


def _sum_of(id_: str, *texts: str | None) -> int:
    """Return a checksum of what is stored of a passage."""
    return zlib.crc32("\0".join([id_, *(text or "" for text in texts)]).encode())


def _record(row: int, passage: Passage) -> _Record:
    """Return the columns of a passage; TypeError if JSON cannot hold its metadata."""
    try:
        metadata, dates = _to_json(passage.metadata), _dates(passage.metadata)
        held = _to_json(dates) if dates else None
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"metadata: passage {passage.id!r} cannot be saved as JSON ({error}); "
            "keep strings, numbers, lists and dicts."
        ) from error
    sum_ = _sum_of(passage.id, metadata, held, passage.text)
    return row, passage.id, sum_, metadata, held, passage.text


def _passage(record: _Record, path: Path) -> Passage:
    """Make a passage of its columns, after checking them."""
    row, id_, sum_, metadata, dates, text = record
    try:
        if sum_ != _sum_of(id_, metadata, dates, text):
            raise ValueError("its checksum differs")
        values = json.loads(metadata)
        if dates is not None:
            _restore_dates(values, json.loads(dates))
        return check_passage(Passage(id_, text, values))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise corruption(
            path, f"does not hold a passage in row {row} ({error}); build the index again."
        ) from error


_Written = tuple[str, str, bytes | None]
"""The name and hash of a segment, and its content if it lies in the database."""


class _Segments:
    """The segments of an index, in files of its folder or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / "segments"
        self._held: dict[str, Segment] = {}  # all in memory, or those that are open

    def path(self, name: str) -> Path:
        """Return the file of a segment."""
        return (self.folder or Path(":memory:")) / (name + _SUFFIX)

    def write(self, segment: Segment) -> _Written:
        """Keep a segment; return its name, hash, and content if it is for the database."""
        name = secrets.token_hex(16)
        if self.folder is None:
            self._held[name] = segment
            return name, "", None
        content, digest = pack(dict(segment.arrays())), hashlib.sha256()
        if len(segment) < _SMALL:
            data = b"".join(content)
            self._held[name] = Segment.from_arrays(unpack(data, self.path(name)), self.path(name))
            return name, hashlib.sha256(data).hexdigest(), data
        self.folder.mkdir(exist_ok=True)
        with self.path(name).open("xb") as file:
            for some in content:
                file.write(some)
                digest.update(some)
            file.flush()
            os.fsync(file.fileno())
        to_disk(self.folder)
        return name, digest.hexdigest(), None

    def open(self, name: str, data: bytes | None) -> Segment:
        """Return a segment; IndexCorrupted if it is missing or damaged."""
        if name in self._held:
            return self._held[name]
        path = self.path(name)
        if not _NAME.fullmatch(name):
            raise corruption(path.parent, f"cannot hold a segment named {name!r:.60}.")
        content: bytes | NDArray[np.uint8]
        if data is not None:
            content = data
        else:
            try:
                with open_regular(path) as file:
                    # Copy-on-write, since torch does not accept read-only arrays.
                    content = np.memmap(file, np.uint8, "c")
            except NotRegularError as error:
                raise corruption(path, f"is {error.strerror}; build the index again.") from error
            except (FileNotFoundError, ValueError) as error:
                raise corruption(path, "is missing or empty; build the index again.") from error
        self._held[name] = Segment.from_arrays(unpack(content, path), path)
        return self._held[name]

    def forget(self, named: set[str]) -> None:
        """Let go of open segments that are not named any more."""
        for name in self._held.keys() - named:
            self._held.pop(name, None)

    def remove(self, names: Sequence[str]) -> None:
        """Remove segments that nothing names any more."""
        for name in names:
            self._held.pop(name, None)
            if self.folder is not None:
                with suppress(OSError):  # it may be open elsewhere, on Windows
                    self.path(name).unlink(missing_ok=True)

    def sweep(self, named: set[str]) -> None:
        """Remove the files that a killed writer left; the caller has the turn to write."""
        if self.folder is None:
            return
        with suppress(OSError):
            for file in os.listdir(self.folder):
                if file.endswith(_SUFFIX) and file.removesuffix(_SUFFIX) not in named:
                    self.remove([file.removesuffix(_SUFFIX)])

    def copy_to(
        self, other: _Segments, name: str, segment: Segment, digest: str | None
    ) -> _Written:
        """Copy a segment, by a link if both are files of one disk.

        `digest`: its hash, if it is known.
        """
        if self.folder is None or other.folder is None or len(segment) < _SMALL:
            return other.write(segment)
        new = secrets.token_hex(16)
        other.folder.mkdir(exist_ok=True)
        try:
            os.link(self.path(name), other.path(new), follow_symlinks=False)
        except FileNotFoundError:  # merged meanwhile by another writer; its contents are still held
            return other.write(segment)
        except OSError:
            shutil.copyfile(self.path(name), other.path(new))
        to_disk(other.path(new))
        to_disk(other.folder)
        return new, digest or _digest(other.path(new)), None


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Home:
    """The contents of an index: its database and its segments."""

    def __init__(self, folder: Path | None, *, read_only: bool) -> None:
        self.database = Database(folder, read_only=read_only)
        self.segments, self.filters = _Segments(folder), Filters(self.database)
        self.passages = dict[int, Passage]()  # by row, which never changes


class _Texts:
    """The passages of an index, read by row from its database."""

    def __init__(self, home: _Home, *, writing: bool) -> None:
        self.home, self._writing = home, writing

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, and return its rows."""
        database = self.home.database
        with database.write() if self._writing else database.read() as connection:
            return connection.execute(sql, parameters).fetchall()

    def read(self, rows: Sequence[int]) -> list[Passage]:
        """See `Texts`."""
        known = self.home.passages
        found = {row: passage for row in rows if (passage := known.get(row)) is not None}
        missing = [row for row in rows if row not in found]
        for start in range(0, len(missing), _AT_ONCE):
            some = ",".join(map(str, missing[start : start + _AT_ONCE]))
            for record in self.ask(f"SELECT {_COLUMNS} FROM passages WHERE row IN ({some})"):
                passage = _passage(record, self.home.database.path)
                found[record[0]] = passage
                if len(passage.text) <= _LONG:
                    known[record[0]] = passage
        if len(known) > _REMEMBERED:
            self.home.passages = {}
        if len(found) < len({*rows}):
            raise PassageGone("store: a passage was deleted since this view was made.")
        return [found[row] for row in rows]

    def records(self, rows: NDArray[np.int64]) -> Iterator[_Record]:
        """Read the columns of ascending rows, without parsing them."""
        for start in range(0, len(rows), _AT_ONCE):
            some = ",".join(map(str, rows[start : start + _AT_ONCE].tolist()))
            sql = f"SELECT {_COLUMNS} FROM passages WHERE row IN ({some}) ORDER BY row"
            yield from self.ask(sql)

    def rows_of(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """See `Texts`."""
        wanted = _to_json([*{*filter(_is_id, ids)}])
        sql = "SELECT id, row FROM passages WHERE id IN (SELECT value FROM json_each(?))"
        return self.ask(sql, [wanted])

    def select(self, view: View, filter: Filter) -> Mask:
        """See `Texts`."""
        return self.home.filters.select(view, parse(filter), self.ask)


def _undone() -> OSError:
    return OSError("store: a full disk or an interrupt has undone this transaction; try again.")


def _is_id(name: object) -> bool:
    """Return whether something can be the id of a passage."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


@dataclass
class _Transaction:
    """The changes of the thread that writes, before others see them.

    Attributes
    ----------
    version : int
        That of the state after it.
    made : list of str
        Segments to remove if it fails.
    unnamed : list of str
        Segments to remove if it does not.
    """

    thread: int
    state: State
    settings: dict[str, Any]
    version: int
    made: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    is_changed: bool = False


class LocalStore(Store):
    """Passages and their Gaussians in memory or in a folder, searched exactly.

    Means are stored as a float32 matrix for each encoder; a factored variance takes one number per
    passage and encoder, any other as much as the means. In a folder, what `add` and `delete`
    returned from is on disk, several processes may write, and each sees the others' writes at its
    next search. Reads see one consistent state while others write.

    Parameters
    ----------
    path : path, optional
        The folder, which is made if there is none; in memory by default.
    dtype : "float32" or "int8"
        With "int8", search scans an 8-bit copy of the means, and scores every passage that the
        rounding error does not exclude in float32, so that it finds the same hits. The copy takes
        a quarter of the memory of the float32 means, which stay on disk in a folder. Evidence and
        confidence use the compressed similarities. An existing folder keeps its own.
    read_only : bool
        Whether an existing folder is only read.

    Raises
    ------
    ValueError
        If dtype has another value.
    FileNotFoundError
        If it is only read, and there is no index.
    FileExistsError
        If the folder has other contents than an index.
    IndexCorrupted
        If the index is damaged, or its database is of another program.

    Examples
    --------
    >>> store = LocalStore()
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> found = store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0)
    >>> found.passages[0][0].id
    'a'
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        dtype: Dtype = "float32",
        read_only: bool = False,
    ) -> None:
        check_dtype(dtype)
        self.folder = None if path is None else Path(path).absolute()
        if self.folder is not None:
            _check_folder(self.folder, read_only=read_only)
        self._home = _Home(self.folder, read_only=read_only)
        self._state, self._settings = State(), dict[str, Any]()
        self._transaction: _Transaction | None = None
        self._refresh(force=True)
        if "dtype" not in self._settings and not read_only:
            self.change_settings({"dtype": dtype})

    @property
    def read_only(self) -> bool:
        """True if nothing can be written."""
        return self._home.database.read_only

    @property
    def changes(self) -> int:
        """The number of additions and deletions so far, by all processes."""
        return self._current()[0].changes

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the index, the same object until something is written."""
        return self._current()[1]

    def setting(self, key: str) -> Any:  # noqa: ANN401
        """Return a setting of the index; None if it has none of this name."""
        return self._current()[1].get(key)

    def change_settings(self, settings: Mapping[str, Any]) -> None:
        """Record settings of the index: values of JSON, or bytes."""
        with self._step() as (connection, _):
            _put(connection, settings)

    # Reading

    def _own_transaction(self) -> _Transaction | None:
        """Return the transaction of this thread; None if it is not writing."""
        turn = self._transaction
        return turn if turn is not None and turn.thread == threading.get_ident() else None

    def _current(self) -> tuple[State, dict[str, Any]]:
        """Return what this thread sees: its own transaction, or the last of any process."""
        own = self._own_transaction()
        if own is not None:
            return own.state, own.settings
        self._refresh()
        return self._state, self._settings

    def _refresh(self, *, force: bool = False) -> None:
        """Read the state after the last transaction of any process, if it is new."""
        database = self._home.database
        if database.in_memory and not force:
            return
        for attempt in range(_ATTEMPTS):
            with database.read() as connection:
                version = "SELECT value FROM settings WHERE key = 'version'"
                row = connection.execute(version).fetchone()
                if not force and row == (str(self._state.version),):
                    return
                connection.execute("BEGIN")
                try:
                    state, settings = self._read_state(connection, self._state)
                except IndexCorrupted:
                    # Another process may have merged a segment since its name was read.
                    connection.execute("COMMIT")
                    if attempt < _ATTEMPTS - 1 and connection.execute(version).fetchone() != row:
                        continue
                    raise
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")
                # Not an older one than a writer of this process has published meanwhile.
                if force or state.version > self._state.version:
                    self._state, self._settings = state, settings
                    self._home.segments.forget({part.name for part in state.parts})
                return

    def _read_state(
        self, connection: sqlite3.Connection, before: State
    ) -> tuple[State, dict[str, Any]]:
        """Read a state, of which `before` is an earlier one."""
        path = self._home.database.path
        with as_corrupted(path):
            settings = dict[str, Any]()
            for key, value, sum_ in connection.execute("SELECT key, value, sum FROM settings"):
                if sum_ != _setting_sum(key, value):
                    raise ValueError(f"the checksum of {key!r:.60} differs")
                settings[key] = value if isinstance(value, bytes) else json.loads(value)
            known = {part.name: part for part in before.parts}
            dead = "SELECT row FROM dead WHERE version >= ? ORDER BY row"
            gone = np.array(
                connection.execute(dead, [before.version]).fetchall(), dtype=np.int64
            ).ravel()
            parts = []
            for first, name in connection.execute(
                "SELECT first, name FROM segments ORDER BY first"
            ).fetchall():
                part = known.get(name)
                parts.append(
                    self._open(connection, first, name) if part is None else _bury(part, gone)
                )
            schema = Schema.restore(settings["schema"]) if parts else Schema()
            _check_together(parts, schema)
            version, changes, next_row = (
                int(settings.get(name, 0)) for name in ("version", "changes", "next_row")
            )
        return State(version, changes, next_row, parts, schema), settings

    def _open(self, connection: sqlite3.Connection, first: int, name: str) -> Part:
        """Open a segment that was not open yet."""
        [(data,)] = connection.execute("SELECT data FROM segments WHERE first = ?", [first])
        part = Part(first, name, self._home.segments.open(name, data))
        dead = "SELECT row FROM dead WHERE row BETWEEN ? AND ? AND version IS NOT NULL ORDER BY row"
        rows = connection.execute(dead, [first, part.last]).fetchall()
        return _bury(part, np.array(rows, dtype=np.int64).ravel())

    def __len__(self) -> int:
        return self._current()[0].count

    def snapshot(self, filter: Filter | None = None) -> View:
        """Return a read-only view that does not change while others write; it copies nothing.

        Parameters
        ----------
        filter : Filter, optional
            Limits the view to the passages that match it.

        Raises
        ------
        TypeError, ValueError
            If the filter is invalid; see `uec_rag.stores.filters`.
        """
        writing = self._own_transaction() is not None
        state, _ = self._current()
        return View(state, _Texts(self._home, writing=writing)).snapshot(filter)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""
        return self.snapshot().get(ids)

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
        return self.snapshot().vectors(ids)

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects, in the order of insertion."""
        return self.snapshot(filter).passages()

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of about `count` passages at regular steps, or of all."""
        return self.snapshot().sample(count)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages with the highest s_hat, exactly; see `View.search`."""
        return with_fresh_view(lambda: self.snapshot().search(query, k, beta=beta, filter=filter))

    # Writing

    @contextmanager
    def changing(self) -> Iterator[Self]:
        """Make several calls one transaction: all or, if the block fails, none of them.

        Others, also in other processes, wait to write until the block ends; they read meanwhile
        what was there before.

        Raises
        ------
        BlockingIOError
            If another process writes for longer than a minute.
        FileNotFoundError
            If the folder was deleted or replaced since it was opened.
        PermissionError
            If the index is only read.
        """
        with self._home.database.writing:
            if self._transaction is not None:
                yield self
                return
            with self._write_turn() as turn:
                yield self
            if turn.is_changed:
                self._merge()

    @contextmanager
    def _write_turn(self) -> Iterator[_Transaction]:
        """Take this process's turn to write, and publish what was written."""
        home = self._home
        if self.read_only:
            raise PermissionError(
                f"store: the index at {str(self.folder)!r} was opened with read_only=True; load it "
                "without."
            )
        home.database.begin()
        made = list[str]()
        try:
            with home.database.write() as connection:
                state, settings = self._read_state(connection, self._state)
            turn = _Transaction(threading.get_ident(), state, settings, state.version + 1, made)
            self._transaction = turn
            yield turn
            if not home.database.end("COMMIT" if turn.is_changed else "ROLLBACK"):
                raise _undone()
        except BaseException:
            with suppress(Exception):
                home.database.end("ROLLBACK")
            home.segments.remove(made)
            raise
        finally:
            self._transaction = None
        with home.database.reading:
            if turn.state.version > self._state.version:
                self._state, self._settings = turn.state, turn.settings
        home.segments.remove(turn.unnamed)

    @contextmanager
    def _step(self) -> Iterator[tuple[sqlite3.Connection, _Transaction]]:
        """Make one change, which is undone alone if the block fails."""
        with self.changing(), self._home.database.write() as connection:
            turn = self._transaction
            assert turn is not None
            if not connection.in_transaction:
                raise _undone()
            made = len(turn.made)
            connection.execute("SAVEPOINT step")
            try:
                if not turn.is_changed:
                    self._tidy(connection, turn)
                yield connection, turn
                connection.execute("RELEASE step")
            except BaseException:
                try:
                    connection.execute("ROLLBACK TO step")
                    connection.execute("RELEASE step")
                except sqlite3.OperationalError:  # rolled back by a full disk, or just released
                    self._home.database.end("ROLLBACK")
                self._home.segments.remove(turn.made[made:])
                del turn.made[made:]
                raise
            turn.is_changed = True
            turn.state, turn.settings = self._read_state(connection, turn.state)

    def _tidy(self, connection: sqlite3.Connection, turn: _Transaction) -> None:
        """Count the version, and remove what earlier writers left."""
        names = connection.execute("SELECT name FROM segments")
        self._home.segments.sweep({name for (name,) in names})
        _put(connection, {"version": turn.version})
        expired = [time.time() - _KEPT]
        gone = "SELECT row FROM dead WHERE at < ?"
        connection.execute(f"DELETE FROM passages WHERE row IN ({gone})", expired)
        connection.execute("DELETE FROM dead WHERE at < ? AND version IS NULL", expired)
        connection.execute("UPDATE dead SET at = NULL WHERE at < ?", expired)

    def bind(self, fingerprint: str) -> None:
        """Record the ensemble of the Gaussians.

        Raises
        ------
        FingerprintMismatch
            If the stored passages are of another ensemble.
        """
        if self.setting("fingerprint") == fingerprint:
            return
        with self.changing():
            stored = self.setting("fingerprint")
            if len(self) and stored not in (None, fingerprint):
                raise FingerprintMismatch(
                    f"store: it holds vectors of another ensemble ({str(stored)[:12]!r}, this one "
                    f"is {fingerprint[:12]!r}): other models, revisions or posterior. Use that "
                    "ensemble or build the index again."
                )
            self.change_settings({"fingerprint": fingerprint})

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those with the same ids.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id is repeated, the Gaussians have another
            dimension or variance profile than the stored ones, or a variance is above 1e19.
        TypeError, ValueError
            If a passage could not be saved, see `uec_rag.stores.base.normalise`.
        OSError
            If the disk is full; nothing is added.
        """
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        with self._step() as (connection, turn):
            state = turn.state
            if state.parts:
                state.schema.check(gaussians)
            replaced = [*self.snapshot().find([passage.id for passage in passages]).values()]
            _mark_dead(connection, state.rows[replaced].tolist(), turn.version)
            start = state.next_row
            for at in range(0, len(passages), _AT_ONCE):
                some = passages[at : at + _AT_ONCE]
                connection.executemany(
                    _INSERT, map(_record, range(start + at, start + at + len(some)), some)
                )
            dtype = turn.settings.get("dtype", "float32")
            for at in range(0, len(passages), MOST_ROWS):
                segment = Segment.from_gaussians(gaussians[at : at + MOST_ROWS], dtype)
                self._name(connection, turn, start + at, segment)
            settings: dict[str, Any] = {
                "next_row": start + len(passages),
                "changes": state.changes + 1,
            }
            if not state.parts:
                settings["schema"] = Schema.from_gaussians(gaussians).metadata()
            _put(connection, settings)

    def _name(
        self, connection: sqlite3.Connection, turn: _Transaction, first: int, segment: Segment
    ) -> None:
        """Write a segment, and name it in the database."""
        _name_segment(connection, turn, first, self._home.segments.write(segment))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed.

        Their texts are removed from the disk by the first change after a minute, for which other
        processes may still read them.
        """
        with self.changing():
            gone = [*self.snapshot().find(ids).values()]
            if not gone:
                return 0
            with self._step() as (connection, turn):
                state = turn.state
                _mark_dead(connection, state.rows[gone].tolist(), turn.version)
                if len(gone) == state.count:
                    self._drop_segments(connection, turn)
                _put(connection, {"changes": state.changes + 1})
        return len(gone)

    def _drop_segments(self, connection: sqlite3.Connection, turn: _Transaction) -> None:
        """Remove all segments, so that Gaussians of any dimension may come."""
        turn.unnamed += [part.name for part in turn.state.parts]
        connection.execute("DELETE FROM segments")
        connection.execute("DELETE FROM dead WHERE at IS NULL")
        connection.execute("UPDATE dead SET version = NULL")
        connection.execute("DELETE FROM settings WHERE key = 'schema'")

    def _merge(self) -> None:
        """Merge small segments, each time in a transaction of its own."""
        with suppress(OSError):  # a full disk is no reason to fail the call before
            while (run := _to_merge(self._state.parts)) is not None:
                names = [part.name for part in run]
                with self._write_turn(), self._step() as (connection, turn):
                    self._join(connection, turn, [p for p in turn.state.parts if p.name in names])

    def _join(
        self, connection: sqlite3.Connection, turn: _Transaction, run: Sequence[Part]
    ) -> None:
        """Replace segments by one without their dead rows."""
        if not run:  # another process was faster
            return
        first, last = run[0].first, run[-1].last
        connection.execute("DELETE FROM segments WHERE first BETWEEN ? AND ?", [first, last])
        if any(part.kept.any() for part in run):
            dtype = turn.settings.get("dtype", "float32")
            joined = Segment.join([(part.first, part.segment, part.kept) for part in run], dtype)
            self._name(connection, turn, *joined)
        of_run = "WHERE version IS NOT NULL AND row BETWEEN ? AND ?"
        connection.execute(f"DELETE FROM dead {of_run} AND at IS NULL", [first, last])
        connection.execute(f"UPDATE dead SET version = NULL {of_run}", [first, last])
        turn.unnamed += [part.name for part in run]

    # Copies and checks

    def save(self, folder: Path) -> None:
        """Copy the index to a folder, in place of an index that is there; see `copy_view`."""
        copy_view(self.snapshot(), LocalStore(folder), self._current()[1])

    def move_to(self, other: LocalStore) -> None:
        """Go on as another store, which has the same passages; views stay as they are."""
        with self._home.database.writing:
            self.folder, self._home = other.folder, other._home
            self._state, self._settings = other._state, other._settings

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy the passages and their Gaussians, into memory."""
        view, settings = self.snapshot(), self._current()[1]
        texts = cast(_Texts, view.texts)
        parts = [
            (part.first, b"".join(pack(dict(part.segment.arrays()))), dead)
            for part, dead in _left(view)
        ]
        return _restore, (settings, view.state.next_row, [*texts.records(view.rows)], parts)

    def check(self) -> None:
        """Verify the checksums of all segments and passages.

        Raises
        ------
        IndexCorrupted
            If something is damaged; the message names the file and what to do.
        """
        self._home.database.check()
        view, path = self.snapshot(), self._home.database.path
        texts = cast(_Texts, view.texts)
        segments = texts.ask("SELECT name, sha256, data FROM segments")
        for name, digest, data in segments if self.folder else ():
            file = self._home.segments.path(name)
            found = _digest(file) if data is None else hashlib.sha256(data).hexdigest()
            if found != digest:
                raise corruption(
                    file if data is None else path,
                    f"has other contents than were written (its sha256 is {found}, expected "
                    f"{digest}); build the index again.",
                )
        for part in view.state.parts:
            _ = part.segment.checked_words
        read = sum(bool(_passage(record, path)) for record in texts.records(view.rows))
        living = "SELECT count(*) FROM passages WHERE row NOT IN (SELECT row FROM dead)"
        [(count,)] = texts.ask(living)
        if read < len(view) or count > len(view):
            raise corruption(
                path,
                f"holds {count} passages, and vectors of {len(view)}; build the index again.",
            )

    def compact(self) -> None:
        """Write the log into the database's file, so that this can be copied alone."""
        with suppress(OSError), self._home.database.write() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the database; the store cannot be used after."""
        self._home.database.close()


def copy_view(view: View, store: LocalStore, settings: Mapping[str, Any]) -> None:
    """Copy the passages of a local store's view to another, in place of its own, all or nothing.

    Files of segments are linked where the disk can.

    Parameters
    ----------
    view : View
    store : LocalStore
    settings : mapping
        The settings of the store that the view is of, and others to record in the copy.
    """
    texts, state = view.texts, view.state
    assert isinstance(texts, _Texts)
    rows = view.rows
    source, target = texts.home.segments, store._home.segments
    known = dict(texts.ask("SELECT name, sha256 FROM segments"))
    parts = (
        (part.first, source.copy_to(target, part.name, part.segment, known.get(part.name)), dead)
        for part, dead in _left(view)
    )
    settings = {**settings, **_shared_by(state)}
    _fill(store, settings, state.next_row, texts.records(rows), parts, len(rows))


_Part = tuple[int, _Written, NDArray[np.int64]]


def _fill(
    store: LocalStore,
    settings: Mapping[str, Any],
    rows: int,
    records: Iterable[_Record],
    parts: Iterable[_Part],
    count: int,
) -> None:
    """Replace what a store has by rows, records and segments of another.

    `rows`: the number of rows that the other has used. `count`: of records.
    """
    with store._step() as (connection, turn):
        old, version = turn.state, turn.version
        living = old.rows if old.alive is None else old.rows[old.alive]
        _mark_dead(connection, living.tolist(), version)
        store._drop_segments(connection, turn)
        shift, read = old.next_row, 0  # rows are never used again, since others may read them

        def shifted() -> Iterator[_Record]:
            nonlocal read
            for row, *others in records:
                read += 1
                yield cast(_Record, (row + shift, *others))

        connection.executemany(_INSERT, shifted())
        if read < count:
            raise PassageGone("store: a passage was deleted while the index was copied; try again.")
        for first, written, dead in parts:
            _name_segment(connection, turn, first + shift, written)
            buried = [(row + shift, None, version) for row in dead.tolist()]
            connection.executemany("INSERT INTO dead (row, at, version) VALUES (?, ?, ?)", buried)
        own = {"version", "changes", "next_row"}
        connection.execute(
            "DELETE FROM settings WHERE key NOT IN ('version', 'changes', 'next_row')"
        )
        _put(connection, {key: value for key, value in settings.items() if key not in own})
        _put(connection, {"next_row": shift + rows, "changes": old.changes + 1})


def _left(view: View) -> Iterator[tuple[Part, NDArray[np.int64]]]:
    """Yield the parts of a view, and the rows of each that are not in it."""
    left = np.zeros(int(view.state.edges[-1]), dtype=bool)
    left[slice(None) if view.selected is None else view.selected] = True
    masks = np.split(left, view.state.edges[1:-1]) if view.state.parts else []
    for part, mask in zip(view.state.parts, masks, strict=True):
        yield part, part.rows_of(~mask)


def _restore(
    settings: Mapping[str, Any],
    rows: int,
    records: Sequence[_Record],
    parts: Sequence[tuple[int, bytes, NDArray[np.int64]]],
) -> LocalStore:
    """Make a store in memory of what `LocalStore.__reduce__` returned."""
    store, path = LocalStore(), Path(":memory:")
    written = (
        (first, store._home.segments.write(Segment.from_arrays(unpack(content, path), path)), dead)
        for first, content, dead in parts
    )
    _fill(store, settings, rows, records, written, len(records))
    return store


def _check_folder(folder: Path, *, read_only: bool) -> None:
    """Raise FileNotFoundError or FileExistsError unless an index is, or can be, in a folder."""
    if is_database(folder):
        return
    if read_only:
        raise FileNotFoundError(
            f"path: no saved index at {str(folder)!r}; expected {DATABASE} there."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"path: {str(folder)!r} exists and is not a saved index; choose another path or remove "
            "it."
        )
    folder.mkdir(parents=True, exist_ok=True)


def _put(connection: sqlite3.Connection, settings: Mapping[str, Any]) -> None:
    texts = [
        (key, value if isinstance(value, bytes) else _to_json(value))
        for key, value in settings.items()
    ]
    connection.executemany(
        "INSERT OR REPLACE INTO settings (key, value, sum) VALUES (?, ?, ?)",
        [(key, value, _setting_sum(key, value)) for key, value in texts],
    )


def _setting_sum(key: str, value: str | bytes) -> int:
    """Return the checksum of a setting."""
    return zlib.crc32(
        value if isinstance(value, bytes) else value.encode(), zlib.crc32(key.encode())
    )


def _name_segment(
    connection: sqlite3.Connection, turn: _Transaction, first: int, written: _Written
) -> None:
    turn.made.append(written[0])
    insert = "INSERT INTO segments (first, name, sha256, data) VALUES (?, ?, ?, ?)"
    connection.execute(insert, [first, *written])


def _mark_dead(connection: sqlite3.Connection, rows: Sequence[int], version: int) -> None:
    now = time.time()
    connection.executemany(
        "INSERT INTO dead (row, at, version) VALUES (?, ?, ?)",
        [(row, now, version) for row in rows],
    )


def _bury(part: Part, dead: NDArray[np.int64]) -> Part:
    """Return a part without some rows, of which others may be none of its own."""
    own = dead[(dead >= part.first) & (dead <= part.last)] - part.first
    if not len(own):
        return part
    alive = part.kept.copy()
    offsets = part.segment.offsets
    at = np.minimum(np.searchsorted(offsets, own.astype(np.uint32)), len(offsets) - 1)
    alive[at[offsets[at] == own]] = False
    return replace(part, alive=alive)


def _shared_by(state: State) -> dict[str, Any]:
    """Return the settings of what the passages of a state share; none if there are none."""
    if not state.parts:
        return {}
    dtype = "float32" if state.parts[0].segment.scan is None else "int8"
    return {"dtype": dtype, "schema": state.schema.metadata()}


def _check_together(parts: Sequence[Part], schema: Schema) -> None:
    """Raise ValueError unless segments fit what they share."""
    for part in parts:
        segment = part.segment
        if (segment.scales.shape[1], segment.widths) != (schema.factors, schema.widths):
            raise ValueError("its segments have vectors of different widths")
        if len(segment.words) != len(schema.words):
            raise ValueError("its segments have different encoders")
        if (segment.scan is None) != (parts[0].segment.scan is None):
            raise ValueError("its segments have different number formats")


def _to_merge(parts: Sequence[Part]) -> Sequence[Part] | None:
    """Return neighbouring segments to join; None if there are none."""
    for part in parts:
        if part.count < len(part.segment) * (1 - _DEAD):
            return [part]
    run = list(parts[-_RUN:])
    if len(run) < _RUN or max(_level(part.count) for part in run) > _level(run[-1].count):
        return None  # the last is smaller than others, and waits for more of its size
    while sum(part.count for part in run) > MOST_ROWS:
        run = run[1:]
    is_full = 2 * sum(part.count for part in run) > MOST_ROWS
    return run if len(run) == _RUN or (is_full and len(run) > 1) else None


def _level(size: int) -> int:
    """Return the level of a segment; sizes of one level differ by less than a factor."""
    return int(math.log(max(1, size), _FACTOR))
