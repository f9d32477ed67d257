"""A store in Qdrant: means searched by its HNSW, the score computed inside the engine.

One point for each passage, with two vectors: "mean", which HNSW searches by inner product, and
"spread", [mean^2, scales], of which no index is made. sigma_s^2 is the inner product of the second
with [var_q, w], so that a formula over two prefetches gives s_hat where the vectors lie.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from uec_rag.base.environment import missing_extra
from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.files import read_json, write_json
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.terms import Terms
from uec_rag.stores.additions import checked_addition
from uec_rag.stores.base import Filter, Found, Passage
from uec_rag.stores.filters import Condition, Every, parse
from uec_rag.stores.memory import MemoryStore
from uec_rag.stores.point_ids import point_id

try:
    from qdrant_client import QdrantClient, models
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "qdrant")) from error

from uec_rag.stores.qdrant_collection import MEAN, PASSAGE, SPREAD, Collection
from uec_rag.stores.qdrant_filters import keys_of, passage_of, payload_of, qdrant_filter
from uec_rag.stores.qdrant_search import WHOLE, best_of, nearest_to, ranked

_CANDIDATES = 256  # of a search, at least
_FORMULAS_SINCE = (1, 14)
_NO_WORDS = (
    "store: words are not kept in Qdrant by this version; use a MemoryStore, or an ensemble of "
    "dense members."
)


@dataclass
class _Read:
    """What was read of a collection, kept while nothing is written here and its size stays."""

    size: int
    samples: dict[int, Gaussian] = field(default_factory=dict)  # by their size
    copy: MemoryStore | None = None


class QdrantStore:
    """Passages and their Gaussians in a Qdrant collection.

    Candidates are the nearest by mu_s in Qdrant's HNSW; their order by s_hat is that of an exact
    search of the same candidates. Filters run in the engine. The collection is made when the
    first passages come, and notes which ensemble they are of.

    Others may write at the same time: a snapshot is a filtered view, not a moment. Calibrating
    reads the whole collection into memory once.

    Parameters
    ----------
    location : str, optional
        ":memory:" for a collection of this process alone.
    path : str or path, optional
        A folder, for a collection of one process at a time.
    url : str, optional
        Of a server. Exactly one of the three.
    collection : str
    api_key : str, optional
        Of the server. It is not saved.
    timeout : int, optional
        Seconds that the server may take to answer.
    client : QdrantClient, optional
        In place of all of the above.
    **settings
        Handed to Qdrant when the collection is made: `shard_number`, `replication_factor`,
        `quantization_config`, `on_disk_payload`, `hnsw_config` and so on.

    Raises
    ------
    ImportError
        Without qdrant-client: pip install "uec-rag[qdrant]".
    ValueError
        If not exactly one place is given.

    Examples
    --------
    >>> store = QdrantStore(location=":memory:", collection="letters")
    >>> store.add([Passage("a", "first"), Passage("b", "second")],
    ...           Gaussian([[1.0, 0.0], [0.6, 0.8]], [[0.0, 0.0], [0.1, 0.1]]))
    >>> store.search(Gaussian([[1.0, 0.0]], [[0.0, 0.0]]), k=1, beta=1.0).passages[0][0].id
    'a'
    """

    approximate = True
    """Whether a search looks at candidates only."""

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
        **settings: Any,
    ) -> None:
        places = {"location": location, "path": path, "url": url, "client": client}
        given = [name for name, place in places.items() if place is not None]
        if len(given) != 1:
            raise ValueError(
                "location, path, url: expected exactly one, location=':memory:' for a try; got "
                f"{given or 'none'}."
            )
        if client is None:
            client = QdrantClient(
                location=location,
                path=None if path is None else str(path),
                url=url,
                api_key=api_key,
                timeout=timeout,
            )
        place = url or (None if path is None else str(path))
        self._place = {"path": None if path is None else str(path), "url": url}
        self._collection = Collection(
            client, collection, place or "location", settings, indexed=url is not None
        )
        self._fingerprint: str | None = None
        self._condition: Condition | None = None
        self._read = _Read(-1)
        self._formulas = url is None or self._collection.version() >= _FORMULAS_SINCE

    def close(self) -> None:
        """Close the connection, or give the folder free for another process."""
        self._collection.client.close()

    def bind(self, fingerprint: str) -> None:
        """Note whose Gaussians these are, or refuse another ensemble's.

        Raises
        ------
        FingerprintMismatch
            If passages of another ensemble are stored.
        """
        self._fingerprint = fingerprint
        about = self._collection.about()
        if about is None or about.fingerprint in (None, fingerprint):
            return
        if self._collection.count(None):
            raise FingerprintMismatch(
                f"store: the collection {self._collection.name!r} holds vectors of another "
                f"ensemble ({str(about.fingerprint)[:12]!r}, this one is {fingerprint[:12]!r}): "
                "other models, revisions or posterior. Use that ensemble or another collection."
            )

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        They are sent some at a time; each such part is there whole or not at all, and sending all
        of them again after an error does no harm.

        Raises
        ------
        ValueError
            If there is not one Gaussian per passage, an id comes twice, or the Gaussians are of
            another dimension or posterior than the stored ones.
        ConnectionError
            If the server stays out of reach.
        """
        self._check_writable()
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        if gaussians.terms:
            raise ValueError(_NO_WORDS)
        points = [
            models.PointStruct(
                id=point_id(passage.id),
                vector={MEAN: mean.tolist(), SPREAD: [*(mean**2).tolist(), *scales.tolist()]},
                payload=payload_of(passage),
            )
            for passage, mean, scales in zip(
                passages, gaussians.mean, gaussians.scales, strict=True
            )
        ]
        self._collection.prepare(gaussians, self._fingerprint)
        self._read = _Read(-1)
        self._collection.put(points)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        self._check_writable()
        there = [*self._collection.points(ids, ["id"], vectors=False)]
        self._read = _Read(-1)
        self._collection.remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._condition is not None:
            raise RuntimeError("this is a filtered view of a store; write to the store itself.")

    def __len__(self) -> int:
        return self._collection.count(self._filter())

    def snapshot(self, filter: Filter | None = None) -> QdrantStore:
        """Return a view of what a filter lets through; of all, where there is none.

        It is no moment: what others write shows in it.

        Raises
        ------
        TypeError, ValueError
            If it is no filter, or one that Qdrant cannot run.
        """
        if filter is None:
            return self
        condition = parse(filter)
        qdrant_filter(condition)
        self._collection.warn_of_unknown(keys_of(condition))
        view = QdrantStore.__new__(QdrantStore)
        view.__dict__.update(self.__dict__)
        before = self._condition
        view._condition = condition if before is None else Every((before, condition))
        view._read = _Read(-1)
        return view

    def _filter(self) -> models.Filter | None:
        return None if self._condition is None else qdrant_filter(self._condition)

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        found = self._collection.points(ids, PASSAGE, vectors=False)
        return [passage_of(found[id_].payload) for id_ in ids if id_ in found]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        found = self._collection.points(ids, ["id"], vectors=True)
        for id_ in ids:
            if id_ not in found:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return self._collection.gaussians([found[id_] for id_ in ids])

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in an order of its own."""
        view = self.snapshot(filter)
        points = view._collection.scrolled(view._filter(), vectors=False)
        return (passage_of(point.payload) for point in points)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` passages by chance, or of all; the same for everyone."""
        read = self._read_before()
        if count not in read.samples:
            points = self._collection.scrolled(self._filter(), vectors=True, limit=count)
            read.samples[count] = self._collection.gaussians([*points])
        return read.samples[count]

    def _read_before(self) -> _Read:
        size = len(self)
        if size != self._read.size:
            self._read = _Read(size)
        return self._read

    def _copy(self) -> MemoryStore:
        """All of it in memory, for what needs every passage."""
        read = self._read_before()
        if read.copy is None:
            copy, points = MemoryStore(), [*self._collection.scrolled(self._filter(), vectors=True)]
            if points:
                found = [passage_of(point.payload) for point in points]
                copy.add(found, self._collection.gaussians(points))
            read.copy = copy
        return read.copy

    def similarities(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Inner products of queries with consecutive blocks of the stored means, (n, N) each.

        All passages are read into memory for it, in the order of `passages`.
        """
        return self._copy().similarities(blocks) if blocks else []

    def contributions(
        self, terms: Sequence[Terms], ids: Sequence[Sequence[str]]
    ) -> list[list[FloatArray]]:
        """ValueError: words are not kept here."""
        raise ValueError(_NO_WORDS)

    def nearest(self, mean: FloatArray, count: int, terms: Sequence[Terms] = ()) -> list[list[str]]:
        """Ids of about `count` candidates for each query, probably of the highest mu_s."""
        if terms:
            raise ValueError(_NO_WORDS)
        if not len(mean) or not len(self):
            return [[] for _ in mean]
        asked = [
            models.QueryRequest(
                **nearest_to(row, count, self._filter(), exact=False), with_payload=["id"]
            )
            for row in mean
        ]
        answers = self._collection.answers(asked)
        return [[(point.payload or {})["id"] for point in points] for points in answers]

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the k passages of the highest s_hat among the nearest by mu_s.

        It is `exact` where all passages were candidates. With `mu`, a column for every passage in
        the order of `passages`, all of them are read into memory.

        Raises
        ------
        ValueError
            If k < 1, the query is of another dimension than the stored passages, or the filter is
            one that Qdrant cannot run.
        TypeError
            If it is no filter.
        """
        if k < 1:
            raise ValueError(f"k: expected an integer >= 1, got {k}.")
        if filter is not None:
            return self.snapshot(filter).search(query, k, beta=beta, mu=mu)
        if mu is not None:
            return self._copy().search(query, k, beta=beta, mu=mu)
        size, about = len(self), self._collection.about()
        if not size or about is None or not len(query):
            nothing = np.zeros((len(query), 0), dtype=np.float32)
            return Found([[] for _ in range(len(query))], nothing, nothing, nothing, exact=True)
        if query.dimension != about.dimension:
            raise ValueError(
                f"query: expected dimension {about.dimension}, as stored, got {query.dimension}."
            )
        candidates = max(_CANDIDATES, 4 * k)
        second = query.mean**2 + query.variance
        weights = second if about.profile is None else second @ about.profile.T
        nearest = [
            nearest_to(row, candidates, self._filter(), exact=size <= candidates)
            for row in query.mean
        ]
        wanted = [
            best_of(nearest[i], query.variance[i], weights[i], k, beta)
            if self._formulas
            else models.QueryRequest(**nearest[i], **WHOLE)
            for i in range(len(query))
        ]
        answers = self._collection.answers(wanted)
        best = [
            ranked(about.gaussians(points), query, i, weights[i], k, beta)
            for i, points in enumerate(answers)
        ]
        few = min(len(places) for places, _ in best)
        found = [
            [passage_of(points[place].payload) for place in places[:few]]
            for points, (places, _) in zip(answers, best, strict=True)
        ]
        scores, similarity, sigma2 = np.stack([row[:, :few] for _, row in best], axis=1)
        return Found(found, scores, similarity, sigma2, exact=candidates >= size)

    def save(self, folder: Path) -> None:
        """Write where the collection is; the passages stay in it.

        Raises
        ------
        ValueError
            If it is one that ends with this process, or that a client of the user's leads to.
        """
        if not any(self._place.values()):
            raise ValueError(
                "store: a collection in memory, or of a client of your own, cannot be found again "
                "by what is saved; use path= or url=."
            )
        place = {"store": "qdrant", "collection": self._collection.name, **self._place}
        write_json(folder / "store.json", place)

    @classmethod
    def load(cls, folder: Path, *, device: str | None = None) -> Self:
        """Open the collection that `save` noted; QDRANT_API_KEY holds the key, if it needs one.

        Parameters
        ----------
        folder : path
        device : str, optional
            Only None: Qdrant multiplies where it runs.
        """
        if device is not None:
            raise ValueError(
                f"store_device: expected None for a Qdrant collection, got {device!r}."
            )
        noted = read_json(folder / "store.json")
        return cls(
            collection=noted["collection"],
            path=noted["path"],
            url=noted["url"],
            api_key=os.environ.get("QDRANT_API_KEY"),
        )
