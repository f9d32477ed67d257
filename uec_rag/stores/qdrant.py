"""A store in Qdrant: means searched by its HNSW, the score computed inside the engine.

One point for each passage, with two vectors: "mean", which HNSW searches by inner product, and
"spread", of which no index is made. A formula over two prefetches gives s_hat where they lie.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from uec_rag.base.environment import missing_extra
from uec_rag.base.files import read_json, write_json
from uec_rag.base.gaussian import FloatArray
from uec_rag.base.retries import retried
from uec_rag.stores.base import Passage
from uec_rag.stores.engine import EngineStore, Point, Ranking
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.filters import Condition
from uec_rag.stores.point_ids import point_id

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "qdrant")) from error

from uec_rag.stores.qdrant_filters import FACTS, known, passage_of, payload_of, qdrant_filter
from uec_rag.stores.qdrant_search import MEAN, PASSAGE, SPREAD, WHOLE, best_of, nearest_to

_NOTES = "uec_rag"
_WRITTEN = 128  # points sent at a time
_READ = 512  # points asked for at a time
_FORMULAS_SINCE = (1, 14)

_T = TypeVar("_T")


class QdrantStore(EngineStore):
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
    >>> from uec_rag import Gaussian
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
        **settings: Any,
    ) -> None:
        places = {"location": location, "path": path, "url": url, "client": client}
        given = [name for name, place in places.items() if place is not None]
        if len(given) != 1:
            raise ValueError(
                "location, path, url: expected exactly one, location=':memory:' for a try; got "
                f"{given or 'none'}."
            )
        super().__init__()
        if client is None:
            client = QdrantClient(
                location=location,
                path=None if path is None else str(path),
                url=url,
                api_key=api_key,
                timeout=timeout,
            )
        self._place = {"path": None if path is None else str(path), "url": url}
        self._client, self._collection, self._settings = client, collection, settings
        self._noted: Notes | None = None
        self._formulas = url is None or self._version() >= _FORMULAS_SINCE

    def _version(self) -> tuple[int, ...]:
        number = self._ask(self._client.info).version.split("-")[0]
        return tuple(int(part) for part in number.split(".")[:2])

    def _ask(self, method: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call Qdrant, again a few times where it is out of reach for a moment.

        Raises
        ------
        ConnectionError
            If it stays out of reach.
        """
        try:
            return retried(lambda: method(*arguments, **named))
        except (ResponseHandlingException, UnexpectedResponse) as error:
            status = getattr(error, "status_code", None)
            if status is not None and 400 <= status < 500:
                raise
            raise ConnectionError(
                f"store: Qdrant at {self._place['url']!r} does not answer ({error}). What this "
                "call has not written or found is not hidden: call it again when Qdrant is there."
            ) from error

    def close(self) -> None:
        """Close the connection, or give the folder free for another process."""
        self._client.close()

    def notes(self) -> Notes | None:
        """What the collection notes of its Gaussians; None where there is none."""
        if self._noted is None and self._ask(self._client.collection_exists, self._collection):
            config = self._ask(self._client.get_collection, self._collection).config
            self._noted = Notes.restore((config.metadata or {}).get(_NOTES), self._collection)
        return self._noted

    def make(self, notes: Notes) -> None:
        """Make the collection, instead of an empty one that is there."""
        if self.notes() is not None:
            self._ask(self._client.delete_collection, self._collection)
            self._noted = None
        width, dot = notes.dimension, models.Distance.DOT
        none = models.HnswConfigDiff(m=0)  # of what only scores candidates
        self._ask(
            self._client.create_collection,
            self._collection,
            vectors_config={
                MEAN: models.VectorParams(size=width, distance=dot),
                SPREAD: models.VectorParams(
                    size=width + notes.scales, distance=dot, hnsw_config=none, on_disk=True
                ),
            },
            metadata={_NOTES: notes.metadata()},
            **self._settings,
        )
        if self._place["url"]:  # local mode has no such index
            keyword = models.PayloadSchemaType.KEYWORD
            self._ask(self._client.create_payload_index, self._collection, FACTS, keyword)

    def put(self, points: Sequence[Point]) -> None:
        """Write points, some at a time, and wait until each part is there."""
        for start in range(0, len(points), _WRITTEN):
            some = [
                models.PointStruct(
                    id=point_id(passage.id),
                    vector={MEAN: mean.tolist(), SPREAD: spread.tolist()},
                    payload=payload_of(passage),
                )
                for passage, mean, spread in points[start : start + _WRITTEN]
            ]
            self._ask(self._client.upsert, self._collection, some, wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove points."""
        for start in range(0, len(ids), _READ):
            chosen = models.PointIdsList(points=[*map(point_id, ids[start : start + _READ])])
            self._ask(self._client.delete, self._collection, chosen, wait=True)

    def count(self, condition: Condition | None) -> int:
        """How many points a condition holds for."""
        return self._counted(_where(condition))

    def has_key(self, key: str) -> bool:
        """Whether any passage has a metadata key."""
        return self._counted(known(key)) > 0

    def _counted(self, where: models.Filter | None) -> int:
        if self.notes() is None:
            return 0
        return self._ask(self._client.count, self._collection, where, exact=True).count

    def check(self, condition: Condition) -> None:
        """Raise ValueError if Qdrant cannot run a condition."""
        qdrant_filter(condition)

    def points(self, ids: Sequence[str]) -> Mapping[str, Point]:
        """Points of those distinct ids that are there."""
        return {point.passage.id: point for point in map(_point, self._found(ids, vectors=True))}

    def passages_of(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Passages of those distinct ids that are there."""
        found = (passage_of(point.payload) for point in self._found(ids, vectors=False))
        return {passage.id: passage for passage in found}

    def _found(self, ids: Sequence[str], *, vectors: bool) -> Iterator[models.Record]:
        for start in range(0, len(ids) if self.notes() else 0, _READ):
            yield from self._ask(
                self._client.retrieve,
                self._collection,
                [*map(point_id, ids[start : start + _READ])],
                with_payload=PASSAGE,
                with_vectors=vectors,
            )

    def scan(self, condition: Condition | None, limit: int | None) -> Iterator[Point]:
        """Points in the order of their UUIDs, which is one of chance, the same for everyone."""
        return map(_point, self._scrolled(condition, limit, vectors=True))

    def scan_passages(self, condition: Condition | None) -> Iterator[Passage]:
        """Passages in the order of `scan`."""
        points = self._scrolled(condition, None, vectors=False)
        return (passage_of(point.payload) for point in points)

    def _scrolled(
        self, condition: Condition | None, limit: int | None, *, vectors: bool
    ) -> Iterator[models.Record]:
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
                with_payload=PASSAGE,
                with_vectors=vectors,
            )
            yield from points
            left = None if left is None else left - len(points)
            if offset is None:
                return

    def near(self, condition: Condition | None, mean: FloatArray, count: int) -> list[list[str]]:
        """Ids of about `count` points of the highest mu_s with each query."""
        where = _where(condition)
        asked = [
            models.QueryRequest(**nearest_to(row, count, where, exact=False), with_payload=["id"])
            for row in mean
        ]
        return [[(point.payload or {})["id"] for point in found] for found in self._answers(asked)]

    def best(self, condition: Condition | None, ranking: Ranking) -> list[list[Point]]:
        """The k points of the highest s_hat; all candidates where the server has no formulas."""
        where, asked = _where(condition), []
        for mean, spread in zip(ranking.mean, ranking.spread, strict=True):
            nearest = nearest_to(mean, ranking.candidates, where, exact=ranking.exact)
            if self._formulas:
                asked.append(best_of(nearest, spread, ranking.k, ranking.beta))
            else:
                asked.append(models.QueryRequest(**nearest, **WHOLE))
        return [[*map(_point, found)] for found in self._answers(asked)]

    def _answers(self, asked: list[models.QueryRequest]) -> list[list[models.ScoredPoint]]:
        found = self._ask(self._client.query_batch_points, self._collection, asked)
        return [answer.points for answer in found]

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
        place = {"store": "qdrant", "collection": self._collection, **self._place}
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


def _where(condition: Condition | None) -> models.Filter | None:
    return None if condition is None else qdrant_filter(condition)


def _point(point: models.Record | models.ScoredPoint) -> Point:
    vectors: Any = point.vector
    mean, spread = (np.array(vectors[name], dtype=np.float32) for name in (MEAN, SPREAD))
    return Point(passage_of(point.payload), mean, spread)
