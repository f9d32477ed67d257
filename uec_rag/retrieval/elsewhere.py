"""Passages in a vector store of someone else's: it names candidates, the ensemble ranks them.

Nothing is written there. A candidate's Gaussian is made of its text, or of the vector that lies
there where that is the ensemble's or one of its encoders'. What the rest of the corpus is like is
told by passages that the store finds near directions drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol, Self

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble.sparing import Whose, encode, whose_is
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.result import SearchResult, joined
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter, Found, Passage, Store
from uec_rag.stores.memory import MemoryStore

DIRECTIONS, NEAR_EACH = 64, 4
"""How many random directions are asked for, and how many passages near each."""


class Engine(Protocol):
    """A vector store of someone else's, as far as a search needs it."""

    def near(self, query: str, count: int, filter: object) -> list[Passage]:
        """What its own search finds, best first; the filter is one of its own."""
        ...

    def anywhere(self) -> list[Passage]:
        """Passages from all over it, the same every time; none where it cannot say."""
        ...

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Passages of those ids that are there."""
        ...

    def stored(self, ids: Sequence[str]) -> list[Sequence[float] | None] | None:
        """The vectors of passages, None where one has none; None where it gives no vectors."""
        ...

    def size(self) -> int | None:
        """How many passages it holds, where it says."""
        ...


class Elsewhere(Retriever):
    """A `Retriever` over passages in a vector store of someone else's; see `elsewhere`.

    It searches and judges as every other; what writes, or reads the whole corpus, is refused.
    """

    store: ForeignStore

    def _check_fit(self) -> None:
        """Nothing that is stored depends on the fit."""

    def _search_block(
        self,
        store: Store,
        queries: list[str],
        parts: list[Gaussian],
        k: int,
        unanswerable: float | None,
    ) -> SearchResult:
        assert isinstance(store, ForeignStore)
        if not queries:
            return super()._search_block(store.empty(), queries, parts, k, unanswerable)
        near = [store.near(query, k) for query in queries]
        k = min([k, *(candidates.count for candidates in near)])
        if not k:
            near = [store.empty() for _ in near]
        return joined(
            [
                super(Elsewhere, self)._search_block(
                    candidates, [query], [part[i : i + 1] for part in parts], k, unanswerable
                )
                for i, (query, candidates) in enumerate(zip(queries, near, strict=True))
            ]
        )


def elsewhere(uec: UEC, engine: Engine, candidates: int) -> Elsewhere:
    """A retriever over an engine.

    Parameters
    ----------
    uec : UEC
    engine : Engine
    candidates : int
        How many passages the engine is asked for in each search, at least.

    Raises
    ------
    TypeError, ValueError
        If uec is something else or has members without vectors, or candidates < 1.
    """
    if not isinstance(uec, UEC):
        raise TypeError(f"uec: expected a UEC, got {type(uec).__name__}.")
    if any(isinstance(encoder, WithoutVectors) for encoder in uec.encoders):
        raise ValueError(
            "uec: how rare words are is not known of a vector store of someone else's; leave "
            "'bm25' out, or copy the passages into a store of this package."
        )
    if candidates < 1:
        raise ValueError(f"candidates: expected an integer >= 1, got {candidates}.")
    return Elsewhere(uec, ForeignStore(uec, engine, candidates))


class Candidates(MemoryStore):
    """Passages near one query, in memory, that stand for a corpus elsewhere.

    Parameters
    ----------
    passages : sequence of Passage
    gaussians : Gaussian
        Of them.
    sample : Gaussian
        Of passages from all over the corpus.
    size : int
        Of the corpus.
    """

    def __init__(
        self, passages: Sequence[Passage], gaussians: Gaussian, sample: Gaussian, size: int
    ) -> None:
        super().__init__()
        # The engine's metadata may be what no saved index could keep.
        self.add([Passage(passage.id, passage.text) for passage in passages], gaussians)
        self._found = {passage.id: passage for passage in passages}
        self._sample, self._size = sample, size

    @property
    def approximate(self) -> bool:
        """Whether a search looks at candidates only."""
        return True

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return len(self._found)

    def __len__(self) -> int:
        return self._size

    def sample(self, count: int) -> Gaussian:
        """Gaussians of passages from all over the corpus."""
        return self._sample[:count]

    def search(
        self,
        query: Gaussian,
        k: int,
        *,
        beta: float,
        filter: Filter | None = None,
        mu: FloatArray | None = None,
    ) -> Found:
        """Find the best candidates; as `MemoryStore.search`."""
        if not self.count:
            return MemoryStore().search(query, 1, beta=beta)
        found = super().search(query, k, beta=beta, filter=filter, mu=mu)
        rows = [[self._found[passage.id] for passage in row] for row in found.passages]
        return replace(found, passages=rows, exact=self.count >= self._size)


@dataclass
class _Seen:
    """What was found out of an engine, for it and its views.

    Attributes
    ----------
    sample : list of Passage, or None
        From all over it; None before a search finds something.
    whose : int, "all" or None
        Whose vectors lie there; None where they are of no use, and before any were seen.
    looked : bool
        Whether any were.
    """

    sample: list[Passage] | None = None
    whose: Whose | None = None
    looked: bool = False


class ForeignStore:
    """An engine as the store of a `Retriever`: `near` makes a store of one query's candidates.

    Parameters
    ----------
    uec, engine, candidates
        As in `elsewhere`.
    """

    approximate = True
    remote = True

    def __init__(self, uec: UEC, engine: Engine, candidates: int) -> None:
        self._uec, self._engine, self._candidates = uec, engine, candidates
        self._filter: object = None
        self._seen = _Seen()

    def __len__(self) -> int:
        return self._engine.size() or 0

    def snapshot(self, filter: object = None) -> Self:
        """Return a view of what a filter, one of the engine's own, lets through."""
        if filter is None:
            return self
        if self._filter is not None:
            raise ValueError("filter: an engine's filters cannot be joined here; give one.")
        view = copy(self)
        view._filter = filter
        return view

    def bind(self, fingerprint: str) -> None:
        """Nothing is stored there."""

    def near(self, query: str, k: int) -> Candidates:
        """The candidates of one query: what the engine finds for it, at least k of them."""
        wanted = max(k, self._candidates)
        found = _searchable(self._engine.near(query, wanted, self._filter))
        if not found:
            return self.empty()
        if self._seen.sample is None:  # not before something lies there
            self._seen.sample = _searchable(self._engine.anywhere())
        sample = self._seen.sample or found
        size = self._engine.size()
        if size is None:  # what was seen is all that is known
            size = len({passage.id for passage in [*found, *sample]})
        size = max(size, len(found))
        return Candidates(found, self._gaussians(found), self._gaussians(sample), size)

    def empty(self) -> Candidates:
        """No candidates."""
        nothing = np.zeros((0, self._uec.dimension), dtype=np.float32)
        return Candidates([], Gaussian(nothing, nothing), Gaussian(nothing, nothing), 0)

    def _gaussians(self, passages: Sequence[Passage]) -> Gaussian:
        uec, seen, vectors = self._uec, self._seen, None
        texts = [passage.text for passage in passages]
        if seen.whose is not None or not seen.looked:
            vectors = self._engine.stored([passage.id for passage in passages])
        if not seen.looked:
            pairs = zip(texts, vectors or (), strict=False)
            first = next(((text, vector) for text, vector in pairs if vector is not None), None)
            seen.whose = None if first is None else whose_is(uec, *first)
            seen.looked = True
        parts = encode(
            uec, texts, "passage", vectors if seen.whose is not None else None, seen.whose
        )
        return uec.combine(parts, uec.coefficients(parts, "passage"))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        there = {passage.id: passage for passage in self._engine.get(ids)}
        return [there[id_] for id_ in ids if id_ in there]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if one is not there."""
        found = self.get(ids)
        if len(found) < len(ids):
            missing = next(id_ for id_ in ids if id_ not in {passage.id for passage in found})
            raise KeyError(f"ids: {missing!r} is not in the store.")
        return self._gaussians(found)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ValueError(
            "this index lies in a vector store of someone else's, where candidates are looked at "
            "and nothing else: write to that store itself, and to calibrate, or to search by "
            "vector, add its passages to a Retriever with a store of this package."
        )

    add = delete = sample = sampled = search = _refuse
    similarities = contributions = nearest = save = _refuse

    def passages(self, filter: object = None) -> Iterator[Passage]:
        """ValueError: they are not read whole."""
        self._refuse()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """ValueError: nothing of it is saved."""
        raise ValueError(f"path: {str(folder)!r} cannot hold a vector store of someone else's.")


def random_directions(width: int) -> FloatArray:
    """Directions by chance, the same every time, shape (DIRECTIONS, width)."""
    drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, width), dtype=np.float32)
    unit: FloatArray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def _searchable(passages: Sequence[Passage]) -> list[Passage]:
    """Those that have a text, each once."""
    return [*{p.id: p for p in reversed(passages) if p.text.strip()}.values()][::-1]
