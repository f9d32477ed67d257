"""Points as rows of a table of PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores.base import Passage
from uec_rag.stores.engine import Point
from uec_rag.stores.facts import facts_of, numbers_of
from uec_rag.stores.point_ids import point_id


def row_of(point: Point) -> tuple[object, ...]:
    """What is copied into the table for a point.

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
        point_id(passage.id),
        passage.id,
        passage.text,
        metadata,
        facts_of(passage.metadata),
        json.dumps(numbers_of(passage.metadata)),
        literal(point.mean),
        literal(point.spread),
    )


def literal(vector: FloatArray) -> str:
    """A vector as pgvector reads it."""
    return json.dumps(vector.tolist())


def point_of(row: Sequence[Any]) -> Point:
    """The point of id, text, metadata, mean and spread."""
    id_, text, metadata, mean, spread = row
    return Point(
        Passage(id_, text, metadata), np.array(mean, np.float32), np.array(spread, np.float32)
    )
