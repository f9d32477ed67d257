"""Passages made of what users give, checked before any work starts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from uec_rag.base.checks import check_texts, listed
from uec_rag.stores.base import Passage
from uec_rag.stores.metadata import kept

_T = TypeVar("_T")


def make_passages(
    texts: Iterable[str],
    ids: Iterable[str] | None,
    metadatas: Iterable[Mapping[str, Any]] | None,
) -> list[Passage]:
    """Check texts, ids and metadata before anything is embedded, and join them.

    Metadata is copied, as `uec_rag.stores.metadata.kept` does.

    Raises
    ------
    TypeError, ValueError
        If a text is empty or not a string, an id comes twice, the lengths differ, or a saved index
        could not keep an id or metadata.
    """
    checked = check_texts(texts)
    names = [uuid.uuid4().hex for _ in checked] if ids is None else listed(ids, "ids")
    extra = [{} for _ in checked] if metadatas is None else _mappings(metadatas)
    for name, given in (("ids", names), ("metadatas", extra)):
        if len(given) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(given)}.")
    seen: set[str] = set()
    for name in names:
        _check_id(name)
        if name in seen:
            raise ValueError(f"ids: {name!r} is given twice; expected distinct ids in one call.")
        seen.add(name)
    return [
        Passage(name, text, metadata)
        for name, text, metadata in zip(names, checked, extra, strict=True)
    ]


def keepable(passage: Passage) -> Passage:
    """Check one passage, and copy its metadata, as `make_passages` does.

    Raises
    ------
    TypeError, ValueError
        If it is none, or a saved index could not keep it.
    """
    if not isinstance(passage, Passage):
        raise TypeError(f"passages: expected Passage objects, got {type(passage).__name__}.")
    _check_id(passage.id)
    if not isinstance(passage.text, str):
        raise TypeError(f"text of {passage.id!r} must be a string, got {passage.text!r:.60}")
    _check_unicode(passage.text, f"text of {passage.id!r}")
    where = f"metadata of {passage.id!r}"
    if not isinstance(passage.metadata, Mapping):
        raise TypeError(f"{where}: expected a mapping, got {type(passage.metadata).__name__}.")
    return Passage(passage.id, passage.text, kept(passage.metadata, where))


def _check_id(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
    _check_unicode(name, "ids")


def _check_unicode(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: {text!r:.60} is not valid Unicode ({error.reason}).") from None


def stream_passages(
    texts: Iterable[str],
    ids: Iterable[str] | None,
    metadatas: Iterable[Mapping[str, Any]] | None,
    size: int,
) -> Iterator[list[Passage]]:
    """`make_passages` of so many texts at a time, in bounded memory but for the ids given.

    Raises
    ------
    TypeError, ValueError
        As `make_passages`, when the texts in question are reached.
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
            again = [passage.id for passage in passages if passage.id in seen]
            if again:
                raise ValueError(
                    f"ids: {again[0]!r} is given twice; expected distinct ids in one call."
                )
            seen.update(passage.id for passage in passages)
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
    return [kept(metadata or {}, f"metadatas[{i}]") for i, metadata in enumerate(given)]
