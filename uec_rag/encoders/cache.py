"""A cache of encoded texts: recent ones in memory, all of them in a database on disk."""

import asyncio
import hashlib
import logging
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from uec_rag.base.forks import free_after_fork
from uec_rag.base.regular import check_regular
from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    EncoderInside,
    Float32Array,
    Role,
    TermEncoder,
    checked_texts,
)

_log = logging.getLogger(__name__)

_CAPACITY = 2**26  # bytes of vectors that an encoder's cache keeps in memory
_WAIT = 60.0  # seconds to wait for another process's write
_AT_ONCE = 500  # keys per SELECT; SQLite's oldest limit is 999
_SCHEMA = """
CREATE TABLE IF NOT EXISTS embedding (
    key BLOB PRIMARY KEY,
    embedding BLOB NOT NULL,
    features BLOB
);
CREATE TABLE IF NOT EXISTS checksum (key BLOB PRIMARY KEY, crc32 INTEGER NOT NULL);
"""

_Row: TypeAlias = tuple[bytes, bytes | None]
"""A text's embedding and features; None for features that are the embedding."""


class LatestRows:
    """A thread-safe LRU cache with a limit on the total size of its rows.

    Parameters
    ----------
    capacity
        Largest total size of all rows, in bytes.

    Examples
    --------
    >>> latest = LatestRows(3)
    >>> latest.put({b"a": (b"x", None), b"b": (b"y", b"y")})
    >>> latest.get([b"a"])
    {b'a': (b'x', None)}
    >>> latest.put({b"c": (b"z", None)})
    >>> latest.get([b"a", b"b", b"c"])
    {b'a': (b'x', None), b'c': (b'z', None)}
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._rows: OrderedDict[bytes, _Row] = OrderedDict()
        self._taken = 0
        self._lock = free_after_fork(threading.Lock(), inner=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle the cache without its rows."""
        return type(self), (self._capacity,)

    def get(self, keys: Iterable[bytes]) -> dict[bytes, _Row]:
        """Return the rows of those keys that are in the cache."""
        with self._lock:
            found = {key: self._rows[key] for key in keys if key in self._rows}
            for key in found:
                self._rows.move_to_end(key)
        return found

    def put(self, rows: Mapping[bytes, _Row]) -> None:
        """Add or replace rows."""
        with self._lock:
            for key, row in rows.items():
                if key in self._rows:
                    self._taken -= _size(self._rows.pop(key))
                self._rows[key] = row
                self._taken += _size(row)
            while self._taken > self._capacity:
                self._taken -= _size(self._rows.popitem(last=False)[1])


class CachedEncoder(EncoderInside):
    """An encoder that caches the vectors of another encoder.

    Recent texts are kept in memory, all of them in one SQLite database per revision of the encoder,
    keyed by role and text. Several processes may use the same folder. Vectors have checksums: one
    that was damaged on disk is encoded again.

    Parameters
    ----------
    encoder
        The encoder of texts that are not in the cache.
    folder
        Folder of the database, created if missing. None for memory only.
    revision
        Revision of an encoder that has none, such as a black box: the name and version of its model
        ("text-embedding-3-small/1"). Change it when the model changes.

    Raises
    ------
    ValueError
        If the encoder has no revision and none is given, it has no vectors, or the database is
        damaged.
    OSError
        If the path of the database is not a regular file.
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
        self._memory = LatestRows(_CAPACITY)
        self._widths: tuple[int, int | None] | None = None
        self.path: Path | None = None
        if folder is not None:
            hashed = hashlib.sha256(self.revision.encode()).hexdigest()
            self.path = Path(folder).expanduser().absolute() / f"{hashed[:32]}.sqlite3"
            self._open(self.path)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            check_regular(path.stat(), path)
        import tenacity

        # SQLite does not wait for other processes that switch to this mode at the same time.
        patiently = tenacity.Retrying(
            retry=tenacity.retry_if_exception_message(match="database is locked"),
            wait=tenacity.wait_fixed(0.05),
            stop=tenacity.stop_after_delay(_WAIT),
            reraise=True,
        )
        with self._database() as database:
            patiently(database.execute, "PRAGMA journal_mode=WAL")
            database.executescript(_SCHEMA)
            self._widths = database.execute(
                "SELECT length(embedding), length(features) FROM embedding LIMIT 1"
            ).fetchone()

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, from the cache if possible.

        Raises
        ------
        TypeError, ValueError
            As raised by the wrapped encoder; ValueError also if the database is damaged or contains
            the vectors of another model.
        """
        keys, misses, found = self._lookup(texts, role)
        if not misses:
            return self._assemble(keys, found)
        new = self._encoder.encode(list(misses.values()), role, show_progress=show_progress)
        return self._assemble(keys, found | self._store(list(misses), new))

    async def aencode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts; misses use the asynchronous method of the wrapped encoder."""
        keys, misses, found = await asyncio.to_thread(self._lookup, texts, role)
        if misses:
            new = await self._encoder.aencode(list(misses.values()), role)
            found |= await asyncio.to_thread(self._store, list(misses), new)
        return await asyncio.to_thread(self._assemble, keys, found)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction; a connection must not change threads."""
        assert self.path is not None
        connection = sqlite3.connect(self.path, timeout=_WAIT)
        try:
            with connection:
                yield connection
        except sqlite3.OperationalError:
            raise  # locked for too long, disk full, no permission: its message is clear
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"embedding cache {self.path} is damaged ({error}); delete the file, "
                "and texts will be encoded again"
            ) from error
        finally:
            connection.close()

    def _lookup(
        self, texts: Sequence[str], role: Role
    ) -> tuple[list[bytes], dict[bytes, str], dict[bytes, _Row]]:
        """Return the keys of texts, the distinct texts to encode, and the cached rows of others."""
        checked = checked_texts(texts, role)
        keys = [hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in checked]
        found = self._memory.get(keys)
        read = self._read([key for key in dict.fromkeys(keys) if key not in found])
        self._memory.put(read)
        found |= read
        misses = {k: text for k, text in zip(keys, checked, strict=True) if k not in found}
        return keys, misses, found

    def _read(self, keys: list[bytes]) -> dict[bytes, _Row]:
        if not keys or self.path is None:
            return {}
        found: dict[bytes, _Row] = {}
        damaged = 0
        with self._database() as database:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(
                    "SELECT key, embedding, features, crc32 FROM embedding JOIN checksum "
                    f"USING (key) WHERE key IN ({marks})",
                    some,
                )
                for key, embedding, features, crc32 in rows:
                    self._check_widths(embedding, features)
                    if _crc32(embedding, features) == crc32:
                        found[key] = embedding, features
                    else:
                        damaged += 1
        if damaged:
            _log.warning("%s: %d vectors are damaged; encoding them again", self.path, damaged)
        return found

    def _store(self, keys: list[bytes], new: Encoded) -> dict[bytes, _Row]:
        # If the last layer is the identity, the features equal the embedding and are not stored.
        distinct = new.features is not new.embedding
        if not (np.isfinite(new.embedding).all() and np.isfinite(new.features).all()):
            raise ValueError(f"encoder {self.name!r} returned NaN or infinity; nothing was cached")
        rows = {
            key: (new.embedding[i].tobytes(), new.features[i].tobytes() if distinct else None)
            for i, key in enumerate(keys)
        }
        self._check_widths(*rows[keys[0]])
        if self.path is not None:
            self._write(rows)
        self._memory.put(rows)
        return rows

    def _write(self, rows: Mapping[bytes, _Row]) -> None:
        with self._database() as database:
            database.executemany(
                "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)",
                ((key, embedding, features) for key, (embedding, features) in rows.items()),
            )
            database.executemany(
                "INSERT OR REPLACE INTO checksum VALUES (?, ?)",
                ((key, _crc32(*row)) for key, row in rows.items()),
            )

    def _check_widths(self, embedding: bytes, features: bytes | None) -> None:
        widths = len(embedding), None if features is None else len(features)
        if self._widths is None:
            self._widths = widths
        if widths != self._widths:
            raise ValueError(
                f"embedding cache {self.path or 'in memory'} holds vectors of different widths: "
                "two models were cached under one revision; delete the file and give each its own "
                "revision"
            )

    def _assemble(self, keys: list[bytes], found: dict[bytes, _Row]) -> Encoded:
        if not keys:
            return Encoded.empty(self.dimension, self.feature_dimension)
        embedding = _matrix([found[key][0] for key in keys])
        features = [found[key][1] for key in keys]
        if features[0] is None:
            return Encoded(embedding, embedding)
        return Encoded(embedding, _matrix([row or b"" for row in features]))


def _size(row: _Row) -> int:
    embedding, features = row
    return len(embedding) + len(features or b"")


def _crc32(embedding: bytes, features: bytes | None) -> int:
    return zlib.crc32(features or b"", zlib.crc32(embedding))


def _matrix(rows: list[bytes]) -> Float32Array:
    return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1).copy()
