"""Embeddings kept on disk, so that no text is encoded twice."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from uec_rag.base.checks import check_texts
from uec_rag.encoders.base import Encoded, Encoder, EncoderInside, Float32Array, Role, check_role

_WAIT = 60.0  # seconds to wait for another process's write
_AT_ONCE = 500  # keys per SELECT; SQLite's oldest limit is 999
_SCHEMA = """
CREATE TABLE IF NOT EXISTS embedding (
    key BLOB PRIMARY KEY,
    embedding BLOB NOT NULL,
    features BLOB
)
"""


class CachedEncoder(EncoderInside):
    """An encoder that remembers: only texts never seen before reach the one inside.

    One SQLite database per revision of the encoder, keyed by role and text. Several processes may
    use one folder at a time.

    Parameters
    ----------
    encoder
        The encoder to ask for what is not in the cache.
    folder
        Where the database lies; made if missing.
    revision
        Stands for the encoder's revision where it has none: name a black box's model and version
        ("text-embedding-3-small/1"), and change it when the model behind it changes.

    Raises
    ------
    ValueError
        If the encoder has no revision and none is given, or the database is damaged.
    """

    def __init__(
        self, encoder: Encoder, folder: str | Path, *, revision: str | None = None
    ) -> None:
        self.revision = revision or encoder.revision
        if not self.revision:
            raise ValueError(
                f"encoder {encoder.name!r} is a black box without a revision: nothing would tell "
                "the cache that its model has changed; give revision='model name and version'"
            )
        super().__init__(encoder)
        hashed = hashlib.sha256(self.revision.encode()).hexdigest()
        self.path = Path(folder).expanduser() / f"{hashed[:32]}.sqlite3"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._database() as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(_SCHEMA)

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, from the cache where they are in it.

        Raises
        ------
        TypeError, ValueError
            As the encoder inside; ValueError also if the database is damaged.
        """
        checked = check_texts(texts)
        keys = _keys(checked, role)
        found = self._lookup(keys)
        misses = _misses(keys, checked, found)
        if misses:
            new = self._encoder.encode(list(misses.values()), role, show_progress=show_progress)
            found |= self._store(list(misses), new)
        return self._assemble(keys, found)

    async def aencode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts; misses go through the asynchronous method of the encoder inside."""
        checked = check_texts(texts)
        keys = _keys(checked, role)
        found = await asyncio.to_thread(self._lookup, keys)
        misses = _misses(keys, checked, found)
        if misses:
            new = await self._encoder.aencode(list(misses.values()), role)
            found |= await asyncio.to_thread(self._store, list(misses), new)
        return self._assemble(keys, found)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction; a connection must not change threads."""
        connection = sqlite3.connect(self.path, timeout=_WAIT)
        try:
            with connection:
                yield connection
        except sqlite3.OperationalError:
            raise  # locked for too long, disk full, no permission: its own words are clear
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"embedding cache {self.path} is damaged ({error}); delete the file, "
                "it will be filled anew"
            ) from error
        finally:
            connection.close()

    def _lookup(self, keys: list[bytes]) -> dict[bytes, tuple[bytes, bytes | None]]:
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, tuple[bytes, bytes | None]] = {}
        with self._database() as database:
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(
                    f"SELECT key, embedding, features FROM embedding WHERE key IN ({marks})", some
                )
                found |= {key: (embedding, features) for key, embedding, features in rows}
        return found

    def _store(self, keys: list[bytes], new: Encoded) -> dict[bytes, tuple[bytes, bytes | None]]:
        # Where the last layer is the identity the features are the embedding: stored once.
        distinct = new.features is not new.embedding
        rows = {
            key: (new.embedding[i].tobytes(), new.features[i].tobytes() if distinct else None)
            for i, key in enumerate(keys)
        }
        with self._database() as database:
            database.executemany(
                "INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)",
                ((key, embedding, features) for key, (embedding, features) in rows.items()),
            )
        return rows

    def _assemble(
        self, keys: list[bytes], found: dict[bytes, tuple[bytes, bytes | None]]
    ) -> Encoded:
        if not keys:
            return Encoded.empty(self.dimension, self.feature_dimension)
        embedding = self._matrix([found[key][0] for key in keys])
        features = [found[key][1] for key in keys]
        if features[0] is None:
            return Encoded(embedding, embedding)
        return Encoded(embedding, self._matrix([row or b"" for row in features]))

    def _matrix(self, rows: list[bytes]) -> Float32Array:
        width = len(rows[0])
        if width == 0 or width % 4 or any(len(row) != width for row in rows):
            raise ValueError(
                f"embedding cache {self.path} holds vectors of different widths: two models were "
                "cached under one revision; delete the file and give each its own revision"
            )
        return np.frombuffer(b"".join(rows), dtype=np.float32).reshape(len(rows), -1).copy()


def _keys(texts: list[str], role: Role) -> list[bytes]:
    check_role(role)
    prefix = hashlib.sha256(f"{role}\0".encode())
    keys = []
    for text in texts:
        digest = prefix.copy()
        digest.update(text.encode())
        keys.append(digest.digest())
    return keys


def _misses(
    keys: list[bytes], texts: list[str], found: dict[bytes, tuple[bytes, bytes | None]]
) -> dict[bytes, str]:
    """Texts that are not in the cache, each once."""
    return {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
