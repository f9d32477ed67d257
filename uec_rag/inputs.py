"""Checks on what users add to an index and ask of it, before any work starts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uec_rag.encoders.base import check_texts
from uec_rag.stores.base import Passage


def make_passages(
    texts: Sequence[str],
    ids: Sequence[str] | None,
    metadatas: Sequence[Mapping[str, Any]] | None,
) -> list[Passage]:
    """Check texts, ids and metadata before anything is embedded, and join them.

    Raises
    ------
    TypeError, ValueError
        If a text is empty or not a string, an id comes twice, or the lengths differ.
    """
    checked = check_texts(texts)
    names = [uuid.uuid4().hex for _ in checked] if ids is None else listed(ids, "ids")
    extra = [{} for _ in checked] if metadatas is None else _mappings(metadatas)
    for name, given in (("ids", names), ("metadatas", extra)):
        if len(given) != len(checked):
            raise ValueError(f"{name}: expected {len(checked)}, one per text, got {len(given)}.")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"ids: expected non-empty strings, got {name!r}.")
        if name in seen:
            raise ValueError(f"ids: {name!r} is given twice; expected distinct ids in one call.")
        seen.add(name)
    return [
        Passage(name, text, metadata)
        for name, text, metadata in zip(names, checked, extra, strict=True)
    ]


def check_k(k: int) -> None:
    """Raise unless k is an integer of at least 1."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k: expected an integer, got {k!r}.")
    if k < 1:
        raise ValueError(f"k: expected an integer >= 1, got {k}.")


def listed(ids: Sequence[str], name: str) -> list[str]:
    """Return ids as a list; TypeError if they are one string."""
    if isinstance(ids, str):
        raise TypeError(f"{name}: expected a list of strings, got one string {ids!r}.")
    return list(ids)


def _mappings(metadatas: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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
    return [dict(metadata or {}) for metadata in given]
