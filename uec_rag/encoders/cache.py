"""A cache of encoded texts, in a database on disk or in memory."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import numpy as np

from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    Float32Array,
    NotCopied,
    Role,
    TermEncoder,
    encodes_elsewhere,
    prepare_texts,
)

_CAPACITY = 2**26  # bytes of vectors to keep in memory
_WAIT = 60.0  # seconds to wait for another process's write

_Row: TypeAlias = tuple[bytes, bytes | None]
"""A text's embedding and features; None for features that are the embedding."""


class CachedEncoder(NotCopied):
    """An encoder that caches the vectors of another encoder.

    They are kept in one SQLite database per revision of the encoder, by role and text, which
    several processes may use.

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
        If the database is damaged, is not a regular file, or cannot be written.
    """

    name = property(attrgetter("_encoder.name"))
    spec = property(attrgetter("_encoder.spec"))
    dimension = property(attrgetter("_encoder.dimension"))
    feature_dimension = property(attrgetter("_encoder.feature_dimension"))
    gain = property(attrgetter("_encoder.gain"))

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
        self._encoder = encoder
        self.tokenizer: object = getattr(encoder, "tokenizer", None)
        self.waits = encodes_elsewhere(encoder)
        self._recent: dict[bytes, _Row] = {}
        self.path: Path | None = None
        if folder is not None:
            hashed = hashlib.sha256(self.revision.encode()).hexdigest()
            self.path = Path(folder).expanduser().absolute() / f"{hashed[:32]}.sqlite3"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _opened(self.path) as database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS embedding "
                    "(key BLOB PRIMARY KEY, embedding BLOB NOT NULL, features BLOB)"
                )

    def encode(
        self, texts: Sequence[str], role: Role, *, show_progress: bool | None = None
    ) -> Encoded:
        """Embed texts, from the cache if possible.

        Raises TypeError or ValueError as the wrapped encoder does.
        """
        checked = prepare_texts(texts, role)
        keys = [hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in checked]
        known = self._recent if self.path is None else _read(self.path, keys)
        misses = {key: text for key, text in zip(keys, checked, strict=True) if key not in known}
        if misses or not keys:
            encoded = self._encoder.encode([*misses.values()], role, show_progress=show_progress)
            known = known | self._keep(dict(zip(misses, _rows(encoded), strict=True)))
        if not keys:
            return encoded
        rows = [known[key] for key in keys]
        embedding = _matrix([row for row, _ in rows])
        features = [row for _, row in rows if row is not None]
        return Encoded(embedding, _matrix(features) if features else embedding)

    def _keep(self, new: dict[bytes, _Row]) -> dict[bytes, _Row]:
        """Write rows to the cache, and return them."""
        if self.path is not None:
            with _opened(self.path) as database:
                rows = ((key, *row) for key, row in new.items())
                database.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows)
        elif new:
            width = len(next(iter(new.values()))[0])
            full = (len(self._recent) + len(new)) * width > _CAPACITY
            # Other threads may read the old one.
            self._recent = new if full else self._recent | new
        return new


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for one transaction; a connection would not survive a fork."""
    try:
        with closing(sqlite3.connect(path, _WAIT)) as database, database:
            yield database
    except sqlite3.Error as error:  # locked, disk full, no permission, damaged
        raise OSError(f"embedding cache {path}: {error}; if it is damaged, delete it") from error


def _read(path: Path, keys: Sequence[bytes]) -> dict[bytes, _Row]:
    query = "SELECT embedding, features FROM embedding WHERE key = ?"
    with _opened(path) as database:
        found = ((key, database.execute(query, [key]).fetchone()) for key in dict.fromkeys(keys))
        return {key: row for key, row in found if row is not None}


def _rows(new: Encoded) -> list[_Row]:
    own = new.features is not new.embedding  # else the last layer is the identity
    pairs = zip(new.embedding, new.features, strict=True)
    return [(row.tobytes(), features.tobytes() if own else None) for row, features in pairs]


def _matrix(rows: list[bytes]) -> Float32Array:
    return np.stack([np.frombuffer(row, dtype=np.float32) for row in rows])
