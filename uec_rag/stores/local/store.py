"""The local index: passages in SQLite, vectors and word counts in segments."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec
import numpy as np
import safetensors.numpy as safetensors
from numpy.typing import NDArray

from uec_rag.base.counts import MOST_ROWS
from uec_rag.base.errors import IndexCorrupted, as_corrupted, corruption
from uec_rag.base.files import DATABASE, as_path, open_regular, refuse_outdated, to_disk
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.unlocked import Living, cached_property
from uec_rag.stores import filters
from uec_rag.stores.base import (
    Checked,
    Filter,
    Passage,
    Schema,
    Store,
    StoreHits,
    check_addition,
    check_same,
    dates_of,
    restore_dates,
)
from uec_rag.stores.local.database import Database, EmptyIndex, refuse_older
from uec_rag.stores.local.view import Part, Segment, State, Texts, View

SEGMENTS = "segments"
"""The name of the folder of the segments in that of an index."""

_KEPT = 60.0  # seconds for which other processes may read the texts of deleted passages
_RUN, _FACTOR = 8, 4  # segments of a size that are merged, and the factor between two sizes
_ATTEMPTS = 10  # to read a state while others merge
_DEAD = 0.5  # share of deleted passages above which a segment is written again
_AT_ONCE = 500  # passages in one statement
_MOST_COLUMNS = 64  # metadata keys of filters whose values are kept; requests may name any number
_READ = 10_000  # rows whose metadata are read at a time
_REMEMBERED, _LONG = 4096, 4096  # passages that are remembered, and characters of one too long
_NAME = re.compile(r"[0-9a-f]{32}")
_SUFFIX = ".safetensors"

Mask: TypeAlias = NDArray[np.bool_]

_to_json = json.JSONEncoder(ensure_ascii=False).encode
_COLUMNS = "row, id, sum, metadata, dates, text"
_METADATA = msgspec.json.Decoder(dict[str, Any])
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INSERT = f"INSERT INTO passages ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_Record = tuple[int, str, int, str, str | None, str]


def _sum_of(*texts: str | bytes | None) -> int:
    """Return a checksum of what is stored of a passage or a setting."""
    stored = list[bytes]()
    for text in texts:  # a comprehension would be one more call for each hit
        stored.append(text if isinstance(text, bytes) else (text or "").encode())
    return zlib.crc32(b"\0".join(stored))


def _record(row: int, passage: Passage) -> _Record:
    """Return the columns of a passage."""
    dates = dates_of(passage.metadata)
    texts = _to_json(passage.metadata), _to_json(dates) if dates else None, passage.text
    return row, passage.id, _sum_of(passage.id, *texts), *texts


def _passage(record: _Record, path: Path) -> Passage:
    """Make a passage of its columns, after checking their sum."""
    row, id_, sum_, metadata, dates, text = record
    try:
        if sum_ != _sum_of(id_, metadata, dates, text):
            raise ValueError("its checksum differs")
        if not (isinstance(id_, str) and isinstance(text, str)):
            raise TypeError("its id or its text is no text")
        passage = Passage(id_, text, Checked(_METADATA.decode(metadata)))
        if dates:
            restore_dates(passage.metadata, json.loads(dates))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise corruption(
            path, f"does not hold a passage in row {row} ({error}); build the index again."
        ) from error
    return passage


class _Segments:
    """The segments of an index, in files of its folder or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder / SEGMENTS
        self._held: dict[str, Segment] = {}  # all in memory, or those that are open

    def path(self, name: str) -> Path:
        """Return the file of a segment."""
        return (self.folder or Path(":memory:")) / (name + _SUFFIX)

    def write(self, segment: Segment) -> tuple[str, str]:
        """Keep a segment; return its name and hash."""
        name = secrets.token_hex(16)
        if self.folder is None:
            self._held[name] = segment
            return name, ""
        content = safetensors.save(segment.arrays())
        self.folder.mkdir(exist_ok=True)
        self.path(name).write_bytes(content)
        to_disk(self.path(name))
        to_disk(self.folder)
        return name, hashlib.sha256(content).hexdigest()

    def open(self, name: str) -> Segment:
        """Return a segment; IndexCorrupted if it is missing or damaged."""
        if name not in self._held:
            path = self.path(name)
            if not _NAME.fullmatch(name):
                raise corruption(path.parent, f"cannot hold a segment named {name!r:.60}.")
            with as_corrupted(path):
                with open_regular(path) as file:
                    # Copy-on-write, since torch does not accept read-only arrays.
                    content = np.memmap(file, np.uint8, "c")
                # As a plain array, whose slices are four times as fast.
                self._held[name] = Segment.read(np.asarray(content), path)
        return self._held[name]

    def forget(self, named: Iterable[str]) -> None:
        """Let go of open segments that are not named any more."""
        for name in self._held.keys() - named:
            self._held.pop(name, None)

    def remove(self, names: Iterable[str]) -> None:
        """Remove segments that nothing names any more."""
        for name in names:
            self._held.pop(name, None)
            if self.folder is not None:
                with suppress(OSError):  # it may be open elsewhere, on Windows
                    self.path(name).unlink(missing_ok=True)

    def sweep(self, named: set[str]) -> None:
        """Remove the files that a killed writer left; the caller has the turn to write."""
        if self.folder is not None and self.folder.is_dir():
            self.remove({file.stem for file in self.folder.glob(f"*{_SUFFIX}")} - named)


def _runs_python(condition: filters.Condition) -> bool:
    return any(map(callable, filters.leaves(condition)))


@dataclass(frozen=True, eq=False)
class _Column:
    """The values that the passages of an index have under a key of their metadata.

    They are read at the first filter on the key, and each different one is kept once. Rows never
    change, so later filters read the new rows only. A comparison is made once for each value.

    Attributes
    ----------
    values : list of dict
        The different values, each in metadata of its own; the first is that of no value.
    numbers : dict
        The position of each among them, by its JSON and whether it is a date.
    codes : int array, shape (rows,)
        The position of each row's value.
    """

    values: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    numbers: dict[tuple[bytes, bool], int] = field(default_factory=dict)
    codes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @cached_property
    def _index(self) -> dict[Hashable, list[int]]:
        """The positions of the values with a name, see `names_of`."""
        return _positions(map(filters.names_of, self._bare))

    @cached_property
    def _items(self) -> dict[Hashable, list[int]]:
        """The positions of the lists with an item."""
        lists = (value if isinstance(value, list) else () for value in self._bare)
        return _positions({*map(filters.name_of, items)} for items in lists)

    @cached_property
    def _texts(self) -> list[tuple[int, str]]:
        """The values that are texts, with their positions."""
        return [(at, one) for at, one in enumerate(self._bare) if isinstance(one, str)]

    @cached_property
    def _floats(self) -> NDArray[np.float64]:
        """The values that are numbers, and NaN for others."""
        return np.array(
            [np.nan if type(one) not in (int, float) else one for one in self._bare], np.float64
        )

    @property
    def _bare(self) -> Iterator[Any]:
        return (value for one in self.values for value in (one.values() or (_NONE,)))

    def fits(self, condition: filters.Compare) -> Mask:
        """Return which of the values satisfy a condition on the key."""
        found = np.zeros(len(self.values), dtype=bool)
        match condition:
            case filters.Compare((_,), "$eq" | "$in"):
                found[[at for name in condition.names for at in self._index.get(name, ())]] = True
            case filters.Compare((_,), "$contains", asked):
                found[self._items.get(filters.name_of(asked), [])] = True
                if isinstance(asked, str):
                    found[[at for at, text in self._texts if asked in text]] = True
            case filters.Compare((_,), operator, int() | float() as asked) if (
                operator in filters.ORDERS and not isinstance(asked, bool)
            ):
                found = filters.ORDERS[operator](self._floats, asked)
            case _:
                found[:] = [filters.holds(condition, value) for value in self.values]
        return found

    def extend(self, key: str, rows: int, database: Database) -> _Column:
        """Return the column of the first `rows` rows of an index."""
        values, numbers, codes = [*self.values], dict(self.numbers), np.zeros(rows, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        sql = "SELECT row, metadata, dates FROM passages WHERE row >= ? AND row < ?"
        for start in range(len(self.codes), rows, _READ):
            for row, metadata, dates in database.ask(sql, [start, min(rows, start + _READ)]):
                if (value := _VALUES.decode(metadata).get(key)) is None:
                    continue
                name = bytes(value), bool(dates) and key in json.loads(dates)
                if name not in numbers:
                    numbers[name] = len(values)
                    values.append({key: msgspec.json.decode(value)})
                    restore_dates(values[-1], [key] * name[1])
                codes[row] = numbers[name]
        return _Column(values, numbers, codes)


_NONE = object()


def _positions(names: Iterable[Iterable[Hashable]]) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for position, some in enumerate(names):
        for name in some:
            found.setdefault(name, []).append(position)
    return found


class _Home(Texts):
    """The contents of an index: its database, its segments, and passages that were read."""

    def __init__(self, folder: Path | None, *, read_only: bool, create: bool = True) -> None:
        self.database = Database(folder, read_only=read_only, create=create)
        self.segments = _Segments(folder)
        self._known = dict[int, Passage]()  # by row, which never changes
        self._columns = dict[str, _Column]()  # of the metadata that filters asked for
        self.states = Living[State]()  # that views of this process may have
        self._gone = dict[int, _Record]()  # what these read, and the files have not any more
        self._gone_in = 0  # the version that removed the last of them
        _homes.add(self)

    def read(self, rows: Sequence[int]) -> list[Passage]:
        """See `Texts`."""
        known, path = self._known, self.database.path
        found = {row: known[row] for row in rows if row in known}
        if gone := self._gone.copy():
            found |= {row: _passage(gone[row], path) for row in rows if row in gone}
            if all(state.version >= self._gone_in for state in self.states):
                for row in gone:  # the views that needed them are gone, too
                    self._gone.pop(row, None)
        is_kept = not self.database.is_writing
        for block in self.records([row for row in rows if row not in found]):
            for record in block:
                found[record[0]] = passage = _passage(record, path)
                if is_kept and len(passage.text) <= _LONG:
                    known[record[0]] = passage
        if len(known) > _REMEMBERED:
            self._known = {}
        if len(found) < len({*rows}):
            raise IndexCorrupted(
                "store: a passage is missing whose vector is there. If it was deleted since this "
                "view was made, make a new view; else build the index again."
            )
        return [found[row] for row in rows]

    def keep(self, gone: Mapping[int, _Record], version: int) -> None:
        """Keep passages in memory that a version removes from files, while views may read them."""
        self._gone_in = version  # first, for threads that copy `_gone` meanwhile
        self._gone.update(gone)

    def records(self, rows: Sequence[int]) -> Iterator[list[_Record]]:
        """Read the columns of rows that there are, in ascending order, without parsing them.

        Yields those of up to `_AT_ONCE` rows at a time.
        """
        for start in range(0, len(rows), _AT_ONCE):
            some = ",".join(map(str, rows[start : start + _AT_ONCE]))
            sql = f"SELECT {_COLUMNS} FROM passages WHERE row IN ({some}) ORDER BY row"
            yield self.database.ask(sql)

    def rows_of(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """See `Texts`."""
        # Escaped, since SQLite takes no lone surrogate.
        sql = "SELECT id, row FROM passages WHERE id IN (SELECT value FROM json_each(?))"
        asked = [id_ for id_ in {*ids} if isinstance(id_, str)]
        return self.database.ask(sql, [json.dumps(asked)])

    def select(self, view: View, filter: Filter) -> Mask:
        """See `Texts`."""

        def mask(condition: filters.Condition, among: Mask) -> Mask:
            """Return which of some positions satisfy a condition."""
            found = np.zeros_like(among)
            match condition:
                case filters.Compare(keys):
                    column = self._column(keys[0], view.state.next_row)
                    found = column.fits(condition)[column.codes[view.state.rows]]
                case filters.HasId(ids):
                    found[[*view.find(ids).values()]] = True
                case filters.Join("and", conditions):
                    found = among
                    for one in sorted(conditions, key=_runs_python):  # last, over what is left
                        found = mask(one, found)
                case filters.Join(kind, conditions):
                    for one in sorted(conditions, key=_runs_python):
                        found |= mask(one, among & ~found)
                    found = ~found if kind == "not" else found
                case _:
                    positions = np.flatnonzero(among)
                    passages = View(view.state, view.texts, positions).passages()
                    found[positions] = [bool(condition(passage)) for passage in passages]
            return among & found

        return mask(filters.parse(filter), view.mask)

    def _column(self, key: str, rows: int) -> _Column:
        """Return the column of a key, which is read as far as it is not known."""
        column = self._columns.get(key, _Column())
        if len(column.codes) < rows:  # several threads may read them: they read the same
            with as_corrupted(self.database.path):
                column = column.extend(key, rows, self.database)
            if not self.database.is_writing:  # else it may be undone
                for oldest in [*self._columns][_MOST_COLUMNS - 1 :]:
                    self._columns.pop(oldest, None)
                self._columns[key] = column
        return column


_homes = Living[_Home]()  # all of this process


def _undone() -> OSError:
    return OSError("store: a full disk or an interrupt has undone this transaction; try again.")


@dataclass
class _Transaction:
    """The changes of the thread that writes, before others see them.

    Attributes
    ----------
    version : int
        That of the state after it.
    after : list of callable
        What to do once it is on disk: remove the files that it names no more.
    """

    state: State
    settings: dict[str, Any]
    version: int
    after: list[Callable[[], object]] = field(default_factory=list)


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
    read_only : bool
        Whether an existing folder is only read.

    Raises
    ------
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
        self, path: str | os.PathLike[str] | None = None, *, read_only: bool = False
    ) -> None:
        self.folder = None if path is None else as_path(path)
        if self.folder is not None:
            _check_folder(self.folder, read_only=read_only)
        self._open_home(read_only=read_only)

    def _open_home(self, *, read_only: bool, create: bool = True) -> None:
        self._home = _Home(self.folder, read_only=read_only, create=create)
        self._state, self._settings = State(), dict[str, Any]()
        self._transaction: _Transaction | None = None
        self._must_write_log = False  # into the file: it has what was deleted, or all
        self._refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the folder, or what is in memory."""
        if self.folder is not None:
            return _reopen, (self.folder, self.read_only)
        return _in_memory, (self.snapshot(), self.settings)

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

    def change_settings(self, settings: Mapping[str, Any]) -> None:
        """Record settings of the index: values of JSON, or bytes."""
        with self._step() as (connection, _):
            _put(connection, settings)

    # Reading

    def _current(self) -> tuple[State, dict[str, Any]]:
        """Return what this thread sees: its own transaction, or the last of any process."""
        if (turn := self._transaction) is not None and self._home.database.is_writing:
            return turn.state, turn.settings
        self._refresh()
        return self._state, self._settings

    def _refresh(self) -> None:
        """Read the state after the last transaction of any process, if it is new."""
        if self._home.database.in_memory:
            return
        if self._home.database.is_replaced:
            self._go_on()
        version = "SELECT value FROM settings WHERE key = 'version'"
        for attempt in range(_ATTEMPTS):
            with self._home.database.read() as connection:
                row = connection.execute(version).fetchone()
                if row == (str(self._state.version),):
                    return
                connection.execute("BEGIN")
                try:
                    self._publish(*self._read_state(connection, self._state))
                    return
                except IndexCorrupted:
                    refuse_older(connection, self._home.database.path)
                    # Another process may have merged a segment since its name was read.
                    connection.execute("COMMIT")
                    if attempt == _ATTEMPTS - 1 or connection.execute(version).fetchone() == row:
                        raise
                finally:
                    if connection.in_transaction:
                        connection.execute("COMMIT")

    def _go_on(self) -> None:
        """Go on as the index that took the place of this one's folder, once it was written."""
        successor = copy(self)
        with suppress(EmptyIndex):
            successor._open_home(read_only=self.read_only, create=False)
            if successor._settings:
                self.move_to(successor)

    def _publish(self, state: State, settings: dict[str, Any]) -> None:
        """Show a state to all threads, unless a newer one is known; `reading` is held."""
        if state.version > self._state.version:
            self._state, self._settings = state, settings
            self._home.segments.forget(part.name for part in state.parts)

    def _read_state(
        self, connection: sqlite3.Connection, before: State
    ) -> tuple[State, dict[str, Any]]:
        """Read a state, of which `before` is an earlier one."""
        with as_corrupted(self._home.database.path):
            settings = dict[str, Any]()
            for key, value, sum_ in connection.execute("SELECT key, value, sum FROM settings"):
                if sum_ != _sum_of(key, value):
                    raise ValueError(f"the checksum of {key!r:.60} differs")
                settings[key] = value if isinstance(value, bytes) else json.loads(value)
            known = {part.name: part for part in before.parts}
            gone = _rows(connection, "SELECT row FROM dead WHERE version >= ?", [before.version])
            parts = [
                _bury(known[name], gone) if name in known else self._open(connection, first, name)
                for first, name in [*connection.execute("SELECT first, name FROM segments")]
            ]
            schema = before.schema  # which stays while a segment does
            if known.keys().isdisjoint(part.name for part in parts):
                schema = Schema.restore(settings["schema"]) if parts else Schema()
            _check_alike(parts, schema)
            version, changes, next_row = (
                int(settings.get(name, 0)) for name in ("version", "changes", "next_row")
            )
            last = "SELECT max(at) FROM dead WHERE at IS NOT NULL"
            [(deleted_at,)] = connection.execute(last)
            if deleted_at is None and any(part.alive is not None for part in parts):
                deleted_at = 0.0  # a while ago, but the vector is there
        same = before.known if changes == before.changes else {}
        state = State(version, changes, next_row, parts, schema, same, deleted_at)
        self._home.states.add(state)
        return state, settings

    def _open(self, connection: sqlite3.Connection, first: int, name: str) -> Part:
        """Open a segment that was not open yet."""
        part = Part(first, name, self._home.segments.open(name))
        dead = "SELECT row FROM dead WHERE row BETWEEN ? AND ? AND version IS NOT NULL"
        return _bury(part, _rows(connection, dead, [first, part.last]))

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
        return View(self._current()[0], self._home).snapshot(filter)

    def of_tenant(self, filter: Filter) -> View:
        """See `View.of_tenant`."""
        return self.snapshot().of_tenant(filter)

    def corpus(self) -> str:
        """See `View.corpus`."""
        return self.snapshot().corpus()

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
        """See `Searched`."""
        self.remove_deleted()
        return self.snapshot(filter).search(query, k, beta=beta)

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
        OSError
            If a call in the block was interrupted, or met a full disk.
        """
        self._current()  # which goes on as the index that is in the folder now
        with self._home.database.writing:
            if self._transaction is not None:
                yield self
                return
            with self._write_turn():
                yield self
            self._merge()

    @contextmanager
    def _write_turn(self) -> Iterator[_Transaction]:
        """Take this process's turn to write, and publish what was written."""
        database = self._home.database
        if self.read_only:
            raise PermissionError(
                f"store: the index at {str(self.folder)!r} was opened with read_only=True; load it "
                "without."
            )
        database.begin()
        try:
            with database.write() as connection:
                state, settings = self._read_state(connection, self._state)
                turn = _Transaction(state, settings, state.version + 1)
                self._tidy(connection, turn)
            self._transaction = turn
            yield turn
            if not database.end("COMMIT"):
                raise _undone()
        except BaseException:
            with suppress(Exception):  # files that it has made are removed by the next
                database.end("ROLLBACK")
            raise
        finally:
            self._transaction = None
        with database.reading:
            self._publish(turn.state, turn.settings)
        for work in turn.after:
            work()

    def after_commit(self, work: Callable[[], object]) -> None:
        """Do something once the transaction of this thread is on disk; never if it is undone.

        So are files removed that it names no more: until then the state on disk names them.
        """
        assert self._transaction is not None
        self._transaction.after.append(work)

    @contextmanager
    def _step(self) -> Iterator[tuple[sqlite3.Connection, _Transaction]]:
        """Make one change; if the block fails, the whole transaction is undone."""
        with self.changing(), self._home.database.write() as connection:
            turn = self._transaction
            assert turn is not None
            if not connection.in_transaction:
                raise _undone()
            try:
                yield connection, turn
                turn.state, turn.settings = self._read_state(connection, turn.state)
            except BaseException:
                self._home.database.end("ROLLBACK")
                raise

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
        if self.settings.get("fingerprint") == fingerprint:
            return
        with self.changing():
            if len(self):
                check_same(self.settings.get("fingerprint"), fingerprint)
            self.change_settings({"fingerprint": fingerprint})

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those with the same ids.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id is repeated, the Gaussians have another
            dimension or variance profile than the stored ones.
        TypeError, ValueError
            If a passage could not be saved, see `uec_rag.stores.base.normalise`.
        OSError
            If the disk is full; nothing is added.
        """
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        with self.changing():
            view = self.snapshot()
            state = view.state
            settings: dict[str, Any] = {"changes": state.changes + 1}
            settings["next_row"] = state.next_row + len(passages)
            if state.parts:
                state.schema.check(gaussians)
            else:
                settings["schema"] = Schema.from_gaussians(gaussians).metadata()
            replaced = [*view.find([passage.id for passage in passages]).values()]
            with self._step() as (connection, turn):
                _mark_dead(connection, state.rows[replaced].tolist(), turn.version)
                connection.executemany(_INSERT, map(_record, count(state.next_row), passages))
                segments = (
                    (state.next_row + at, Segment.from_gaussians(gaussians[at : at + MOST_ROWS]))
                    for at in range(0, len(passages), MOST_ROWS)
                )
                self._replace(connection, turn, (), segments)
                _put(connection, settings)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed.

        What they leave in files is removed by the next `search`, `check` or `close`, or by
        `compact`.
        """
        with self.changing():
            view = self.snapshot()
            gone = [*view.find(ids).values()]
            if not gone:
                return 0
            with self._step() as (connection, turn):
                _mark_dead(connection, view.state.rows[gone].tolist(), turn.version)
                if len(gone) == len(view):  # so that Gaussians of any dimension may come
                    self._replace(connection, turn, view.state.parts)
                _put(connection, {"changes": view.changes + 1})
        return len(gone)

    def _merge(self) -> None:
        """Merge small segments, each time in a transaction of its own."""
        with suppress(OSError):  # a full disk is no reason to fail the call before
            while _to_merge(self._state.parts):
                with self._write_turn(), self._step() as (connection, turn):
                    run = _to_merge(turn.state.parts)  # none, if another process was faster
                    kept = [(part.first, part.segment, part.kept) for part in run if part.count]
                    self._replace(connection, turn, run, [Segment.join(kept)] if kept else [])

    def _replace(
        self,
        connection: sqlite3.Connection,
        turn: _Transaction,
        parts: Sequence[Part],
        segments: Iterable[tuple[int, Segment]] = (),
    ) -> None:
        """Replace neighbouring parts by segments at some rows, without the dead ones."""
        if parts:
            span = [parts[0].first, parts[-1].last]
            connection.execute("DELETE FROM segments WHERE first BETWEEN ? AND ?", span)
            of_parts = "WHERE version IS NOT NULL AND row BETWEEN ? AND ?"
            connection.execute(f"DELETE FROM dead {of_parts} AND at IS NULL", span)
            connection.execute(f"UPDATE dead SET version = NULL {of_parts}", span)
            self.after_commit(partial(self._home.segments.remove, [part.name for part in parts]))
        for first, segment in segments:
            insert = "INSERT INTO segments (first, name, sha256) VALUES (?, ?, ?)"
            connection.execute(insert, [first, *self._home.segments.write(segment)])

    # Copies and checks

    def move_to(self, other: LocalStore) -> None:
        """Go on as another store; views stay as they are."""
        with self._home.database.writing:
            self.folder, self._home = other.folder, other._home
            self._state, self._settings = other._state, other._settings

    def check(self) -> None:
        """Verify the checksums of all segments and passages.

        Raises
        ------
        IndexCorrupted
            If something is damaged; the message names the file and what to do.
        """
        self.remove_deleted()
        self._home.database.check()
        view, home, path = self.snapshot(), self._home, self._home.database.path
        named = "SELECT name, sha256 FROM segments"
        for name, digest in home.database.ask(named) if self.folder else ():
            file = home.segments.path(name)
            try:
                with open_regular(file) as content:
                    found = hashlib.file_digest(content, "sha256").hexdigest()
            except FileNotFoundError:
                if (name, digest) in home.database.ask(named):
                    raise
                continue  # another process has merged it since
            if found != digest:
                raise corruption(
                    file,
                    f"has other contents than were written (its sha256 is {found}, expected "
                    f"{digest}); build the index again.",
                )
        for part in view.state.parts:
            _ = part.segment.checked_words
        every = chain.from_iterable(home.records(view.rows.tolist()))
        read = sum(bool(_passage(record, path)) for record in every)
        living = "SELECT count(*) FROM passages WHERE row NOT IN (SELECT row FROM dead)"
        [(there,)] = home.database.ask(living)
        is_newest = self.snapshot().state.version == view.state.version  # else there may be more
        if read < len(view) or (is_newest and there > len(view)):
            raise corruption(
                path, f"holds {there} passages, and vectors of {len(view)}; build the index again."
            )

    def compact(self) -> None:
        """Remove what was deleted or replaced from all files: texts, metadata and vectors.

        Views of other processes then lack it; those of this one keep it in memory.

        Raises
        ------
        BlockingIOError, PermissionError, OSError
            As in `changing`.
        """
        self._current()
        database = self._home.database
        with database.writing:
            if self._state.deleted_at is not None or self.read_only:  # which raises
                self._must_write_log = True
                with self._write_turn(), self._step() as (connection, turn):
                    self._remove_dead(connection, turn)
            self._must_write_log = not database.truncate_log()

    def remove_deleted(self) -> None:
        """Do what `compact` does, if there is something to remove and nobody is in the way.

        While other processes have the index open, they may read what was deleted for a minute.
        Another attempt is made at the next search if one is writing, or the disk is full.
        """
        database, (state, _) = self._home.database, self._current()
        is_needed = state.deleted_at is not None or self._must_write_log
        if not is_needed or database.in_memory or self.read_only or database.is_writing:
            return
        if time.time() < (state.deleted_at or 0) + _KEPT and not database.is_alone:
            return
        if database.writing.acquire(blocking=False):  # another thread need not be waited for
            try:
                with suppress(OSError), database.without_waiting():
                    self.compact()
            finally:
                database.writing.release()

    def _remove_dead(self, connection: sqlite3.Connection, turn: _Transaction) -> None:
        """Remove the dead rows, and write the segments again that have their vectors."""
        dead = "WHERE row IN (SELECT row FROM dead)"
        records = connection.execute(f"SELECT {_COLUMNS} FROM passages {dead}")
        gone = {record[0]: record for record in records}
        for home in _homes:
            if home.database.is_same(self._home.database):
                home.keep(gone, turn.version)
        for part in turn.state.parts:
            if part.alive is not None:
                kept = [(part.first, part.segment, part.alive)] * bool(part.count)
                self._replace(connection, turn, [part], [Segment.join(kept)] if kept else [])
        connection.execute(f"DELETE FROM passages {dead}")
        connection.execute("DELETE FROM dead")

    def close(self) -> None:
        """Close the database; the store cannot be used after."""
        with suppress(OSError, IndexCorrupted):  # a damaged one can be closed, too
            self.remove_deleted()
        self._home.database.close()


def copy_view(view: View, store: LocalStore, settings: Mapping[str, Any]) -> None:
    """Copy the passages of a local store's view to another, in place of its own, all or nothing.

    Parameters
    ----------
    view : View
    store : LocalStore
    settings : mapping
        The settings of the store that the view is of, and others to record in the copy.
    """
    texts, rows, state, settings = view.texts, view.rows.tolist(), view.state, dict(settings)
    if state.parts:
        settings["schema"] = state.schema.metadata()
    with store._step() as (connection, turn):
        old = turn.state
        living = old.rows if old.alive is None else old.rows[old.alive]
        _mark_dead(connection, living.tolist(), turn.version)
        shift = old.next_row  # rows are never used again, since others may read them
        stored = (
            chain.from_iterable(texts.records(rows))
            if isinstance(texts, _Home)
            else map(_record, rows, texts.read(rows))
        )
        records = ((row + shift, *others) for row, *others in stored)
        if connection.executemany(_INSERT, records).rowcount < len(view):
            raise IndexCorrupted(
                "store: a passage is missing whose vector is there; make a new snapshot to save."
            )
        segments = ((first + shift, segment) for first, segment in view.segments())
        store._replace(connection, turn, old.parts, segments)
        connection.execute("DELETE FROM settings")
        store._must_write_log = True
        settings |= {"version": turn.version, "changes": old.changes + 1}
        _put(connection, {**settings, "next_row": shift + state.next_row})


def _reopen(folder: Path, read_only: bool) -> LocalStore:
    """Open the index in a folder again, as in another process; FileNotFoundError without one."""
    _check_folder(folder, read_only=True)
    return LocalStore(folder, read_only=read_only)


def _in_memory(view: View, settings: Mapping[str, Any]) -> LocalStore:
    """Make a store in memory of a view of another."""
    store = LocalStore()
    copy_view(view, store, settings)
    return store


def _check_folder(folder: Path, *, read_only: bool) -> None:
    """Raise FileNotFoundError or FileExistsError unless an index is, or can be, in a folder."""
    if os.path.lexists(folder / DATABASE):  # or something in its place
        return
    refuse_outdated(folder)
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
    for key, value in settings.items():
        text = value if isinstance(value, bytes) else _to_json(value)
        insert = "INSERT OR REPLACE INTO settings (key, value, sum) VALUES (?, ?, ?)"
        connection.execute(insert, [key, text, _sum_of(key, text)])


def _rows(connection: sqlite3.Connection, sql: str, parameters: Sequence[int]) -> NDArray[np.int64]:
    """Return the rows that a statement selects, ascending."""
    found = [*connection.execute(f"{sql} ORDER BY row", parameters)]
    return np.array(found, dtype=np.int64).ravel()


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


def _check_alike(parts: Sequence[Part], schema: Schema) -> None:
    """Raise ValueError unless segments fit what they share."""
    for segment in (part.segment for part in parts):
        own = segment.scales.shape[1], segment.widths, len(segment.words)
        expected = schema.scales, schema.widths, len(schema.words)
        if own != expected:
            raise ValueError(f"a segment has vectors of {own}, expected {expected}")


def _to_merge(parts: Sequence[Part]) -> Sequence[Part]:
    """Return neighbouring segments to join, if there are some."""
    for part in parts:
        if part.count < len(part.segment) * (1 - _DEAD):
            return [part]
    run = list(parts[-_RUN:])
    if len(run) < _RUN or max(_level(part.count) for part in run) > _level(run[-1].count):
        return []  # the last is smaller than others, and waits for more of its size
    while sum(part.count for part in run) > MOST_ROWS:
        run = run[1:]
    is_full = 2 * sum(part.count for part in run) > MOST_ROWS
    return run if len(run) == _RUN or (is_full and len(run) > 1) else []


def _level(size: int) -> int:
    """Return the level of a segment; sizes of one level differ by less than a factor."""
    return int(math.log(max(1, size), _FACTOR))
