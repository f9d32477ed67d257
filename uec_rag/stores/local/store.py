"""The local index: passages in SQLite, vectors and word counts in segments."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import chain, count
from pathlib import Path
from typing import Any, Self

from uec_rag.base.errors import IndexCorrupted, corruption
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders.base import Encoded
from uec_rag.stores.base import MOST_EXAMPLES, Filter, Store, check_addition, check_same
from uec_rag.stores.encodings import Schema
from uec_rag.stores.local.cleaning import Cleaning
from uec_rag.stores.local.contents import (
    INSERT,
    KEPT,
    Contents,
    Transaction,
    check_folder,
    mark_dead,
    put_settings,
    record_of,
)
from uec_rag.stores.local.database import EmptyIndex
from uec_rag.stores.local.segments import Part, Segment, to_merge
from uec_rag.stores.local.view import State, View
from uec_rag.stores.passage import Passage, text_keys

_SMALL = 2048  # rows of segments that a search may write again
_SHARE = 128  # rows that are written again for each that was deleted, where it was deleted
_ATTEMPTS = 10  # to read a state while others merge


def _always(_: Part) -> bool:
    return True


def _is_worth_it(part: Part) -> bool:
    """Return whether so much of a segment was deleted that it is written again for that."""
    return _SHARE * (len(part.segment) - part.count) >= len(part.segment)


def _undone() -> OSError:
    return OSError("store: a full disk or an interrupt has undone this transaction; try again.")


class LocalStore(Store):
    """Passages with what encoders made of them, in memory or in a folder, searched exactly.

    Vectors are stored as a float32 matrix for each encoder, and so are features, unless these are
    the vectors. In a folder, what `add` and `delete` returned from is on disk, several processes
    may write, and each sees the others' writes at its next search. Reads see one consistent state
    while others write.

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
    >>> found = store.snapshot().search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0)
    >>> found.passages[0][0].id
    'a'
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, read_only: bool = False
    ) -> None:
        self.folder = None if path is None else as_path(path)
        if self.folder is not None:
            check_folder(self.folder, read_only=read_only)
        self._open_home(read_only=read_only)

    def _open_home(self, *, read_only: bool, create: bool = True) -> None:
        self._home = Contents(self.folder, read_only=read_only, create=create)
        self._state, self._settings = State(), dict[str, Any]()
        self._cleaning = Cleaning(self._clean_beside)
        self._transaction: Transaction | None = None
        self._must_write_log = False  # into the file: it has what was deleted, or all
        self._current()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the folder, or what is in memory."""
        if self.folder is not None:
            return _reopen, (self.folder, self.read_only)
        return in_memory, (self.snapshot(), self.settings)

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
            put_settings(connection, settings)

    # Reading

    def _current(self) -> tuple[State, dict[str, Any]]:
        """Return what this thread sees: its own transaction, or the last of any process."""
        if (turn := self._transaction) is not None and self._home.database.is_writing:
            return turn.state, turn.settings
        if not self._home.database.in_memory:
            self._refresh()
        return self._state, self._settings

    def _refresh(self) -> None:
        """Read the state after the last transaction of any process, if it is new."""
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
                    self._publish(*self._home.read_state(connection, self._state))
                    return
                except IndexCorrupted:
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

    def vectors(self, ids: Sequence[str]) -> list[Encoded]:
        """See `Searched`."""
        return self.snapshot().vectors(ids)

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects, in the order of insertion."""
        return self.snapshot(filter).passages()

    def examples(self, limit: int = MOST_EXAMPLES) -> list[Passage]:
        """See `View.examples`."""
        return self.snapshot().examples(limit)

    def sample(self, count: int) -> list[Encoded]:
        """See `View.sample`."""
        return self.snapshot().sample(count)

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
            self._clean_up(_is_worth_it)

    @contextmanager
    def _write_turn(self) -> Iterator[Transaction]:
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
                state, settings = self._home.read_state(connection, self._state)
                turn = Transaction(state, settings, state.version + 1)
                self._home.tidy(connection, turn)
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
    def _step(self) -> Iterator[tuple[sqlite3.Connection, Transaction]]:
        """Make one change; if the block fails, the whole transaction is undone."""
        with self.changing(), self._home.database.write() as connection:
            turn = self._transaction
            assert turn is not None
            if not connection.in_transaction:
                raise _undone()
            try:
                yield connection, turn
                turn.state, turn.settings = self._home.read_state(connection, turn.state)
            except BaseException:
                self._home.database.end("ROLLBACK")
                raise

    def bind(self, fingerprint: str) -> None:
        """See `Store`."""
        if self.settings.get("fingerprint") == fingerprint:
            return
        with self.changing():
            if len(self):
                check_same(self.settings.get("fingerprint"), fingerprint)
            self.change_settings({"fingerprint": fingerprint})

    def add(self, passages: Sequence[Passage], encodings: Sequence[Encoded] | Gaussian) -> None:
        """Add passages, replacing those with the same ids; see `Store`.

        Raises
        ------
        ValueError
            If there is not one row per passage, an id is repeated, or the vectors have other
            dimensions than the stored ones.
        TypeError, ValueError
            If a passage could not be saved, see `uec_rag.stores.metadata.normalise`.
        OSError
            If the disk is full; nothing is added.
        """
        passages, blocks = check_addition(passages, encodings)
        if not passages:
            return
        with self.changing():
            view = self.snapshot()
            state = view.state
            settings: dict[str, Any] = {"changes": state.changes + 1}
            settings["next_row"] = state.next_row + len(passages)
            if state.parts:
                state.schema.check(blocks)
            else:
                settings["schema"] = Schema.of(blocks).metadata()
            replaced = [*view.find([passage.id for passage in passages]).values()]
            with self._step() as (connection, turn):
                mark_dead(connection, state.rows[replaced].tolist(), turn.version)
                connection.executemany(INSERT, map(record_of, count(state.next_row), passages))
                segments = Segment.cut(blocks, text_keys(passages))
                moved = ((state.next_row + start, segment) for start, segment in segments)
                self._home.replace(connection, turn, (), moved)
                put_settings(connection, settings)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed.

        What they leave in files is removed, too, see `compact`.
        """
        with self.changing():
            view = self.snapshot()
            columns = [*view.find(ids).values()]
            if not columns:
                return 0
            with self._step() as (connection, turn):
                mark_dead(connection, view.state.rows[columns].tolist(), turn.version)
                if len(columns) == len(view):  # so that vectors of any dimension may come
                    self._home.replace(connection, turn, view.state.parts)
                put_settings(connection, {"changes": view.changes + 1})
        return len(columns)

    def _merge(self) -> None:
        """Merge small segments, each time in a transaction of its own."""
        with suppress(OSError):  # a full disk is no reason to fail the call before
            while to_merge(self._state.parts):
                with self._write_turn(), self._step() as (connection, turn):
                    run = to_merge(turn.state.parts)  # none, if another process was faster
                    pieces = [(p.first_row, p.segment, p.kept) for p in run if p.count]
                    self._home.replace(
                        connection, turn, run, [Segment.join(pieces)] if pieces else []
                    )

    # Copies and checks

    def move_to(self, store: LocalStore) -> None:
        """Go on as another store; views stay as they are."""
        with self._home.database.writing:
            self.folder, self._home = store.folder, store._home
            self._state, self._settings = store._state, store._settings

    def check(self) -> None:
        """Verify the checksums of all segments and passages.

        Raises
        ------
        IndexCorrupted
            If something is damaged; the message names the file and what to do.
        """
        self._clean_up(_always)
        view = self.snapshot()
        for part in view.state.parts:
            _ = part.segment.checked_words
        total, there = self._home.check(view.state.rows)
        is_newest = self.snapshot().state.version == view.state.version  # else there may be more
        if total < len(view) or (is_newest and there > len(view)):
            raise corruption(
                self._home.database.path,
                f"holds {there} passages, and vectors of {len(view)}; build the index again.",
            )

    def compact(self) -> None:
        """Remove what was deleted or replaced from all files: texts, metadata and vectors.

        Views of other processes then lack it; those of this one keep it in memory. A segment is
        written again at a time, in a transaction of its own.

        Raises
        ------
        BlockingIOError, PermissionError, OSError
            As in `changing`.
        """
        self._current()
        with self._home.database.writing:
            while self._remove_some(_always):
                pass

    def remove_deleted(self) -> None:
        """Do what `compact` does, if it is little and nobody is in the way; else it begins beside.

        While other processes have the index open, they may read what was deleted for a minute.
        Another attempt is made at the next search if one is writing, or the disk is full.
        """
        state, _ = self._current()
        if state.deleted_at is None and not self._must_write_log:
            return
        if sum(len(part.segment) for part in state.parts if part.alive is not None) <= _SMALL:
            self._clean_up(_always)
        elif self._may_clean:
            self._cleaning.begin()

    @property
    def _may_clean(self) -> bool:
        """True if there is something to remove, and no other process may read it."""
        database, (state, _) = self._home.database, self._current()
        is_needed = state.deleted_at is not None or self._must_write_log
        if not is_needed or database.in_memory or self.read_only or database.is_writing:
            return False
        return time.time() >= (state.deleted_at or 0) + KEPT or database.is_alone

    def _clean_up(self, is_due: Callable[[Part], bool]) -> None:
        """Remove what may be removed, of segments those that are due; the others beside."""
        while self._may_clean and self._clean_a_step(is_due):
            pass
        if self._may_clean:
            self._cleaning.begin()

    def _clean_beside(self) -> bool:
        """Do a step of a thread of its own; return whether another is to follow."""
        with suppress(OSError, IndexCorrupted):  # which others are told
            return self._may_clean and self._clean_a_step(_always)
        return False

    def _clean_a_step(self, is_due: Callable[[Part], bool]) -> bool:
        """Do a step of what `compact` does, unless others write; return whether more is left."""
        database = self._home.database
        if not database.writing.acquire(blocking=False):  # another thread need not be waited for
            return False
        try:
            with suppress(OSError), database.without_waiting():
                return self._remove_some(is_due)
        finally:
            database.writing.release()
        return False

    def _remove_some(self, is_due: Callable[[Part], bool]) -> bool:
        """Remove deleted texts, and write the first segment again that is due of those with some.

        Returns whether there are more; `writing` is held.
        """
        due = [part for part in self._state.parts if part.alive is not None and is_due(part)]
        if self._state.deleted_at or due or self.read_only:  # which raises
            self._must_write_log = True
            with self._write_turn(), self._step() as (connection, turn):
                self._home.remove_texts(connection, turn)
                parts = [part for part in turn.state.parts if part.alive is not None]
                for part in [*filter(is_due, parts)][:1]:
                    rows = [(part.first_row, part.segment, part.kept)] * bool(part.count)
                    self._home.replace(
                        connection, turn, [part], [Segment.join(rows)] if rows else []
                    )
        if any(part.alive is not None and is_due(part) for part in self._state.parts):
            return True
        self._must_write_log = not self._home.database.truncate_log()
        return False

    def close(self) -> None:
        """Close the database; the store cannot be used after."""
        self._cleaning.end()
        # One that is damaged, or was closed before, can be closed, too.
        with suppress(OSError, IndexCorrupted, RuntimeError):
            self._clean_up(_always)
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
    texts, state, settings = view.texts, view.state, dict(settings)
    rows = state.rows.tolist()
    if state.parts:
        settings["schema"] = state.schema.metadata()
    with store._step() as (connection, turn):
        target = turn.state
        mark_dead(connection, target.rows.tolist(), turn.version)
        shift = target.next_row  # rows are never used again, since others may read them
        stored = (
            chain.from_iterable(texts.records(rows))
            if isinstance(texts, Contents)
            else map(record_of, rows, texts.read(rows))
        )
        records = ((row + shift, *columns) for row, *columns in stored)
        if connection.executemany(INSERT, records).rowcount < len(view):
            raise IndexCorrupted(
                "store: a passage is missing whose vector is there; make a new snapshot to save."
            )
        segments = ((start + shift, segment) for start, segment in view.segments())
        store._home.replace(connection, turn, target.parts, segments)
        connection.execute("DELETE FROM settings")
        store._must_write_log = True
        settings |= {"version": turn.version, "changes": target.changes + 1}
        put_settings(connection, {**settings, "next_row": shift + state.next_row})


def _reopen(folder: Path, read_only: bool) -> LocalStore:
    """Open the index in a folder again, as in another process; FileNotFoundError without one."""
    check_folder(folder, read_only=True)
    return LocalStore(folder, read_only=read_only)


def in_memory(view: View, settings: Mapping[str, Any]) -> LocalStore:
    """Make a store in memory of a view of another."""
    store = LocalStore()
    copy_view(view, store, settings)
    return store
