"""Search over another package's vector store, which finds candidates for the ensemble to rank.

Nothing is written to the store. The Gaussian of a candidate is computed from its text, or from the
stored vector if the caller names the member that made it. Passages near random directions are a
sample for the statistics of the corpus; document frequencies are estimated from them and the
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from uec_rag.base.checks import check_k, check_type
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms
from uec_rag.base.postings import Frequencies
from uec_rag.base.retries import is_transient
from uec_rag.confidence.replies import UnknownReading, Within
from uec_rag.ensemble.fitted import Fitted
from uec_rag.ensemble.known_vectors import check_owner, encode, vector_owner
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Request, Retriever
from uec_rag.stores.base import Passage
from uec_rag.stores.memory import MemoryStore


def frequencies_seen(near: Terms, sample: Terms, size: int) -> Frequencies:
    """Estimate the document frequencies of terms in a corpus from some of its passages.

    A term's share of the corpus is taken to be that of the sample, but its frequency is at least
    the number of passages in `near` that contain it.

    `near`: terms of passages near a query, which contain its words more often than others do.
    `sample`: terms of passages from all over the corpus. `size`: number of passages in the corpus.

    Examples
    --------
    >>> near, sample = Terms.of([[3], [3, 4]], None), Terms.of([[5], [5, 6]], None)
    >>> seen = frequencies_seen(near, sample, 100)
    >>> {int(key): held for key, held in seen.holding.items()}
    {3: 2, 4: 1, 5: 100, 6: 50}
    """
    whole = size <= len(near)  # then the frequencies are exact
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

_SEARCHES = 1000  # searches after which the sample of an engine is drawn again


class Engine(Protocol):
    """The part of another package's vector store that a search needs."""

    name: str
    """The name of its class, for messages."""

    def near(self, query: str, count: int, filter: object) -> list[Passage]:
        """Run the store's own search, best hits first, with a filter in its format."""

    def anywhere(self) -> list[Passage]:
        """Return passages from all over the store, the same every time; none if not possible."""

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that exist."""

    def stored(self, ids: list[str]) -> Sequence[Sequence[float] | None] | None:
        """Return vectors by id, None for a passage without one; None if they are not available."""

    def size(self) -> int | None:
        """Return the number of passages; None if unknown."""


Stored: TypeAlias = Callable[[list[str]], Sequence[Sequence[float] | None]]
"""A function that returns the stored vectors of passages by id, None for one without a vector."""


class ExternalRetriever(Retriever):
    """A `Retriever` over passages in another package's vector store; see `retriever_over`.

    It searches like any other retriever; methods that write or read the whole corpus raise.
    """

    store: ExternalStore

    def _accept_fit(self) -> None:
        """Do nothing: no stored value depends on the fit."""

    def check_filter(self, filter: object) -> None:
        """Do nothing: the filter is in the format of the engine."""

    def _prepare(
        self, queries: Sequence[str], k: int, *, within: Within | None = None, **options: Any
    ) -> Request:
        if within is not None:  # whatever it is, and before anything is searched
            self._among(within, None)
        return super()._prepare(queries, k, **options)

    def _among(self, chosen: object, filter: object) -> NoReturn:
        raise UnknownReading(
            "within: another package's vector store finds the candidates and cannot search among "
            "given passages; search for the chosen reading's label, with the question in history."
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
        Smallest number of passages to request from the engine in each search.
    vectors : str, optional
        Name of the member that made the engine's vectors, or "ensemble"; candidates are then not
        encoded again. The first vector is checked against an encoding of its text.
    stored : callable, optional
        Returns vectors by id, in place of the engine's `stored`.
    size : int, optional
        Number of passages in the engine, in place of the engine's `size`.

    Raises
    ------
    TypeError, ValueError
        If uec is not a UEC, candidates < 1, `vectors` names no member, or `stored` is given without
        `vectors`.
    """
    check_type(uec, UEC, "uec", "a UEC")
    check_k(candidates, "candidates")
    if size is not None:
        check_k(size, "size")
    if stored is not None and vectors is None:
        raise ValueError("stored: expected `vectors` too, the name of the member that made them.")
    engine_store = ExternalStore(uec, engine, candidates, vectors=vectors, stored=stored, size=size)
    return ExternalRetriever(uec, engine_store)


@dataclass
class _Seen:
    """The sample of an engine and the check of its vectors, shared with views.

    Attributes
    ----------
    sample : _Drawn or None
        Passages from all over the engine; None before a search has found something.
    checked : bool
        Whether a stored vector was compared with an encoding of its text.
    """

    sample: _Drawn | None = None
    checked: bool = False


@dataclass
class _Drawn:
    """A sample of an engine's passages.

    Attributes
    ----------
    searches : int
        Number of searches that used the sample.
    fitted : Fitted or None
        The fit that `gaussians` were computed with.
    gaussians : Gaussian or None
        Gaussians of the passages; None if there are none.
    """

    passages: list[Passage]
    searches: int = 0
    fitted: Fitted | None = None
    gaussians: Gaussian | None = None


class ExternalStore:
    """An adapter of an engine as the store of a `Retriever`, which searches by `fetch`.

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
        self._stored, self._given_size = stored or engine.stored, size
        self._filter: object = None
        self._seen = _Seen()

    def _asked(self, what: str, function: Callable[..., _Answer], *arguments: object) -> _Answer:
        """Call a function of the engine, and explain its errors.

        Raises ConnectionError if it fails with a transient error, and RuntimeError if with another.
        """
        try:
            return function(*arguments)
        except Exception as error:
            kind = ConnectionError if is_transient(error) else RuntimeError
            line = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise kind(
                f"store: {self._engine.name} failed when it was asked for {what} ({line}). Check "
                "that store and the filter, if one was given; no partial result was returned."
            ) from error

    def _size(self) -> int | None:
        if self._given_size is not None:
            return self._given_size
        return self._asked("its size", self._engine.size)

    def __len__(self) -> int:
        return self._size() or 0

    def snapshot(self, filter: object = None) -> Self:
        """Return a view of the passages that match a filter in the engine's format."""
        if filter is None:
            return self
        if self._filter is not None:
            raise ValueError("filter: filters of an engine cannot be combined; pass a single one.")
        view = copy(self)
        view._filter = filter
        return view

    def bind(self, fingerprint: str) -> None:
        """Do nothing: nothing is stored there."""

    def fetch(self, question: str, query: Gaussian, count: int) -> MemoryStore:
        """Fetch the candidates that the engine finds for the text of one question.

        Document frequencies are estimated from them and a sample.
        """
        wanted = max(count // 4, self._candidates)
        near = self._asked("candidates", self._engine.near, question, wanted, self._filter)
        found = _searchable(near)
        if not found:
            return MemoryStore()
        size, gaussians = self._size(), self._gaussians(found)
        drawn = self._drawn()
        sample = gaussians if drawn.gaussians is None else drawn.gaussians
        if size is None:  # at least the passages seen
            size = len({passage.id for passage in [*found, *drawn.passages]})
        seen = zip(gaussians.terms, sample.terms, strict=True)
        frequencies = [frequencies_seen(*terms, max(size, len(found))) for terms in seen]
        return MemoryStore.holding(found, gaussians, frequencies)

    def _drawn(self) -> _Drawn:
        """Return a sample of the engine's passages, which is redrawn after many searches."""
        seen = self._seen
        drawn, fitted = seen.sample, self._uec.fitted
        if drawn is None or not drawn.passages or drawn.searches >= _SEARCHES:
            found = self._asked("passages near random directions", self._engine.anywhere)
            drawn = seen.sample = _Drawn(_searchable(found))
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
        return uec.fitted.combine_as(parts, "passage")

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that exist, in the order of `ids`."""
        found = self._asked("passages by their ids", self._engine.get, ids)
        by_id = {passage.id: passage for passage in found}
        return [by_id[id_] for id_ in ids if id_ in by_id]

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""
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
        """Return the Gaussians of at most `count` passages near random directions."""
        found = self._drawn().gaussians
        if found is None:
            nothing = np.zeros((0, self._uec.dimension), dtype=np.float32)
            return Gaussian(nothing, nothing)
        return found[:count]

    def passages(self, filter: object = None) -> Iterator[Passage]:
        """Raise ValueError: the passages of an engine cannot be listed."""
        self._refuse()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raise ValueError: such a store is not saved."""
        raise ValueError(f"path: {str(folder)!r} cannot hold another package's vector store.")


def random_directions(width: int) -> FloatArray:
    """Draw random directions, the same every time, shape (DIRECTIONS, width)."""
    drawn = np.random.default_rng(0).standard_normal((DIRECTIONS, width), dtype=np.float32)
    unit: FloatArray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def _searchable(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages that have a text, each once."""
    return [*{p.id: p for p in reversed(passages) if p.text.strip()}.values()][::-1]
