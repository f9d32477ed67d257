"""A cache of encoded texts, in a database on disk or in memory."""

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import numpy as np

from uec_rag.base.regular import check_regular
from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    EncoderWrapper,
    Float32Array,
    Role,
    TermEncoder,
    ThreadedAsync,
    prepare_texts,
)

_log = logging.getLogger(__name__)

_CAPACITY = 2**26  # bytes of vectors to keep in memory
_WAIT = 60.0  # seconds to wait for another process's write
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS embedding "
    "(key BLOB PRIMARY KEY, embedding BLOB NOT NULL, features BLOB)",
    "CREATE TABLE IF NOT EXISTS checksum (key BLOB PRIMARY KEY, crc32 INTEGER NOT NULL)",
)
_READ = "SELECT embedding, features, crc32 FROM embedding JOIN checksum USING (key) WHERE key = ?"

_Row: TypeAlias = tuple[bytes, bytes | None]
"""A text's embedding and features; None for features that are the embedding."""

_T = TypeVar("_T")


class CachedEncoder(ThreadedAsync, EncoderWrapper):
    """An encoder that caches the vectors of another encoder.

    They are kept in one SQLite database per revision of the encoder, by role and text, which
    several processes may use. A vector that was damaged on disk is encoded again, and a damaged
    database is made again.

    Parameters
    ----------
    encoder
        The encoder of texts that are not in the cache.
    folder
        Folder of the database, created if missing. None to keep recent texts in memory only.
    revision
        Revision of an encoder that has none, such as a black box: the name and version of its model
        ("text-embedding-3-small/1"). Change it when the model changes.

    Raises
    ------
    ValueError
        If the encoder has no revision and none is given, or it has no vectors.
    OSError
        If the path of the database is not a regular file, or the database cannot be written.
    """

    def __init__(
        self, encoder: Encoder, folder: str | Path | None, *, revision: str | None = None
    ) -> None:
        if isinstance(encoder, TermEncoder):
            raise ValueError(f"encoder {encoder.name!r} makes no vectors to cache; use it directly")
        self.revision = revision or encoder.revision
        if folder is not None and not self.revision:
            raise ValueError(
                f"encoder {encoder.name!r} is a black box without a revision: the cache could "
                "not detect that its model has changed; give revision='model name and version'"
            )
        super().__init__(encoder)
        self._recent: dict[bytes, _Row] = {}
        self.path: Path | None = None
        if folder is not None:
            hashed = hashlib.sha256(self.revision.encode()).hexdigest()
            self.path = Path(folder).expanduser().absolute() / f"{hashed[:32]}.sqlite3"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._transact(lambda _: None, "BEGIN IMMEDIATE")

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> Encoded:
        """Embed texts, from the cache if possible.

        Raises TypeError or ValueError as the wrapped encoder does, and ValueError if the cache has
        the vectors of another model.
        """
        checked = prepare_texts(texts, role)
        keys = [hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in checked]
        known = self._transact(partial(_read, keys)) if self.path else self._recent
        misses = {key: text for key, text in zip(keys, checked, strict=True) if key not in known}
        new: dict[bytes, _Row] = {}
        if misses or not keys:
            encoded = self._encoder.encode([*misses.values()], role, show_progress=show_progress)
            if not keys:
                return encoded
            new = dict(zip(misses, _rows(encoded), strict=True))
        rows = [new.get(key) or known[key] for key in keys]
        if len({(len(row), features and len(features)) for row, features in rows}) > 1:
            raise ValueError(
                f"embedding cache {self.path or 'in memory'} holds vectors of different widths: "
                "two models were cached under one revision; delete it, and name their revisions"
            )
        if new and self.path:
            self._transact(partial(_write, new), "BEGIN IMMEDIATE")
        elif new:
            if (len(known) + len(new)) * len(rows[0][0]) > _CAPACITY:
                self._recent = new  # other threads may read the old one
            else:
                self._recent.update(new)  # and add to it
        embedding = _matrix([row for row, _ in rows])
        features = [row for _, row in rows if row is not None]
        return Encoded(embedding, _matrix(features) if features else embedding)

    def _transact(self, work: Callable[[sqlite3.Connection], _T], begin: str = "BEGIN") -> _T:
        """Do some work in one transaction, after replacing the database if it is damaged."""
        path = cast(Path, self.path)
        if path.exists():
            check_regular(path.stat(), path)
        try:  # with a connection that neither changes threads nor survives a fork
            with closing(sqlite3.connect(path, _WAIT, isolation_level=None)) as database:
                for statement in (begin, *_SCHEMA):
                    database.execute(statement)
                done = work(database)
                database.execute("COMMIT")
                return done
        except sqlite3.OperationalError as error:  # locked, disk full, no permission
            raise OSError(f"embedding cache {path}: {error}") from error
        except sqlite3.DatabaseError as error:
            _log.warning("%s is damaged (%s); its texts are encoded again", path, error)
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        return self._transact(work, begin)


def _rows(new: Encoded) -> list[_Row]:
    if not (np.isfinite(new.embedding).all() and np.isfinite(new.features).all()):
        raise ValueError("encoder: it returned NaN or infinity; nothing was cached")
    own = new.features is not new.embedding  # else the last layer is the identity
    pairs = zip(new.embedding, new.features, strict=True)
    return [(row.tobytes(), features.tobytes() if own else None) for row, features in pairs]


def _read(keys: list[bytes], database: sqlite3.Connection) -> dict[bytes, _Row]:
    rows: dict[bytes, _Row] = {}
    for key in dict.fromkeys(keys):
        for *row, checksum in database.execute(_READ, [key]):
            if _checksum(*row) == checksum:
                rows[key] = (row[0], row[1])
            else:
                _log.warning("a cached vector is damaged; its text is encoded again")
    return rows


def _write(rows: dict[bytes, _Row], database: sqlite3.Connection) -> None:
    for key, row in rows.items():
        database.execute("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", [key, *row])
        database.execute("INSERT OR REPLACE INTO checksum VALUES (?, ?)", [key, _checksum(*row)])


def _checksum(embedding: bytes, features: bytes | None) -> int:
    return zlib.crc32(features or b"", zlib.crc32(embedding))


def _matrix(rows: list[bytes]) -> Float32Array:
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1).copy()
