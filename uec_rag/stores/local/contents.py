"""The contents of an index: passages in SQLite, segments, and what of both is remembered."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from uec_rag.base.errors import IndexCorrupted, as_corrupted, corruption, warn_once
from uec_rag.base.files import DATABASE, open_regular, refuse_outdated
from uec_rag.base.records import Living, Recent
from uec_rag.stores import filters
from uec_rag.stores.comparisons import Compare, Mask, Values, mismatch
from uec_rag.stores.encodings import Schema
from uec_rag.stores.local.database import Database
from uec_rag.stores.local.segments import Part, Segment, SegmentFolder, bury, check_alike
from uec_rag.stores.local.view import State, Texts, View
from uec_rag.stores.metadata import kinds_of_texts, restore_kinds
from uec_rag.stores.passage import Checked, Passage

Record: TypeAlias = tuple[int, str, int, str, str | bytes | None, str]
"""A row of the table of passages: the `COLUMNS`; a sketch stands before its dates, see `_split`."""

COLUMNS = "row, id, sum, metadata, dates, text"
INSERT = f"INSERT INTO passages ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
_AT_ONCE = 500  # passages in one statement
_MOST_COLUMNS = 128  # metadata keys of filters whose values are kept; requests may name any number
_READ = 10_000  # rows whose metadata are read at a time
_REMEMBERED, _LONG = 4096, 4096  # passages that are remembered, and characters of one too long
_HEAD = 4  # bytes that tell how long a sketch is
_GONE = -1  # in place of the position of a value
_METADATA = msgspec.json.Decoder(dict[str, Any])
_VALUES = msgspec.json.Decoder(dict[str, msgspec.Raw])

KEPT = 60.0
"""The seconds for which other processes may read the texts of deleted passages."""

to_json = json.JSONEncoder(ensure_ascii=False).encode


def sum_of(*texts: str | bytes | None) -> int:
    """Return a checksum of what is stored of a passage or a setting."""
    stored = list[bytes]()
    for text in texts:  # a comprehension would be one more call for each hit
        stored.append(text if isinstance(text, bytes) else (text or "").encode())
    return zlib.crc32(b"\0".join(stored))


def record_of(row: int, passage: Passage) -> Record:
    """Return the columns of a passage."""
    sketch, names = passage.sketch, kinds_of_texts(passage.metadata)
    kinds: str | bytes | None = to_json(names) if names else None
    if sketch:
        kinds = len(sketch).to_bytes(_HEAD, "little") + sketch + to_json(names).encode()
    texts = to_json(passage.metadata), kinds, passage.text
    return row, passage.id, sum_of(passage.id, *texts), *texts


def _split(kinds: str | bytes) -> tuple[bytes, list[str | list[str]]]:
    """Return a passage's sketch, and the kinds of values of its metadata."""
    if isinstance(kinds, bytes):
        end = _HEAD + int.from_bytes(kinds[:_HEAD], "little")
        return kinds[_HEAD:end], json.loads(kinds[end:])
    return b"", json.loads(kinds)


def passage_of(record: Record, path: Path, *, check: bool = True) -> Passage:
    """Make a passage of its columns, after checking their sum."""
    row, id_, sum_, metadata, kinds, text = record
    try:
        if check and sum_ != sum_of(id_, metadata, kinds, text):
            raise ValueError("its checksum differs")
        if not (isinstance(id_, str) and isinstance(text, str)):
            raise TypeError("its id or its text is no text")
        sketch, names = _split(kinds) if kinds else (b"", [])
        passage = Passage(id_, text, Checked(_METADATA.decode(metadata)), sketch)
        if names:
            restore_kinds(passage.metadata, names)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise corruption(
            path, f"does not hold a passage in row {row} ({error}); build the index again."
        ) from error
    return passage


def _runs_python(condition: filters.Condition) -> bool:
    return any(map(callable, filters.leaves(condition)))


@dataclass(frozen=True, eq=False)
class _Column(Values):
    """The values that the passages of an index have under a key of their metadata.

    They are read at the first filter on the key. Rows never change, so later filters read the new
    rows only.

    Attributes
    ----------
    numbers : dict
        The position of each among them, by its JSON, and its kind behind it if that is no text.
    codes : int array, shape (rows,)
        The position of each row's value; `_GONE` if the row is gone, so that nothing is known.
    """

    numbers: dict[bytes, int] = field(default_factory=dict)
    codes: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def extend(
        self,
        key: str,
        rows: int,
        database: Database,
        remains: Callable[[], Mapping[int, Record]],
        names_of_keys: set[str],
    ) -> _Column:
        """Return the column of the first `rows` rows of an index, of which some are gone.

        `names_of_keys` gets the keys that the new rows have.
        """
        values, numbers, codes = [*self.values], dict(self.numbers), np.full(rows, _GONE, np.int32)
        codes[: len(self.codes)] = self.codes
        sql = "SELECT row, metadata, dates FROM passages WHERE row >= ? AND row < ?"
        for start in range(len(self.codes), rows, _READ):
            span = range(start, min(rows, start + _READ))
            records = database.ask(sql, [span.start, span.stop])
            # Asked for after the files, since who removes a passage from these keeps it before.
            records += [(row, *record[3:5]) for row, record in remains().items() if row in span]
            for row, stored, kinds in records:
                codes[row] = 0
                names_of_keys.update(fields := _VALUES.decode(stored))
                if (value := fields.get(key)) is None:
                    continue
                name, metadata = bytes(value), {key: None}
                if kinds or name not in numbers:
                    metadata[key] = msgspec.json.decode(value)
                    restore_kinds(metadata, _split(kinds)[1] if kinds else (), key)
                    name += getattr(metadata[key], "kind", "").encode()
                if name not in numbers:
                    numbers[name] = len(values)
                    values.append(metadata[key])
                codes[row] = numbers[name]
        return _Column(values, numbers, codes)


class Contents(Texts):
    """The contents of an index: its database, its segments, and passages that were read."""

    def __init__(self, folder: Path | None, *, read_only: bool, create: bool = True) -> None:
        self.database = Database(folder, read_only=read_only, create=create)
        self.segments = SegmentFolder(folder)
        self._memory = dict[int, Passage]()  # by row, which never changes
        self._columns = Recent[str, _Column](
            _MOST_COLUMNS
        )  # of the metadata that filters asked for
        # The keys that some rows have, and the column of any other key of these.
        self._keys: tuple[frozenset[str], _Column] = frozenset(), _Column()
        self._warnings = set[object]()
        self.states = Living[State]()  # that views of this process may have
        self._remains = dict[int, Record]()  # what these read, and the files have not any more
        self._remains_version = 0  # the version that removed the last of them
        all_contents.add(self)

    def read(self, rows: Sequence[int]) -> list[Passage]:
        """See `Texts`."""
        memory, path = self._memory, self.database.path
        passages = {row: memory[row] for row in rows if row in memory}
        is_kept, check = not self.database.is_writing, not self.database.in_memory
        for block in self.records([row for row in rows if row not in passages]):
            for record in block:
                passages[record[0]] = passage = passage_of(record, path, check=check)
                if is_kept and len(passage.text) <= _LONG:
                    memory[record[0]] = passage
        if len(memory) > _REMEMBERED:
            self._memory = {}
        if len(passages) < len({*rows}):
            raise IndexCorrupted(
                "store: a passage is missing whose vector is there. If it was deleted since this "
                "view was made, make a new view; else build the index again."
            )
        return [passages[row] for row in rows]

    def _remains_for_views(self) -> dict[int, Record]:
        """Return the passages that files have not any more, and views of this process may read."""
        remains = self._remains.copy()
        if remains and all(state.version >= self._remains_version for state in self.states):
            for row in remains:  # the views that needed them are gone, too
                self._remains.pop(row, None)
        return remains

    def keep(self, remains: Mapping[int, Record], version: int) -> None:
        """Keep passages in memory that a version removes from files, while views may read them."""
        self._remains_version = version  # first, for threads that copy `_remains` meanwhile
        self._remains.update(remains)

    def records(self, rows: Sequence[int]) -> Iterator[list[Record]]:
        """Read the columns of rows that there are, without parsing them.

        Yields those of up to `_AT_ONCE` rows at a time, in ascending order but for deleted ones.
        """
        # One statement for any rows, since to parse one takes longer than to run it.
        sql = f"SELECT {COLUMNS} FROM passages WHERE row IN (SELECT value FROM json_each(?))"
        for start in range(0, len(rows), _AT_ONCE):
            batch = rows[start : start + _AT_ONCE]
            records = self.database.ask(f"{sql} ORDER BY row", [json.dumps(batch)])
            if remains := self._remains_for_views():  # after the files, as in `_Column.extend`
                missing = remains.keys() - {record[0] for record in records}
                records += [remains[row] for row in batch if row in missing]
            yield records

    def rows_of(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """See `Texts`."""
        # Escaped, since SQLite takes no lone surrogate.
        sql = "SELECT id, row FROM passages WHERE id IN (SELECT value FROM json_each(?))"
        strings = [id_ for id_ in {*ids} if isinstance(id_, str)]
        pairs = self.database.ask(sql, [json.dumps(strings)])
        if remains := self._remains_for_views():
            names = {*strings}
            pairs += [(record[1], row) for row, record in remains.items() if record[1] in names]
        return pairs

    def select(self, view: View, condition: filters.Condition) -> Mask:
        """See `Texts`."""
        known, blank = np.ones(len(view), dtype=bool), np.zeros(len(view), dtype=bool)
        by_column = dict[int, tuple[_Column, NDArray[np.int32]]]()

        def codes_of(column: _Column) -> NDArray[np.int32]:
            """Return the codes of the view's rows, which are taken of each column once."""
            if id(column) not in by_column:
                codes = column.codes.take(view.state.rows)
                np.logical_and(known, codes != _GONE, out=known)
                by_column[id(column)] = column, codes
            return by_column[id(column)][1]

        def mask(condition: filters.Condition, among: Mask) -> Mask:
            """Return which of some columns satisfy a condition."""
            hits = blank
            match condition:
                case Compare(keys):
                    column = self._column(keys[0], view.state.next_row)
                    codes, fits = codes_of(column), column.fits(condition)
                    if len(keys) == 1 and not fits.any():
                        self._note_mismatch(condition, column)
                    # Of a key that no passage has, all or none.
                    hits = fits.take(codes) if len(fits) > 1 else (among if fits[0] else blank)
                case filters.HasId(ids):
                    hits = blank.copy()
                    hits[[*view.find(ids).values()]] = True
                case filters.Join("and", conditions):
                    hits = among
                    for part in sorted(conditions, key=_runs_python):  # last, over what is left
                        hits = mask(part, hits)
                case filters.Join(kind, conditions):
                    for part in sorted(conditions, key=_runs_python):
                        hits = hits | mask(part, among & ~hits)
                    hits = ~hits if kind == "not" else hits
                case _:
                    passages = view.among(among).passages()
                    hits = blank.copy()
                    hits[among] = [bool(condition(passage)) for passage in passages]
            return among & hits

        # What is not known of a passage says in no way that it may be seen.
        return mask(condition, np.ones(len(view), dtype=bool)) & known

    def _note_mismatch(self, condition: Compare, column: _Column) -> None:
        """Warn once of a key whose values are of another kind than a comparison asks for."""
        if note := mismatch(condition, column.kinds):
            warn_once(self._warnings, note, note)

    def _column(self, key: str, rows: int) -> _Column:
        """Return the column of a key, which is read as far as it is not known."""
        names, absent = self._keys
        column = self._columns.use(key) or (_Column() if key in names else absent)
        start = len(column.codes)
        if start < rows:  # several threads may read them: they read the same
            keys = set[str]()
            with as_corrupted(self.database.path):
                column = column.extend(key, rows, self.database, self._remains_for_views, keys)
            if self.database.is_writing:  # it may be undone
                return column
            if start <= len(absent.codes):
                self._keys = names | keys, _Column(codes=np.minimum(column.codes, 0))
            if len(column.values) > 1:
                self._columns.keep(key, column)
        return column

    def read_state(
        self, connection: sqlite3.Connection, before: State
    ) -> tuple[State, dict[str, Any]]:
        """Read a state, of which `before` is an earlier one."""
        with as_corrupted(self.database.path):
            settings = read_settings(connection)
            by_name = {part.name: part for part in before.parts}
            dead = select_rows(
                connection, "SELECT row FROM dead WHERE version >= ?", [before.version]
            )
            records = [*connection.execute("SELECT first, name FROM segments")]
            parts = [
                bury(by_name[name], dead)
                if name in by_name
                else self._open(connection, start, name)
                for start, name in records
            ]
            schema = before.schema  # which stays while a segment does
            if by_name.keys().isdisjoint(part.name for part in parts):
                schema = Schema.restore(settings["schema"]) if parts else Schema()
            check_alike(parts, schema)
            version, changes, next_row = (
                int(settings.get(name, 0)) for name in ("version", "changes", "next_row")
            )
            if any(part.last >= next_row for part in parts):
                raise ValueError(f"it has rows from {next_row} on, which are yet to come")
            query = "SELECT max(at) FROM dead WHERE at IS NOT NULL"
            [(deleted_at,)] = connection.execute(query)
            if deleted_at is None and any(part.alive is not None for part in parts):
                deleted_at = 0.0  # a while ago, but the vector is there
        memory = before.memory if changes == before.changes else {}
        state = State(version, changes, next_row, parts, schema, memory, deleted_at)
        self.states.add(state)
        return state, settings

    def _open(self, connection: sqlite3.Connection, first_row: int, name: str) -> Part:
        """Open a segment that was not open yet."""
        part = Part(first_row, name, self.segments.open(name))
        dead = "SELECT row FROM dead WHERE row BETWEEN ? AND ? AND version IS NOT NULL"
        return bury(part, select_rows(connection, dead, [first_row, part.last]))

    def tidy(self, connection: sqlite3.Connection, turn: Transaction) -> None:
        """Count the version, and remove what earlier writers left."""
        names = connection.execute("SELECT name FROM segments")
        self.segments.sweep({*chain.from_iterable(names)})
        put_settings(connection, {"version": turn.version})
        expired = [time.time() - KEPT]
        dead = "SELECT row FROM dead WHERE at < ?"
        connection.execute(f"DELETE FROM passages WHERE row IN ({dead})", expired)
        connection.execute("DELETE FROM dead WHERE at < ? AND version IS NULL", expired)
        connection.execute("UPDATE dead SET at = NULL WHERE at < ?", expired)

    def replace(
        self,
        connection: sqlite3.Connection,
        turn: Transaction,
        parts: Sequence[Part],
        segments: Iterable[tuple[int, Segment]] = (),
    ) -> None:
        """Replace neighbouring parts by segments at some rows, without the dead ones."""
        if parts:
            span = [parts[0].first_row, parts[-1].last]
            connection.execute("DELETE FROM segments WHERE first BETWEEN ? AND ?", span)
            of_parts = "WHERE version IS NOT NULL AND row BETWEEN ? AND ?"
            connection.execute(f"DELETE FROM dead {of_parts} AND at IS NULL", span)
            connection.execute(f"UPDATE dead SET version = NULL {of_parts}", span)
            files = [part.name for part in parts]
            turn.after.append(partial(self.segments.remove, files))
        for start, segment in segments:
            insert = "INSERT INTO segments (first, name, sha256) VALUES (?, ?, ?)"
            connection.execute(insert, [start, *self.segments.write(segment)])

    def remove_texts(self, connection: sqlite3.Connection, turn: Transaction) -> None:
        """Remove the passages of dead rows, which views of this process keep in memory."""
        dead = "WHERE row IN (SELECT row FROM dead WHERE at IS NOT NULL)"
        records = connection.execute(f"SELECT {COLUMNS} FROM passages {dead}")
        if remains := {record[0]: record for record in records}:
            for home in all_contents:
                if home.database.is_same(self.database):
                    home.keep(remains, turn.version)
            connection.execute(f"DELETE FROM passages {dead}")
        connection.execute("DELETE FROM dead WHERE version IS NULL")
        connection.execute("UPDATE dead SET at = NULL")

    def check(self, rows: NDArray[np.int64]) -> tuple[int, int]:
        """Verify the checksums of all segments, and of the passages of some rows.

        Returns the number of passages of these rows, and that of all.
        """
        self.database.check()
        path = self.database.path
        sql = "SELECT name, sha256 FROM segments"
        for name, digest in () if self.database.in_memory else self.database.ask(sql):
            file = self.segments.path(name)
            try:
                with open_regular(file) as content:
                    checksum = hashlib.file_digest(content, "sha256").hexdigest()
            except FileNotFoundError:
                if (name, digest) in self.database.ask(sql):
                    raise
                continue  # another process has merged it since
            if checksum != digest:
                raise corruption(
                    file,
                    f"has other contents than were written (its sha256 is {checksum}, expected "
                    f"{digest}); build the index again.",
                )
        records = chain.from_iterable(self.records(rows.tolist()))
        total = sum(bool(passage_of(record, path)) for record in records)
        living = "SELECT count(*) FROM passages WHERE row NOT IN (SELECT row FROM dead)"
        [(there,)] = self.database.ask(living)
        return total, there


all_contents = Living[Contents]()
"""Those of all indexes that are open in this process."""


@dataclass
class Transaction:
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


def read_settings(connection: sqlite3.Connection) -> dict[str, Any]:
    """Read settings, after checking their sums; ValueError if one differs."""
    settings = dict[str, Any]()
    for key, value, sum_ in connection.execute("SELECT key, value, sum FROM settings"):
        if sum_ != sum_of(key, value):
            raise ValueError(f"the checksum of {key!r:.60} differs")
        settings[key] = value if isinstance(value, bytes) else json.loads(value)
    return settings


def put_settings(connection: sqlite3.Connection, settings: Mapping[str, Any]) -> None:
    """Record settings, each with its checksum."""
    for key, value in settings.items():
        text = value if isinstance(value, bytes) else to_json(value)
        insert = "INSERT OR REPLACE INTO settings (key, value, sum) VALUES (?, ?, ?)"
        connection.execute(insert, [key, text, sum_of(key, text)])


def select_rows(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[int]
) -> NDArray[np.int64]:
    """Return the rows that a statement selects, ascending."""
    rows = [*connection.execute(f"{sql} ORDER BY row", parameters)]
    return np.array(rows, dtype=np.int64).ravel()


def mark_dead(connection: sqlite3.Connection, rows: Sequence[int], version: int) -> None:
    """Record that rows were deleted by the transaction of a version."""
    now = time.time()
    connection.executemany(
        "INSERT INTO dead (row, at, version) VALUES (?, ?, ?)",
        [(row, now, version) for row in rows],
    )


def check_folder(folder: Path, *, read_only: bool) -> None:
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
