"""Passages in a vector store of someone else's: it names candidates, the ensemble ranks them.

Nothing is written there. A candidate's Gaussian is made of its text, or of the vector that lies
there where that is the ensemble's or one of its encoders'. What the rest of the corpus is like is
told by passages that the store finds near directions drawn at random; by them, and by the
candidates, how rare a word is. Who is a candidate is for the store alone to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, Self, TypeAlias

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.sparing import Whose, encode, whose_is
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.candidates import Candidates
from uec_rag.retrieval.preferences import Preferences
from uec_rag.retrieval.result import SearchResult, joined
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter, Passage, Store
from uec_rag.stores.engine_shared import OUTDATED

DIRECTIONS, NEAR_EACH = 64, 4
"""How many random directions are asked for, and how many passages near each."""

_SEARCHES = 1000  # after which the sample of an engine that does not tell its size is drawn again


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

    def stored(self, ids: list[str]) -> Sequence[Sequence[float] | None] | None:
        """The vectors of passages, None where one has none; None where it gives no vectors."""
        ...

    def size(self) -> int | None:
        """How many passages it holds, where it says."""
        ...


Stored: TypeAlias = Callable[[list[str]], Sequence[Sequence[float] | None]]
"""The stored vectors of passages by their ids, None where there is none."""


class Elsewhere(Retriever):
    """A `Retriever` over passages in a vector store of someone else's; see `elsewhere`.

    It searches and judges as every other; what writes, or reads the whole corpus, is refused.
    """

    store: ForeignStore

    def _check_fit(self) -> None:
        """Nothing that is stored depends on the fit."""

    def check_filter(self, filter: object) -> None:
        """Nothing is known of it: it is one of the engine's own."""

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
        return joined(
            [
                super(Elsewhere, self)._search_block(
                    candidates, [query], [part[i : i + 1] for part in parts], k, unanswerable
                )
                for i, (query, candidates) in enumerate(zip(queries, near, strict=True))
            ]
        )

    def _search_preferring(
        self,
        queries: Sequence[str],
        parts: Sequence[Gaussian],
        k: int,
        filter: Filter | None,
        prefer: Preferences,
        unanswerable: float | None,
    ) -> SearchResult:
        # One has more hits than another.
        search = super()._search_preferring
        found = [
            search([query], [part[i : i + 1] for part in parts], k, filter, prefer, unanswerable)
            for i, query in enumerate(queries)
        ]
        return joined(found) if found else search(queries, parts, k, filter, prefer, unanswerable)

    def diversify(self, result: SearchResult, k: int, lambda_mult: float = 0.5) -> SearchResult:
        """Choose k of each query's hits by maximal marginal relevance; as `Retriever.diversify`."""
        choose = super().diversify
        found = [choose(one, k, lambda_mult) for one in result.each()]
        return joined(found) if found else choose(result, k, lambda_mult)


def elsewhere(
    uec: UEC,
    engine: Engine,
    candidates: int,
    *,
    stored: Stored | None = None,
    size: int | None = None,
) -> Elsewhere:
    """A retriever over an engine.

    Parameters
    ----------
    uec : UEC
    engine : Engine
    candidates : int
        How many passages the engine is asked for in each search, at least.
    stored : callable, optional
        What to ask for vectors, in place of the engine's own `stored`.
    size : int, optional
        How many passages the engine holds, where it does not say.

    Raises
    ------
    TypeError, ValueError
        If uec is something else, or candidates < 1.
    """
    if not isinstance(uec, UEC):
        raise TypeError(f"uec: expected a UEC, got {type(uec).__name__}.")
    if candidates < 1:
        raise ValueError(f"candidates: expected an integer >= 1, got {candidates}.")
    return Elsewhere(uec, ForeignStore(uec, engine, candidates, stored=stored, size=size))


@dataclass
class _Seen:
    """What was found out of an engine, for it and its views.

    Attributes
    ----------
    sample : _Drawn or None
        From all over it; None before a search finds something.
    whose : int, "all" or None
        Whose vectors lie there; None where they are of no use, and before any were seen.
    looked : bool
        Whether any were.
    """

    sample: _Drawn | None = None
    whose: Whose | None = None
    looked: bool = False


@dataclass
class _Drawn:
    """Passages from all over an engine.

    Attributes
    ----------
    passages : list of Passage
    size : int or None
        Of the engine then, where it says.
    searches : int
        That went by them.
    fitted : Fitted or None
        The fit that `gaussians` are of.
    gaussians : Gaussian or None
        Of the passages; None where there are none.
    """

    passages: list[Passage]
    size: int | None
    searches: int = 0
    fitted: Fitted | None = None
    gaussians: Gaussian | None = None

    def stands_for(self, size: int | None) -> bool:
        """Whether they are of the engine still, as far as can be told."""
        if size is None or self.size is None:
            return self.searches < _SEARCHES
        return abs(size - self.size) <= OUTDATED * self.size


class ForeignStore:
    """An engine as the store of a `Retriever`: `near` makes a store of one query's candidates.

    Parameters
    ----------
    uec, engine, candidates, stored, size
        As in `elsewhere`.
    """

    approximate = True
    remote = True

    def __init__(
        self,
        uec: UEC,
        engine: Engine,
        candidates: int,
        *,
        stored: Stored | None = None,
        size: int | None = None,
    ) -> None:
        self._uec, self._engine, self._candidates = uec, engine, candidates
        self._stored, self._told = stored or engine.stored, size
        self._filter: object = None
        self._seen = _Seen()

    def _size(self) -> int | None:
        return self._engine.size() if self._told is None else self._told

    def __len__(self) -> int:
        return self._size() or 0

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
        size, gaussians = self._size(), self._gaussians(found)
        drawn = self._drawn(size)
        sample = gaussians if drawn.gaussians is None else drawn.gaussians
        if size is None:  # what was seen is all that is known
            size = len({passage.id for passage in [*found, *drawn.passages]})
        return Candidates(found, gaussians, sample, max(size, len(found)))

    def _drawn(self, size: int | None) -> _Drawn:
        """Passages from all over the engine, drawn again when it has become another."""
        seen = self._seen
        drawn, fitted = seen.sample, self._uec.fitted
        if drawn is None or not drawn.stands_for(size):
            drawn = seen.sample = _Drawn(_searchable(self._engine.anywhere()), size)
        drawn.searches += 1
        if drawn.passages and drawn.fitted is not fitted:
            drawn.gaussians, drawn.fitted = self._gaussians(drawn.passages), fitted
        return drawn

    def empty(self) -> Candidates:
        """No candidates."""
        nothing = np.zeros((0, self._uec.dimension), dtype=np.float32)
        return Candidates([], Gaussian(nothing, nothing), Gaussian(nothing, nothing), 0)

    def _gaussians(self, passages: Sequence[Passage]) -> Gaussian:
        uec, seen, vectors = self._uec, self._seen, None
        texts = [passage.text for passage in passages]
        if seen.whose is not None or not seen.looked:
            vectors = self._stored([passage.id for passage in passages])
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
    similarities = similarities_near = contributions = save = _refuse

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
