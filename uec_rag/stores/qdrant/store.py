"""A store in Qdrant, which finds candidates by its HNSW and by words.

Each passage is a point with two vectors, "mean", which HNSW searches by inner product, and
"spread", which has no index, and a sparse vector for each sparse member.

Term counts are saturated when they are stored, with the mean length of the first batch of passages;
the rarity of terms comes with the query. Qdrant's IDF modifier is not used, since it counts within
a shard instead of the collection, and does not return the normaliser of BM25 that is used here.
Document frequencies are counted in the payload index of terms, so they are always up to date.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.counts import Frequencies
from uec_rag.base.environment import missing_extra
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.progress import progress_bar
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

from uec_rag.stores.qdrant import query
from uec_rag.stores.qdrant.client import QdrantLocation, WriteMark

_NOTES = "uec_rag"  # key of the schema in a collection's metadata
_WRITE_BATCH = 128  # points per request
_READ_BATCH = 512  # points per request
_CONCURRENT_COUNTS = 16  # count requests that run concurrently
_LONGEST_NAME = 250  # in bytes, so that a file name with our suffix is valid
_SIGNS, _CONTROLS = '/\\<>:"|?*', "".join(map(chr, range(32)))
_MOST_LENGTHS = 2**20  # largest number of distinct passage lengths


class QdrantStore(EngineStore):
    """Passages and their Gaussians in a Qdrant collection.

    Candidates are the passages nearest by mu_s in Qdrant's HNSW and by words, which are fetched and
    scored in this process. Filters run in the engine. Adding the first passages creates the
    collection, which records their ensemble. A second collection, with "_kept" appended to the
    name, has a mark of the last write.

    Because others may write at any time, a snapshot is a filtered view, not a fixed state.

    Parameters
    ----------
    location : str, optional
        ":memory:" for a collection in this process only. Pass exactly one of `location`, `path`,
        `url` and `client`.
    path : str or path, optional
        A folder, for one process at a time. Do not open folders from untrusted sources: reading one
        can run code.
    url : str, optional
        Address of a server, http://HOST:PORT.
    collection : str
        Name of the collection.
    api_key : str, optional
        API key of the server. It is not saved.
    timeout : int, optional
        Seconds to wait for the server.
    client : QdrantClient, optional
        An existing client.
    candidates : int
        As in `EngineStore`; Qdrant's `hnsw_ef` is at least this.
    **settings
        Passed to Qdrant when the collection is created: `shard_number`, `replication_factor`,
        `quantization_config`, `on_disk_payload`, `hnsw_config` and so on.

    Raises
    ------
    ImportError
        If qdrant-client is not installed: pip install "uec-rag[stores]".
    ValueError
        If not exactly one location is given, it is invalid, or the collection's name is.
    ConnectionError, PermissionError, RuntimeError
        If a server does not answer, rejects the key, or is not a recent Qdrant.

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
                "settings: expected parameters of QdrantClient.create_collection, which has no "
                f"{unknown}."
            )
        check_collection(collection, _LONGEST_NAME, "any of " + _SIGNS, _SIGNS + _CONTROLS)
        where = None if path is None else str(path)
        self._location = QdrantLocation(location, where, url, api_key, timeout, client)
        self._client, self._ask = self._location.client, self._location.call_with_retries
        self._collection, self._settings = collection, settings
        self._mark, self._is_indexed = WriteMark(self._location, collection), False

    def close(self) -> None:
        """Close the connection, or release the folder for another process."""
        self._client.close()

    def read_schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection."""
        if not self._ask(self._client.collection_exists, self._collection):
            return None
        config = self._ask(self._client.get_collection, self._collection).config
        return CollectionSchema.restore((config.metadata or {}).get(_NOTES), self._collection)

    def make(self, notes: CollectionSchema) -> None:
        """Create the collection, in place of an existing empty one."""
        self._is_indexed = False
        if (there := self.schema()) is not None:
            if there.is_compatible_with(
                notes
            ):  # another process has just created it, and may have written
                return
            self._ask(self._client.delete_collection, self._collection)
        self._mark.make()
        width, dot = notes.dimension, models.Distance.DOT
        none = models.HnswConfigDiff(m=0)  # no index: spreads only score candidates
        self._location.create(
            self._collection,
            vectors_config={
                query.MEAN: models.VectorParams(size=width, distance=dot),
                query.SPREAD: models.VectorParams(
                    size=width + notes.scales, distance=dot, hnsw_config=none, on_disk=True
                ),
            },
            sparse_vectors_config={
                query.words_name(block): models.SparseVectorParams()
                for block in range(len(notes.words))
            },
            metadata={_NOTES: notes.metadata()},
            **self._settings,
        )
        made = self.read_schema()
        if made is None or not made.is_compatible_with(notes):
            raise ValueError(
                f"store: another process has just created {self._collection!r} for another fit."
            )

    def put(self, points: Sequence[Point]) -> None:
        """Write points in batches, and wait until each is stored."""
        notes = self._require_schema
        if not self._is_indexed:  # the process that created it may have ended before this
            self._index(len(notes.words))
            self._is_indexed = True
        with self._mark_writes(), progress_bar("Storing passages", len(points)) as bar:
            for start in range(0, len(points), _WRITE_BATCH):
                batch = [
                    query.struct_of(point, notes) for point in points[start : start + _WRITE_BATCH]
                ]
                self._ask(self._client.upsert, self._collection, batch, wait=True)
                bar.update(len(batch))

    def _index(self, blocks: int) -> None:
        """Create the payload indexes that do not exist yet."""
        if not self._location.indexed:
            return
        make, keyword = self._client.create_payload_index, models.PayloadSchemaType.KEYWORD
        self._ask(make, self._collection, query.FACTS, keyword)
        whole = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=True, range=False
        )
        for block in range(blocks):
            for part in ("terms", "length"):
                self._ask(make, self._collection, f"{query.words_name(block)}.{part}", whole)

    @contextmanager
    def _mark_writes(self) -> Iterator[None]:
        """Mark the collection before and after a write, for processes that read in between."""
        self._mark.renew()
        try:
            yield
        finally:
            self._mark.renew()

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        if not ids:
            return
        with self._mark_writes():
            for start in range(0, len(ids), _READ_BATCH):
                batch = map(point_id, ids[start : start + _READ_BATCH])
                chosen = models.PointIdsList(points=[*batch])
                self._ask(self._client.delete, self._collection, chosen, wait=True)

    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that match a condition."""
        if self.schema() is None:
            return 0
        return self._ask(self._client.count, self._collection, _where(condition), exact=True).count

    def check(self, condition: Condition) -> None:
        """Raise ValueError if Qdrant cannot run a condition."""
        query.qdrant_filter(condition)

    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that exist."""
        for start in range(0, len(ids) if self.schema() else 0, _READ_BATCH):
            records = self._ask(
                self._client.retrieve,
                self._collection,
                [*map(point_id, ids[start : start + _READ_BATCH])],
                with_payload=self._payload(vectors),
                with_vectors=[query.MEAN, query.SPREAD] if vectors else False,
            )
            yield from map(self._point, records)

    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in the order of their UUIDs, which is random."""
        if self.schema() is None:
            return
        offset, left = None, limit
        while left is None or left > 0:
            points, offset = self._ask(
                self._client.scroll,
                self._collection,
                scroll_filter=_where(condition),
                limit=_READ_BATCH if left is None else min(left, _READ_BATCH),
                offset=offset,
                with_payload=self._payload(vectors),
                with_vectors=[query.MEAN, query.SPREAD] if vectors else False,
            )
            yield from map(self._point, points)
            left = None if left is None else left - len(points)
            if offset is None:
                return

    def frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return the frequencies of distinct terms of a sparse block, from the payload index.

        Qdrant has no request for several counts, so the requests run concurrently. A facet would
        return them together, but with those of all other terms of the same passages.
        """
        notes, name = self.schema(), query.words_name(block)
        if notes is None:
            return Frequencies(0, 0.0, {})
        wheres = [
            models.Filter(
                must=[
                    models.FieldCondition(key=f"{name}.terms", match=models.MatchValue(value=key))
                ]
            )
            for key in keys.view(np.int64).tolist()
        ]

        def counts() -> list[int]:  # retried together, to limit the number of requests
            # In local mode, there is nothing to wait for.
            with ThreadPoolExecutor(_CONCURRENT_COUNTS if self._location.indexed else 1) as pool:
                results = pool.map(
                    lambda where: self._client.count(self._collection, where, exact=True), wheres
                )
                return [result.count for result in results]

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
        request = partial(
            models.QueryRequest,
            filter=_where(condition),
            limit=count,
            with_payload=self._payload(True),
            with_vector=[query.MEAN, query.SPREAD],
        )
        whole = models.SearchParams(exact=True) if exact else None
        requests = [request(query=mean.tolist(), using=query.MEAN, params=whole)]
        for block, wanted in enumerate(words):
            if len(wanted.keys):
                terms = query.sparse(wanted.keys, wanted.shares)
                requests.append(request(query=terms, using=query.words_name(block)))
        answers = self._ask(self._client.query_batch_points, self._collection, requests)
        points = {point.id: point for answer in answers for point in answer.points}
        return [*map(self._point, points.values())]

    def read_stamp(self) -> str:
        """Return a value that changes with every write."""
        return "" if self.schema() is None else self._mark.read()

    def _payload(self, vectors: bool) -> list[str]:
        """Return the keys of a point's payload to read, with or without vectors."""
        notes = self.schema()
        blocks = range(len(notes.words) if notes and vectors else 0)
        return [*query.PASSAGE, *map(query.words_name, blocks)]

    def _point(self, point: models.Record | models.ScoredPoint) -> Point:
        return query.point_of(point, len(self._require_schema.words))

    @property
    def address(self) -> str:
        """The address for `open_store`.

        ValueError if the collection is in memory, or was opened with `client`.
        """
        name = quote(self._collection, safe="")
        if self._location.url is not None:
            return f"qdrant+{self._location.url}/{name}"
        if self._location.path is None:
            raise ValueError(
                "store: a collection in memory, or opened with client=, cannot be reopened from a "
                "saved index; use path= or url=."
            )
        return f"qdrant://{quote(str(Path(self._location.path).absolute()))}/{name}"


def _where(condition: Condition | AnyFact | None) -> models.Filter | None:
    return None if condition is None else query.qdrant_filter(condition)
