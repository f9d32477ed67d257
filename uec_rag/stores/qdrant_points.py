"""Points as Qdrant holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models

from uec_rag.stores.engine_notes import Notes
from uec_rag.stores.engine_points import Near, Point, Words
from uec_rag.stores.point_ids import point_id
from uec_rag.stores.qdrant_filters import passage_of, payload_of
from uec_rag.stores.qdrant_search import MEAN, SPREAD, sparse, words_name


def struct_of(point: Point, notes: Notes) -> models.PointStruct:
    """What is written for a point: its terms both as a vector and as they were."""
    vector: dict[str, Any] = {MEAN: point.mean.tolist(), SPREAD: point.spread.tolist()}
    payload = payload_of(point.passage)
    for block, (noted, words) in enumerate(zip(notes.words, point.words, strict=True)):
        if len(words.keys):
            vector[words_name(block)] = sparse(words.keys, noted.saturated(words))
        payload[words_name(block)] = {
            # Qdrant's whole numbers have a sign.
            "terms": words.keys.view(np.int64).tolist(),
            "counts": words.counts.tolist(),
            "length": round(float(words.counts.sum())),
        }
    return models.PointStruct(id=point_id(point.passage.id), vector=vector, payload=payload)


def point_of(point: models.Record | models.ScoredPoint, blocks: int) -> Point:
    """The point that was written, of so many sparse blocks."""
    vectors: Any = point.vector
    mean, spread = (np.array(vectors[name], dtype=np.float32) for name in (MEAN, SPREAD))
    words = _words_of(point.payload, [*map(words_name, range(blocks))])
    return Point(passage_of(point.payload), mean, spread, words)


def near_of(answers: Sequence[Sequence[models.ScoredPoint]], names: Sequence[str]) -> Near:
    """What comes back of a query's candidates for each vector, their words with the first."""
    scores = [{point.id: point.score for point in points} for points in answers]
    # Others may write between two answers.
    there = [id_ for id_ in scores[0] if all(id_ in of_one for of_one in scores)]
    products = np.array([[of_one[id_] for id_ in there] for of_one in scores], dtype=np.float32)
    payloads = {point.id: point.payload for point in answers[0] if point.payload}
    return Near(products, [_words_of(payloads[id_], names) for id_ in there if payloads])


def _words_of(payload: Mapping[str, Any] | None, names: Sequence[str]) -> tuple[Words, ...]:
    held = [(payload or {})[name] for name in names]
    return tuple(
        Words(
            np.array(of_one["terms"], dtype=np.int64).view(np.uint64),
            np.array(of_one["counts"], dtype=np.float32),
        )
        for of_one in held
    )
