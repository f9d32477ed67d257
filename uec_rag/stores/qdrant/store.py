"""A store in Qdrant, distributed or local: a source of candidates.

A point is a passage, with a named vector for its mean, one without an index for its scales, and a
sparse vector for each sparse encoder. A search fetches candidates of a query, which are compared
and scored here by the same code as in a local index, with the frequencies of the whole corpus, so
that the scores are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.counts import Frequencies
from uec_rag.base.environment import missing_extra
from uec_rag.base.errors import FingerprintMismatch, warn
from uec_rag.base.gaussian import Gaussian
from uec_rag.base.retries import is_transient, retry
from uec_rag.stores.base import (
    Filter,
    Passage,
    Store,
    StoreHits,
    check_addition,
    check_query,
)
from uec_rag.stores.filters import And, Condition, keys_of, parse
from uec_rag.stores.local.view import View

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "stores")) from error

from uec_rag.stores.qdrant.points import (
    FACTS,
    MEAN,
    PASSAGE,
    SCALES,
    WITH_WORDS,
    Collection,
    has_key,
    passage_of,
    point_id,
    sparse,
    translate,
    words_name,
)

CANDIDATES = 256
"""The default number of passages nearest by mu_s that a search scores."""

_METADATA = "uec_rag"  # key of ours in a collection's metadata
_BATCH = 128  # points written by a request
_READ = 512  # points read by a request
_COUNTS = 16  # requests for counts that run concurrently
_LENGTHS = 2**20  # largest number of distinct passage lengths
_WARNED = 20  # filter keys that are looked up for a warning; requests may have any number
_WITHIN = 10.0  # seconds after which requests are not retried
_CONFLICT = 409

_T = TypeVar("_T")


class QdrantStore(Store):
    """Passages and their Gaussians in a Qdrant collection.

    Candidates are the passages nearest by mu_s in Qdrant's HNSW and by words, which are fetched and
    scored in this process. Filters run in Qdrant. Adding the first passages creates the
    collection, which records their ensemble.

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
        If not exactly one location is given, or it is invalid.

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
        given = [one for one in (location, path, url, client) if one is not None]
        if len(given) != 1 or location not in (None, ":memory:"):
            raise ValueError(
                "location, path, url: expected exactly one of location=':memory:', path='FOLDER' "
                "and url='http://HOST:PORT'."
            )
        if url is not None and {*"@?#"} & {*url}:
            raise ValueError(
                "url: expected http://HOST:PORT, without user, password, ? or #, which Qdrant's "
                "client would not send; pass the key as api_key=."
            )
        self.candidates = check_k(candidates, "candidates")
        self._path = None if path is None else str(path)
        self._url = None if url is None else url.rstrip("/")
        self._key, self._is_local = api_key, location is not None or path is not None
        try:
            self._client = client or QdrantClient(
                location=location, path=self._path, url=self._url, api_key=api_key, timeout=timeout
            )
        except ValueError as error:
            raise ValueError(f"url: expected http://HOST:PORT, got {url!r} ({error}).") from error
        self._name, self._settings = collection, settings
        self._fingerprint: str | None = None
        self._warned = set[str]()  # keys of filters; shared with views
        self._was_there = False
        # Of a view:
        self._condition: Condition | None = None
        self._fixed: Collection | None = None
        self._is_view = False

    def __deepcopy__(self, memo: object) -> Self:
        """Copy the store, but not the collection in Qdrant."""
        return copy(self)

    # Requests

    def _ask(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant; retry a few times if it is briefly unreachable.

        ConnectionError if it stays unreachable. PermissionError if the key lacks a permission.
        RuntimeError if the collection was removed, or the server is not Qdrant. ValueError if it
        rejects the request.
        """

        def call() -> _T:
            try:
                return method(*arguments, **named)
            except (ResponseHandlingException, UnexpectedResponse) as error:
                translation = self._translation(error)
            raise translation  # outside `except`, so that a request with its key is not the context

        return retry(call, within=_WITHIN)

    def _translation(self, error: Exception) -> Exception:
        """Return the error to raise in place of the client's."""
        status = getattr(error, "status_code", None) or 0
        message = str(error).replace(self._key, "***") if self._key else str(error)
        where = f"store: Qdrant at {self._url or 'a given client'!r}"
        if status in (401, 403):
            return PermissionError(
                f"{where} does not let this key do that ({status}); pass one with permission as "
                "api_key= (uec-rag: in QDRANT_API_KEY)."
            )
        if status == 404:
            return RuntimeError(
                f"{where} is not Qdrant, or the collection was removed (404). Check the address, "
                "or open the store again; the passages must be added again."
            )
        if status == _CONFLICT:
            return FileExistsError(f"{where} has this collection ({message}).")
        if 400 <= status < 500 and not is_transient(error):
            return ValueError(
                f"{where} rejects the request ({message}). No partial result was returned; check "
                "its limits and the settings of the collection."
            )
        return ConnectionError(
            f"{where} does not answer ({message}). No partial result was returned; a write may be "
            "incomplete. Call again when the server is available."
        )

    def _collection(self) -> Collection | None:
        """Return what the points of the collection are; None if nothing was added yet.

        FingerprintMismatch if another process has created it again for another ensemble.
        """
        if self._is_view:
            return self._fixed
        if not self._was_there and not self._ask(self._client.collection_exists, self._name):
            return None
        config = self._ask(self._client.get_collection, self._name).config
        self._was_there = True
        found = Collection.restore((config.metadata or {}).get(_METADATA), self._name)
        self._check_fingerprint(found, self._fingerprint)
        return found

    def _check_fingerprint(self, found: Collection, own: str | None) -> None:
        stored = found.fingerprint
        if None not in (own, stored) and own != stored and self._count():
            raise FingerprintMismatch(
                f"store: the collection in Qdrant holds vectors of another ensemble ("
                f"{str(stored)[:12]!r}, this one is {str(own)[:12]!r}), with other models, "
                "revisions or posterior. Use that ensemble or another collection."
            )

    @property
    def _filter(self) -> models.Filter | None:
        return None if self._condition is None else translate(self._condition)

    def _count(self, filter: models.Filter | None = None) -> int:
        """Return the number of points that match a filter."""
        return self._ask(self._client.count, self._name, filter, exact=True).count

    def _retrieve(self, ids: Sequence[str], *, vectors: bool = False) -> Iterator[models.Record]:
        """Yield the points of those ids that exist, with their vectors and words if asked for."""
        names = [*dict.fromkeys(ids)]
        for start in range(0, len(names) if self._collection() else 0, _READ):
            yield from self._ask(
                self._client.retrieve,
                self._name,
                [*map(point_id, names[start : start + _READ])],
                with_payload=WITH_WORDS if vectors else PASSAGE,
                with_vectors=[MEAN, SCALES] if vectors else False,
            )

    def _scroll(self, limit: int = _READ, *, vectors: bool = False) -> Iterator[models.Record]:
        """Yield points in the order of their UUIDs, which is random, `limit` in each request."""
        offset: Any = None
        while True:
            points, offset = self._ask(
                self._client.scroll,
                self._name,
                scroll_filter=self._filter,
                limit=limit,
                offset=offset,
                with_payload=WITH_WORDS if vectors else PASSAGE,
                with_vectors=[MEAN, SCALES] if vectors else False,
            )
            yield from points
            if offset is None:
                return

    # Reading

    def __len__(self) -> int:
        return 0 if self._collection() is None else self._count(self._filter)

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of the passages that match a filter; of all without one.

        It is not a fixed state: writes by others are visible in it.

        TypeError, ValueError if the filter is invalid, or Qdrant cannot run it.
        """
        view = copy(self)
        view._fixed, view._is_view = self._collection(), True
        if filter is None:
            return view
        condition = parse(filter)
        translate(condition)
        room = _WARNED - len(self._warned)
        for key in sorted(keys_of(condition) - self._warned)[:room] if len(view) else ():
            self._warned.add(key)
            if not self._count(has_key(key)):
                warn(f"filter: no passage has the metadata key {key!r:.60}.")
        before = self._condition
        view._condition = condition if before is None else And((before, condition))
        return view

    def check_filter(self, condition: object) -> None:
        """Raise ValueError if Qdrant cannot run a parsed filter."""
        translate(cast(Condition, condition))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that exist, in the order of `ids`."""
        found = {passage.id: passage for passage in map(passage_of, self._retrieve(ids))}
        return [found[id_] for id_ in ids if id_ in found]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
        collection = self._collection()
        points = {passage_of(one).id: one for one in self._retrieve(ids, vectors=True)}
        for id_ in ids:
            if id_ not in points:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return _gaussians(collection, [points[id_] for id_ in ids])

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that match a filter, in the order of Qdrant."""
        view = self.snapshot(filter)
        return map(passage_of, view._scroll() if view._fixed else ())

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` random passages (all, if fewer), the same everywhere."""
        collection = self._collection()
        points = self._scroll(min(count, _READ), vectors=True) if collection else ()
        return _gaussians(collection, [*islice(points, count)])

    def _frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return the frequencies of distinct terms of a sparse block among all passages.

        Qdrant has no request for several counts, so the requests run concurrently.
        """
        name = words_name(block)

        def holding(key: int) -> int:
            match = models.MatchValue(value=key)
            where = models.FieldCondition(key=f"{name}.terms", match=match)
            return self._client.count(self._name, models.Filter(must=[where]), exact=True).count

        def counts() -> list[int]:  # retried together, to limit the number of requests
            with ThreadPoolExecutor(_COUNTS) as pool:
                return [*pool.map(holding, keys.view(np.int64).tolist())]

        found = dict(zip(keys.tolist(), self._ask(counts), strict=True))
        of_length = self._ask(
            self._client.facet, self._name, f"{name}.length", limit=_LENGTHS, exact=True
        ).hits
        total = float(sum(int(hit.value) * hit.count for hit in of_length))
        return Frequencies(sum(hit.count for hit in of_length), total, found)

    def fetch(self, question: str, query: Gaussian, count: int) -> View:
        """Fetch the candidates of one query as a view.

        These are at least `count` passages of approximately the highest mu_s, and as many by the
        words of each block; all passages if there are no more.
        """
        collection = self._collection()
        if collection is None:
            return View.empty()
        check_query(query, collection.schema.dimension)
        request = partial(
            models.QueryRequest,
            filter=self._filter,
            limit=max(count, self.candidates),
            with_payload=WITH_WORDS,
            with_vector=[MEAN, SCALES],
        )
        requests = [request(query=query.mean[0].tolist(), using=MEAN)]
        frequencies = list[Frequencies]()
        for block, terms in enumerate(query.terms):
            known = self._frequencies(block, np.unique(terms.keys))
            frequencies.append(known)
            if len(terms.keys):
                words = sparse(terms.keys, terms.weights * known.idf(terms.keys))
                requests.append(request(query=words, using=words_name(block)))
        answers = self._ask(self._client.query_batch_points, self._name, requests)
        points = [*{point.id: point for answer in answers for point in answer.points}.values()]
        if not points:
            return View.empty()
        passages = [*map(passage_of, points)]
        return View.from_passages(passages, collection.gaussians(points), frequencies)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages of the highest s_hat among the candidates.

        The result is `exact` if all passages were candidates.

        ValueError if k < 1, the query's dimension is not that of the stored passages, or Qdrant
        cannot run the filter. TypeError if the filter is invalid.
        """
        k, view = check_k(k), self.snapshot(filter)
        rows = (query[start : start + 1] for start in range(len(query)))
        hits = [view.fetch("", row, 4 * k).search(row, k, beta=beta) for row in rows]
        count = min((len(row.passages[0]) for row in hits), default=0)
        if not count:
            return StoreHits.empty(len(query))
        return StoreHits(
            [row.passages[0][:count] for row in hits],
            np.concatenate([row.scores[:, :count] for row in hits]),
            np.concatenate([row.mu[:, :count] for row in hits]),
            np.concatenate([row.sigma2[:, :count] for row in hits]),
            exact=len(view) <= max(self.candidates, 4 * k),
        )

    # Writing

    def bind(self, fingerprint: str) -> None:
        """Record the fingerprint of the ensemble.

        FingerprintMismatch if the stored passages are of another ensemble.
        """
        collection = self._collection()
        if collection is not None:
            self._check_fingerprint(collection, fingerprint)
        self._fingerprint = fingerprint

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
        collection = self._collection()
        if collection is None or not self._count():
            collection = self._create(Collection.from_gaussians(gaussians, self._fingerprint))
        collection.schema.check(gaussians)
        for start in range(0, len(passages), _BATCH):
            some = slice(start, start + _BATCH)
            points = [*collection.points(passages[some], gaussians[some])]
            self._ask(self._client.upsert, self._name, points, wait=True)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        self._check_writable()
        there = [point.id for point in self._retrieve(ids)]
        for start in range(0, len(there), _READ):
            chosen = models.PointIdsList(points=there[start : start + _READ])
            self._ask(self._client.delete, self._name, chosen, wait=True)
        return len(there)

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    def _create(self, wanted: Collection) -> Collection:
        """Create the collection, in place of an empty one for other Gaussians, with its indexes.

        Returns what it is: another process may have created it at the same time.
        """
        if not wanted.schema.dimension:
            raise ValueError(
                "store: Qdrant needs vectors, and this ensemble has only words; add an encoder to "
                "it, or use a LocalStore."
            )
        there = self._collection()
        if there is not None and not there.is_like(wanted):
            self._ask(self._client.delete_collection, self._name)
            self._was_there, there = False, None
        names = [*map(words_name, range(len(wanted.schema.words)))]
        dot, no_index = models.Distance.DOT, models.HnswConfigDiff(m=0)
        means = models.VectorParams(size=wanted.schema.dimension, distance=dot)
        scales = models.VectorParams(
            size=wanted.schema.factors, distance=dot, hnsw_config=no_index, on_disk=True
        )
        if there is None:
            with suppress(FileExistsError):  # another process was faster
                self._ask(
                    self._client.create_collection,
                    self._name,
                    vectors_config={MEAN: means, SCALES: scales},
                    sparse_vectors_config={name: models.SparseVectorParams() for name in names},
                    metadata={_METADATA: wanted.metadata()},
                    **self._settings,
                )
        if not self._is_local:  # which has no indexes
            self._index(names)
        return self._collection() or wanted

    def _index(self, names: Sequence[str]) -> None:
        """Create the indexes of the payload, unless they exist."""
        whole = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=True, range=False
        )
        make = partial(self._ask, self._client.create_payload_index, self._name)
        make(FACTS, models.PayloadSchemaType.KEYWORD)
        for name in names:
            make(f"{name}.terms", whole)
            make(f"{name}.length", whole)

    # The folder of an index

    def state(self) -> dict[str, Any]:
        """Return what the folder of an index says of this store: its address."""
        return {"store": "Qdrant", "address": self.address}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError if this is an empty collection, and not that of a saved index."""
        address = state.get("address")
        if self.address != address and not len(self):
            raise ValueError(
                f"store: there is no passage in {self.address!r:.300}, and those of this index "
                f"were saved in {address!r:.300}; check the name (uec-rag: --store)."
            )

    @property
    def address(self) -> str:
        """The address for `open_store`.

        ValueError if the collection is in memory, or was opened with `client`.
        """
        name = quote(self._name, safe="")
        if self._url is not None:
            return f"qdrant+{self._url}/{name}"
        if self._path is None:
            raise ValueError(
                "store: a collection in memory, or opened with client=, cannot be reopened from a "
                "saved index; use path= or url=."
            )
        return f"qdrant://{quote(str(Path(self._path).absolute()))}/{name}"

    def close(self) -> None:
        """Close the connection, or release the folder for another process."""
        self._client.close()


def _gaussians(collection: Collection | None, points: Sequence[models.Record]) -> Gaussian:
    if collection is None:
        return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
    return collection.gaussians(points)
