"""A store in Qdrant, distributed or local: a source of candidates.

A point is a passage, with a named vector of what encoders made of it, side by side, one without an
index of their features, unless these are the vectors, and a sparse vector for each encoder that
counts words. A search fetches candidates of a query, which are compared
and scored here by the same code as in a local index, with the frequencies of words in a sample of
the passages.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.counts import K1, Frequencies
from uec_rag.base.errors import missing_extra, warn_once
from uec_rag.base.files import as_path
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.records import Recent, Record
from uec_rag.encoders.base import Encoded
from uec_rag.stores import filters
from uec_rag.stores.base import Filter, check_addition, check_same
from uec_rag.stores.candidates import CandidateStore
from uec_rag.stores.encodings import Schema
from uec_rag.stores.local.view import View
from uec_rag.stores.metadata import kinds_of_texts, restore_kinds
from uec_rag.stores.passage import Passage

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
except ModuleNotFoundError as error:
    if error.name != "qdrant_client":
        raise
    raise ImportError(missing_extra("qdrant-client", "stores")) from error

CANDIDATES = 256
"""The default number of passages nearest by mu_s that a search scores."""

_METADATA = "uec_rag"  # key of ours in a collection's metadata
_VECTORS, _FEATURES, _VALUES = "vectors", "features", "values"
_PASSAGE = [
    "id",
    "text",
    "metadata",
    "dates",
    "sketch",
]  # what is read of a point without its vectors
_BATCH = 128  # points written by a request
_READ = 512  # points read by a request
_MANY_TEXTS = 16  # of a filter's list, that are asked for as one condition; 2,000 took a minute
_SAMPLE = 1024  # passages in which the frequencies of words are counted
_Counted: TypeAlias = tuple[int, list[Frequencies]]
_MOST_OF_TENANTS, _LEAST = 2**18, 256  # passages of tenants whose frequencies are kept; of one

_T = TypeVar("_T")


class QdrantStore(CandidateStore):
    """Passages and their vectors in a Qdrant collection.

    Candidates are the passages nearest by mu_s in Qdrant's HNSW and by words, which are fetched and
    scored in this process. Adding the first passages creates the collection, which records their
    encoders.

    Of a filter, Qdrant runs `$id`, `$eq`, `$in` and, of numbers, `$gt`, `$gte`, `$lt` and `$lte` on
    keys that are one word; the rest is applied to its candidates. An index of Qdrant on
    "values.KEY" makes filters of many passages fast.

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
    >>> query = Gaussian([[1.0, 0.0]], [[0.0, 0.0]])
    >>> store.fetch([""], query, 1).search(query, k=1, beta=1.0).passages[0][0].id
    'a'
    """

    def __init__(
        self,
        *,
        location: str | None = None,
        path: str | Path | None = None,
        url: str | None = None,
        collection: str = "uec_rag",
        api_key: str | None = None,
        client: QdrantClient | None = None,
        candidates: int = CANDIDATES,
        **settings: Any,
    ) -> None:
        places = [place for place in (location, path, url, client) if place is not None]
        if len(places) != 1 or location not in (None, ":memory:"):
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
        folder, url = None if path is None else str(path), None if url is None else url.rstrip("/")
        self._key = api_key
        self._client = client or QdrantClient(
            location=location, path=folder, url=url, api_key=api_key
        )
        address = url or (":memory:" if path is None else as_path(path))
        self.address = f"{address}/{collection}"
        self._name, self._settings = collection, settings
        self._fingerprint: str | None = None
        self._was_there, self._is_view = False, False
        # Of a view:
        self._filter: Filter = {}
        self._fixed: _Collection | None = None  # so that a search asks for it once
        self._tenant: Filter | None = None
        # The number of passages, and the frequencies in each sparse block, of all and of tenants by
        # the keys of their conditions; shared by views.
        self._frequencies = Recent[Hashable, tuple[int, list[Frequencies]]](
            _MOST_OF_TENANTS, _size_of
        )
        self._warnings = set[object]()

    # Requests

    def _ask(self, method: Callable[..., _T], *arguments: Any, **keywords: Any) -> _T:
        """Call Qdrant; ConnectionError if it is unreachable or refuses."""
        try:
            return method(*arguments, **keywords)
        except (ResponseHandlingException, UnexpectedResponse) as error:
            message = str(error).replace(self._key, "***") if self._key else str(error)
        # Outside `except`, so that a request with its key is not the context.
        raise ConnectionError(
            f"store: Qdrant at {self.address!r} does not answer, or refuses ({message}). No "
            "partial result was returned; a write may be incomplete. Check the address, the "
            "collection and api_key=, and call again."
        )

    def _opened(self, fingerprint: str | None = None) -> _Collection | None:
        """Return what the points of the collection are; None if nothing was added yet.

        FingerprintMismatch if they are of other encoders than a fingerprint, or than before.
        """
        if self._is_view:
            return self._fixed
        if not self._was_there and not self._ask(self._client.collection_exists, self._name):
            return None
        config = self._ask(self._client.get_collection, self._name).config
        self._was_there = True
        try:
            collection = _Collection.restore((config.metadata or {}).get(_METADATA) or {})
        except ValueError as error:
            raise ValueError(
                f"collection: {self._name!r} exists and was not created by this version of "
                "uec_rag; choose another name, and index the documents again."
            ) from error
        expected = fingerprint or self._fingerprint
        if expected not in (None, collection.encoders) and self._count():
            check_same(collection.encoders, str(expected))
        return collection

    def _count(self, condition: models.Filter | None = None) -> int:
        """Return the number of points that match a filter of Qdrant, of all without one."""
        return self._ask(self._client.count, self._name, count_filter=condition, exact=True).count

    def _points(
        self, condition: models.Filter | None = None, *, vectors: bool = False
    ) -> Iterator[models.Record]:
        """Yield the points that match a filter of Qdrant, with vectors and words if asked for.

        They are in the order of their UUIDs, which is random.
        """
        offset: Any = None
        while (collection := self._opened()) is not None:
            points, offset = self._ask(
                self._client.scroll,
                self._name,
                scroll_filter=condition,
                limit=_READ,
                offset=offset,
                with_payload=vectors or _PASSAGE,
                with_vectors=vectors and collection.vectors,
            )
            yield from points
            if offset is None:
                return

    # Reading

    def __len__(self) -> int:
        if self._filter:
            return sum(1 for _ in self._selected())
        return 0 if self._opened() is None else self._count()

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of the passages that match a filter; of all without one.

        It is not a fixed state: writes by others are visible in it.

        TypeError, ValueError if the filter is invalid.
        """
        view = copy(self)
        view._fixed, view._is_view = self._opened(), True
        view._filter = filters.all_of(self._filter or None, filter) or {}
        filters.parse(view._filter)
        return view

    def _where(self) -> models.Filter | None:
        """Return the part of a view's filter that Qdrant can run."""
        return qdrant_filter(self._filter, _VALUES, ids=True)

    def _selected(self, *, vectors: bool = False) -> Iterator[models.Record]:
        """Yield the points of a view."""
        condition = filters.parse(self._filter)
        points = self._points(self._where(), vectors=vectors)
        return (point for point in points if filters.matches(condition, _passage_of(point)))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that there are, in the order of `ids`."""
        condition, there = filters.parse(self._filter), map(_passage_of, self._points(_having(ids)))
        passages = {p.id: p for p in there if filters.matches(condition, p)}
        return [passages[id_] for id_ in ids if id_ in passages]

    def vectors(self, ids: Sequence[str]) -> list[Encoded]:
        """See `Searched`; also with words."""
        there = {passage.id for passage in self.get(ids)} if self._filter else {*ids}
        points = {_passage_of(p).id: p for p in self._points(_having([*there]), vectors=True)}
        for id_ in ids:
            if id_ not in points:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return self._encodings([points[id_] for id_ in ids])

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that match a filter, in the order of Qdrant."""
        return map(_passage_of, self.snapshot(filter)._selected())

    def sample(self, count: int) -> list[Encoded]:
        """Return those of `count` random passages (all, if fewer), the same everywhere."""
        return self._encodings([*islice(self._selected(vectors=True), count)])

    def _encodings(self, points: Sequence[Any]) -> list[Encoded]:
        """Rebuild what encoders made of the passages of points that were read with vectors."""
        if (collection := self._opened()) is None:
            return []
        schema, number = collection.schema, count()

        def blocks(name: str, widths: Sequence[int]) -> list[FloatArray]:
            rows = np.array([p.vector.get(name, ()) for p in points], dtype=np.float32)
            rows = rows.reshape(len(points), sum(widths))
            return np.split(rows, np.cumsum(widths)[:-1], axis=1)

        parts = list[Encoded]()
        features = blocks(_FEATURES, schema.features)
        for vectors, apart in zip(blocks(_VECTORS, schema.widths), features, strict=True):
            terms = None
            if not vectors.shape[1]:
                name = _words_name(next(number))
                ints = [np.array(p.payload[name], dtype=np.int64) for p in points]
                terms = Terms.from_keys([keys.view(np.uint64) for keys in ints])
            parts.append(Encoded(vectors, apart if apart.shape[1] else vectors, terms))
        return parts

    def _learn_words(self) -> list[Frequencies]:
        """Return the frequencies of words in a sample, for each sparse block.

        It is taken again when the number of passages has changed by a tenth: of the passages of a
        tenant, if the view is one's, unless a function selects them.
        """
        tenant = None if self._tenant is None else filters.parse(self._tenant)
        key = None if tenant is None else filters.key_of(tenant)
        if tenant is not None and key is None:
            return []
        condition = None if self._tenant is None else qdrant_filter(self._tenant, _VALUES, ids=True)
        count = self._count(condition)
        before, frequencies = self._frequencies.use(key) or (0, [])
        if 10 * abs(count - before) > before:
            points = self._points(condition, vectors=True)
            if tenant is not None:
                points = (p for p in points if filters.matches(tenant, _passage_of(p)))
            sample = self._encodings([*islice(points, _SAMPLE)])
            terms = (block for part in sample for block in part.blocks)
            frequencies = [*map(Frequencies.from_terms, terms)]
            self._frequencies.keep(key, (count, frequencies))
        return frequencies

    def of_tenant(self, filter: Filter) -> Self:
        """Return a view of a tenant's passages, in a sample of which words are counted."""
        view = self.snapshot(filter)
        view._tenant = view._filter
        return view

    def fetch(self, questions: Sequence[str], query: Gaussian, count: int) -> View:
        """Fetch the candidates of one question, in n ways of asking it, as a view.

        These are at least `count` passages of approximately the highest mu_s for each, and as many
        by the words of each block; all passages if there are no more.
        """
        collection = self._opened()
        if collection is None:
            return View.empty()
        collection.schema.check_query(query)
        vectors: list[tuple[str, Any]] = [(_VECTORS, mean) for mean in query.mean.tolist()]
        for block, of_queries in enumerate(query.terms):
            for terms in (of_queries[[row]] for row in range(len(of_queries))):
                if len(terms.keys):
                    vectors.append((_words_name(block), _sparse(terms.keys, terms.weights)))
        frequencies = self._learn_words() if query.terms else []
        limit = max(count, self.candidates)
        groups = self._nearest(vectors, limit, with_payload=True, with_vector=collection.vectors)
        if self._tenant is not None:
            groups = [self._of_tenant(*pair, limit) for pair in zip(vectors, groups, strict=True)]
        points = [*{point.id: point for group in groups for point in group}.values()]
        if self._tenant is not None:
            points.sort(key=lambda point: str(point.id))  # of equal ones, the same come first
        view = View.empty()
        if points:
            passages = [*map(_passage_of, points)]
            view = View.from_passages(passages, self._encodings(points), frequencies)
            view = view.snapshot(self._filter)
        if not len(view):
            self._note_mismatch()
        return view

    def _nearest(
        self, vectors: Sequence[tuple[str, Any]], limit: int, **options: Any
    ) -> list[list[Any]]:
        """Return the points nearest to some named vectors, of those that Qdrant selects."""
        condition = self._where()
        requests = [
            models.QueryRequest(query=vector, using=name, filter=condition, limit=limit, **options)
            for name, vector in vectors
        ]
        answers = self._ask(self._client.query_batch_points, self._name, requests)
        return [answer.points for answer in answers]

    def _of_tenant(self, vector: tuple[str, Any], points: list[Any], limit: int) -> list[Any]:
        """Return the `limit` points of a tenant nearest to a vector, of more where others' are.

        Of a filter that Qdrant runs in part, others' points may be nearer.
        """
        condition, size = filters.parse(self._filter), limit
        while True:
            hits = [point for point in points if filters.matches(condition, _passage_of(point))]
            if len(hits) >= limit or len(points) < size:
                break
            size *= 8
            [points] = self._nearest([vector], size, with_payload=_PASSAGE)
        if size == limit:
            return hits
        ids = [_passage_of(point).id for point in hits[:limit]]
        return [*self._points(_having(ids), vectors=True)]

    def _note_mismatch(self) -> None:
        """Warn once of a key whose values are of another kind than the filter, of which none is."""
        if self._filter:
            points = islice(self._points(), _READ)
            for note in filters.mismatches(
                filters.parse(self._filter), [*map(_passage_of, points)]
            ):
                warn_once(self._warnings, note, note)

    # Writing

    def bind(self, fingerprint: str) -> None:
        """See `Store`."""
        self._opened(fingerprint)
        self._fingerprint = fingerprint

    def add(self, passages: Sequence[Passage], encodings: Sequence[Encoded] | Gaussian) -> None:
        """Add passages, or replace those with the same ids.

        They are sent in batches, each of which is stored completely or not at all; after an error,
        it is safe to add all of them again.

        TypeError, ValueError if there is not one row per passage, an id is repeated, metadata
        cannot be stored, or the vectors are of other dimensions than the stored ones.
        ConnectionError if Qdrant stays unreachable.
        """
        self._check_writable()
        passages, blocks = check_addition(passages, encodings)
        if not passages:
            return
        self._frequencies.clear()
        collection = self._opened()
        if collection is None or not self._count():
            collection = _Collection(Schema.of(blocks), self._fingerprint)
            self._create(collection)
        collection.schema.check(blocks)
        for start in range(0, len(passages), _BATCH):
            rows = slice(start, start + _BATCH)
            points = [*_points_of(passages[rows], [part[rows] for part in blocks])]
            self._ask(self._client.upsert, self._name, points, wait=True)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        self._check_writable()
        self._frequencies.clear()
        removed = 0
        for start in range(0, len(ids), _READ):
            there = [point.id for point in self._points(_having(ids[start : start + _READ]))]
            selector = models.PointIdsList(points=there)
            if there:
                self._ask(self._client.delete, self._name, selector, wait=True)
            removed += len(there)
        return removed

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    def _create(self, collection: _Collection) -> None:
        """Create the collection, in place of an empty one for other vectors."""
        schema, there = collection.schema, self._opened()
        if not schema.dimension:
            raise ValueError(
                "store: Qdrant needs vectors, and this ensemble has only words; add an encoder to "
                "it, or use a LocalStore."
            )
        if there == collection:
            return
        if there is not None:
            self._ask(self._client.delete_collection, self._name)
        dot, no_index = models.Distance.DOT, models.HnswConfigDiff(m=0)
        vectors = {_VECTORS: models.VectorParams(size=schema.dimension, distance=dot)}
        if apart := sum(schema.features):
            vectors[_FEATURES] = models.VectorParams(
                size=apart, distance=dot, hnsw_config=no_index, on_disk=True
            )
        words = models.SparseVectorParams(modifier=models.Modifier.IDF)
        self._ask(
            self._client.create_collection,
            self._name,
            vectors_config=vectors,
            sparse_vectors_config={_words_name(at): words for at in range(schema.words)},
            metadata={_METADATA: collection.metadata()},
            **self._settings,
        )
        self._was_there = True

    # The folder of an index

    def describe(self) -> dict[str, Any]:
        """Return what the folder of an index says of this store: its address."""
        return {"store": "Qdrant", "address": self.address}

    def close(self) -> None:
        """Close the connection, or release the folder for another process."""
        self._client.close()


_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def _having(ids: Sequence[str]) -> models.Filter:
    """Return a filter of the passages that have one of some ids."""
    return models.Filter(must=[models.HasIdCondition(has_id=[*map(_point_id, ids)])])


def _point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process."""
    name = id_.encode(errors="surrogatepass")  # a lone surrogate is allowed in a lookup
    return str(uuid.uuid5(_SPACE, name.hex()))


def _words_name(block: int) -> str:
    """Return the name of a sparse block's vector, and of its terms in the payload."""
    return f"words{block}"


@dataclass(frozen=True)
class _Collection(Record):
    """The description of a collection's points, kept in its metadata.

    Attributes
    ----------
    schema : Schema
    encoders : str or None
        The fingerprint of the encoders, if known.
    """

    schema: Schema
    encoders: str | None
    format: Literal[8] = 8

    @property
    def vectors(self) -> list[str]:
        """The names of the vectors, but for words."""
        return [_VECTORS, _FEATURES] if any(self.schema.features) else [_VECTORS]


def _size_of(counted: _Counted) -> int:
    return max(min(counted[0], _SAMPLE), _LEAST)


def _points_of(
    passages: Sequence[Passage], encodings: Sequence[Encoded]
) -> Iterator[models.PointStruct]:
    """Yield the points of passages, with their terms as sparse vectors and one by one."""
    vectors = np.concatenate([part.embedding for part in encodings], axis=1).tolist()
    apart = [part.features for part in encodings if part.features is not part.embedding]
    features = np.concatenate(apart, axis=1).tolist() if apart else []
    for row, passage in enumerate(passages):
        vector: dict[str, Any] = {_VECTORS: vectors[row]}
        if apart:
            vector[_FEATURES] = features[row]
        payload: dict[str, Any] = {
            "id": passage.id,
            "text": passage.text,
            "metadata": json.dumps(passage.metadata),  # Qdrant would change some floats
            "dates": kinds_of_texts(passage.metadata),
            **({"sketch": b64encode(passage.sketch).decode()} if passage.sketch else {}),
            _VALUES: {
                key: items if isinstance(value, list) else items[0]
                for key, value in passage.metadata.items()
                if (items := _plain_items(value))
            },
        }
        for block, terms in enumerate(terms for part in encodings for terms in part.blocks):
            name, span = _words_name(block), slice(*terms.starts[row : row + 2])
            keys, counts = terms.keys[span], terms.weights[span]
            if len(keys):
                vector[name] = _sparse(keys, counts / (counts + K1))
            # Qdrant has no unsigned integers.
            payload[name] = np.repeat(keys, counts.astype(np.intp)).view(np.int64).tolist()
        yield models.PointStruct(id=_point_id(passage.id), vector=vector, payload=payload)


def _plain_items(value: object) -> list[str | float]:
    """Return the texts and numbers of a value, or of a list, which Qdrant compares one by one."""
    items = value if isinstance(value, list) else [value]
    plain = (item for item in items if isinstance(item, str | int | float))
    return [item if isinstance(item, str) else float(item) for item in plain]


def _passage_of(point: Any) -> Passage:  # noqa: ANN401
    """Rebuild the passage of a point."""
    payload = point.payload
    sketch = b64decode(payload.get("sketch", ""))
    passage = Passage(payload["id"], payload["text"], json.loads(payload["metadata"]), sketch)
    restore_kinds(passage.metadata, payload["dates"])
    return passage


def _sparse(keys: NDArray[np.uint64], weights: NDArray[Any]) -> models.SparseVector:
    """Convert terms to Qdrant's sparse vector, whose indices have 32 bits.

    Terms whose lower 32 bits are equal are added up, which affects the choice of candidates only.
    """
    indices, positions = np.unique(keys.astype(np.uint32), return_inverse=True)
    values = np.bincount(positions, weights=weights, minlength=len(indices))
    return models.SparseVector(indices=indices.tolist(), values=values.tolist())


def qdrant_filter(filter: Filter, place: str, *, ids: bool = False) -> models.Filter | None:
    """Translate what Qdrant can say of a filter on the values in `place` of a payload.

    `ids`: whether its points have our ids. None if it can say nothing.
    """

    def join(kind: str, parts: list[models.Filter]) -> models.Filter:
        terms: list[Any] = [*parts]
        return models.Filter(must=terms) if kind == "$and" else models.Filter(should=terms)

    def leaf(key: str, operator: str, operand: Any) -> models.Filter:  # noqa: ANN401
        if key == "$id":
            return _having(operand)
        if not (key.isascii() and key.isidentifier()):  # it would be taken for a path
            return models.Filter()
        values = operand if operator == "$in" else [operand]
        texts = [value for value in values if isinstance(value, str)]
        kinds = bool if len(texts) > _MANY_TEXTS else (str, bool)
        matches: list[Any] = [models.MatchValue(value=v) for v in values if isinstance(v, kinds)]
        if kinds is bool:
            matches.append(models.MatchAny(any=texts))
        field = f"{place}.{key}"
        fits: list[Any] = [models.FieldCondition(key=field, match=match) for match in matches]
        for value in values:
            if not isinstance(value, str):
                slack = abs(value) * 1e-9 + 1e-300  # Qdrant changes some floats
                low = None if operator in ("$lt", "$lte") else value - slack
                high = None if operator in ("$gt", "$gte") else value + slack
                limits = models.Range(gte=low, lte=high)
                fits.append(models.FieldCondition(key=field, range=limits))
        return models.Filter(should=fits)

    return filters.translate(filter, leaf, join, ids=ids)
