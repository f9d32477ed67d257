"""A store in Qdrant, distributed or local.

A point is a passage, with a named vector for its mean, one without an index for its scales, and a
sparse vector for each sparse encoder. A search fetches candidates of a query, which are compared
and scored here by the same code as in a memory store, with the frequencies of the whole corpus, so
that the scores are equal.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_type
from uec_rag.base.counts import Frequencies
from uec_rag.base.environment import missing_extra
from uec_rag.base.errors import FingerprintMismatch, warn
from uec_rag.base.files import write_json
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.progress import progress_bar
from uec_rag.stores.base import Filter, Passage, StoreHits, check_addition, check_query
from uec_rag.stores.filters import And, AnyFact, Condition, fact, keys_of, parse
from uec_rag.stores.local.view import View
from uec_rag.stores.qdrant.points import CollectionSchema, Point, point_id, points_of

try:
    from qdrant_client import QdrantClient, models
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "stores")) from error

from uec_rag.stores.qdrant.client import QdrantLocation, WriteMark
from uec_rag.stores.qdrant.query import (
    FACTS,
    MEAN,
    PASSAGE,
    SCALES,
    point_of,
    qdrant_filter,
    sparse,
    struct_of,
    words_name,
)

CANDIDATES = 256
"""The default number of passages nearest by mu_s that a search scores."""

_CACHED_SAMPLES = 32  # samples that are cached; requests may have any number of filters
_CACHED_TERMS = 2**14  # terms of a block whose frequencies are cached
_CHECKED_KEYS = 20  # filter keys that are checked for a warning; requests may have any number
_SCHEMA = "uec_rag"  # key of the schema in a collection's metadata
_WRITE_BATCH = 128  # points per request
_READ_BATCH = 512  # points per request
_CONCURRENT_COUNTS = 16  # count requests that run concurrently
_LONGEST_NAME = 250  # in bytes, so that a file name with our suffix is valid
_NOT_IN_NAMES = re.compile('[/\\\\<>:"|?*\x00-\x1f]')
_MOST_LENGTHS = 2**20  # largest number of distinct passage lengths


@dataclass
class _ReadCache:
    """A cache of reads, valid until the next write to the collection."""

    schema: CollectionSchema | None = None
    was_there: bool = False  # whether the collection existed
    stamped: str | None = None
    written: str | None = None
    samples: dict[tuple[str, int], Gaussian] = field(default_factory=dict)
    rarities: dict[int, Frequencies] = field(default_factory=dict)  # by block

    def for_state(self, written: str) -> _ReadCache:
        """Return the cache for a state of the collection, emptied if the state is new."""
        if written != self.written:
            self.written, self.samples, self.rarities = written, {}, {}
        return self


class QdrantStore:
    """Passages and their Gaussians in a Qdrant collection.

    Candidates are the passages nearest by mu_s in Qdrant's HNSW and by words, which are fetched and
    scored in this process. Filters run in Qdrant. Adding the first passages creates the
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
        Smallest number of passages nearest by mu_s that a search scores. More candidates improve
        recall and take longer. May be changed later.
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

    remote = True
    """True if the passages are in another process, and a search scores candidates only."""

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
        unknown = sorted(settings.keys() - signature(QdrantClient.create_collection).parameters)
        if unknown:
            raise TypeError(
                "settings: expected parameters of QdrantClient.create_collection, which has no "
                f"{unknown}."
            )
        _check_collection(collection)
        self.candidates = check_k(candidates, "candidates")
        where = None if path is None else str(path)
        self._location = QdrantLocation(location, where, url, api_key, timeout, client)
        self._client, self._ask = self._location.client, self._location.call_with_retries
        self._collection, self._settings = collection, settings
        self._mark, self._is_indexed = WriteMark(self._location, collection), False
        self._condition: Condition | None = None
        self._fingerprint: str | None = None
        self._is_view = False
        self._read = _ReadCache()  # shared with views
        self._looked_up: set[str] = set()  # keys of filters; shared with views
        # For views only:
        self._size: int | None = None
        self._stamp: str | None = None
        self._seen: dict[str, Point] = {}
        self._rarities: dict[int, Frequencies] = {}

    def __deepcopy__(self, memo: object) -> Self:
        """Copy the store, but not the collection in Qdrant."""
        return copy(self)

    def __len__(self) -> int:
        if not self._is_view:
            return self._count(None)
        if self._size is None:
            self._size = self._count(self._condition)
        return self._size

    def _gaussians(self, points: Sequence[Point]) -> Gaussian:
        schema = self.schema()
        if schema is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return schema.gaussians(points)

    def schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection.

        RuntimeError if the collection was removed.
        """
        read = self._read
        if read.schema is None:
            found = self._read_schema()
            if found is None and read.was_there:
                raise RuntimeError(
                    "store: the collection was removed from Qdrant. Open the store again; the "
                    "passages must be added again."
                )
            read.schema, read.was_there = found, found is not None
        return read.schema

    @property
    def _require_schema(self) -> CollectionSchema:
        """The schema of a collection that exists."""
        schema = self.schema()
        assert schema is not None
        return schema

    def bind(self, fingerprint: str) -> None:
        """Record the fingerprint of the ensemble.

        FingerprintMismatch if the stored passages are of another ensemble.
        """
        self._fingerprint = fingerprint
        schema = self.schema()
        if schema is None or schema.fingerprint in (None, fingerprint) or not self._count(None):
            return
        raise FingerprintMismatch(
            f"store: the collection in Qdrant holds vectors of another ensemble "
            f"({str(schema.fingerprint)[:12]!r}, this one is {fingerprint[:12]!r}), with other "
            "models, revisions or posterior. Use that ensemble or another collection."
        )

    def stamp(self) -> str:
        """Return a value that changes with every write; for a view, that of the first call.

        FingerprintMismatch if the collection was recreated for another ensemble.
        """
        if self._stamp is not None:
            return self._stamp
        read = self._read
        stamp = "" if self.schema() is None else self._mark.read()
        if read.stamped not in (None, stamp):
            read.schema = None
            if self._fingerprint is not None:
                self.bind(self._fingerprint)
        read.stamped = stamp
        if self._is_view:
            self._stamp = stamp
        return stamp

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` random passages (all, if fewer), the same everywhere."""
        samples, key = self._read.for_state(self.stamp()).samples, (repr(self._condition), count)
        gaussian = samples.get(key)
        if gaussian is None:
            if len(samples) >= _CACHED_SAMPLES:
                samples.clear()
            gaussian = samples[key] = self._gaussians([*self._scan(self._condition, count)])
        return gaussian

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, or replace those with the same ids.

        They are sent in batches, each of which is stored completely or not at all; after an error,
        it is safe to add all of them again.

        TypeError, ValueError if there is not one Gaussian per passage, an id is repeated, metadata
        cannot be stored, or the Gaussians are of another dimension or posterior than the stored
        ones. ConnectionError if Qdrant stays unreachable.
        """
        self._check_writable()
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        self.stamp()  # another process may have recreated the collection
        schema = self.schema()
        wanted = CollectionSchema.from_gaussians(gaussians, self._fingerprint)
        if schema is None or not schema.is_compatible_with(wanted):
            if schema is not None and self._count(None):
                raise ValueError(
                    f"gaussians: expected dimension {schema.dimension}, {len(schema.words)} blocks "
                    f"of terms and the same posterior as the collection in Qdrant, got "
                    f"dimension {wanted.dimension}, {len(wanted.words)} blocks or another "
                    "posterior. Build the index again, in another collection."
                )
            if not wanted.dimension:
                raise ValueError(
                    "store: Qdrant needs vectors, and this ensemble has only words; add "
                    "an encoder to it, or use a LocalStore."
                )
            self._make(replace(wanted, id=uuid.uuid4().hex))
            self._read.schema = None
        self._put(points_of(passages, gaussians))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        self._check_writable()
        there = [*self._passages(ids)]
        self._remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of the passages that match a filter; of all without one.

        It is not a fixed state: writes by others are visible in passages that it has not yet read.

        TypeError, ValueError if the filter is invalid, or Qdrant cannot run it.
        """
        view = copy(self)
        view._is_view, view._size, view._stamp = True, None, None
        view._seen, view._rarities = {}, {}
        view.stamp()  # another process may have recreated the collection
        if filter is None:
            return view
        condition = parse(filter)
        self.check_filter(condition)
        room = _CHECKED_KEYS - len(self._looked_up)
        for key in sorted(keys_of(condition) - self._looked_up)[:room] if self._count(None) else ():
            self._looked_up.add(key)
            if not self._count(AnyFact((fact("key", key),))):
                warn(f"filter: no passage has the metadata key {key!r:.60}.")
        before = self._condition
        view._condition = condition if before is None else And((before, condition))
        return view

    def check_filter(self, condition: Condition) -> None:
        """Raise ValueError if Qdrant cannot run a condition."""
        qdrant_filter(condition)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that exist, in the order of `ids`."""
        passages = self._passages(ids)
        return [passages[id_] for id_ in ids if id_ in passages]

    def _passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        points = self._points([*dict.fromkeys(ids)], vectors=False)
        return {point.passage.id: point.passage for point in points}

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
        points = {id_: self._seen[id_] for id_ in ids if id_ in self._seen}
        points |= self._points_by_id(
            self._points([id_ for id_ in dict.fromkeys(ids) if id_ not in points])
        )
        for id_ in ids:
            if id_ not in points:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return self._gaussians([points[id_] for id_ in ids])

    def _points_by_id(self, points: Iterable[Point]) -> dict[str, Point]:
        """Return points by id; a view keeps them, so that later reads return the same."""
        found = {point.passage.id: point for point in points}
        if self._is_view:
            self._seen |= found
        return found

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that match a filter, in the order of Qdrant."""
        points = self._scan(self.snapshot(filter)._condition, vectors=False)
        return (point.passage for point in points)

    def _frequencies(self, terms: Sequence[Terms]) -> list[Frequencies]:
        """Return term frequencies of the whole corpus, which are cached until the next write."""
        if not terms:
            return []
        shared = self._read.for_state(self.stamp()).rarities
        cache = self._rarities if self._is_view else shared
        for block, queried in enumerate(terms):
            frequencies, keys = cache.get(block) or shared.get(block), np.unique(queried.keys)
            if frequencies is not None:
                keys = keys[[key not in frequencies.document_frequency for key in keys.tolist()]]
            if frequencies is None or len(keys):
                found = self._count_terms(block, keys)
                holding = {key: found.document_frequency.get(key, 0) for key in keys.tolist()}
                if frequencies is not None:
                    found, holding = frequencies, {**frequencies.document_frequency, **holding}
                frequencies = Frequencies(found.passages, found.length, holding)
            cache[block] = shared[block] = frequencies
        counted = [cache[block] for block in range(len(terms))]
        if max(len(known.document_frequency) for known in counted) > _CACHED_TERMS:
            shared.clear()
        return counted

    def fetch(self, question: str, query: Gaussian, count: int) -> View:
        """Fetch the candidates of one query as a view.

        These are at least `count` passages of approximately the highest mu_s, and as many by the
        words of each block; all passages if there are no more.
        """
        schema, size = self.schema(), len(self)
        if schema is None or not size:
            return View.empty()
        check_query(query, schema.dimension)
        count, frequencies = max(count, self.candidates), self._frequencies(query.terms)
        words = [
            sparse(terms.keys, block.query_weights(terms, known))
            for block, terms, known in zip(schema.words, query.terms, frequencies, strict=False)
        ]
        points = self._near(query.mean[0], words, count, exact=size <= count)
        if len(points) < min(count, size):  # the approximate index found too few
            points = self._near(query.mean[0], words, count, exact=True)
        self._points_by_id(points)
        passages = [point.passage for point in points]
        return View.from_passages(passages, self._gaussians(points), frequencies)

    def save(self, folder: Path) -> None:
        """Write the address of the passages into an existing folder; they stay in Qdrant."""
        schema = self._read.schema  # not requested now: Qdrant may be unreachable
        state = {"store": "Qdrant", "address": self.address, "id": schema.id if schema else ""}
        write_json(folder / "store.json", state)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages of the highest s_hat among the candidates.

        The result is `exact` if all passages were candidates.

        ValueError if k < 1, the query's dimension is not that of the stored passages, or Qdrant
        cannot run the filter. TypeError if the filter is invalid.
        """
        k = check_k(k)
        if filter is not None or not self._is_view:  # a view counts its passages once
            return self.snapshot(filter).search(query, k, beta=beta)
        hits = [
            self.fetch("", row, 4 * k).search(row, k, beta=beta)
            for row in (query[start : start + 1] for start in range(len(query)))
        ]
        count = min((len(row.passages[0]) for row in hits), default=0)
        if not count:
            return StoreHits.empty(len(query))
        return StoreHits(
            [row.passages[0][:count] for row in hits],
            np.concatenate([row.scores[:, :count] for row in hits]),
            np.concatenate([row.mu[:, :count] for row in hits]),
            np.concatenate([row.sigma2[:, :count] for row in hits]),
            exact=len(self) <= max(self.candidates, 4 * k),
        )

    def close(self) -> None:
        """Close the connection, or release the folder for another process."""
        self._client.close()

    def _read_schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection."""
        if not self._ask(self._client.collection_exists, self._collection):
            return None
        config = self._ask(self._client.get_collection, self._collection).config
        return CollectionSchema.restore((config.metadata or {}).get(_SCHEMA), self._collection)

    def _make(self, schema: CollectionSchema) -> None:
        """Create the collection, in place of an existing empty one."""
        self._is_indexed = False
        if (there := self.schema()) is not None:
            if there.is_compatible_with(schema):  # another process has just created it
                return
            self._ask(self._client.delete_collection, self._collection)
        self._mark.make()
        width, dot = schema.dimension, models.Distance.DOT
        none = models.HnswConfigDiff(m=0)  # no index: scales only score candidates
        self._location.create(
            self._collection,
            vectors_config={
                MEAN: models.VectorParams(size=width, distance=dot),
                SCALES: models.VectorParams(
                    size=schema.scales, distance=dot, hnsw_config=none, on_disk=True
                ),
            },
            sparse_vectors_config={
                words_name(block): models.SparseVectorParams() for block in range(len(schema.words))
            },
            metadata={_SCHEMA: schema.metadata()},
            **self._settings,
        )
        made = self._read_schema()
        if made is None or not made.is_compatible_with(schema):
            raise ValueError(
                f"store: another process has just created {self._collection!r} for another fit."
            )

    def _put(self, points: Sequence[Point]) -> None:
        """Write points in batches, and wait until each is stored."""
        schema = self._require_schema
        if not self._is_indexed:  # the process that created it may have ended before this
            self._index(len(schema.words))
            self._is_indexed = True
        with self._mark_writes(), progress_bar("Storing passages", len(points)) as bar:
            for start in range(0, len(points), _WRITE_BATCH):
                batch = [struct_of(point, schema) for point in points[start : start + _WRITE_BATCH]]
                self._ask(self._client.upsert, self._collection, batch, wait=True)
                bar.update(len(batch))

    def _index(self, blocks: int) -> None:
        """Create the payload indexes that do not exist yet."""
        if not self._location.indexed:
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
    def _mark_writes(self) -> Iterator[None]:
        """Mark the collection before and after a write, for processes that read in between."""
        self._mark.renew()
        try:
            yield
        finally:
            self._mark.renew()

    def _remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        if not ids:
            return
        with self._mark_writes():
            for start in range(0, len(ids), _READ_BATCH):
                batch = map(point_id, ids[start : start + _READ_BATCH])
                chosen = models.PointIdsList(points=[*batch])
                self._ask(self._client.delete, self._collection, chosen, wait=True)

    def _count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that match a condition."""
        if self.schema() is None:
            return 0
        return self._ask(self._client.count, self._collection, _where(condition), exact=True).count

    def _points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that exist."""
        for start in range(0, len(ids) if self.schema() else 0, _READ_BATCH):
            records = self._ask(
                self._client.retrieve,
                self._collection,
                [*map(point_id, ids[start : start + _READ_BATCH])],
                with_payload=self._payload(vectors),
                with_vectors=[MEAN, SCALES] if vectors else False,
            )
            yield from map(self._point, records)

    def _scan(
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
                with_vectors=[MEAN, SCALES] if vectors else False,
            )
            yield from map(self._point, points)
            left = None if left is None else left - len(points)
            if offset is None:
                return

    def _count_terms(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return the frequencies of distinct terms of a sparse block, from the payload index.

        Qdrant has no request for several counts, so the requests run concurrently. A facet would
        return them together, but with those of all other terms of the same passages.
        """
        schema, name = self.schema(), words_name(block)
        if schema is None:
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

    def _near(
        self,
        mean: FloatArray,
        words: Sequence[models.SparseVector],
        count: int,
        *,
        exact: bool,
    ) -> list[Point]:
        """Fetch the nearest `count` points by a query's mean, and as many by each block's words."""
        request = partial(
            models.QueryRequest,
            filter=_where(self._condition),
            limit=count,
            with_payload=self._payload(True),
            with_vector=[MEAN, SCALES],
        )
        whole = models.SearchParams(exact=True) if exact else None
        requests = [request(query=mean.tolist(), using=MEAN, params=whole)]
        for block, terms in enumerate(words):
            if terms.indices:
                requests.append(request(query=terms, using=words_name(block)))
        answers = self._ask(self._client.query_batch_points, self._collection, requests)
        points = {point.id: point for answer in answers for point in answer.points}
        return [*map(self._point, points.values())]

    def _payload(self, vectors: bool) -> list[str]:
        """Return the keys of a point's payload to read, with or without vectors."""
        schema = self.schema()
        blocks = range(len(schema.words) if schema and vectors else 0)
        return [*PASSAGE, *map(words_name, blocks)]

    def _point(self, point: models.Record | models.ScoredPoint) -> Point:
        return point_of(point, len(self._require_schema.words))

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


def _check_collection(name: str) -> None:
    """Raise TypeError or ValueError unless the name of a collection is valid."""
    check_type(name, str, "collection", "a name")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # a lone surrogate
        size = 0
    if not 0 < size <= _LONGEST_NAME or _NOT_IN_NAMES.search(name):
        raise ValueError(
            f'collection: expected 1 to {_LONGEST_NAME} bytes without any of /\\<>:"|?* and '
            f"control characters, got {name!r:.80}."
        )


def _where(condition: Condition | AnyFact | None) -> models.Filter | None:
    return None if condition is None else qdrant_filter(condition)
