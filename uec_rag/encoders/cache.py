"""A cache of encoded texts, in memory or in a folder."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from uec_rag.base.errors import FingerprintMismatch, NoDirection
from uec_rag.base.progress import advance
from uec_rag.encoders.base import (
    LEAST_SAME,
    Encoded,
    Encoder,
    Float32Array,
    NotCopied,
    Piece,
    Role,
    SilentEncoder,
    TermEncoder,
    assemble,
    is_encoder,
    pieces_of,
    prepare_texts,
)
from uec_rag.encoders.token_vectors import TokenVectors

if TYPE_CHECKING:
    from uec_rag.encoders.loading import EncoderLike

_CAPACITY = 2**15  # texts whose vectors are kept in memory
_WAIT = 60.0  # seconds to wait for another process's write

_Row: TypeAlias = tuple[Float32Array, Float32Array | None]
"""A text's embedding and features; None for features that are the embedding."""


class CachedEncoder(NotCopied):
    """An encoder that caches the vectors of another encoder.

    They are kept in one SQLite database per revision of the encoder, by role and text, which
    several processes may use. Also if a call fails, or the process ends, what came before is kept.

    Parameters
    ----------
    encoder
        What embeds the texts that are not in the cache: an encoder, or whatever `load_encoder`
        takes, such as an embedding of LangChain or LlamaIndex.
    folder
        Folder of the database, created if missing. None to keep recent texts in memory only.
    revision
        Revision of an encoder that has none, such as an embedding: the name and version of its
        model ("text-embedding-3-small/1"). Change it when the model changes. Without one, the
        database is that of the embedding's class and name, and one of its texts is embedded again,
        once, to see whether the model is still the same.
    capacity
        Number of texts that are kept in memory, without a folder.

    Raises
    ------
    TypeError
        If the encoder is nothing that embeds.
    ValueError
        If the encoder has no vectors.
    FingerprintMismatch
        In `encode`, if the database has vectors of another model.
    OSError
        If the database is damaged, is not a regular file, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> def letters(texts):
    ...     print("embedding", texts)
    ...     return [[len(text), text.count("e") + 1] for text in texts]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder = CachedEncoder(letters, folder)
    ...     encoded = encoder.encode(["one", "two"], "passage")
    ...     encoded = encoder.encode(["two", "three"], "passage")
    embedding ['one', 'two']
    embedding ['three']
    """

    name = property(attrgetter("_encoder.name"))
    spec = property(attrgetter("_encoder.spec"))
    dimension = property(attrgetter("_informed.dimension"))
    feature_dimension = property(attrgetter("_informed.feature_dimension"))
    gain = property(attrgetter("_informed.gain"))
    options = property(attrgetter("_encoder.options"))
    rarity = property(attrgetter("_encoder.rarity"))
    uncached = property(attrgetter("_encoder"))

    def __init__(
        self,
        encoder: EncoderLike,
        folder: str | Path | None,
        *,
        revision: str | None = None,
        capacity: int = _CAPACITY,
    ) -> None:
        if not is_encoder(encoder):
            from uec_rag.encoders.loading import load_encoder  # which needs this folder

            encoder = load_encoder(encoder)
        if isinstance(encoder, TermEncoder):
            raise ValueError(f"encoder {encoder.name!r} makes no vectors to cache; use it directly")
        self.revision = revision or encoder.revision
        self._encoder, self.source = encoder, getattr(encoder, "source", encoder)
        self.waits = bool(getattr(encoder, "waits", False))
        self._recent: dict[bytes, _Row] = {}
        self._capacity, self._is_checked = capacity, False
        self.path: Path | None = None
        if folder is not None:
            kind = type(self.source)
            name = self.revision or f"{kind.__module__}.{kind.__qualname__} {encoder.name}"
            hashed = hashlib.sha256(name.encode()).hexdigest()
            self.path = Path(folder).expanduser().absolute() / f"{hashed[:32]}.sqlite3"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _opened(self.path) as database:
                for table in _TABLES:
                    database.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def __getstate__(self) -> dict[str, object]:
        """Pickle it without the texts that it has in memory."""
        return self.__dict__ | {"_recent": {}}

    def expect(self, dimension: int) -> None:
        """Tell an encoder that would have to embed a text its dimension."""
        if (expect := getattr(self._encoder, "expect", None)) is not None:
            expect(dimension)

    @property
    def _informed(self) -> Encoder:
        """The encoder, which knows its dimension if the database has a vector."""
        if self.path is not None and self.waits:
            with _opened(self.path) as database:
                for (embedding,) in database.execute("SELECT embedding FROM embedding LIMIT 1"):
                    self.expect(len(embedding) // np.float32().itemsize)
        return self._encoder

    def encode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts, from the cache if possible.

        Raises TypeError or ValueError as the wrapped encoder does.
        """
        checked = prepare_texts(texts, role)
        return assemble(self.pieces(checked, role)) if checked else self._encoder.encode([], role)

    def pieces(self, texts: Sequence[str], role: Role) -> Iterator[Piece]:
        """Yield the positions of texts, prepared before, with their encodings, as these come.

        What was embedded before an error is in the cache.
        """
        keys = [hashlib.sha256(f"{role}\0{text}".encode()).digest() for text in texts]
        cache = self._recent if self.path is None else _read(self.path, keys)
        places = defaultdict[bytes, list[int]](list)
        for place, key in enumerate(keys):
            places[key].append(place)
        if hits := [key for key in places if key in cache]:
            rows = [place for key in hits for place in places[key]]
            advance(len(rows))
            yield rows, _stacked([cache[keys[row]] for row in rows])
        misses = [key for key in places if key not in cache]
        if not misses:
            return
        self._check_model()
        missing = [texts[places[key][0]] for key in misses]
        try:
            for at, encoded in pieces_of(self._encoder, missing, role):
                entries = dict(zip([misses[row] for row in at], _rows_of(encoded), strict=True))
                self._keep(entries, (role, missing[at[0]]))
                rows = [place for key in entries for place in places[key]]
                advance(len(rows) - len(entries))
                yield rows, _stacked([entries[keys[row]] for row in rows])
        except NoDirection as error:
            raise error.among(texts) from None

    def _keep(self, entries: dict[bytes, _Row], sample: tuple[Role, str]) -> None:
        if self.path is None:
            full = len(self._recent) + len(entries) > self._capacity
            self._recent = entries if full else self._recent | entries  # others may read the old
            return
        with _opened(self.path) as database:
            rows = ((key, *row) for key, row in entries.items())
            database.executemany("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", rows)
            if not self.revision:
                database.execute("INSERT OR IGNORE INTO sample VALUES (1, ?, ?)", sample)

    def _check_model(self) -> None:
        """Embed a text of the database again, once, if the model is known by its name alone."""
        if self._is_checked or self.revision or self.path is None:
            return
        with _opened(self.path) as database:
            sample = database.execute("SELECT role, text FROM sample").fetchone()
        if sample is not None:
            role, text = sample
            key = hashlib.sha256(f"{role}\0{text}".encode()).digest()
            [before] = _read(self.path, [key]).values()
            now = self._encoder.encode([text], role).embedding[0]
            if len(now) != len(before[0]) or float(now @ before[0]) < LEAST_SAME:
                raise FingerprintMismatch(
                    f"embedding cache {self.path}: it has vectors of another model than "
                    f"{self.name!r} makes now; delete it, or name the model: "
                    "revision='model name and version'."
                )
        self._is_checked = True


_TABLES = (
    "embedding (key BLOB PRIMARY KEY, embedding BLOB NOT NULL, features BLOB)",
    "sample (number INTEGER PRIMARY KEY, role TEXT NOT NULL, text TEXT NOT NULL)",
)


def _rows_of(encoded: Encoded) -> Iterator[_Row]:
    is_apart = encoded.features is not encoded.embedding  # else the last layer is the identity
    features = encoded.features if is_apart else [None] * len(encoded)
    return zip(encoded.embedding, features, strict=True)


def _stacked(rows: Sequence[_Row]) -> Encoded:
    embedding = np.stack([row[0] for row in rows])
    features = [row[1] for row in rows if row[1] is not None]
    return Encoded(embedding, np.stack(features) if features else embedding)


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


def cached(encoder: Encoder, folder: Path | None = None) -> Encoder:
    """Return an encoder with a cache; itself if it needs none."""
    is_fast = isinstance(encoder, CachedEncoder | TermEncoder | SilentEncoder | TokenVectors)
    return encoder if is_fast else CachedEncoder(encoder, folder)
