"""The contract of stores: passages with Gaussians, searched by the uncertainty-aware score.

Metadata is what JSON brings back as it was. What one engine would change, miss or refuse is refused
here, for all of them and for what a filter asks: infinity, which JSON lacks, and NUL characters,
which databases may cut. Whole numbers beyond 2**53, which engines compare as floats, become text.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import math
import re
import secrets
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import as_list, check_texts, check_type, check_unicode
from uec_rag.base.errors import FingerprintMismatch
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.base.records import Record, cached_property
from uec_rag.base.text import SOURCE_KEYS, About, first_value, with_headings


@dataclass(frozen=True)
class Passage:
    """A piece of text to search for.

    Attributes
    ----------
    id : str
    text : str
    metadata : dict
        Further data on the passage.
    """

    id: str
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def about(self) -> About:
        """Its subject, source and words, derived at the first access."""
        return About.from_passage(self.metadata, self.text)

    @property
    def searched(self) -> str:
        """The text that models encode: after its headings, if they are in the metadata alone."""
        return with_headings(self.metadata, self.text)

    @property
    def with_source(self) -> str:
        """The text whose words are compared: also with the path or the URL of its source."""
        return f"{self.searched}\n\n{first_value(self.metadata, SOURCE_KEYS)}"


def copy_passage(passage: Passage) -> Passage:
    """Copy a passage, with all of its metadata."""
    copied = Passage(passage.id, passage.text, copy_value(passage.metadata))
    copied.__dict__["about"] = passage.about  # which took some time
    return copied


def copy_value(value: Any) -> Any:  # noqa: ANN401
    """Copy the dicts and lists of a value; other objects, which JSON does not have, are shared."""
    if isinstance(value, dict):
        copied = value.copy()
        for key, item in value.items():
            if isinstance(item, dict | list):
                copied[key] = copy_value(item)
        return copied
    if isinstance(value, list):
        return [*map(copy_value, value)]
    return value


Filter: TypeAlias = Mapping[str, Any] | Callable[[Passage], bool]
"""A condition on a passage's metadata (see `uec_rag.stores.filters`), or a predicate."""


@dataclass(frozen=True, eq=False)
class StoreHits:
    """The hits of n queries, best first, k each or all passages if there are fewer.

    Attributes
    ----------
    passages : list of list of Passage
    scores, mu, sigma2 : array, shape (n, k)
        s_hat, and mean and variance of the similarity from which it is computed.
    exact : bool
        Whether no other passage can have a higher score.
    """

    passages: list[list[Passage]]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray
    exact: bool


class Top(NamedTuple):
    """The best columns of a view for n queries, best first; shape (n, k) each."""

    columns: NDArray[np.int64]
    scores: FloatArray
    mu: FloatArray
    sigma2: FloatArray


@dataclass(frozen=True)
class Schema(Record):
    """The properties that all Gaussians of a store share.

    Attributes
    ----------
    widths : tuple of int
        Dimensions of the blocks of the means.
    factors : tuple of tuple of float, or None
        The profile of a factored variance.
    words : tuple of float
        The scale of each sparse block.
    """

    widths: tuple[int, ...] = (0,)
    factors: tuple[tuple[float, ...], ...] | None = None
    words: tuple[float, ...] = ()

    @classmethod
    def from_gaussians(cls, gaussians: Gaussian) -> Self:
        """Describe a batch of Gaussians; ValueError if their terms have different scales."""
        if any(len(np.unique(terms.scale)) > 1 for terms in gaussians.terms):
            raise ValueError("terms: expected one scale, as of one ensemble.")
        words = tuple(float(terms.scale.max(initial=0.0)) for terms in gaussians.terms)
        profile = gaussians.profile
        factors = None if profile is None else tuple(map(tuple, profile.tolist()))
        return cls(tuple(gaussians.widths), factors, words)

    @cached_property
    def profile(self) -> FloatArray | None:
        """The profile of a factored variance, shape (F, d); None for another one."""
        return None if self.factors is None else as_matrix(self.factors, "factors")

    @property
    def dimension(self) -> int:
        """The dimension of the means."""
        return sum(self.widths)

    @property
    def scales(self) -> int:
        """The number of factors of a variance that each passage has."""
        return self.dimension if self.factors is None else len(self.factors)

    def check(self, gaussians: Gaussian) -> None:
        """Raise ValueError unless Gaussians may be stored beside those of this schema."""
        other = Schema.from_gaussians(gaussians)
        if other != self:
            raise ValueError(
                f"gaussians: expected {self!r:.150}, as stored, got {other!r:.150}; they come from "
                "another fit, or another posterior. Build the index again."
            )

    def check_query(self, query: Gaussian) -> None:
        """Raise ValueError unless queries have the dimension of the stored passages."""
        if query.dimension != self.dimension:
            raise ValueError(
                f"query: expected dimension {self.dimension}, as stored, got {query.dimension}."
            )


class Searched(ABC):
    """An object that a retriever searches: a `Store`, or a view of its passages at one moment."""

    def __str__(self) -> str:
        return f"{len(self)} passages"

    @property
    def changes(self) -> int:
        """The number of additions and deletions so far by all processes; 0 if it is not known."""
        return 0

    def corpus(self) -> str:
        """Return a fingerprint of the passages; of many, or of an engine, it is their number."""
        return f"{len(self)} passages"

    def fingerprints(self, ids: Sequence[str]) -> dict[str, str]:
        """Hash the texts of the passages with the given ids, leaving out unknown ids."""
        return {p.id: hash_text(p.text) for p in self.get(ids)}

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def snapshot(self, filter: Filter | None = None) -> Searched:
        """Return a read-only view of the passages that match a filter."""

    def of_tenant(self, filter: Filter) -> Searched:
        """Return a view of the passages that match a filter, among which words are counted.

        A store of candidates counts words as it does without.
        """
        return self.snapshot(filter)

    @abstractmethod
    def get(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with the given ids, in that order, leaving out unknown ids."""

    @abstractmethod
    def vectors(self, ids: Sequence[str]) -> Gaussian:
        """Return the Gaussians of ids; KeyError if an id is unknown."""

    @abstractmethod
    def passages(self, filter: Filter | None = None) -> Iterator[Passage]:
        """Iterate over all passages, or those that a filter selects.

        A local store iterates in the order of insertion, and a source may list none.
        """

    @abstractmethod
    def sample(self, count: int) -> Gaussian:
        """Return the Gaussians of a sample of about `count` passages, or of all if fewer."""

    @abstractmethod
    def search(
        self, query: Gaussian, k: int, *, beta: float, filter: Filter | None = None
    ) -> StoreHits:
        """Find the k passages with the highest s_hat for n queries; of candidates, for one.

        Of passages with equal scores, earlier ones come first in a local store.

        Raises
        ------
        ValueError
            If k < 1, or the query does not have the dimension of the stored passages.
        TypeError, ValueError
            If the filter is invalid; see `uec_rag.stores.filters`.
        """


class Store(Searched):
    """A collection of passages with their Gaussians: a local index, or a source of candidates.

    The first, `uec_rag.stores.LocalStore`, lists and looks up all passages, and is searched
    exactly. Any other is `uec_rag.stores.candidates.CandidateStore`.
    """

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        return made

    def __deepcopy__(self, memo: object) -> Self:
        """Return the store itself, which copies of what searches it share."""
        return self

    def changing(self) -> AbstractContextManager[object]:
        """Make several calls one transaction, where there are any; see `Retriever.changing`."""
        return nullcontext()

    def close(self) -> None:
        """Close the files or the connection, if there are any; the store cannot be used after."""

    @abstractmethod
    def bind(self, fingerprint: str) -> None:
        """Record the ensemble of the Gaussians; FingerprintMismatch if it is another one."""

    @abstractmethod
    def add(self, passages: Sequence[Passage], gaussians: Gaussian) -> None:
        """Add passages, replacing those with the same ids."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Remove passages, ignoring unknown ids; return the number removed."""


DEEPEST = 64
"""The maximum nesting of metadata and filters, far below Python's recursion limit."""
_EXACT = 2**53  # a float represents all integers up to this
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:|\Z)")
_MICROSECOND, _DAY = datetime.timedelta(microseconds=1), datetime.timedelta(days=1)


class DateText(str):
    """The ISO 8601 text of a date, or of a date and a time, which filters compare as a moment.

    Examples
    --------
    >>> DateText("1970-01-02").span
    (86400000000, 172800000000)
    """

    @cached_property
    def span(self) -> tuple[int, int]:
        """Its first microsecond since 1970 in UTC, and the first one after it, or after its day."""
        moment = datetime.datetime.fromisoformat(self)
        first = (moment.replace(tzinfo=moment.tzinfo or datetime.UTC) - _EPOCH) // _MICROSECOND
        return first, first + (_DAY // _MICROSECOND if len(self) == len("2024-01-31") else 1)


def as_date(value: object) -> DateText | None:
    """Return a date, or a text in ISO 8601, as a date; None if it is neither.

    Examples
    --------
    >>> as_date("2024-01-31"), as_date("20240131"), as_date("2024-01-xx")
    ('2024-01-31', None, None)
    """
    if isinstance(value, DateText):
        return value
    if not isinstance(value, str) or not _ISO.match(value):
        return None
    date = DateText(value)
    try:
        _ = date.span
    except (ValueError, OverflowError):
        return None
    return date


def dates_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the keys of metadata whose values are dates."""
    return [key for key, value in metadata.items() if isinstance(value, DateText)]


def restore_dates(metadata: dict[str, Any], dates: Sequence[str]) -> None:
    """Make the texts of dates `DateText` again."""
    metadata |= {key: DateText(metadata[key]) for key in dates}


def normalise(metadata: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Copy metadata, converting values to strings, numbers, booleans, None, lists and dicts.

    Dates and times become ISO 8601 strings, which filters by a date compare as moments
    (`DateText`). Paths, UUIDs and whole numbers beyond 2**53, such as ids of 64 bits, become
    strings, NumPy scalars and Decimals numbers, NaN and NaT None, and tuples become lists, so that
    a search returns the same metadata before saving and after loading.

    Parameters
    ----------
    metadata : mapping
    where : str
        Name of the argument, for error messages.

    Raises
    ------
    TypeError
        If a value or a key has another type; the message has the path to it.
    ValueError
        If a string is not valid Unicode or contains NUL, if a number is infinite, or if the
        nesting is too deep or circular.

    Examples
    --------
    >>> normalise({"day": datetime.date(2026, 1, 31), "sizes": (np.float32(0.5), 2)}, "metadata")
    {'day': '2026-01-31', 'sizes': [0.5, 2]}
    >>> normalise({"tags": [{"a", "b"}]}, "metadatas[0]")
    Traceback (most recent call last):
    TypeError: metadatas[0]['tags'][0]: expected a string, number, boolean, date, None, list or \
dict, which are what a saved index keeps, got set; convert it first.
    """
    made: dict[str, Any] = _value(metadata, where, 0)
    return made


def normalise_value(value: object, where: str) -> Any:  # noqa: ANN401
    """Convert one value as `normalise` does, with its errors; ValueError if it is NaN."""
    if type(value) is str:  # the most frequent by far
        return check_stored_text(value, where)
    if isinstance(value, float | np.floating | decimal.Decimal) and math.isnan(value):
        raise ValueError(f"{where}: expected a finite number, got {value}; ask for None.")
    return _value(value, where, 0)


def check_stored_text(text: str, where: str) -> str:
    """Return the text itself; ValueError if it is not valid Unicode, or contains NUL."""
    check_unicode(text, where)
    if "\0" in text:
        raise ValueError(
            f"{where} holds a NUL character, at {text.index(chr(0))}, which engines do not keep; "
            "clean it with value.replace('\\0', ' ')."
        )
    return str.__str__(text)  # of a subclass, too


def _plain(value: object) -> object:
    """Convert a value of another library, a path, a date or NaN to what JSON knows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, decimal.Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if whole else float(value)
    if isinstance(value, float | datetime.date) and value != value:  # NaN, and the NaT of pandas
        return None
    if isinstance(value, PurePath | uuid.UUID):
        return str(value)
    if isinstance(value, datetime.date):  # a datetime is a date
        return DateText(value.isoformat())
    return value.isoformat() if isinstance(value, datetime.time) else value


def _value(value: object, where: str, depth: int) -> Any:  # noqa: ANN401
    value = _plain(value)
    if value is None or isinstance(value, bool | DateText):
        return value
    if isinstance(value, str):
        return check_stored_text(value, where)
    if isinstance(value, int):
        return int(value) if abs(value) <= _EXACT else str(int(value))  # engines would round it
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"{where}: expected a finite number, got {value}; leave it out.")
        return float(value)
    if depth > DEEPEST:
        raise ValueError(
            f"{where[:60]}...: expected at most {DEEPEST} levels of lists and dicts; it is nested "
            "deeper, or contains itself."
        )
    if isinstance(value, (list, tuple)):
        return [_value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{where}: expected a string, number, boolean, date, None, list or dict, which are "
            f"what a saved index keeps, got {type(value).__name__}; convert it first."
        )
    out = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(
                f"{where}: expected strings as keys, got {key!r:.60} ({type(key).__name__})."
            )
        name = check_stored_text(key, f"{where}, a key")
        out[name] = _value(item, f"{where}[{name!r:.60}]", depth + 1)
    return out


def content_id(text: str, metadata: Mapping[str, Any]) -> str:
    """Return an id that passages share if their texts and metadata are equal."""
    content = json.dumps([text, metadata], sort_keys=True, default=str)
    return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def hash_text(text: str) -> str:
    """Hash the text of a passage, by which another one is told from it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_passages(
    texts: Iterable[str], ids: Iterable[str] | None, metadatas: Iterable[Mapping[str, Any]] | None
) -> list[Passage]:
    """Check texts, ids and metadata before they are encoded, and join them to passages.

    Metadata is copied by `normalise`.

    TypeError or ValueError if a text is empty or not a string, if the lengths differ, or if an id
    or metadata could not be saved.
    """
    checked = check_texts(texts)
    names = [secrets.token_hex(16) for _ in checked] if ids is None else as_list(ids, "ids")
    if isinstance(metadatas, Mapping):
        raise TypeError(
            "metadatas: expected a list of mappings, one per text, got one mapping; "
            "write [metadata] for a single text."
        )
    extra = [{} for _ in checked] if metadatas is None else [*metadatas]
    for name, values in (("ids", names), ("metadatas", extra)):
        if len(values) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(values)}.")
    return [
        check_passage(
            Passage(id_, text, {} if metadata is None else cast(Any, metadata)),
            f"metadatas[{number}]",
        )
        for number, (id_, text, metadata) in enumerate(zip(names, checked, extra, strict=True))
    ]


def last_of_each(passages: Sequence[Passage]) -> list[int]:
    """Return the positions of the passages to keep: of equal ids, the last.

    ValueError if an id is given with two texts.
    """
    kept = dict[str, int]()
    for position, passage in enumerate(passages):
        before = kept.pop(passage.id, None)
        if before is not None and passages[before].text != passage.text:
            raise ValueError(
                f"ids: {passage.id!r} is given twice, with the texts "
                f"{passages[before].text!r:.60} and {passage.text!r:.60}; expected one text for "
                "an id. Nothing was added."
            )
        kept[passage.id] = position
    return [*kept.values()]


class Checked(dict[str, Any]):
    """The metadata of a passage that was already checked and copied."""


def check_passage(passage: Passage, where: str = "") -> Passage:
    """Check one passage, and copy its metadata, which messages call `where`.

    TypeError or ValueError if it is not a passage, or could not be saved.
    """
    check_type(passage, Passage, "passages", "Passage objects")
    name, text, where = passage.id, passage.text, where or f"metadata of {passage.id!r}"
    if not isinstance(name, str) or not name:
        raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
    check_stored_text(name, f"ids: {name!r:.60}")
    if not isinstance(text, str):
        raise TypeError(f"text of {name!r} must be a string, got {text!r:.60}")
    check_stored_text(text, f"text of {name!r}: {text!r:.60}")
    check_type(passage.metadata, Mapping, where, "a mapping")
    return Passage(name, text, Checked(normalise(passage.metadata, where)))


def check_same(stored: str | None, fingerprint: str) -> None:
    """Raise FingerprintMismatch if stored vectors are of another ensemble than one's own."""
    if stored not in (None, fingerprint):
        raise FingerprintMismatch(
            f"store: it holds vectors of another ensemble ({str(stored)[:12]!r}, this one is "
            f"{fingerprint[:12]!r}): other models, revisions or posterior. Use that ensemble or "
            "build the index again."
        )


def check_addition(passages: Sequence[Passage], gaussians: Gaussian) -> list[Passage]:
    """Check passages and their Gaussians, and return the passages with copied metadata.

    ValueError if there is not one Gaussian per passage, or if an id occurs twice; and as in
    `check_passage`.
    """
    check_type(gaussians, Gaussian, "gaussians", "a Gaussian")
    if len(passages) != len(gaussians):
        raise ValueError(
            f"gaussians: expected {len(passages)}, one per passage, got {len(gaussians)}."
        )
    checked = [
        one if isinstance(getattr(one, "metadata", None), Checked) else check_passage(one)
        for one in passages
    ]
    if len({passage.id for passage in checked}) < len(checked):
        raise ValueError("ids: expected distinct ids in one call.")
    return checked
