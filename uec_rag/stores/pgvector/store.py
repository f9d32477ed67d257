"""A store in PostgreSQL with pgvector: candidates in one statement.

They are the nearest by mu_s in an HNSW of pgvector (of half precision if means are wider than it
takes), and those that share the rarest words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.environment import missing_extra
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import Frequencies
from uec_rag.stores.base import Stamp
from uec_rag.stores.engine import (
    CANDIDATES,
    CollectionSchema,
    EngineStore,
    Point,
    QueryTerms,
    check_collection,
    point_id,
)
from uec_rag.stores.filters import AnyFact, Condition

try:
    from psycopg import sql

    from uec_rag.stores.pgvector.server import Server, make_index, make_tables, notes_of
except ModuleNotFoundError as error:
    if error.name not in ("psycopg", "psycopg_pool"):
        raise
    raise ImportError(missing_extra("psycopg", "stores")) from error

from uec_rag.stores.pgvector.sql import (
    PASSAGE,
    TYPES,
    WIDEST,
    WORD_TYPES,
    Tables,
    candidates,
    clause,
    point,
    point_of,
    row_of,
    scanned,
    upserting,
)

_LONGEST_NAME = 50  # in bytes: PostgreSQL cuts what is longer than 63 with what is put behind it
_WRITTEN = 500  # points in a transaction
_READ = 500  # points asked for at a time
_MOST_LOOKED_AT = 1000  # by its HNSW, before it goes on in steps


class PgVectorStore(EngineStore):
    """Passages and their Gaussians in a table of PostgreSQL.

    Each part of an addition is one transaction, an upsert, so several processes may write at the
    same time. Filters run in the server. The first passages create the table, and further tables
    for the ensemble, the postings of words (kept up to date by triggers), and what was learned of
    the corpus, shared by all processes.

    Because others may write at any time, a snapshot is a filtered view, not a fixed state.

    Parameters
    ----------
    dsn : str
        As libpq takes it: "postgresql://user@host/database". A password is better left to
        PGPASSWORD or ~/.pgpass. Host, database, user and encryption settings are saved and shown in
        messages; passwords, `options` and all else are not.
    collection : str
        Name of the table; the others append "_notes", "_words" and so on.
    connections : int
        That are open at a time, at most.
    timeout : float
        Seconds to wait for a connection; a failure after that is not retried.
    candidates : int
        As `EngineStore` takes it: what `hnsw.ef_search` is set to, up to 1,000.

    Raises
    ------
    ImportError
        Without psycopg: pip install "uec-rag[stores]".
    ValueError
        If the address cannot be read (write a password's @ as %40 and its / as %2F), or PostgreSQL
        would change the collection's name.
    ConnectionError
        If the server cannot be reached, or does not know the user or the database.
    """

    engine = "PostgreSQL"

    def __init__(
        self,
        dsn: str,
        *,
        collection: str = "uec_rag",
        connections: int = 4,
        timeout: float = 10.0,
        candidates: int = CANDIDATES,
    ) -> None:
        super().__init__(candidates)
        check_collection(collection, _LONGEST_NAME, "% or NUL", "%\0")
        self._collection = collection
        self._tables = Tables.of(collection)
        self._is_filling = False
        self._server = Server(dsn, connections, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def read_notes(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no table."""
        return self._server.within(notes_of, self._collection)

    def make(self, notes: CollectionSchema) -> None:
        """Make the table, instead of an empty one that is there.

        Raises
        ------
        ValueError
            If means are wider than pgvector takes, or the server has no pgvector.
        """
        width = notes.dimension + notes.scales
        if width > WIDEST:
            raise ValueError(
                f"gaussians: expected at most {WIDEST} numbers of mean and variance, which "
                f"pgvector takes, got {width}; use fewer or narrower encoders."
            )
        self._server.within(make_tables, self._collection, notes, with_index=not self._is_filling)

    @contextmanager
    def filling(self) -> Iterator[Self]:
        """Build the index of a new table once, when the block ends.

        For a first load of very many passages: adding each to an HNSW takes many times as long. The
        build uses the server's `maintenance_work_mem`, which should be 1.5 times the size of the
        means; a DSN sets it with "?options=-c%20maintenance_work_mem%3D3GB". Until it is built,
        searches scan every passage; after a failed block, use another one. An existing index stays.

        Raises
        ------
        ConnectionError
            If the server stays unreachable.
        """
        self._is_filling = True
        try:
            yield self
        finally:
            self._is_filling = False
        self._server.within(make_index, self._collection)

    def put(self, points: Sequence[Point]) -> None:
        """Write points, some in a transaction of their own each time."""
        # In one order, so that two writers never wait for each other.
        rows = sorted(map(row_of, points), key=itemgetter(0))
        for start in range(0, len(rows), _WRITTEN):
            self._server.asked(self._put, rows[start : start + _WRITTEN])

    def _put(self, rows: Sequence[tuple[object, ...]]) -> None:
        with self._server.transaction() as connection, connection.cursor() as cursor:
            notes, known = notes_of(connection, self._collection), self.notes()
            if notes is None or known is None or not notes.admit(known):
                raise ValueError(
                    f"store: the table {self._collection!r} was made anew while it was written to, "
                    "for other Gaussians. Open it again."
                )
            apart, copied, upserted = upserting(self._tables.points, notes)
            cursor.execute(apart)
            with cursor.copy(copied) as out:
                out.set_types([*TYPES, *WORD_TYPES * len(notes.words)])
                for row in rows:
                    out.write_row(row)
            cursor.execute(upserted)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        # Locked in the order in which `put` writes, so that neither waits for the other for ever.
        gone = sql.SQL(
            "WITH locked AS MATERIALIZED (SELECT point FROM {points} "
            "WHERE point = ANY(%s::uuid[]) ORDER BY point FOR UPDATE) "
            "DELETE FROM {points} AS points USING locked WHERE points.point = locked.point "
            "RETURNING 1"
        )
        if ids:
            self._server.rows(gone.format(points=self._tables.points), [[*map(point_id, ids)]])

    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that fulfil a condition."""
        if self.notes() is None:
            return 0
        text, where = sql.SQL("SELECT passages FROM {}").format(self._tables.notes), clause(None)
        if condition is not None:
            where = clause(condition)
            text = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
                self._tables.points, where.text
            )
        return int(self._server.rows(text, where.values)[0][0])

    def _columns(self, vectors: bool) -> sql.SQL:
        notes = self.notes()
        return point(notes) if vectors and notes is not None else PASSAGE

    def check(self, condition: Condition) -> None:
        """Raise ValueError if PostgreSQL cannot run a condition."""
        clause(condition)

    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that are there."""
        text = sql.SQL("SELECT {} FROM {} WHERE point = ANY(%s::uuid[])")
        asked = text.format(self._columns(vectors), self._tables.points)
        for start in range(0, len(ids) if self.notes() else 0, _READ):
            some = [*map(point_id, ids[start : start + _READ])]
            yield from map(point_of, self._server.rows(asked, [some]))

    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in the order of their UUIDs, which is random."""
        where, last, left = clause(condition), "", limit
        text = scanned(self._tables.points, self._columns(vectors), where)
        while self.notes() is not None and (left is None or left > 0):
            count = _READ if left is None else min(left, _READ)
            rows = self._server.rows(text, [last, last, *where.values, count])
            yield from (point_of(row[:-1]) for row in rows)
            if len(rows) < count:
                return
            last, left = rows[-1][-1], None if left is None else left - count

    def frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return the frequencies of distinct terms of a sparse block."""
        text = sql.SQL(
            "SELECT passages, lengths[%s], ARRAY(SELECT ARRAY[key, held] FROM {} WHERE block = %s "
            "AND key = ANY(%s::bigint[])) FROM {}"
        ).format(self._tables.words, self._tables.notes)
        asked = [block + 1, block, keys.view(np.int64).tolist()]
        passages, length, held = self._server.rows(text, asked)[0]
        found = np.array(held, dtype=np.int64).reshape(-1, 2)
        holding = zip(found[:, 0].view(np.uint64).tolist(), found[:, 1].tolist(), strict=True)
        return Frequencies(passages, length, dict(holding))

    def near(
        self,
        condition: Condition | None,
        mean: FloatArray,
        words: Sequence[QueryTerms],
        count: int,
        *,
        exact: bool,
    ) -> list[Point]:
        """Fetch the nearest `count` points by a query's mean, and as many by each block's words."""
        asked = candidates(self._tables, self._noted, clause(condition), mean, words, count)
        settings = {
            "hnsw.ef_search": str(min(count, _MOST_LOOKED_AT)),
            "hnsw.iterative_scan": "strict_order",  # until there are as many as asked for
            "enable_indexscan": "off" if exact else "on",
        }

        def search() -> list[tuple[Any, ...]]:
            with self._server.transaction() as connection:
                connection.execute(
                    "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) "
                    "AS given (name, value)",
                    ([*settings], [*settings.values()]),
                )
                return connection.execute(asked.text, asked.values).fetchall()

        return [*map(point_of, self._server.asked(search))]

    def read_stamp(self) -> Stamp:
        """Return the state of what is stored."""
        if self.notes() is None:
            return Stamp("", {})
        text = sql.SQL(
            "SELECT written::text, (SELECT json_object_agg(name, version) FROM {}) FROM {}"
        ).format(self._tables.kept, self._tables.notes)
        written, kept = self._server.rows(text)[0]
        return Stamp(written, kept or {})

    def put_state(self, name: str, data: bytes) -> str:
        """Store bytes for all processes, in one statement."""
        text = sql.SQL(
            "INSERT INTO {} VALUES (%s, gen_random_uuid()::text, %s) ON CONFLICT (name) DO UPDATE "
            "SET version = EXCLUDED.version, data = EXCLUDED.data RETURNING version"
        ).format(self._tables.kept)
        return str(self._server.rows(text, [name, data])[0][0])

    def get_state(self, name: str) -> tuple[str, bytes] | None:
        """Return the version and the bytes stored under a name; None if there are none."""
        if self.notes() is None:
            return None
        text = sql.SQL("SELECT version, data FROM {} WHERE name = %s").format(self._tables.kept)
        for version, data in self._server.rows(text, [name]):
            return version, bytes(data)
        return None

    @property
    def address(self) -> str:
        """The address at which `store_at` opens it, without secrets."""
        place = self._server.place
        return f"{place}{'&' if '?' in place else '?'}collection={quote(self._collection, safe='')}"
