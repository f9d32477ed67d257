"""The protocol of a store: passages with Gaussians, searched by the uncertainty-aware score.

Metadata is what JSON brings back as it was. What one engine would change, miss or refuse is refused
here, for all of them and for what a filter asks: whole numbers beyond 2**53, which engines compare
as floats, NaN and infinity, which JSON lacks, and NUL characters, which PostgreSQL does.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_texts, listed
from uec_rag.base.gaussian import FloatArray, Gaussian, Terms


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be found.

    Attributes
    ----------
    id : str
    text : str
    metadata : dict
        Any further data on it.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


def copied(passage: Passage) -> Passage:
    """Copy a passage, with all of its metadata."""
    return Passage(passage.id, passage.text, _copied(passage.metadata))


def _copied(value: Any) -> Any:  # noqa: ANN401  # JSON's values
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


Filter: TypeAlias = Mapping[str, Any] | Callable[[Passage], bool]
"""A condition on a passage's metadata (see `uec_rag.stores.filters`), or a predicate."""


@dataclass(frozen=True, eq=False)
class Found:
    """The hits of n queries, best first, k each (or as many passages as there are).

    Attributes
    ----------
    passages : list of list of Passage
    scores, mu, sigma2 : array, shape (n, k)
        s_hat, and the moments of the similarity that it is made of.
    exact : bool
        Whether nothing outside the hits can score higher.
    """

    passages: list[list[Passage]]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    exact: bool

    @classmethod
    def nothing(cls, queries: int) -> Self:
        """Return no hits for so many queries, as from an empty store."""
        empty = np.zeros((queries, 0), dtype=np.float32)
        return cls([[] for _ in range(queries)], empty, empty, empty, exact=True)


def check_store(store: object) -> None:
    """Raise TypeError unless something is a store; it is not shown, since it may be an address."""
    if isinstance(store, type) or not callable(getattr(store, "bind", None)):
        got = store if isinstance(store, type) else type(store)
        raise TypeError(f"store: expected a store, as MemoryStore(), got {got.__name__}.")


def check_query(query: Gaussian, dimension: int) -> None:
    """Raise ValueError unless queries are of the stored passages' dimension."""
    if query.dimension != dimension:
        raise ValueError(
            f"query: expected dimension {dimension}, as stored, got {query.dimension}."
        )


class Top(NamedTuple):
    """The best columns of a view for n queries, best first; shape (n, k) each."""

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


class View(Protocol):
    """Passages in columns that do not change: what a search compares queries with.

    All of a store in memory (`MemoryStore.snapshot`), or the candidates of one query from a store
    elsewhere.
    """

    def __len__(self) -> int:
        """Return the number of columns."""
        ...

    def compare(self, blocks: Sequence[FloatArray | Terms]) -> list[FloatArray]:
        """Multiply n queries with consecutive blocks of the stored means, (n, N) each.

        Parameters
        ----------
        blocks : sequence of array, shapes (n, d_k), or of Terms
            The arrays' widths add up to the stored dimension; terms are for the sparse blocks, in
            their order, of which some may be left out at the end.
        """
        ...

    def top_k(self, query: Gaussian, k: int, *, beta: float, mu: FloatArray) -> Top:
        """Find the columns of the k highest s_hat of n queries, whose mu_s (n, N) are known.

        `k`: from 1 to the number of columns.
        """
        ...

    def gather(self, columns: NDArray[np.int64]) -> list[list[Passage]]:
        """Return the passages of columns (n, k), which are not to be changed."""
        ...

    def means(self, columns: NDArray[np.int64]) -> FloatArray:
        """Return the stored means of columns (k,), shape (k, d)."""
        ...

    def contributions(
        self, terms: Sequence[Terms], columns: NDArray[np.int64]
    ) -> list[tuple[list[FloatArray], list[NDArray[np.float64]]]]:
        """Compute what each term of n queries adds to the similarity with columns (n, k).

        For each sparse block n arrays, shape (k, terms of the query), and n arrays of the terms'
        inverse document frequencies.
        """
        ...


class Store(Protocol):
    """Passages with their Gaussians."""

    @property
    def remote(self) -> bool:
        """True if the passages are elsewhere, so that a search looks at candidates only."""
        ...

    def __len__(self) -> int:
        """Return the number of passages."""
        ...

    def snapshot(self, filter: Filter | None = None) -> Store:
        """Return a read-only view of what matches a filter; in memory it is a `View`."""
        ...

    def bind(self, fingerprint: str) -> None:
        """Record the ensemble of the Gaussians; FingerprintMismatch if they are of another."""
        ...

    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those whose id is there already."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages; ids that are not there are ignored. Returns how many went."""
        ...

    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of those ids that are there, in the order asked."""
        ...

    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if one is not there."""
        ...

    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those a filter lets through, in the order they came."""
        ...

    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of a sample of `count` passages, or of all."""
        ...

    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> Found:
        """Find the k passages of the highest s_hat for n queries."""
        ...

    def save(self, folder: Path) -> None:
        """Write the store's files into an existing folder."""
        ...


CALIBRATION = "calibration"
KEPT = (CALIBRATION,)
"""Names under which something may be kept."""


class Stamp(NamedTuple):
    """The state of what is stored.

    Attributes
    ----------
    written : str
        Another one after every write.
    kept : mapping of str to str
        Version of what is kept, by its name.
    """

    written: str
    kept: Mapping[str, str]


class RemoteStore(Protocol):
    """A store whose passages are elsewhere."""

    def fetch(self, question: str, query: Gaussian, count: int) -> View:
        """Fetch the passages of probably the highest mu_s for one query, at least `count`.

        Parameters
        ----------
        question : str
            Its text; "" if it is known as a vector only.
        query : Gaussian
            One query.
        """
        ...


@runtime_checkable
class SharedState(Protocol):
    """A store with state that all its processes share; a store in memory has none."""

    def stamp(self) -> Stamp:
        """Return the state of what is stored, at little cost."""
        ...

    def put_state(self, name: str, data: bytes) -> str:
        """Store bytes under a name for all processes and return their version."""
        ...

    def get_state(self, name: str) -> tuple[str, bytes] | None:
        """Return the version and the bytes stored under a name; None if there are none."""
        ...


def put_shared_state(store: SharedState, name: str, data: bytes) -> str:
    """Store bytes under a name for all processes and return their version.

    Raises ValueError if nothing was ever added to it: there is no place yet.
    """
    if not store.stamp().written:
        raise ValueError(
            f"store: it stores a {name} with its passages, and nothing was added to it yet; add "
            "passages first."
        )
    return store.put_state(name, data)


DEEPEST = 64
"""Levels of lists and dicts in metadata and filters, far below what Python can recurse into."""
_EXACT = 2**53  # up to which a float holds every whole number
_LARGEST_MEAN = 1e6  # the square of any product of two means is still a float32
_LARGEST = 1e19  # variance: the product of a query's and a passage's is still a float32

_T = TypeVar("_T")


def normalised(metadata: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Copy metadata into strings, numbers, booleans, None, lists and dicts.

    Dates and times become ISO 8601 strings, NumPy's scalars Python's, tuples lists: what a search
    returns before saving is what it returns after loading.

    Parameters
    ----------
    metadata : mapping
    where : str
        What the caller calls it, for the message.

    Raises
    ------
    TypeError
        If a value or a key is of another type; the message names the path to it.
    ValueError
        If a string is not valid Unicode or holds NUL, a number is not finite or beyond 2**53 and
        whole, or the nesting is too deep or endless.

    Examples
    --------
    >>> normalised({"day": datetime.date(2026, 1, 31), "sizes": (np.float32(0.5), 2)}, "metadata")
    {'day': '2026-01-31', 'sizes': [0.5, 2]}
    >>> normalised({"tags": [{"a", "b"}]}, "metadatas[0]")
    Traceback (most recent call last):
    TypeError: metadatas[0]['tags'][0]: expected a string, number, boolean, date, None, list or \
dict, which are what a saved index keeps, got set; convert it first.
    """
    copied: dict[str, Any] = _mapping(metadata, where, 0)
    return copied


def normalised_value(value: object, where: str) -> Any:  # noqa: ANN401
    """Convert one value as `normalised` does; leave one of a type that no metadata holds alone.

    ValueError if it is of a type that metadata holds, and `normalised` would refuse it.
    """
    try:
        return _value(value, where, 0)
    except TypeError:
        return value


def checked_text(text: str, where: str) -> str:
    """Return the text itself; ValueError if it is not valid Unicode, or contains NUL."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} is not valid Unicode ({error.reason}, at character {error.start}); clean it "
            "with value.encode('utf-8', 'replace').decode()."
        ) from None
    if "\0" in text:
        raise ValueError(
            f"{where} holds a NUL character, at {text.index(chr(0))}, which engines do not keep; "
            "clean it with value.replace('\\0', ' ')."
        )
    return str.__str__(text)  # of a subclass, too


def _value(value: object, where: str, depth: int) -> Any:  # noqa: ANN401
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return checked_text(value, where)
    if isinstance(value, int):
        return _integer(value, where)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where}: expected a finite number, got {value}; leave it out.")
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Mapping):
        return _mapping(value, where, depth + 1)
    if isinstance(value, (list, tuple)):
        _check_depth(where, depth + 1)
        return [_value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise TypeError(
        f"{where}: expected a string, number, boolean, date, None, list or dict, which are what a "
        f"saved index keeps, got {type(value).__name__}; convert it first."
    )


def _mapping(metadata: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    _check_depth(where, depth)
    out = {}
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(
                f"{where}: expected strings as keys, got {key!r:.60} ({type(key).__name__})."
            )
        name = checked_text(key, f"{where}, a key")
        out[name] = _value(value, f"{where}[{name!r:.60}]", depth)
    return out


def _check_depth(where: str, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(
            f"{where[:60]}...: expected at most {DEEPEST} levels of lists and dicts; it is nested "
            "deeper, or contains itself."
        )


def _integer(number: int, where: str) -> int:
    if abs(number) > _EXACT:
        raise ValueError(
            f"{where}: expected whole numbers from -2**53 to 2**53, got one of "
            f"{number.bit_length()} bits; engines would round it: store it as text."
        )
    return int(number)


def make_passages(
    texts: Iterable[str],
    ids: Iterable[str] | None,
    metadatas: Iterable[Mapping[str, Any]] | None,
) -> list[Passage]:
    """Check texts, ids and metadata before anything is embedded, and join them.

    Metadata is copied, as `uec_rag.stores.base.normalised` does.

    Raises TypeError, ValueError if a text is empty or not a string, an id comes twice, the lengths
    differ, or a saved index could not keep an id or metadata.
    """
    checked = check_texts(texts)
    for number, text in enumerate(checked):
        checked_text(text, f"texts[{number}]")
    names = [uuid.uuid4().hex for _ in checked] if ids is None else listed(ids, "ids")
    extra = [{} for _ in checked] if metadatas is None else _mappings(metadatas)
    for name, given in (("ids", names), ("metadatas", extra)):
        if len(given) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(given)}.")
    for name in names:
        _check_id(name)
    _check_distinct(names, set())
    return [
        Passage(name, text, _Checked(metadata))
        for name, text, metadata in zip(names, checked, extra, strict=True)
    ]


class _Checked(dict[str, Any]):
    """Metadata of a passage that were checked and copied, so that no store does it again."""


def _check_distinct(ids: Iterable[str], seen: set[str]) -> None:
    """Raise ValueError if an id comes twice or was seen before."""
    for id_ in ids:
        if id_ in seen:
            raise ValueError(f"ids: {id_!r} is given twice; expected distinct ids in one call.")
        seen.add(id_)


def keepable(passage: Passage) -> Passage:
    """Check one passage, and copy its metadata, as `make_passages` does.

    TypeError or ValueError if it is none, or a saved index could not keep it.
    """
    if not isinstance(passage, Passage):
        raise TypeError(f"passages: expected Passage objects, got {type(passage).__name__}.")
    _check_id(passage.id)
    if not isinstance(passage.text, str):
        raise TypeError(f"text of {passage.id!r} must be a string, got {passage.text!r:.60}")
    checked_text(passage.text, f"text of {passage.id!r}: {passage.text!r:.60}")
    where = f"metadata of {passage.id!r}"
    if not isinstance(passage.metadata, Mapping):
        raise TypeError(f"{where}: expected a mapping, got {type(passage.metadata).__name__}.")
    return Passage(passage.id, passage.text, normalised(passage.metadata, where))


def _check_id(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
    checked_text(name, f"ids: {name!r:.60}")


def stream_passages(
    texts: Iterable[str],
    ids: Iterable[str] | None,
    metadatas: Iterable[Mapping[str, Any]] | None,
    size: int,
) -> Iterator[list[Passage]]:
    """Make passages of so many texts at a time, in bounded memory but for the ids given.

    Raises TypeError, ValueError as `make_passages`, when the texts in question are reached.
    """
    if isinstance(ids, str):
        raise TypeError(f"ids: expected an iterable of strings, got one string {ids!r}.")
    texts, start, seen = iter(texts), 0, set[str]()
    id_of = None if ids is None else iter(ids)
    metadata_of = None if metadatas is None else iter(metadatas)
    while some := list(islice(texts, size)):
        start += len(some)
        passages = make_passages(
            some,
            _next(id_of, len(some), "ids", start),
            _next(metadata_of, len(some), "metadatas", start),
        )
        if ids is not None:
            _check_distinct((passage.id for passage in passages), seen)
        yield passages
    for name, given in (("ids", id_of), ("metadatas", metadata_of)):
        if given is not None and list(islice(given, 1)):
            raise ValueError(f"{name}: expected {start}, one per text, got more.")


def _next(given: Iterator[_T] | None, count: int, name: str, texts: int) -> list[_T] | None:
    if given is None:
        return None
    some = list(islice(given, count))
    if len(some) < count:
        raise ValueError(
            f"{name}: expected one per text, got {texts - count + len(some)} for at least {texts}."
        )
    return some


def _mappings(metadatas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(metadatas, Mapping):
        raise TypeError(
            "metadatas: expected a list of mappings, one per text, got one mapping; "
            "write [metadata] for a single text."
        )
    given = list(metadatas)
    for index, metadata in enumerate(given):
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(
                f"metadatas[{index}]: expected a mapping, got {type(metadata).__name__}."
            )
    return [normalised(metadata or {}, f"metadatas[{i}]") for i, metadata in enumerate(given)]


def checked_addition(passages: Sequence[Passage], gaussians: Gaussian) -> list[Passage]:
    """Return passages as a store keeps them, their metadata copied.

    ValueError if there is not one Gaussian per passage, an id comes twice, or a variance is above
    1e19. As `normalised` if a saved index could not keep a passage.
    """
    if not isinstance(gaussians, Gaussian):
        raise TypeError(f"gaussians: expected a Gaussian, got {type(gaussians).__name__}.")
    check_range(gaussians, "gaussians")
    if len(passages) != len(gaussians):
        raise ValueError(
            f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
        )
    checked = [
        passage if isinstance(getattr(passage, "metadata", None), _Checked) else keepable(passage)
        for passage in passages
    ]
    _check_distinct((passage.id for passage in checked), set())
    return checked


def check_range(gaussians: Gaussian, name: str) -> None:
    """Raise ValueError if means or variances are too large for scores in float32."""
    mean = gaussians.mean
    most = max(float(mean.max(initial=0.0)), -float(mean.min(initial=0.0)))
    if most > _LARGEST_MEAN:
        raise ValueError(
            f"{name}: expected means up to {_LARGEST_MEAN:g}, got {most:g}: their products are "
            "beyond float32. Scale the embeddings."
        )
    largest = float(gaussians.scales.max(initial=0.0))
    if gaussians.profile is not None:
        largest *= float(gaussians.profile.max(initial=0.0))
    if largest > _LARGEST:
        raise ValueError(
            f"{name}: expected variances <= {_LARGEST:g}, got {largest:g}: their products are "
            "beyond float32. Fit the ensemble again, or scale the embeddings."
        )
