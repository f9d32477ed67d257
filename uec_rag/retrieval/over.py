"""Passages in another package's vector store: it supplies candidates, the ensemble ranks them.

Nothing is written there. A candidate's Gaussian is made from its text, or from the stored vector if
the caller names the member that made it. Passages near random directions are the sample for the
statistics of the corpus; document frequencies come from them and the candidates. Only the store
chooses candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.postings import Frequencies
from uec_rag.base.retries import is_passing
from uec_rag.confidence.replies import UnknownReading
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.known_vectors import check_owner, encode, vector_owner
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Passage
from uec_rag.stores.memory import MemoryStore


def frequencies_seen(near: Terms, sample: Terms, size: int) -> Frequencies:
    """Estimate the document frequencies of terms in a corpus from the passages seen of it.

    A term is held by as large a share of the corpus as of the sample, and by no fewer passages than
    were seen to hold it.

    `near`: of passages near a query, which hold its words more often than others do. `sample`: of
    passages from all over the corpus. `size`: of the corpus.

    Examples
    --------
    >>> near, sample = Terms.of([[3], [3, 4]], None), Terms.of([[5], [5, 6]], None)
    >>> seen = frequencies_seen(near, sample, 100)
    >>> {int(key): held for key, held in seen.holding.items()}
    {3: 2, 4: 1, 5: 100, 6: 50}
    """
    whole = size <= len(near)  # then it is known
    keys, counts = np.unique(near.keys, return_counts=True)
    holding = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    if not whole and len(sample):
        keys, counts = np.unique(sample.keys, return_counts=True)
        for key, held in zip(keys.tolist(), counts.tolist(), strict=True):
            holding[key] = max(holding.get(key, 0), round(held * size / len(sample)))
    lengths = near.lengths if whole or not len(sample) else sample.lengths
    return Frequencies(size, float(lengths.mean()) * size if len(lengths) else 0.0, holding)


DIRECTIONS, NEAR_EACH = 64, 4
"""The number of random directions that are searched, and of passages near each."""

_Answer = TypeVar("_Answer")

_SEARCHES = 1000  # after which the sample of an engine is drawn again


class Engine(Protocol):
    """Another package's vector store, as far as a search needs it."""

    name: str
    """Of its class, for messages."""

    def near(self, query: str, count: int, filter: object) -> list[Passage]:
        """Run its own search, best hits first, with a filter of its own kind."""
        ...

    def anywhere(self) -> list[Passage]:
        """Return passages from all over it, the same every time; none if it cannot."""
        ...

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there."""
        ...

    def stored(self, ids: list[str]) -> Sequence[Sequence[float] | None] | None:
        """Return the vectors of passages, None for one without; None if it gives no vectors."""
        ...

    def size(self) -> int | None:
        """Return the number of passages that it holds, if it says."""
        ...


Stored: TypeAlias = Callable[[list[str]], Sequence[Sequence[float] | None]]
"""The stored vectors of passages by their ids, None if there is none."""


class ExternalRetriever(Retriever):
    """A `Retriever` over passages in another package's vector store; see `retriever_over`.

    It searches like any other; methods that write or read the whole corpus raise.
    """

    store: ForeignStore

    def _check_fit(self) -> None:
        """Check nothing: nothing that is stored depends on the fit."""

    def check_filter(self, filter: object) -> None:
        """Check nothing: it is a filter of the engine's own."""

    def _among(self, chosen: object, filter: object) -> NoReturn:
        raise UnknownReading(
            "within: another package's vector store finds the candidates and does not search among "
            "some passages; search for the chosen reading's label, with the question in history."
        )


def retriever_over(
    uec: UEC,
    engine: Engine,
    candidates: int,
    *,
    vectors: str | None = None,
    stored: Stored | None = None,
    size: int | None = None,
) -> ExternalRetriever:
    """Make a retriever over an engine.

    Parameters
    ----------
    candidates : int
        Least number of passages to request from the engine in each search.
    vectors : str, optional
        Name of the member whose vectors the engine holds, or "ensemble": candidates are not encoded
        again by it. The first vector is checked against what it returns for the text.
    stored : callable, optional
        Returns vectors by id, instead of the engine's own `stored`.
    size : int, optional
        Number of passages in the engine, if it cannot say.

    Raises
    ------
    TypeError, ValueError
        If uec is not a UEC, candidates < 1, `vectors` names no member, or `stored` is given without
        `vectors`.
    """
    if not isinstance(uec, UEC):
        raise TypeError(f"uec: expected a UEC, got {type(uec).__name__}.")
    check_k(candidates, "candidates")
    if size is not None:
        check_k(size, "size")
    if stored is not None and vectors is None:
        raise ValueError("stored: expected `vectors` too, the name of the member that made them.")
    engine_store = ForeignStore(uec, engine, candidates, vectors=vectors, stored=stored, size=size)
    return ExternalRetriever(uec, engine_store)


@dataclass
class _Seen:
    """The sample of an engine and the check of its vectors, shared with its views.

    Attributes
    ----------
    sample : _Drawn or None
        From all over the engine; None before a search finds something.
    checked : bool
        Whether a stored vector was compared with the member's own.
    """

    sample: _Drawn | None = None
    checked: bool = False


@dataclass
class _Drawn:
    """A sample of an engine's passages.

    Attributes
    ----------
    searches : int
        That went by them.
    fitted : Fitted or None
        The fit that `gaussians` are of.
    gaussians : Gaussian or None
        Of the passages; None if there are none.
    """

    passages: list[Passage]
    searches: int = 0
    fitted: Fitted | None = None
    gaussians: Gaussian | None = None


class ForeignStore:
    """An engine as the store of a `Retriever`: `fetch` returns one question's candidates.

    Parameters
    ----------
    uec, engine, candidates, vectors, stored, size
        As in `retriever_over`.
    """

    remote = True

    def __init__(
        self,
        uec: UEC,
        engine: Engine,
        candidates: int,
        *,
        vectors: str | None = None,
        stored: Stored | None = None,
        size: int | None = None,
    ) -> None:
        self._uec, self._engine, self._candidates = uec, engine, candidates
        self._owner = None if vectors is None else vector_owner(uec, vectors)
        self._stored, self._told = stored or engine.stored, size
        self._filter: object = None
        self._seen = _Seen()

    def _asked(self, what: str, function: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Call a function of the engine, and explain its errors.

        Raises ConnectionError if it fails in a way that may pass. RuntimeError if it fails in
        another.
        """
        try:
            return function(*arguments)
        except Exception as error:
            kind = ConnectionError if is_passing(error) else RuntimeError
            said = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise kind(
                f"store: {self._engine.name} failed when it was asked for {what} ({said}). Check "
                "that store and the filter, if one was given; no partial result was returned."
            ) from error

    def _size(self) -> int | None:
        return self._asked("its size", self._engine.size) if self._told is None else self._told

    def __len__(self) -> int:
        return self._size() or 0

    def snapshot(self, filter: object = None) -> Self:
        """Return a view of what a filter of the engine's own lets through."""
        if filter is None:
            return self
        if self._filter is not None:
            raise ValueError("filter: an engine's filters cannot be joined here; give one.")
        view = copy(self)
        view._filter = filter
        return view

    def bind(self, fingerprint: str) -> None:
        """Do nothing: nothing is stored there."""

    def fetch(self, question: str, query: Gaussian, count: int) -> MemoryStore:
        """Fetch the candidates of one question: those that the engine finds for its text.

        How often their words occur in the whole of it is estimated from them and a sample.
        """
        wanted = max(count // 4, self._candidates)
        near = self._asked("candidates", self._engine.near, question, wanted, self._filter)
        found = _searchable(near)
        if not found:
            return MemoryStore()
        size, gaussians = self._size(), self._gaussians(found)
        drawn = self._drawn()
        sample = gaussians if drawn.gaussians is None else drawn.gaussians
        if size is None:  # what was seen is all that is known
            size = len({passage.id for passage in [*found, *drawn.passages]})
        seen = zip(gaussians.terms, sample.terms, strict=True)
        frequencies = [frequencies_seen(*terms, max(size, len(found))) for terms in seen]
        return MemoryStore.holding(found, gaussians, frequencies)

    def _drawn(self) -> _Drawn:
        """Sample the engine's passages, again after many searches, or if there were none."""
        seen = self._seen
        drawn, fitted = seen.sample, self._uec.fitted
        if drawn is None or not drawn.passages or drawn.searches >= _SEARCHES:
            some = self._asked("passages near random directions", self._engine.anywhere)
            drawn = seen.sample = _Drawn(_searchable(some))
        drawn.searches += 1
        if drawn.passages and drawn.fitted is not fitted:
            drawn.gaussians, drawn.fitted = self._gaussians(drawn.passages), fitted
        return drawn

    def _gaussians(self, passages: Sequence[Passage]) -> Gaussian:
        uec, seen, vectors = self._uec, self._seen, None
        texts = [passage.text for passage in passages]
        if self._owner is not None:
            ids = [passage.id for passage in passages]
            vectors = self._asked("vectors", self._stored, ids)
            pairs = zip(texts, vectors or (), strict=False)
            first = next(((text, vector) for text, vector in pairs if vector is not None), None)
            if first is not None and not seen.checked:
                check_owner(uec, self._owner, *first)
                seen.checked = True
        parts = encode(uec, texts, "passage", vectors, self._owner)
        return uec.combine(parts, uec.coefficients(parts, "passage"))

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        held = self._asked("passages by their ids", self._engine.get, ids)
        there = {passage.id: passage for passage in held}
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
            "this index is in another package's vector store, which only supplies candidates: "
            "write to that store directly; to calibrate, or to search by vector, add its "
            "passages to a Retriever with a store of this package."
        )

    add = delete = search = save = _refuse

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of passages near random directions, `count` at most."""
        found = self._drawn().gaussians
        if found is None:
            nothing = np.zeros((0, self._uec.dimension), dtype=np.float32)
            return Gaussian(nothing, nothing)
        return found[:count]

    def passages(self, filter: object = None) -> Iterator[Passage]:
        """Raise ValueError: an engine is not read whole."""
        self._refuse()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raise ValueError: nothing of it is saved."""
        raise ValueError(f"path: {str(folder)!r} cannot hold another package's vector store.")


def random_directions(width: int) -> FloatArray:
    """Draw random directions, the same every time, shape (DIRECTIONS, width)."""
    drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, width), dtype=np.float32)
    unit: FloatArray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def _searchable(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages that have a text, each once."""
    return [*{p.id: p for p in reversed(passages) if p.text.strip()}.values()][::-1]
