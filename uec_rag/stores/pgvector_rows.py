"""Points as rows of a table of PostgreSQL."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.base import Passage
from uec_rag.stores.engine_points import Near, Point, Words
from uec_rag.stores.facts import facts_of, numbers_of
from uec_rag.stores.point_ids import point_id

TYPES = ["uuid", "text", "text", "text", "text[]", "jsonb", "bytea", "bytea"]
"""What PostgreSQL is sent for a point, in its binary form, as it takes it for the columns."""

WORD_TYPES = ["int8[]", "float4[]"]
"""And for each sparse block."""


def row_of(point: Point) -> tuple[object, ...]:
    """What is copied into the table for a point, see `TYPES`.

    Raises
    ------
    ValueError
        If a text holds what PostgreSQL keeps in none.
    """
    passage = point.passage
    metadata = json.dumps(passage.metadata)
    if "\0" in passage.id + passage.text + metadata or "\\u0000" in metadata:
        raise ValueError(f"passage {passage.id!r}: PostgreSQL keeps no text with a NUL character.")
    return (
        UUID(point_id(passage.id)),
        passage.id,
        passage.text,
        metadata,
        facts_of(passage.metadata),
        numbers_of(passage.metadata),
        _sendable(point.mean),
        _sendable(point.spread),
        *(
            part
            for words in point.words
            # PostgreSQL's whole numbers have a sign.
            for part in (words.keys.view(np.int64).tolist(), words.counts.tolist())
        ),
    )


def literal(vector: FloatArray) -> str:
    """A vector as pgvector reads it."""
    return json.dumps(vector.tolist())


def point_of(row: Sequence[Any]) -> Point:
    """The point of id, text, metadata, mean and spread, and each block's terms and counts."""
    id_, text, metadata, mean, spread, *rest = row
    return Point(Passage(id_, text, metadata), _sent(mean), _sent(spread), _words_of(rest))


def near_of(rows: Sequence[Sequence[Any]], vectors: int) -> Near:
    """Candidates of so many products, and each block's terms and counts."""
    products = np.array([row[:vectors] for row in rows], np.float32).reshape(-1, vectors).T
    return Near(products, [_words_of(row[vectors:]) for row in rows if len(row) > vectors])


def _sendable(vector: FloatArray) -> bytes:
    """A vector as pgvector takes and sends it: its length, nothing, and its numbers."""
    return struct.pack(">HH", len(vector), 0) + vector.astype(">f4").tobytes()


def _sent(vector: bytes) -> FloatArray:
    """The vector of what `_sendable` returns."""
    return np.frombuffer(vector, ">f4", offset=4).astype(np.float32)


def _words_of(columns: Sequence[Any]) -> tuple[Words, ...]:
    return tuple(
        Words(np.array(keys, np.int64).view(np.uint64), np.array(counts, np.float32))
        for keys, counts in zip(columns[::2], columns[1::2], strict=True)
    )
