"""A store in Qdrant: candidates by its HNSW and by words.

One point for each passage, with two vectors: "mean", which HNSW searches by inner product, and
"spread", of which no index is made; and a sparse vector for each member that looks at words.

A word's counts are saturated when they are stored, by the length that passages usually have; its
rarity comes with the query. Qdrant's own IDF modifier is not used: it counts within a shard, not
in the collection, and does not tell what BM25 is divided by here. Rarity is asked of the payload's
index, which holds each passage's terms, and so is always that of what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.environment import missing_extra
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.postings import Frequencies
from uec_rag.stores.base import Stamp
from uec_rag.stores.engine import (
    CANDIDATES,
    CollectionSchema,
    EngineStore,
    Point,
    QueryTerms,
    check_collection,
    point_id,
)
from uec_rag.stores.filters import AnyFact, Condition

try:
    from qdrant_client import QdrantClient, models
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "stores")) from error

from uec_rag.stores.qdrant.client import Kept, Place
from uec_rag.stores.qdrant.query import (
    FACTS,
    MEAN,
    PASSAGE,
    SPREAD,
    having,
    nearest,
    point_of,
    qdrant_filter,
    struct_of,
    words_name,
)

_NOTES = "uec_rag"  # under which a collection's metadata holds its notes
_WRITTEN = 128  # points sent at a time
_READ = 512  # points asked for at a time
_AT_ONCE = 16  # counts that are asked for
_LONGEST_NAME = 250  # in bytes: of a file's name, with what is put behind it
_SIGNS, _CONTROLS = '/\\<>:"|?*', "".join(map(chr, range(32)))
_MOST_LENGTHS = 2**20  # that passages may have


class QdrantStore(EngineStore):
    """Passages and their Gaussians in a Qdrant collection.

    Candidates are the nearest by mu_s in Qdrant's HNSW and by words; they are fetched and scored
    here. Filters run in the engine. The first passages create the collection, which records their
    ensemble. A second collection, with "_kept" appended, holds what was learned of the corpus, for
    all processes.

    Because others may write at any time, a snapshot is a filtered view, not a fixed state.

    Parameters
    ----------
    location : str, optional
        ":memory:" for a collection in this process only.
    path : str or path, optional
        A folder, for one process at a time. Do not open a folder from a stranger: reading it can
        run code.
    url : str, optional
        Of a server, http://HOST:PORT. Exactly one of the three.
    collection : str
    api_key : str, optional
        Of the server. It is not saved.
    timeout : int, optional
        Seconds to wait for the server.
    client : QdrantClient, optional
        Instead of all of the above.
    candidates : int
        As `EngineStore` takes it; Qdrant's `hnsw_ef` follows it.
    **settings
        Passed to Qdrant when the collection is created: `shard_number`, `replication_factor`,
        `quantization_config`, `on_disk_payload`, `hnsw_config` and so on.

    Raises
    ------
    ImportError
        Without qdrant-client: pip install "uec-rag[stores]".
    ValueError
        If not exactly one place is given, it is invalid, or Qdrant rejects the collection's name.
    ConnectionError, PermissionError, RuntimeError
        If a server does not answer, rejects the key, or is not Qdrant.

    Examples
    --------
    >>> from uec_rag import Gaussian
    >>> from uec_rag.stores import Passage
    >>> store = QdrantStore(location=":memory:", collection="letters")
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0).passages[0][0].id
    'a'
    """

    engine = "Qdrant"

    def __init__(
        self,
        *,
        location: str | None = None,
        path: str | Path | None = None,
        url: str | None = None,
        collection: str = "uec_rag",
        api_key: str | None = None,
        timeout: int | None = None,
        client: QdrantClient | None = None,
        candidates: int = CANDIDATES,
        **settings: Any,
    ) -> None:
        super().__init__(candidates)
        unknown = sorted(settings.keys() - signature(QdrantClient.create_collection).parameters)
        if unknown:
            raise TypeError(
                "settings: expected what QdrantClient.create_collection takes; it takes no "
                f"{unknown}."
            )
        check_collection(collection, _LONGEST_NAME, "any of " + _SIGNS, _SIGNS + _CONTROLS)
        where = None if path is None else str(path)
        self._place = Place(location, where, url, api_key, timeout, client)
        self._client, self._ask = self._place.client, self._place.ask
        self._collection, self._settings = collection, settings
        self._kept, self._is_indexed = Kept(self._place, collection), False

    def close(self) -> None:
        """Close the connection, or release the folder for another process."""
        self._client.close()

    def read_notes(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection."""
        if not self._ask(self._client.collection_exists, self._collection):
            return None
        config = self._ask(self._client.get_collection, self._collection).config
        return CollectionSchema.restore((config.metadata or {}).get(_NOTES), self._collection)

    def make(self, notes: CollectionSchema) -> None:
        """Make the collection, instead of an empty one that is there."""
        self._is_indexed = False
        if (there := self.notes()) is not None:
            if there.admit(notes):  # another writer has just made it, and may have written already
                return
            self._ask(self._client.delete_collection, self._collection)
        self._kept.make()
        width, dot = notes.dimension, models.Distance.DOT
        none = models.HnswConfigDiff(m=0)  # of what only scores candidates
        self._place.create(
            self._collection,
            vectors_config={
                MEAN: models.VectorParams(size=width, distance=dot),
                SPREAD: models.VectorParams(
                    size=width + notes.scales, distance=dot, hnsw_config=none, on_disk=True
                ),
            },
            sparse_vectors_config={
                words_name(block): models.SparseVectorParams() for block in range(len(notes.words))
            },
            metadata={_NOTES: notes.metadata()},
            **self._settings,
        )
        made = self.read_notes()
        if made is None or not made.admit(notes):
            raise ValueError(
                f"store: another process has just made {self._collection!r} for another fit."
            )

    def put(self, points: Sequence[Point]) -> None:
        """Write points, some at a time, and wait until each part is there."""
        notes = self._noted
        if not self._is_indexed:  # the process that made it may have ended before this
            self._index(len(notes.words))
            self._is_indexed = True
        with self._marked():
            for start in range(0, len(points), _WRITTEN):
                some = [struct_of(point, notes) for point in points[start : start + _WRITTEN]]
                self._ask(self._client.upsert, self._collection, some, wait=True)

    def _index(self, blocks: int) -> None:
        """Make the indexes of the payload that are not there yet."""
        if not self._place.indexed:
            return
        make, keyword = self._client.create_payload_index, models.PayloadSchemaType.KEYWORD
        self._ask(make, self._collection, FACTS, keyword)
        whole = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=True, range=False
        )
        for block in range(blocks):
            for part in ("terms", "length"):
                self._ask(make, self._collection, f"{words_name(block)}.{part}", whole)

    @contextmanager
    def _marked(self) -> Iterator[None]:
        """Mark the collection before and after a write, for others who read in between."""
        self._kept.mark()
        try:
            yield
        finally:
            self._kept.mark()

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        if not ids:
            return
        with self._marked():
            for start in range(0, len(ids), _READ):
                chosen = models.PointIdsList(points=[*map(point_id, ids[start : start + _READ])])
                self._ask(self._client.delete, self._collection, chosen, wait=True)

    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that fulfil a condition."""
        return self._counted(_where(condition))

    def _counted(self, where: models.Filter | None) -> int:
        if self.notes() is None:
            return 0
        return self._ask(self._client.count, self._collection, where, exact=True).count

    def check(self, condition: Condition) -> None:
        """Raise ValueError if Qdrant cannot run a condition."""
        qdrant_filter(condition)

    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that are there."""
        for start in range(0, len(ids) if self.notes() else 0, _READ):
            found = self._ask(
                self._client.retrieve,
                self._collection,
                [*map(point_id, ids[start : start + _READ])],
                with_payload=self._payload(vectors),
                with_vectors=[MEAN, SPREAD] if vectors else False,
            )
            yield from map(self._point, found)

    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in the order of their UUIDs, which is random."""
        if self.notes() is None:
            return
        offset, left = None, limit
        while left is None or left > 0:
            points, offset = self._ask(
                self._client.scroll,
                self._collection,
                scroll_filter=_where(condition),
                limit=_READ if left is None else min(left, _READ),
                offset=offset,
                with_payload=self._payload(vectors),
                with_vectors=[MEAN, SPREAD] if vectors else False,
            )
            yield from map(self._point, points)
            left = None if left is None else left - len(points)
            if offset is None:
                return

    def frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return frequencies of distinct terms of a sparse block, from the payload's index.

        Qdrant has no request for several counts; they are asked for at the same time. A facet
        would tell them together, and those of all other terms of the same passages, too.
        """
        notes, name = self.notes(), words_name(block)
        if notes is None or notes.words[block].saturation is None:
            return Frequencies(0, 0.0, {})
        wheres = [having(f"{name}.terms", number) for number in keys.view(np.int64).tolist()]

        def counts() -> list[int]:  # tried again together, so that a server is not asked more often
            # In this process there is nothing to wait for.
            with ThreadPoolExecutor(_AT_ONCE if self._place.indexed else 1) as pool:
                found = pool.map(
                    lambda where: self._client.count(self._collection, where, exact=True), wheres
                )
                return [one.count for one in found]

        holding = dict(zip(keys.tolist(), self._ask(counts), strict=True))
        of_length = self._ask(
            self._client.facet, self._collection, f"{name}.length", limit=_MOST_LENGTHS, exact=True
        )
        lengths = [(int(hit.value), hit.count) for hit in of_length.hits]
        return Frequencies(
            sum(count for _, count in lengths),
            float(sum(length * count for length, count in lengths)),
            holding,
        )

    def near(
        self,
        condition: Condition | None,
        mean: FloatArray,
        words: Sequence[QueryTerms],
        count: int,
        *,
        exact: bool,
    ) -> list[Point]:
        """Fetch the nearest `count` points by a query's mean, and as many by each block's words."""
        answer = {"with_payload": self._payload(True), "with_vector": [MEAN, SPREAD]}
        asked = nearest(_where(condition), mean, words, count, answer, exact=exact)
        answers = self._ask(self._client.query_batch_points, self._collection, asked)
        found = {point.id: point for answer in answers for point in answer.points}
        return [*map(self._point, found.values())]

    def read_stamp(self) -> Stamp:
        """Return the state of what is stored."""
        return Stamp("", {}) if self.notes() is None else self._kept.stamp()

    def put_state(self, name: str, data: bytes) -> str:
        """Store bytes for all processes."""
        return self._kept.put_state(name, data)

    def get_state(self, name: str) -> tuple[str, bytes] | None:
        """Return the version and the bytes stored under a name; None if there are none."""
        return None if self.notes() is None else self._kept.get_state(name)

    def _payload(self, vectors: bool) -> list[str]:
        """Return the keys of a point's payload to read, with its vectors or without."""
        notes = self.notes()
        blocks = range(len(notes.words) if notes and vectors else 0)
        return [*PASSAGE, *map(words_name, blocks)]

    def _point(self, point: models.Record | models.ScoredPoint) -> Point:
        return point_of(point, len(self._noted.words))

    @property
    def address(self) -> str:
        """The address at which `store_at` opens it.

        ValueError if it ends with this process, or was opened through a client of the user's.
        """
        name = quote(self._collection, safe="")
        if self._place.url is not None:
            return f"qdrant+{self._place.url}/{name}"
        if self._place.path is None:
            raise ValueError(
                "store: a collection in memory, or of a client of your own, cannot be reopened "
                "from a saved index; use path= or url=."
            )
        return f"qdrant://{quote(str(Path(self._place.path).absolute()))}/{name}"


def _where(condition: Condition | AnyFact | None) -> models.Filter | None:
    return None if condition is None else qdrant_filter(condition)
