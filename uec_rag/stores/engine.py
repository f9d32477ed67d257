"""What every store in an engine of someone else's does; the engine itself is a few methods.

An engine keeps points: a passage with its mean and its "spread", [mean^2, scales]. sigma_s^2 is the
inner product of the second with [var_q, w], so an engine that multiplies two vectors of its
candidates can order them by s_hat itself. What comes back is scored again here, in float32.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np

from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.base.similarity import probit
from uec_rag.base.terms import Terms
from uec_rag.stores.additions import checked_addition
from uec_rag.stores.base import Filter, Found, Passage
from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.filters import Compare, Condition, Every, Not, Some, parse
from uec_rag.stores.memory import MemoryStore

_CANDIDATES = 256  # of a search, at least


class Point(NamedTuple):
    """What an engine keeps of a passage."""

    passage: Passage
    mean: FloatArray
    spread: FloatArray


class Ranking(NamedTuple):
    """What the best of the nearest are asked by, for each of n queries.

    Attributes
    ----------
    mean : array, shape (n, d)
    spread : array, shape (n, d + F)
        Whose inner product with a point's is sigma_s^2.
    beta : float
    candidates : int
        How many of the nearest by mu_s are scored.
    k : int
    exact : bool
        Whether the candidates are all there are: an index that may miss some is not to be used.
    """

    mean: FloatArray
    spread: FloatArray
    beta: float
    candidates: int
    k: int
    exact: bool


@dataclass
class _Read:
    """What was read of an engine, kept while nothing is written here and its size stays."""

    size: int
    samples: dict[int, Gaussian] = field(default_factory=dict)  # by their size
    copy: MemoryStore | None = None


class EngineStore(ABC):
    """Passages and their Gaussians in an engine. Subclasses give the methods that ask it.

    Others may write at the same time: a snapshot is a filtered view, not a moment. Calibrating
    reads everything into memory once.
    """

    approximate = True
    """Whether a search looks at candidates only."""

    engine: ClassVar[str]
    """Its name, for messages."""

    def __init__(self) -> None:
        self._condition: Condition | None = None
        self._fingerprint: str | None = None
        self._read = _Read(-1)
        self._warned: set[str] = set()

    @abstractmethod
    def notes(self) -> Notes | None:
        """What is noted of the stored Gaussians; None where nothing was ever stored."""

    @abstractmethod
    def make(self, notes: Notes) -> None:
        """Make the place for points, instead of an empty one that is there."""

    @abstractmethod
    def put(self, points: Sequence[Point]) -> None:
        """Write points, replacing those of the same ids."""

    @abstractmethod
    def remove(self, ids: Sequence[str]) -> None:
        """Remove points that are there."""

    @abstractmethod
    def count(self, condition: Condition | None) -> int:
        """How many points a condition holds for."""

    @abstractmethod
    def has_key(self, key: str) -> bool:
        """Whether any passage has a metadata key."""

    @abstractmethod
    def check(self, condition: Condition) -> None:
        """Raise ValueError if the engine cannot run a condition."""

    @abstractmethod
    def points(self, ids: Sequence[str]) -> Mapping[str, Point]:
        """Points of those distinct ids that are there."""

    @abstractmethod
    def passages_of(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Passages of those distinct ids that are there."""

    @abstractmethod
    def scan(self, condition: Condition | None, limit: int | None) -> Iterator[Point]:
        """Points in an order of chance, the same for everyone."""

    @abstractmethod
    def scan_passages(self, condition: Condition | None) -> Iterator[Passage]:
        """Passages in the order of `scan`."""

    @abstractmethod
    def near(self, condition: Condition | None, mean: FloatArray, count: int) -> list[list[str]]:
        """Ids of about `count` points of the highest mu_s with each query."""

    @abstractmethod
    def best(self, condition: Condition | None, ranking: Ranking) -> list[list[Point]]:
        """At least the k points of the highest s_hat among the candidates of each query."""

    def bind(self, fingerprint: str) -> None:
        """Note whose Gaussians these are, or refuse another ensemble's.

        Raises
        ------
        FingerprintMismatch
            If passages of another ensemble are stored.
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

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already.

        They are sent some at a time; each such part is there whole or not at all, and sending all
        of them again after an error does no harm.

        Raises
        ------
        TypeError, ValueError
            If there is not one Gaussian per passage, an id comes twice, metadata cannot be kept, or
            the Gaussians are of another dimension or posterior than the stored ones.
        ConnectionError
            If the engine stays out of reach.
        """
        self._check_writable()
        passages = checked_addition(passages, gaussians)
        if not passages:
            return
        if gaussians.terms:
            raise ValueError(self._no_words())
        wanted, notes = Notes.of(gaussians, self._fingerprint), self.notes()
        if notes is None or not notes.admit(wanted):
            if notes is not None and self.count(None):
                raise ValueError(
                    f"gaussians: expected dimension {notes.dimension} and the posterior of what "
                    f"{self.engine} holds there, got dimension {wanted.dimension} or another "
                    "posterior. Build the index again, in another collection."
                )
            self.make(wanted)
        self._read = _Read(-1)
        spread = np.concatenate([gaussians.mean**2, gaussians.scales], axis=1)
        self.put([*map(Point, passages, gaussians.mean, spread)])

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        self._check_writable()
        there = [*self.passages_of([*dict.fromkeys(ids)])]
        self._read = _Read(-1)
        self.remove(there)
        return len(there)

    def _check_writable(self) -> None:
        if self._condition is not None:
            raise RuntimeError("this is a filtered view of a store; write to the store itself.")

    def _no_words(self) -> str:
        return (
            f"store: words are not kept in {self.engine} by this version; use a MemoryStore, or "
            "an ensemble of dense members."
        )

    def __len__(self) -> int:
        return self.count(self._condition)

    def snapshot(self, filter: Filter | None = None) -> Self:
        """Return a view of what a filter lets through; of all, where there is none.

        It is no moment: what others write shows in it.

        Raises
        ------
        TypeError, ValueError
            If it is no filter, or one that the engine cannot run.
        """
        if filter is None:
            return self
        condition = parse(filter)
        self.check(condition)
        for key in sorted(_keys(condition) - self._warned):
            if self.count(None) and not self.has_key(key):
                self._warned.add(key)
                warnings.warn(
                    f"filter: no passage has the metadata key {key!r}.", UserWarning, stacklevel=2
                )
        view = copy(self)
        before = self._condition
        view._condition = condition if before is None else Every((before, condition))
        view._read = _Read(-1)
        return view

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        found = self.passages_of([*dict.fromkeys(ids)])
        return [found[id_] for id_ in ids if id_ in found]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids.

        Raises
        ------
        KeyError
            If an id is not there.
        """
        found = self.points([*dict.fromkeys(ids)])
        for id_ in ids:
            if id_ not in found:
                raise KeyError(f"ids: {id_!r} is not in the store.")
        return self._gaussians([found[id_] for id_ in ids])

    def _gaussians(self, points: Sequence[Point]) -> Gaussian:
        notes = self.notes()
        if notes is None:
            return Gaussian(np.zeros((0, 0)), np.zeros((0, 0)))
        return notes.gaussians([p.mean for p in points], [p.spread for p in points])

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in an order of its own."""
        return self.scan_passages(self.snapshot(filter)._condition)

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of `count` passages by chance, or of all; the same for everyone."""
        read = self._read_before()
        if count not in read.samples:
            read.samples[count] = self._gaussians([*self.scan(self._condition, count)])
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
            made, points = MemoryStore(), [*self.scan(self._condition, None)]
            if points:
                made.add([point.passage for point in points], self._gaussians(points))
            read.copy = made
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
        raise ValueError(self._no_words())

    def nearest(self, mean: FloatArray, count: int, terms: Sequence[Terms] = ()) -> list[list[str]]:
        """Ids of about `count` candidates for each query, probably of the highest mu_s."""
        if terms:
            raise ValueError(self._no_words())
        if not len(mean) or not len(self):
            return [[] for _ in mean]
        return self.near(self._condition, mean, count)

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
            one that the engine cannot run.
        TypeError
            If it is no filter.
        """
        if k < 1:
            raise ValueError(f"k: expected an integer >= 1, got {k}.")
        if filter is not None:
            return self.snapshot(filter).search(query, k, beta=beta, mu=mu)
        if mu is not None:
            return self._copy().search(query, k, beta=beta, mu=mu)
        size, notes = len(self), self.notes()
        if not size or notes is None or not len(query):
            nothing = np.zeros((len(query), 0), dtype=np.float32)
            return Found([[] for _ in range(len(query))], nothing, nothing, nothing, exact=True)
        if query.dimension != notes.dimension:
            raise ValueError(
                f"query: expected dimension {notes.dimension}, as stored, got {query.dimension}."
            )
        candidates = max(_CANDIDATES, 4 * k)
        second = query.mean**2 + query.variance
        weights = second if notes.profile is None else second @ notes.profile.T
        spread = np.concatenate([query.variance, weights], axis=1)
        exact = size <= candidates
        ranking = Ranking(query.mean, spread, beta, candidates, k, exact)
        hits, numbers = [], []
        for i, points in enumerate(self.best(self._condition, ranking)):
            similarity = np.array([point.mean for point in points]) @ query.mean[i]
            sigma2 = np.array([point.spread for point in points]) @ spread[i]
            scores = probit(similarity, sigma2, beta)
            order = np.argsort(-scores, kind="stable")[:k]
            hits.append([points[place].passage for place in order])
            numbers.append(np.stack([scores, similarity, sigma2])[:, order])
        few = min(map(len, hits))
        scores, similarity, sigma2 = np.stack([row[:, :few] for row in numbers], axis=1)
        return Found([row[:few] for row in hits], scores, similarity, sigma2, exact=exact)

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write where the passages are into an existing folder; they stay there."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, device: str | None = None) -> Self:
        """Open what `save` noted."""


def _keys(condition: Condition) -> set[str]:
    """Metadata keys that a condition names."""
    match condition:
        case Every(conditions) | Some(conditions):
            return set[str]().union(*map(_keys, conditions))
        case Not(one):
            return _keys(one)
        case Compare(key, _, _):
            return {key}
    return set()
