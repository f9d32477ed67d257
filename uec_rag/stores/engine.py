"""The base of stores in vector databases; each database implements a few methods.

An engine stores points: a passage with its mean, its "spread" [mean^2, scales], and its terms. It
finds the candidates of a query, which are compared and scored here, in float32, by the same code
as in a local index, with the frequencies of the whole corpus, so that the scores are equal.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k, check_type
from uec_rag.base.counts import Frequencies, shares
from uec_rag.base.errors import FingerprintMismatch, warn
from uec_rag.base.files import write_json
from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, Terms
from uec_rag.stores.base import Filter, Passage, StoreHits, check_addition, check_query
from uec_rag.stores.filters import And, AnyFact, Condition, fact, keys_of, parse
from uec_rag.stores.local.view import View

CANDIDATES = 256
"""The default number of passages nearest by mu_s that a search scores."""

_CACHED_SAMPLES = 32  # samples that are cached; requests may have any number of filters
_CACHED_TERMS = 2**14  # terms of a block whose frequencies are cached
_CHECKED_KEYS = 20  # filter keys that are checked for a warning; requests may have any number


@dataclass
class _ReadCache:
    """A cache of reads, valid until the next write to the engine."""

    schema: CollectionSchema | None = None
    was_there: bool = False  # whether the collection existed
    stamped: str | None = None
    written: str | None = None
    samples: dict[tuple[str, int], Gaussian] = field(default_factory=dict)
    rarities: dict[int, Frequencies] = field(default_factory=dict)  # by block

    def for_state(self, written: str) -> _ReadCache:
        """Return the cache for a state of the engine, emptied if the state is new."""
        if written != self.written:
            self.written, self.samples, self.rarities = written, {}, {}
        return self


class EngineStore(ABC):
    """Passages and their Gaussians in an engine; subclasses implement the abstract methods.

    Other processes may write at the same time: a snapshot is a filtered view rather than a fixed
    state, but a passage that it has read does not change.

    Parameters
    ----------
    candidates : int
        Smallest number of passages nearest by mu_s that a search scores, and smallest search width
        of the engine's HNSW. More candidates improve recall and take longer. May be changed later.

    Raises
    ------
    TypeError, ValueError
        If `candidates` is not a positive integer.
    """

    engine: ClassVar[str]
    """The name of the engine, for messages."""

    remote = True
    """True if the passages are in another process, and a search scores candidates only."""

    def __init__(self, candidates: int = CANDIDATES) -> None:
        self.candidates = check_k(candidates, "candidates")
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
        """Copy the store, but not the collection in the engine."""
        return copy(self)

    def __len__(self) -> int:
        if not self._is_view:
            return self.count(None)
        if self._size is None:
            self._size = self.count(self._condition)
        return self._size

    def _gaussians(self, points: Sequence[Point]) -> Gaussian:
        notes = self.schema()
        if notes is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return notes.gaussians(points)

    def schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection.

        RuntimeError if the collection was removed.
        """
        read = self._read
        if read.schema is None:
            found = self.read_schema()
            if found is None and read.was_there:
                raise RuntimeError(
                    f"store: the collection was removed from {self.engine}. Open the store "
                    "again; the passages must be added again."
                )
            read.schema, read.was_there = found, found is not None
        return read.schema

    @property
    def _require_schema(self) -> CollectionSchema:
        """The schema of a collection that exists."""
        notes = self.schema()
        assert notes is not None
        return notes

    def bind(self, fingerprint: str) -> None:
        """Record the fingerprint of the ensemble.

        FingerprintMismatch if the stored passages are of another ensemble.
        """
        self._fingerprint = fingerprint
        notes = self.schema()
        if notes is None or notes.fingerprint in (None, fingerprint) or not self.count(None):
            return
        raise FingerprintMismatch(
            f"store: the collection in {self.engine} holds vectors of another ensemble "
            f"({str(notes.fingerprint)[:12]!r}, this one is {fingerprint[:12]!r}), with other "
            "models, revisions or posterior. Use that ensemble or another collection."
        )

    def stamp(self) -> str:
        """Return a value that changes with every write; for a view, that of the first call.

        FingerprintMismatch if the collection was recreated for another ensemble.
        """
        if self._stamp is not None:
            return self._stamp
        stamp, read = self.read_stamp(), self._read
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
            gaussian = samples[key] = self._gaussians([*self.scan(self._condition, count)])
        return gaussian

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, or replace those with the same ids.

        They are sent in batches, each of which is stored completely or not at all; after an error,
        it is safe to add all of them again.

        TypeError, ValueError if there is not one Gaussian per passage, an id is repeated, metadata
        cannot be stored, or the Gaussians are of another dimension or posterior than the stored
        ones. ConnectionError if the engine stays unreachable.
        """
        self._check_writable()
        passages = check_addition(passages, gaussians)
        if not passages:
            return
        self.stamp()  # another process may have recreated the collection
        wanted, notes = CollectionSchema.from_gaussians(gaussians, self._fingerprint), self.schema()
        if notes is None or not notes.is_compatible_with(wanted):
            if notes is not None and self.count(None):
                raise ValueError(
                    f"gaussians: expected dimension {notes.dimension}, {len(notes.words)} blocks "
                    f"of terms and the same posterior as the collection in {self.engine}, got "
                    f"dimension {wanted.dimension}, {len(wanted.words)} blocks or another "
                    "posterior. Build the index again, in another collection."
                )
            if not wanted.dimension:
                raise ValueError(
                    f"store: {self.engine} needs vectors, and this ensemble has only words; add "
                    "an encoder to it, or use a LocalStore."
                )
            self.make(replace(wanted, id=uuid.uuid4().hex))
            self._read.schema = None
        self.put(points_of(passages, gaussians))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""
        self._check_writable()
        there = [*self._passages(ids)]
        self.remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of the passages that match a filter; of all without one.

        It is not a fixed state: writes by others are visible in passages that it has not yet read.

        TypeError, ValueError if the filter is invalid, or the engine cannot run it.
        """
        view = copy(self)
        view._is_view, view._size, view._stamp = True, None, None
        view._seen, view._rarities = {}, {}
        view.stamp()  # another process may have recreated the collection
        if filter is None:
            return view
        condition = parse(filter)
        self.check(condition)
        room = _CHECKED_KEYS - len(self._looked_up)
        for key in sorted(keys_of(condition) - self._looked_up)[:room] if self.count(None) else ():
            self._looked_up.add(key)
            if not self.count(AnyFact((fact("key", key),))):
                warn(f"filter: no passage has the metadata key {key!r:.60}.")
        before = self._condition
        view._condition = condition if before is None else And((before, condition))
        return view

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that exist, in the order of `ids`."""
        passages = self._passages(ids)
        return [passages[id_] for id_ in ids if id_ in passages]

    def _passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        points = self.points([*dict.fromkeys(ids)], vectors=False)
        return {point.passage.id: point.passage for point in points}

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
        points = {id_: self._seen[id_] for id_ in ids if id_ in self._seen}
        points |= self._points_by_id(
            self.points([id_ for id_ in dict.fromkeys(ids) if id_ not in points])
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
        """Iterate over all passages, or those that match a filter, in the order of the engine."""
        points = self.scan(self.snapshot(filter)._condition, vectors=False)
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
                found = self.frequencies(block, keys)
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
        notes, size = self.schema(), len(self)
        if notes is None or not size:
            return View.empty()
        check_query(query, notes.dimension)
        count, frequencies = max(count, self.candidates), self._frequencies(query.terms)
        wanted = [
            noted.query_terms(terms, known)
            for noted, terms, known in zip(notes.words, query.terms, frequencies, strict=False)
        ]
        points = self.near(self._condition, query.mean[0], wanted, count, exact=size <= count)
        if len(points) < min(count, size):  # the approximate index found too few
            points = self.near(self._condition, query.mean[0], wanted, count, exact=True)
        self._points_by_id(points)
        passages = [point.passage for point in points]
        return View.from_passages(passages, self._gaussians(points), frequencies)

    def save(self, folder: Path) -> None:
        """Write the address of the passages into an existing folder; they stay in the engine."""
        schema = self._read.schema  # not requested now: the engine may be unreachable
        state = {"store": self.engine, "address": self.address, "id": schema.id if schema else ""}
        write_json(folder / "store.json", state)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages of the highest s_hat among the candidates.

        The result is `exact` if all passages were candidates.

        ValueError if k < 1, the query's dimension is not that of the stored passages, or the engine
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

    # The methods that an engine implements.

    @abstractmethod
    def read_schema(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if there is no collection."""

    @abstractmethod
    def make(self, schema: CollectionSchema) -> None:
        """Create the collection, in place of an existing empty one."""

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Write points, or replace those with the same ids."""

    @abstractmethod
    def remove(self, ids: Sequence[str]) -> None:
        """Remove existing points."""

    @abstractmethod
    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that match a condition."""

    @abstractmethod
    def check(self, condition: Condition) -> None:
        """Raise ValueError if the engine cannot run a condition."""

    @abstractmethod
    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that exist.

        `vectors`: whether to read means, spreads and terms, too.
        """

    @abstractmethod
    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in a random order, the same in every process; see `points`."""

    @abstractmethod
    def frequencies(self, block: int, keys: NDArray[np.uint64]) -> Frequencies:
        """Return the frequencies of distinct terms of a sparse block, without filters."""

    @abstractmethod
    def near(
        self,
        condition: Condition | None,
        mean: FloatArray,
        words: Sequence[QueryTerms],
        count: int,
        *,
        exact: bool,
    ) -> list[Point]:
        """Fetch the nearest `count` points by a query's mean, and as many by each block's words.

        `mean`: array, shape (d,). `exact`: whether to scan all points instead of an approximate
        index.
        """

    @abstractmethod
    def read_stamp(self) -> str:
        """Return a value that changes with every write, at little cost; "" without a collection."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address at which `uec_rag.stores.urls.open_store` opens it, without secrets."""


def check_collection(name: str, most: int, without: str, signs: str) -> None:
    """Raise TypeError or ValueError unless the name of a collection is valid.

    It may have at most `most` bytes, and none of the characters `signs`, described by `without`.
    """
    check_type(name, str, "collection", "a name")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # a lone surrogate
        size = 0
    if not 0 < size <= most or {*signs} & {*name}:
        raise ValueError(
            f"collection: expected 1 to {most} bytes without {without}, got {name!r:.80}."
        )


_NOTHING = np.zeros(0, dtype=np.float32)


class Words(NamedTuple):
    """The terms of a passage in one sparse block."""

    keys: NDArray[np.uint64]  # shape (t,)
    counts: FloatArray  # shape (t,): as `Terms.weights`


class Point(NamedTuple):
    """A passage as an engine stores it."""

    passage: Passage
    mean: FloatArray = _NOTHING  # shape (d,)
    spread: FloatArray = _NOTHING  # shape (d + F,): squares of the mean, and the scales
    words: tuple[Words, ...] = ()  # one for each sparse block


class QueryTerms(NamedTuple):
    """The terms of a query in one sparse block."""

    # shape (t,): rarest first
    keys: NDArray[np.uint64]
    # shape (t,): a term's contribution to the similarity of a passage, to be multiplied by its
    # saturated count
    shares: FloatArray
    counts: NDArray[np.int64]  # shape (t,): number of passages that contain each term
    mean_length: float  # of passages, for the saturation


def points_of(passages: list[Passage], gaussians: Gaussian) -> list[Point]:
    """Convert passages and their Gaussians to points."""
    spread = np.concatenate([gaussians.mean**2, gaussians.scales], axis=1)
    words = []
    for row in range(len(passages)):
        of_one = []
        for block in gaussians.terms:
            mine = slice(block.starts[row], block.starts[row + 1])
            of_one.append(Words(block.keys[mine], block.weights[mine]))
        words.append(tuple(of_one))
    return [*map(Point, passages, gaussians.mean, spread, words)]


@dataclass(frozen=True)
class BlockSchema:
    """The scale and the saturation of a sparse block, the same for all passages."""

    saturation: Saturation
    scale: float  # `Terms.scale` of every passage
    # Mean length of the first batch of passages, for engines that saturate counts when they store
    # them; it affects the choice of candidates only
    usual_length: float

    @classmethod
    def from_terms(cls, terms: Terms) -> Self:
        """Describe the terms of a first batch of passages."""
        usual = float(terms.lengths.mean()) if len(terms) else 1.0
        return cls(terms.saturation, float(terms.scale[0]), max(1.0, usual))

    def saturate(self, words: Words) -> FloatArray:
        """Compute the saturated counts of a passage."""
        k1, b = self.saturation.k1, self.saturation.b
        share = float(words.counts.sum()) / max(self.usual_length, 1e-30)
        damping = k1 * (1 - b + b * share)
        weights: FloatArray = words.counts / (words.counts + damping)
        return weights

    def query_terms(self, query: Terms, frequencies: Frequencies) -> QueryTerms:
        """Return the terms of one query, weighted by their rarity."""
        keys = query.keys
        scale = float(query.scale[0]) * self.scale
        share = shares(query.weights, frequencies.idf(keys), scale).astype(np.float32)
        counts = frequencies.counts_of(keys)
        order = np.argsort(counts, kind="stable")
        return QueryTerms(keys[order], share[order], counts[order], frequencies.mean_length)

    def terms(self, words: Sequence[Words]) -> Terms:
        """Rebuild the `Terms` of passages."""
        sizes = [len(each.keys) for each in words]
        return Terms(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(each.keys for each in words)]),
            np.concatenate([np.zeros(0, np.float32), *(each.counts for each in words)]),
            np.full(len(words), self.scale, dtype=np.float32),
            self.saturation,
        )

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        return vars(self) | {"saturation": [*astuple(self.saturation)]}

    @classmethod
    def restore(cls, fields: dict[str, Any]) -> Self:
        """Rebuild from `metadata`."""
        return cls(Saturation(*fields["saturation"]), fields["scale"], fields["usual_length"])


@dataclass(frozen=True, eq=False)
class CollectionSchema:
    """The properties that all Gaussians of a collection share."""

    widths: tuple[int, ...]  # widths of the encoders' blocks of the means
    profile: FloatArray | None  # shape (F, d): profile of a factored variance
    fingerprint: str | None  # fingerprint of the ensemble, if known
    words: tuple[BlockSchema, ...] = ()  # the sparse blocks
    id: str = ""  # identifies the collection, since its creation

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """Describe a batch of Gaussians."""
        words = tuple(map(BlockSchema.from_terms, gaussians.terms))
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint, words)

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """The number of scales of a Gaussian."""
        return self.dimension if self.profile is None else len(self.profile)

    def is_compatible_with(self, other: CollectionSchema) -> bool:
        """Return whether Gaussians of another schema may be stored in the same collection."""
        own, two = self.fingerprint, other.fingerprint
        mine, others = (
            (
                a.dimension,
                None if a.profile is None else a.profile.tolist(),
                [(words.saturation, words.scale) for words in a.words],
            )
            for a in (self, other)
        )
        return mine == others and (own is None or two is None or own == two)

    def gaussians(self, points: Sequence[Point]) -> Gaussian:
        """Rebuild the Gaussians of points, with their terms."""
        mean = np.array([p.mean for p in points], dtype=np.float32).reshape(-1, self.dimension)
        scales = np.array([p.spread[self.dimension :] for p in points], dtype=np.float32)
        terms = [
            noted.terms([point.words[block] for point in points])
            for block, noted in enumerate(self.words)
        ]
        scales = scales.reshape(len(mean), self.scales)
        return Gaussian.from_factors(mean, scales, self.profile, widths=self.widths, terms=terms)

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "version": 2,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
            "words": [words.metadata() for words in self.words],
            "id": self.id,
        }

    @classmethod
    def restore(cls, state: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is invalid."""
        match state:
            case {
                "version": 2,
                "widths": [*widths],
                "profile": profile,
                "fingerprint": name,
                "words": [*words],
                **more,
            }:
                factors = None
                if isinstance(profile, dict):
                    bits = base64.b64decode(profile["float32"])
                    factors = np.frombuffer(bits, dtype="<f4").reshape(profile["shape"])
                blocks = tuple(map(BlockSchema.restore, words))
                return cls(tuple(widths), factors, name, blocks, str(more.get("id", "")))
        raise ValueError(
            f"collection: {collection!r} exists and was not created by this version of uec_rag; "
            "choose another name, and index the documents again."
        )


_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process.

    Examples
    --------
    >>> point_id("a") == str(uuid.uuid5(_SPACE, "a")) != point_id("b")
    True
    """
    name = id_.encode(errors="surrogatepass")  # a lone surrogate is allowed in a lookup
    digest = hashlib.sha1(_SPACE.bytes + name, usedforsecurity=False).digest()  # as uuid5 does
    return str(uuid.UUID(bytes=digest[:16], version=5))
