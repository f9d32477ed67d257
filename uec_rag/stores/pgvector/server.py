"""A PostgreSQL server: its address, connections to it, and retries if it is briefly unreachable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, TypeAlias, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from uec_rag.base.retries import retry
from uec_rag.stores.engine import CollectionSchema
from uec_rag.stores.pgvector.sql import Tables, create, create_index, drop

_T = TypeVar("_T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


_SHOWN = frozenset(
    {
        *("dbname", "host", "hostaddr", "port", "service", "user"),
        *("channel_binding", "connect_timeout", "target_session_attrs"),
        *("sslcert", "sslkey", "sslmode", "sslrootcert"),
    }
)
"""The parts of an address that are not secret, and are shown and saved."""

_REFUSED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
_GONE = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
)


def known_of(dsn: str) -> dict[str, str]:
    """Parse an address.

    ValueError if libpq cannot parse it, or would misread a part of a password.
    """
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value != ""}
    except (psycopg.Error, ValueError):  # their messages contain the address with the password
        parts = {"port": "unknown"}
    # libpq ends user and password at the first @, unless a / precedes it.
    misread = re.match("postgres(?:ql)?://(?:[^@/]*@)?+[^?]*@", dsn)
    if misread or not re.fullmatch("[0-9,]*", parts.get("port", "")):
        raise ValueError(
            "dsn: expected a connection string of libpq, postgresql://USER@HOST/DATABASE, and got "
            "one that it cannot parse. In a password, write @ as %40, / as %2F and : as %3A."
        )
    return parts


def url_of(dsn: str) -> str:
    """Return an address without secrets, to be shown, saved and listed as trusted.

    Examples
    --------
    >>> url_of("host=db user=me password=secret sslmode=require dbname=wiki options='-c a.b=c'")
    'postgresql://me@db/wiki?sslmode=require'
    """
    shown = {key: quote(value, safe="") for key, value in known_of(dsn).items() if key in _SHOWN}
    user, port = shown.pop("user", ""), shown.pop("port", "")
    at = f"{user and user + '@'}{shown.pop('host', '')}{port and ':' + port}"
    rest = "&".join(f"{key}={value}" for key, value in sorted(shown.items()) if key != "dbname")
    return f"postgresql://{at}/{shown.get('dbname', '')}{rest and '?' + rest}"


class Server:
    """A pool of connections to a PostgreSQL server.

    `url` is the address without secrets. Raises ValueError as `known_of`, and ConnectionError if
    the server cannot be reached.
    """

    def __init__(self, dsn: str, connections: int, timeout: float) -> None:
        self._dsn, self.url = dsn, url_of(dsn)
        hidden = {key: value for key, value in known_of(dsn).items() if key not in _SHOWN}
        options = hidden.get("options", "").replace("\\", "").split()
        parts = [value or name for name, _, value in (part.partition("=") for part in options)]
        secrets = {*hidden.values(), *(part for part in parts if len(part) > 3)}
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._timeout = max(1, round(timeout))
        self._pool: ConnectionPool[Connection] | None = None
        self.call_with_retries(self._reach)
        self._pool = ConnectionPool(
            dsn,
            min_size=0,
            max_size=connections,
            timeout=timeout,
            # After the pool has given up, the next request makes it reconnect at once.
            reconnect_timeout=self._timeout,
            kwargs={"connect_timeout": self._timeout},
            open=True,
        )

    def _reach(self) -> None:
        psycopg.connect(self._dsn, connect_timeout=self._timeout).close()

    def call_with_retries(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Call a function that uses the server; retry if it is briefly unreachable.

        ConnectionError if it stays unreachable. PermissionError if the role lacks a privilege.
        RuntimeError if the tables were removed or changed.
        """
        tried = False

        def call() -> _T:
            nonlocal tried
            if tried and self._pool is not None:
                self._pool.check()  # other connections may be broken, too
            tried = True
            try:
                return function(*arguments)
            except (*_REFUSED, *_GONE, psycopg.OperationalError, psycopg.InterfaceError) as error:
                translation = self._translation(error)
            raise translation  # outside `except`, so that the driver's error is not its context

        return retry(call, within=self._timeout)

    def _translation(self, error: psycopg.Error) -> Exception:
        """Return the error to raise in place of a driver's."""
        message = str(error)
        for secret in self._secrets:  # servers may repeat them in messages, too
            message = message.replace(secret, "***")
        message = message.strip()
        line = message.partition("\n")[0]
        if isinstance(error, _REFUSED):
            return PermissionError(
                f"store: PostgreSQL at {self.url!r} does not let this role do that "
                f"({line}); grant it the privilege, or use another role."
            )
        if isinstance(error, _GONE):
            return RuntimeError(
                f"store: in PostgreSQL at {self.url!r} the tables of this collection were "
                f"removed or changed ({line}). Open the store again; missing passages must be "
                "added again."
            )
        return ConnectionError(
            f"store: PostgreSQL at {self.url!r} does not answer, or refuses this user "
            f"or database ({message}). No partial result was returned; a write may be incomplete. "
            "Call again when the server is available."
        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection with a transaction, which is committed unless the block raises."""
        assert self._pool is not None
        with self._pool.connection() as connection, connection.transaction():
            yield connection

    def run_in_transaction(
        self, function: Callable[..., _T], *arguments: object, **named: object
    ) -> _T:
        """Call a function with a connection, in one transaction, with the retries of `asked`."""

        def whole() -> _T:
            with self.transaction() as connection:
                return function(connection, *arguments, **named)

        return self.call_with_retries(whole)

    def rows(self, text: sql.Composed, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        return self.run_in_transaction(
            lambda connection: connection.execute(text, values).fetchall()
        )

    def close(self) -> None:
        """Close the connections."""
        assert self._pool is not None
        self._pool.close()


_EXTENSION: LiteralString = "CREATE EXTENSION IF NOT EXISTS vector"


def notes_of(connection: Connection, collection: str) -> CollectionSchema | None:
    """Return the schema of the stored Gaussians; None if there is no table.

    ValueError if the table was not created by this package.
    """
    names = (collection, f"{collection}_notes")
    statement = "SELECT to_regclass(quote_ident(%s)), to_regclass(quote_ident(%s))"
    table, noted = connection.execute(statement, names).fetchone() or (None, None)
    if table is None and noted is None:
        return None
    if noted is None:
        return CollectionSchema.restore(None, collection)  # raises ValueError
    query = sql.SQL("SELECT notes FROM {}").format(Tables.from_name(collection).notes)
    row = connection.execute(query).fetchone()
    return CollectionSchema.restore(row and row[0], collection)


def make_tables(
    connection: Connection, collection: str, notes: CollectionSchema, *, with_index: bool
) -> None:
    """Create the tables of a collection, in place of existing empty ones.

    ValueError if the server has no pgvector. PermissionError if the role may not create its
    extension.
    """
    _alone(connection, collection)
    try:
        connection.execute(_EXTENSION)
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise ValueError(
            "dsn: the server has no pgvector; install its package there (pgvector 0.8 or "
            "later), or use another server."
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionError(
            "dsn: this role may not create the pgvector extension; have a superuser run "
            "CREATE EXTENSION vector in this database once."
        ) from error
    made = notes_of(connection, collection)
    if made is not None and made.is_compatible_with(notes):
        return
    tables = Tables.from_name(collection)
    if made is not None:
        connection.execute(drop(tables))
    _check_free(connection, collection, tables)
    connection.execute(create(tables, notes))
    if with_index:
        connection.execute(create_index(tables, notes))
    connection.execute(
        sql.SQL("INSERT INTO {} (notes) VALUES (%s)").format(tables.notes),
        (json.dumps(notes.metadata()),),
    )


def _check_free(connection: Connection, collection: str, tables: Tables) -> None:
    """Raise ValueError if a name that a collection needs is taken."""
    names = [table.as_string(connection) for table in tables]
    asked = "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL"
    taken = [name for (name,) in connection.execute(asked, (names,)).fetchall()]
    if taken:
        raise ValueError(
            f"collection: {collection!r} needs the names {', '.join(taken)}, which exist in this "
            "database and do not belong to a collection of that name; choose another name, or "
            "remove them if they are not needed."
        )


def make_index(connection: Connection, collection: str) -> None:
    """Create the HNSW index, if there is a table without it."""
    _alone(connection, collection)
    notes = notes_of(connection, collection)
    if notes is not None:
        connection.execute(create_index(Tables.from_name(collection), notes))


def _alone(connection: Connection, collection: str) -> None:
    """Lock the creation of tables, so that a second process finds those of the first."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"uec_rag {collection}",))
