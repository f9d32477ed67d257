"""The folder of what is kept between processes, and a cache of encoded texts."""

import hashlib
import os
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
    prepare_texts,
)

_CAPACITY = 2**15  # texts whose vectors are kept in memory
_WAIT = 60.0  # seconds to wait for another process's write

_Row: TypeAlias = tuple[Float32Array, Float32Array | None]
"""A text's embedding and features; None for features that are the embedding."""


def cache_folder() -> Path:
    """Return the folder for models: `UEC_CACHE`, else one in the user's cache folder."""
    usual = f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/uec_rag"
    return Path(os.environ.get("UEC_CACHE") or usual).expanduser()


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
    options = property(attrgetter("_encoder.options"))
    rarity = property(attrgetter("_encoder.rarity"))
    uncached = property(attrgetter("_encoder"))

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
        self._encoder, self.source = encoder, getattr(encoder, "source", encoder)
        self.waits = bool(getattr(encoder, "waits", False))
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

    def __getstate__(self) -> dict[str, object]:
        """Pickle it without the texts that it has in memory."""
        return self.__dict__ | {"_recent": {}}

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts, from the cache if possible.

        Raises TypeError or ValueError as the wrapped encoder does.
        """
        checked = prepare_texts(texts, role)
        keys = [hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in checked]
        cache = self._recent if self.path is None else _read(self.path, keys)
        missing = {key: text for key, text in zip(keys, checked, strict=True) if key not in cache}
        if missing or not keys:
            encoded = self._encoder.encode([*missing.values()], role)
            if not keys:
                return encoded
            is_apart = encoded.features is not encoded.embedding  # else the last layer is identity
            features = encoded.features if is_apart else [None] * len(encoded)
            rows = zip(encoded.embedding, features, strict=True)
            entries: dict[bytes, _Row] = dict(zip(missing, rows, strict=True))
            self._keep(entries)
            cache = cache | entries
        embedding = np.stack([cache[key][0] for key in keys])
        columns = [row for key in keys if (row := cache[key][1]) is not None]
        return Encoded(embedding, np.stack(columns) if columns else embedding)

    def _keep(self, entries: dict[bytes, _Row]) -> None:
        if self.path is None:
            full = len(self._recent) + len(entries) > _CAPACITY
            self._recent = entries if full else self._recent | entries  # others may read the old
            return
        with _opened(self.path) as database:
            rows = ((key, *row) for key, row in entries.items())
            database.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for one transaction; a connection would not survive a fork."""
    try:
        with closing(sqlite3.connect(path, _WAIT)) as database, database:
            yield database
    except sqlite3.Error as error:  # locked, disk full, no permission, damaged
        raise OSError(f"embedding cache {path}: {error}; if it is damaged, delete it") from error


def _read(path: Path, keys: Sequence[bytes]) -> dict[bytes, _Row]:
    query, rows = "SELECT embedding, features FROM embedding WHERE key = ?", dict[bytes, _Row]()
    with _opened(path) as database:
        for key in dict.fromkeys(keys):
            for embedding, features in database.execute(query, [key]):
                array = None if features is None else np.frombuffer(features, np.float32)
                rows[key] = np.frombuffer(embedding, np.float32), array
    return rows
