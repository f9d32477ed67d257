"""The base of stores in vector databases; each database adds a few methods.

An engine keeps points: a passage with its mean, its "spread", [mean^2, scales], and its terms. It
finds the candidates of a query; these are compared and scored here, in float32, by the very code
that searches a store in memory, with the frequencies of the whole corpus, so that the numbers are
equal.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import FloatArray, Gaussian, Saturation, Terms
from uec_rag.base.postings import Frequencies, shares
from uec_rag.base.saved.files import write_json
from uec_rag.stores.base import Filter, Found, Passage, Stamp, check_query, checked_addition
from uec_rag.stores.filters import And, AnyFact, Condition, fact, keys_of, parse
from uec_rag.stores.memory.store import MemoryStore

CANDIDATES = 256
"""Passages by mu_s that a search scores by default."""

_MOST_RARITIES = 2**14  # terms of a block whose frequencies are remembered
_LOOKED_UP = (
    20  # keys of filters that are looked up, to warn: anybody may ask for others without end
)


@dataclass
class _Read:
    """A cache of reads, valid until the engine is written to."""

    notes: CollectionSchema | None = None
    was_there: bool = False  # what they are of
    stamped: str | None = None
    written: str | None = None
    samples: dict[tuple[str, int], Gaussian] = field(default_factory=dict)
    rarities: dict[int, Frequencies] = field(default_factory=dict)  # by block

    def of(self, written: str) -> _Read:
        """Return what was read since a write, or an empty cache."""
        if written != self.written:
            self.written, self.samples, self.rarities = written, {}, {}
        return self


class EngineStore(ABC):
    """Passages and their Gaussians in an engine; subclasses give its abstract methods.

    Others may write at the same time: a snapshot is a filtered view, not a moment, but what it has
    found once stays as it was found.

    Parameters
    ----------
    candidates : int
        The nearest by mu_s that a search scores, at least; the engine's HNSW looks at as many on
        its way. More of them miss less and take longer. It may be set at any time.

    Raises
    ------
    TypeError, ValueError
        If it is no positive integer.
    """

    engine: ClassVar[str]
    """Its name, for messages."""

    remote = True
    """True if the passages are elsewhere, and a search looks at candidates only."""

    def __init__(self, candidates: int = CANDIDATES) -> None:
        self.candidates = check_k(candidates, "candidates")
        self._condition: Condition | None = None
        self._fingerprint: str | None = None
        self._is_view = False
        self._read = _Read()  # shared with views
        self._looked_up: set[str] = set()  # keys of filters; shared with views
        # Of a view alone:
        self._size: int | None = None
        self._stamp: Stamp | None = None
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
        notes = self.notes()
        if notes is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return notes.gaussians(points)

    def notes(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if nothing was ever stored.

        RuntimeError if something was, and has gone.
        """
        read = self._read
        if read.notes is None:
            found = self.read_notes()
            if found is None and read.was_there:
                raise RuntimeError(
                    f"store: the collection was removed from {self.engine}. Open the store "
                    "again; the passages must be added again."
                )
            read.notes, read.was_there = found, found is not None
        return read.notes

    @property
    def _noted(self) -> CollectionSchema:
        """The notes, if there are some."""
        notes = self.notes()
        assert notes is not None
        return notes

    def bind(self, fingerprint: str) -> None:
        """Record which ensemble the Gaussians are of, or refuse another.

        FingerprintMismatch if passages of another ensemble are stored.
        """
        self._fingerprint = fingerprint
        notes = self.notes()
        if notes is None or notes.fingerprint in (None, fingerprint) or not self.count(None):
            return
        raise FingerprintMismatch(
            f"store: {self.engine} holds vectors of another ensemble there "
            f"({str(notes.fingerprint)[:12]!r}, this one is {fingerprint[:12]!r}): other models, "
            "revisions or posterior. Use that ensemble or another collection."
        )

    def stamp(self) -> Stamp:
        """Return the state of the engine; of a view, that when it was first asked.

        FingerprintMismatch if the collection was made anew for another ensemble.
        """
        if self._stamp is not None:
            return self._stamp
        stamp, read = self.read_stamp(), self._read
        if read.stamped not in (None, stamp.written):
            read.notes = None
            if self._fingerprint is not None:
                self.bind(self._fingerprint)
        read.stamped = stamp.written
        if self._is_view:
            self._stamp = stamp
        return stamp

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` random passages, the same in every process, or of all."""
        known, key = self._read.of(self.stamp().written).samples, (repr(self._condition), count)
        if key not in known:
            known[key] = self._gaussians([*self.scan(self._condition, count)])
        return known[key]

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        They are sent some at a time; each such part is there whole or not at all, and sending all
        of them again after an error does no harm.

        TypeError, ValueError if there is not one Gaussian per passage, an id comes twice, metadata
        cannot be kept, or the Gaussians are of another dimension or posterior than the stored ones.
        ConnectionError if the engine stays out of reach.
        """
        self._check_writable()
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        self.stamp()  # another process may have made the collection anew
        wanted, notes = CollectionSchema.of(gaussians, self._fingerprint), self.notes()
        if notes is None or not notes.admit(wanted):
            if notes is not None and self.count(None):
                raise ValueError(
                    f"gaussians: expected dimension {notes.dimension}, {len(notes.words)} blocks "
                    f"of terms and the posterior of what {self.engine} holds there, got dimension "
                    f"{wanted.dimension}, {len(wanted.words)} blocks or another posterior. Build "
                    "the index again, in another collection."
                )
            if not wanted.dimension:
                raise ValueError(
                    f"store: {self.engine} stores words only beside vectors, and this ensemble "
                    "has none; add an encoder to it, or use a MemoryStore."
                )
            self.make(replace(wanted, id=uuid.uuid4().hex))
            self._read.notes = None
        self.put(points_of(passages, gaussians))

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        self._check_writable()
        there = [*self._passages(ids)]
        self.remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._is_view:
            raise RuntimeError("this is a view of a store; write to the store itself.")

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of what a filter lets through; of all without one.

        It is no moment: what others write may show in what it was not asked before.

        TypeError, ValueError if it is no filter, or one that the engine cannot run.
        """
        view = copy(self)
        view._is_view, view._size, view._stamp = True, None, None
        view._seen, view._rarities = {}, {}
        if filter is None:
            return view
        condition = parse(filter)
        self.check(condition)
        room = _LOOKED_UP - len(self._looked_up)
        for key in sorted(keys_of(condition) - self._looked_up)[:room] if self.count(None) else ():
            self._looked_up.add(key)
            if not self.count(AnyFact((fact("key", key),))):
                warnings.warn(
                    f"filter: no passage has the metadata key {key!r:.60}.",
                    UserWarning,
                    stacklevel=2,
                )
        before = self._condition
        view._condition = condition if before is None else And((before, condition))
        return view

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        found = self._passages(ids)
        return [found[id_] for id_ in ids if id_ in found]

    def _passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        found = self.points([*dict.fromkeys(ids)], vectors=False)
        return {point.passage.id: point.passage for point in found}

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        KeyError if an id is not there.
        """
        return self._gaussians(self._points(ids))

    def _points(self, ids: Sequence[str]) -> list[Point]:
        """Return the points of ids; KeyError if one is not there."""
        found = {id_: self._seen[id_] for id_ in ids if id_ in self._seen}
        found |= self._noting(self.points([id_ for id_ in dict.fromkeys(ids) if id_ not in found]))
        for id_ in ids:
            if id_ not in found:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return [found[id_] for id_ in ids]

    def _noting(self, points: Iterable[Point]) -> dict[str, Point]:
        """Return points by id, and keep them in a view, so that they do not change under it."""
        found = {point.passage.id: point for point in points}
        if self._is_view:
            self._seen |= found
        return found

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in an order of its own."""
        found = self.scan(self.snapshot(filter)._condition, vectors=False)
        return (point.passage for point in found)

    def _frequencies(self, terms: Sequence[Terms]) -> list[Frequencies]:
        """Return term frequencies of the whole corpus; each term is read once until a write."""
        if not terms:
            return []
        shared = self._read.of(self.stamp().written).rarities
        own = self._rarities if self._is_view else shared
        for block, asked in enumerate(terms):
            known, keys = own.get(block) or shared.get(block), np.unique(asked.keys)
            if known is not None:
                keys = keys[[key not in known.holding for key in keys.tolist()]]
            if known is None or len(keys):
                found = self.frequencies(block, keys)
                holding = {key: found.holding.get(key, 0) for key in keys.tolist()}
                if known is not None:
                    found, holding = known, {**known.holding, **holding}
                known = Frequencies(found.passages, found.length, holding)
            own[block] = shared[block] = known
        counted = [own[block] for block in range(len(terms))]
        if max(len(known.holding) for known in counted) > _MOST_RARITIES:
            shared.clear()
        return counted

    def fetch(self, question: str, query: Gaussian, count: int) -> MemoryStore:
        """Fetch the passages of probably the highest mu_s for one query, at least `count`.

        And as many of those whose words are most like the query's; all passages if there are no
        more.
        """
        notes, size = self.notes(), len(self)
        if notes is None or not size:
            return MemoryStore()
        check_query(query, notes.dimension)
        count, frequencies = max(count, self.candidates), self._frequencies(query.terms)
        wanted = [
            noted.wanted(terms, known)[0]
            for noted, terms, known in zip(notes.words, query.terms, frequencies, strict=False)
        ]
        points = self.near(self._condition, query.mean[0], wanted, count, exact=size <= count)
        if len(points) < min(count, size):  # an index that found fewer than there are
            points = self.near(self._condition, query.mean[0], wanted, count, exact=True)
        self._noting(points)
        passages = [point.passage for point in points]
        return MemoryStore.holding(passages, self._gaussians(points), frequencies)

    def save(self, folder: Path) -> None:
        """Write where the passages are into an existing folder; they stay there."""
        known = self._read.notes  # not asked for now: the engine may be out of reach
        place = {"store": self.engine, "address": self.address, "id": known.id if known else ""}
        write_json(folder / "store.json", place)

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> Found:
        """Find the k passages of the highest s_hat among the nearest by mu_s.

        It is `exact` if all passages were candidates.

        ValueError if k < 1, the query is of another dimension than the stored passages, or the
        filter is one that the engine cannot run. TypeError if it is no filter.
        """
        k = check_k(k)
        if filter is not None or not self._is_view:  # whose length is asked for once
            return self.snapshot(filter).search(query, k, beta=beta)
        found = [
            self.fetch("", one, 4 * k).search(one, k, beta=beta)
            for one in (query[row : row + 1] for row in range(len(query)))
        ]
        few = min((len(one.passages[0]) for one in found), default=0)
        if not few:
            return Found.nothing(len(query))
        return Found(
            [one.passages[0][:few] for one in found],
            np.concatenate([one.scores[:, :few] for one in found]),
            np.concatenate([one.mu[:, :few] for one in found]),
            np.concatenate([one.sigma2[:, :few] for one in found]),
            exact=len(self) <= max(self.candidates, 4 * k),
        )

    # What an engine does.

    @abstractmethod
    def read_notes(self) -> CollectionSchema | None:
        """Return the schema of the stored Gaussians; None if nothing was ever stored."""

    @abstractmethod
    def make(self, notes: CollectionSchema) -> None:
        """Make the place for points, instead of an empty one that is there."""

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Write points, replacing those of the same ids."""

    @abstractmethod
    def remove(self, ids: Sequence[str]) -> None:
        """Remove points that are there."""

    @abstractmethod
    def count(self, condition: Condition | AnyFact | None) -> int:
        """Return the number of points that fulfil a condition."""

    @abstractmethod
    def check(self, condition: Condition) -> None:
        """Raise ValueError if the engine cannot run a condition."""

    @abstractmethod
    def points(self, ids: Sequence[str], *, vectors: bool = True) -> Iterator[Point]:
        """Iterate over the points of those distinct ids that are there.

        `vectors`: whether to read more of them than the passages.
        """

    @abstractmethod
    def scan(
        self, condition: Condition | None, limit: int | None = None, *, vectors: bool = True
    ) -> Iterator[Point]:
        """Iterate over points in a random order, the same in every process; as `points`."""

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

        `mean`: array, shape (d,). `exact`: whether to look at all of them: an index that may miss
        some is not to be used.
        """

    @abstractmethod
    def read_stamp(self) -> Stamp:
        """Return the state of what is stored, at little cost."""

    @abstractmethod
    def put_state(self, name: str, data: bytes) -> str:
        """Store bytes for all processes, under one of the names that there are.

        Returns their version.
        """

    @abstractmethod
    def get_state(self, name: str) -> tuple[str, bytes] | None:
        """Return the version and the bytes stored under a name; None if there are none."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address at which `uec_rag.stores.places.store_at` opens it, without secrets."""


def check_collection(name: str, most: int, without: str, signs: str) -> None:
    """Raise TypeError or ValueError unless an engine takes a collection's name as it is.

    It may have so many bytes at `most`, and none of some `signs`, which `without` tells in words.
    """
    if not isinstance(name, str):
        raise TypeError(f"collection: expected a name, got {type(name).__name__}.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # half of a character
        size = 0
    if not 0 < size <= most or {*signs} & {*name}:
        raise ValueError(
            f"collection: expected 1 to {most} bytes without {without}, got {name!r:.80}."
        )


_NOTHING = np.zeros(0, dtype=np.float32)


class Words(NamedTuple):
    """The terms of a passage in one sparse block."""

    keys: NDArray[np.uint64]  # shape (t,)
    counts: FloatArray  # shape (t,): As `Terms.weights`


class Point(NamedTuple):
    """A passage as an engine stores it."""

    passage: Passage
    mean: FloatArray = _NOTHING  # shape (d,)
    spread: FloatArray = _NOTHING  # shape (d + F,): Squares of the mean, and the scales
    words: tuple[Words, ...] = ()  # One for each sparse block


class QueryTerms(NamedTuple):
    """The terms of a query in one sparse block."""

    # shape (t,): In the order that they are worth looking up in: the rarest first
    keys: NDArray[np.uint64]
    # shape (t,): What a passage gets for a term, times the term's saturated count if there
    # is saturation
    shares: FloatArray
    held: NDArray[np.int64]  # shape (t,): How many passages hold each
    mean_length: float  # Of the passages, for the saturation


def points_of(passages: list[Passage], gaussians: Gaussian) -> list[Point]:
    """Make points of passages with their Gaussians."""
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

    saturation: Saturation | None
    scale: float  # Of every passage, see `Terms.scale`
    # Mean length of the passages that came first: what an engine saturates counts by that does
    # so when it stores them. It decides on candidates only
    usual_length: float

    @classmethod
    def of(cls, terms: Terms) -> Self:
        """Describe the terms of a first batch of passages."""
        usual = float(terms.lengths.mean()) if len(terms) else 1.0
        return cls(terms.saturation, float(terms.scale[0]), max(1.0, usual))

    def saturated(self, words: Words, mean_length: float | None = None) -> FloatArray:
        """Turn a passage's counts into the summands of its similarity.

        `mean_length`: by default the usual one.
        """
        if self.saturation is None:
            return words.counts
        weights: FloatArray = words.counts / (words.counts + self.damping(words, mean_length))
        return weights

    def damping(self, words: Words, mean_length: float | None = None) -> float:
        """Return the BM25 damping of a passage's counts."""
        assert self.saturation is not None
        k1, b = self.saturation.k1, self.saturation.b
        usual = self.usual_length if mean_length is None else mean_length
        return k1 * (1 - b + b * float(words.counts.sum()) / max(usual, 1e-30))

    def wanted(self, queries: Terms, frequencies: Frequencies) -> list[QueryTerms]:
        """Return the terms of each of n queries in the block."""
        found = []
        for row in range(len(queries)):
            mine = slice(queries.starts[row], queries.starts[row + 1])
            keys = queries.keys[mine]
            rare = None if self.saturation is None else frequencies.idf(keys)
            scale = float(queries.scale[row]) * self.scale
            share = shares(queries.weights[mine], rare, scale).astype(np.float32)
            held = frequencies.held(keys)
            order = np.argsort(held, kind="stable")
            found.append(
                QueryTerms(keys[order], share[order], held[order], frequencies.mean_length)
            )
        return found

    def terms(self, words: Sequence[Words]) -> Terms:
        """Rebuild the terms of some passages."""
        sizes = [len(of_one.keys) for of_one in words]
        return Terms(
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.concatenate([np.zeros(0, np.uint64), *(of_one.keys for of_one in words)]),
            np.concatenate([np.zeros(0, np.float32), *(of_one.counts for of_one in words)]),
            np.full(len(words), self.scale, dtype=np.float32),
            self.saturation,
        )

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        saturation = self.saturation
        return {
            "saturation": None if saturation is None else [saturation.k1, saturation.b],
            "scale": self.scale,
            "usual_length": self.usual_length,
        }

    @classmethod
    def restore(cls, given: dict[str, Any]) -> Self:
        """Rebuild from `metadata`."""
        saturation = given["saturation"]
        return cls(
            None if saturation is None else Saturation(*saturation),
            given["scale"],
            given["usual_length"],
        )


@dataclass(frozen=True, eq=False)
class CollectionSchema:
    """The widths, profile, ensemble and blocks of all Gaussians of a collection."""

    widths: tuple[int, ...]  # Of the encoders' blocks of the means
    profile: FloatArray | None  # shape (F, d): Of a factored variance
    fingerprint: str | None  # Of the ensemble, if it is known
    words: tuple[BlockSchema, ...] = ()  # Of the sparse blocks
    id: str = ""  # Of the collection, since it was made

    @classmethod
    def of(cls, gaussians: Gaussian, fingerprint: str | None) -> Self:
        """Describe Gaussians."""
        words = tuple(map(BlockSchema.of, gaussians.terms))
        return cls(tuple(gaussians.widths), gaussians.profile, fingerprint, words)

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """The number of scales of a Gaussian."""
        return self.dimension if self.profile is None else len(self.profile)

    def admit(self, other: CollectionSchema) -> bool:
        """Tell if Gaussians of another schema may be stored beside these."""
        one, two = self.fingerprint, other.fingerprint
        mine, others = (
            (
                a.dimension,
                None if a.profile is None else a.profile.tolist(),
                [(words.saturation, words.scale) for words in a.words],
            )
            for a in (self, other)
        )
        return mine == others and (one is None or two is None or one == two)

    def gaussians(self, points: Sequence[Point]) -> Gaussian:
        """Rebuild the Gaussians of points, with their terms."""
        mean = np.array([p.mean for p in points], dtype=np.float32).reshape(-1, self.dimension)
        scales = np.array([p.spread[self.dimension :] for p in points], dtype=np.float32)
        terms = [
            noted.terms([point.words[block] for point in points])
            for block, noted in enumerate(self.words)
        ]
        return self.described(mean, scales.reshape(len(mean), self.scales)).with_terms(terms)

    def described(self, mean: FloatArray, scales: FloatArray) -> Gaussian:
        """Make Gaussians of their numbers, shapes (n, d) and (n, F)."""
        if self.profile is None:
            return Gaussian(mean, scales, widths=self.widths)
        return Gaussian.factored(mean, scales, self.profile, widths=self.widths)

    def metadata(self) -> dict[str, Any]:
        """Return the state in JSON's types."""
        profile = None
        if self.profile is not None:
            bits = base64.b64encode(self.profile.astype("<f4").tobytes()).decode()
            profile = {"shape": list(self.profile.shape), "float32": bits}
        return {
            "version": 1,
            "widths": list(self.widths),
            "profile": profile,
            "fingerprint": self.fingerprint,
            "words": [words.metadata() for words in self.words],
            "id": self.id,
        }

    @classmethod
    def restore(cls, given: object, collection: str) -> Self:
        """Rebuild from `metadata`; ValueError if it is something else."""
        match given:
            case {
                "version": 1,
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
            f"collection: {collection!r} exists and was not made by this version of uec_rag; "
            "choose another name."
        )


_SPACE = uuid.UUID("8d1d1b0a-3f5a-4c1e-9d55-2f0d6a1c7e42")


def point_id(id_: str) -> str:
    """Compute the UUID of a passage's id, the same in every process.

    Examples
    --------
    >>> point_id("a") == str(uuid.uuid5(_SPACE, "a")) != point_id("b")
    True
    """
    name = id_.encode(errors="surrogatepass")  # may be asked for, and is nowhere
    digest = hashlib.sha1(_SPACE.bytes + name, usedforsecurity=False).digest()  # as uuid5 does
    return str(uuid.UUID(bytes=digest[:16], version=5))
