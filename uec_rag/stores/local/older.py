"""Indexes of older formats, of which passages and settings can still be read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from uec_rag.base.errors import as_corrupted, corruption
from uec_rag.base.files import DATABASE
from uec_rag.stores.local.contents import COLUMNS, passage_of, read_settings
from uec_rag.stores.local.database import SCHEMA, kind_errors
from uec_rag.stores.passage import Passage

_TABLES = ("passages", "dead", "settings")  # which are as they were since format 2


class OlderContents:
    """The passages and settings of an index of an older format, while no process writes to it.

    Its folder is left as it is: SQLite writes nothing beside the database.

    Parameters
    ----------
    folder : Path
        The folder of the index.

    Attributes
    ----------
    settings : dict

    Raises
    ------
    IndexCorrupted
        If its tables are not those of the formats that can be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / DATABASE
        with self._reading() as connection:
            self.settings = read_settings(connection)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to it, or with changes in its log, to a copy of both."""
        log = self._path.with_name(f"{DATABASE}-wal")
        with TemporaryDirectory() as folder, kind_errors(self._path), as_corrupted(self._path):
            uri = f"{self._path.as_uri()}?immutable=1"
            if log.exists() and log.stat().st_size:
                for file in (self._path, log):
                    shutil.copyfile(file, Path(folder, file.name))
                uri = f"{Path(folder, DATABASE).as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.execute("PRAGMA trusted_schema = OFF")
                tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
                expected = {sql for sql in SCHEMA if sql.split()[2] in _TABLES}
                if not expected <= tables:
                    problem = "has no tables that can be read; index the documents again."
                    raise corruption(self._path, problem)
                yield connection

    def passages(self) -> Iterator[Passage]:
        """Iterate over all passages in the order of insertion, after checking their sums."""
        living = "WHERE row NOT IN (SELECT row FROM dead) ORDER BY row"
        with self._reading() as connection:
            for record in connection.execute(f"SELECT {COLUMNS} FROM passages {living}"):
                yield passage_of(record, self._path)

    def close(self) -> None:
        """Do nothing, as nothing stays open."""
