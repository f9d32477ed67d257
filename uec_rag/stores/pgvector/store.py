"""A store in PostgreSQL with pgvector, which finds candidates in one statement.

Candidates are the passages nearest by mu_s in pgvector's HNSW (in half precision if the means are
too wide for single precision), and those of the highest BM25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Frequencies
from uec_rag.base.environment import missing_extra
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.progress import progress_bar
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

    from uec_rag.stores.pgvector.server import Connection, Server, make_index, make_tables, notes_of
except ModuleNotFoundError as error:
    if error.name not in ("psycopg", "psycopg_pool"):
        raise
    raise ImportError(missing_extra("psycopg", "stores")) from error

from uec_rag.stores.pgvector import sql as statements

_LONGEST_NAME = 50  # in bytes; PostgreSQL truncates names, with our suffixes, to 63
_WRITE_BATCH = 500  # points per transaction
_READ_BATCH = 500  # points per query
_MAX_EF_SEARCH = 1000  # limit of hnsw.ef_search, beyond which the scan is iterative


class PgVectorStore(EngineStore):
    """Passages and their Gaussians in a table of PostgreSQL.

    Passages are written in batches, each an upsert in a transaction of its own, so several
    processes may write at the same time. Filters run in the server. Adding the first passages
    creates the table, and further tables for the ensemble and the postings of words, which
    triggers keep up to date.

    Because others may write at any time, a snapshot is a filtered view, not a fixed state.

    Parameters
    ----------
    dsn : str
        Connection string of libpq: "postgresql://user@host/database". Pass the password in
        PGPASSWORD or ~/.pgpass if possible. Host, database, user and encryption settings are saved
        and shown in messages; passwords, `options` and everything else are not.
    collection : str
        Name of the main table; other tables have the same name followed by "_notes", "_words" and
        so on.
    connections : int
        Largest number of open connections.
    timeout : float
        Seconds to wait for a connection; failures after that are not retried.
    candidates : int
        As in `EngineStore`; also sets `hnsw.ef_search`, up to 1,000.

    Raises
    ------
    ImportError
        If psycopg is not installed: pip install "uec-rag[stores]".
    ValueError
        If the address is invalid (in a password, write @ as %40 and / as %2F), or PostgreSQL would
        change the collection's name.
    ConnectionError
        If the server cannot be reached, or rejects the user or the database.
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
        self._tables = statements.Tables.from_name(collection)
        self._is_filling = False
        self._server = Server(dsn, connections, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def read_schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no table."""
        return self._server.run_in_transaction(notes_of, self._collection)

    def make(self, notes: CollectionSchema) -> None:
        """Create the tables, in place of existing empty ones.

        Raises
        ------
        ValueError
            If the means are too wide for pgvector, or the server has no pgvector.
        """
        width = notes.dimension + notes.scales
        if width > statements.WIDEST:
            raise ValueError(
                f"gaussians: expected at most {statements.WIDEST} numbers of mean and variance, "
                f"the limit of pgvector, got {width}; use fewer or narrower encoders."
            )
        self._server.run_in_transaction(
            make_tables, self._collection, notes, with_index=not self._is_filling
        )

    @contextmanager
    def filling(self) -> Iterator[Self]:
        """Build the index of a new table once, when the block ends.

        Use this for the first load of very many passages, since adding each to an HNSW takes many
        times as long. The build uses the server's `maintenance_work_mem`, which should be 1.5 times
        the size of the means; a DSN sets it with "?options=-c%20maintenance_work_mem%3D3GB". Until
        the index is built, searches scan every passage. If the block fails, run another one. An
        existing index is kept.

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
        self._server.run_in_transaction(make_index, self._collection)

    def put(self, points: Sequence[Point]) -> None:
        """Write points in batches, each in a transaction of its own."""
        # Sorted, so that concurrent writers do not deadlock.
        rows = sorted(map(statements.row_of, points), key=itemgetter(0))
        with progress_bar("Storing passages", len(rows)) as bar:
            for start in range(0, len(rows), _WRITE_BATCH):
                batch = rows[start : start + _WRITE_BATCH]
                self._server.call_with_retries(self._put, batch)
                bar.update(len(batch))

    def _put(self, rows: Sequence[tuple[object, ...]]) -> None:
        with self._server.transaction() as connection, connection.cursor() as cursor:
            notes, schema = notes_of(connection, self._collection), self.schema()
            if notes is None or schema is None or not notes.is_compatible_with(schema):
                raise ValueError(
                    f"store: the table {self._collection!r} was recreated for other Gaussians "
                    "during the write. Open the store again."
                )
            apart, copied, upserted = statements.upsert(self._tables.points, notes)
            cursor.execute(apart)
            with cursor.copy(copied) as out:
                out.set_types([*statements.TYPES, *statements.WORD_TYPES * len(notes.words)])
                for row in rows:
                    out.write_row(row)
            cursor.execute(upserted)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        # Rows are locked in the order in which `put` writes, to avoid deadlocks.
        gone = sql.SQL(
            "WITH locked AS MATERIALIZED (SELECT point FROM {points} "
            "WHERE point = ANY(%s::uuid[]) ORDER BY point FOR UPDATE) "
            "DELETE FROM {points} AS points USING locked WHERE points.point = locked.point "
            "RETURNING 1"
        )
        if ids:
            self._server.rows(gone.format(points=self._tables.points), [[*map(point_id, ids)]])

    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that match a condition."""
        if self.schema() is None:
            return 0
        where = statements.clause(condition)
        text = sql.SQL("SELECT passages FROM {}").format(self._tables.notes)
        if condition is not None:
            text = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
                self._tables.points, where.text
            )
        return int(self._server.rows(text, where.values)[0][0])

    def _columns(self, vectors: bool) -> sql.SQL:
        notes = self.schema()
        return statements.point(notes) if vectors and notes is not None else statements.PASSAGE

    def check(self, condition: Condition) -> None:
        """Raise ValueError if PostgreSQL cannot run a condition."""
        statements.clause(condition)

    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that exist."""
        text = sql.SQL("SELECT {} FROM {} WHERE point = ANY(%s::uuid[])")
        statement = text.format(self._columns(vectors), self._tables.points)
        for start in range(0, len(ids) if self.schema() else 0, _READ_BATCH):
            batch = [*map(point_id, ids[start : start + _READ_BATCH])]
            yield from map(statements.point_of, self._server.rows(statement, [batch]))

    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in the order of their UUIDs, which is random."""
        where, last, left = statements.clause(condition), "", limit
        text = statements.scan_page(self._tables.points, self._columns(vectors), where)
        while self.schema() is not None and (left is None or left > 0):
            count = _READ_BATCH if left is None else min(left, _READ_BATCH)
            rows = self._server.rows(text, [last, last, *where.values, count])
            yield from (statements.point_of(row[:-1]) for row in rows)
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
        passages, length, pairs = self._server.rows(text, asked)[0]
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        holding = zip(table[:, 0].view(np.uint64).tolist(), table[:, 1].tolist(), strict=True)
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
        where = statements.clause(condition)
        query = statements.candidates(self._tables, self._require_schema, where, mean, words, count)
        settings = {
            "hnsw.ef_search": str(min(count, _MAX_EF_SEARCH)),
            "hnsw.iterative_scan": "strict_order",  # until `count` points match
            "enable_indexscan": "off" if exact else "on",
        }

        def search(connection: Connection) -> list[tuple[Any, ...]]:
            connection.execute(
                "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) "
                "AS given (name, value)",
                ([*settings], [*settings.values()]),
            )
            return connection.execute(query.text, query.values).fetchall()

        return [*map(statements.point_of, self._server.run_in_transaction(search))]

    def read_stamp(self) -> str:
        """Return a value that changes with every write."""
        if self.schema() is None:
            return ""
        text = sql.SQL("SELECT written::text FROM {}").format(self._tables.notes)
        return str(self._server.rows(text)[0][0])

    @property
    def address(self) -> str:
        """The address for `open_store`, without secrets."""
        url = self._server.url
        return f"{url}{'&' if '?' in url else '?'}collection={quote(self._collection, safe='')}"
