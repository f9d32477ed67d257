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


_REFUSED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
_GONE = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedObject,
)


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
        try:
            self._known: dict[str, Any] = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its message repeats the address, with the password
            raise ValueError(
                "dsn: expected an address as libpq takes it, postgresql://USER@HOST/DATABASE, and "
                "got none that it can read."
            ) from None
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
        return make_conninfo(**{k: v for k, v in self._known.items() if k != "password"})

    def _reach(self) -> None:
        psycopg.connect(self._dsn, connect_timeout=self._timeout).close()

    def asked(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Result of a function that asks the server, again where it is out of reach a moment.

        Raises
        ------
        ConnectionError
            If it stays out of reach.
        PermissionError
            If it does not let this role do that.
        RuntimeError
            If the tables have gone, or are others than they were.
        """

        def translated() -> _T:
            try:
                return function(*arguments)
            except _REFUSED as error:
                raise PermissionError(
                    f"store: PostgreSQL at {self.place!r} does not let this role do that "
                    f"({_first_line(error)}); have it granted, or use another."
                ) from error
            except _GONE as error:
                raise RuntimeError(
                    f"store: in PostgreSQL at {self.place!r} somebody has removed or changed the "
                    f"tables of this collection ({_first_line(error)}). Open the store again; what "
                    "has gone has to be added again."
                ) from error
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                raise ConnectionError(
                    f"store: PostgreSQL at {self.place!r} does not answer, or refuses this user "
                    f"or database ({str(error).strip()}). Nothing was returned in part; "
                    "what was being written may be there in part: call again when it is there."
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


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0]
