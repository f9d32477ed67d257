"""A PostgreSQL server: connections to it, and another try where it is out of reach a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from uec_rag.base.retries import retried

_T = TypeVar("_T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


class Server:
    """Where tables are.

    Parameters
    ----------
    dsn : str
    connections : int
        That are kept open, at most.
    timeout : float
        Seconds to wait for one.

    Raises
    ------
    ConnectionError
        If it cannot be reached.
    """

    def __init__(self, dsn: str, connections: int, timeout: float) -> None:
        self._dsn, self._timeout = dsn, max(1, round(timeout))
        self.asked(self._reach)
        self._pool = ConnectionPool(
            dsn,
            min_size=0,
            max_size=connections,
            timeout=timeout,
            kwargs={"connect_timeout": self._timeout},
            check=ConnectionPool.check_connection,
            open=True,
        )

    @property
    def place(self) -> str:
        """The DSN without its password."""
        place: dict[str, Any] = conninfo_to_dict(self._dsn)
        place.pop("password", None)
        return make_conninfo(**place)

    def _reach(self) -> None:
        psycopg.connect(self._dsn, connect_timeout=self._timeout).close()

    def asked(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Result of a function that asks the server, again where it is out of reach a moment.

        Raises
        ------
        ConnectionError
            If it stays out of reach.
        """

        def translated() -> _T:
            try:
                return function(*arguments)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                raise ConnectionError(
                    f"store: PostgreSQL at {self.place!r} does not answer "
                    f"({str(error).strip()}). What this call has not written or found is not "
                    "hidden: call it again when the server is there."
                ) from error

        return retried(translated)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection of one's own, whose work counts when it ends well."""
        with self._pool.connection() as connection:
            yield connection

    def within(self, function: Callable[..., _T], *arguments: object, **named: object) -> _T:
        """Result of a function that is given a connection, in one transaction; as `asked`."""

        def whole() -> _T:
            with self.transaction() as connection:
                return function(connection, *arguments, **named)

        return self.asked(whole)

    def rows(self, text: sql.Composed, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of one statement."""

        def read() -> list[tuple[Any, ...]]:
            with self.transaction() as connection:
                return connection.execute(text, values).fetchall()

        return self.asked(read)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
