"""Queries of a Qdrant collection."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from uec_rag.base.gaussian import FloatArray
from uec_rag.stores import filters
from uec_rag.stores.base import stored_passage
from uec_rag.stores.qdrant.points import CollectionSchema, Point, Words, point_id

MEAN, SCALES = "mean", "scales"
_EXACT = "metadata_json"
PASSAGE = ["id", "text", _EXACT, "about"]
"""The keys of a point's payload that make up a passage."""


def words_name(block: int) -> str:
    """Return the name of a sparse block's vector, and of its terms in the payload."""
    return f"words{block}"


def sparse(keys: NDArray[np.uint64], weights: FloatArray) -> models.SparseVector:
    """Convert terms to Qdrant's sparse vector, whose indices have 32 bits.

    Terms whose lower 32 bits are equal are added up, which affects the choice of candidates only.
    """
    indices, positions = np.unique(keys.astype(np.uint32), return_inverse=True)
    values = np.bincount(positions, weights=weights, minlength=len(indices))
    return models.SparseVector(indices=indices.tolist(), values=values.tolist())


FACTS = "facts"
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def qdrant_filter(condition: filters.Condition | filters.AnyFact) -> models.Filter:
    """Translate a condition to a filter of Qdrant.

    ValueError if Qdrant cannot run it: a callable, a comparison of texts by order, or a search for
    a part of a text under a key with a quotation mark or a backslash.
    """
    match filters.rewrite_by_facts(condition, "Qdrant"):
        case filters.And(conditions):
            return models.Filter(must=[qdrant_filter(one) for one in conditions])
        case filters.Or(conditions):
            if not conditions:
                return models.Filter(must=[models.HasIdCondition(has_id=[])])
            return models.Filter(should=[qdrant_filter(one) for one in conditions])
        case filters.Not(one):
            return models.Filter(must_not=[qdrant_filter(one)])
        case filters.HasId(ids):
            return models.Filter(must=[models.HasIdCondition(has_id=[*map(point_id, ids)])])
        case filters.AnyFact(facts):
            return _all(_fact(*facts))
        case filters.HasPart(item, key, part):
            if {*'"\\'} & {*key}:
                raise ValueError(
                    "filter: Qdrant cannot search parts of a text under a key with a quotation "
                    f"mark or a backslash, got {key!r}; rename it."
                )
            text = models.FieldCondition(
                key=f'metadata."{key}"', match=models.MatchSubstring(substring=part)
            )
            whole = models.Filter(must=[text], must_not=[_fact(filters.fact("list", key))])
            return models.Filter(should=[_fact(item), whole])
        case filters.Bound(key, operator, limit):
            if isinstance(limit, str):
                raise ValueError(
                    f"filter: Qdrant orders numbers only, got {operator} {limit!r:.60} for "
                    f"{key!r:.60}; store a number, such as a timestamp, under another key."
                )
            bound = models.Range(**{_BOUNDS[operator]: limit})
            name = f"numbers.{filters.field(key)}"
            return _all(models.FieldCondition(key=name, range=bound))


def _fact(*facts: str) -> models.FieldCondition | models.HasIdCondition:
    if not facts:
        return models.HasIdCondition(has_id=[])
    return models.FieldCondition(key=FACTS, match=models.MatchAny(any=list(facts)))


def _all(condition: models.FieldCondition | models.HasIdCondition) -> models.Filter:
    return models.Filter(must=[condition])


def struct_of(point: Point, schema: CollectionSchema) -> models.PointStruct:
    """Return the record of a point, with its terms as a sparse vector and as counts."""
    vector: dict[str, Any] = {MEAN: point.mean.tolist(), SCALES: point.scales.tolist()}
    passage = point.passage
    payload: dict[str, Any] = {
        **passage.record,
        # Qdrant returns one in ten floats with another last digit.
        _EXACT: json.dumps(passage.metadata),
        FACTS: filters.facts_of(passage.metadata),
        "numbers": filters.numbers_of(passage.metadata),
    }
    for block, (terms, words) in enumerate(zip(schema.words, point.words, strict=True)):
        if len(words.keys):
            vector[words_name(block)] = sparse(words.keys, terms.saturate(words))
        payload[words_name(block)] = {
            # Qdrant has no unsigned integers.
            "terms": words.keys.view(np.int64).tolist(),
            "counts": words.counts.tolist(),
            "length": round(float(words.counts.sum())),
        }
    return models.PointStruct(id=point_id(passage.id), vector=vector, payload=payload)


def point_of(point: models.Record | models.ScoredPoint, blocks: int) -> Point:
    """Rebuild a point from its record, with `blocks` sparse blocks if vectors were read."""
    payload, vectors = point.payload, point.vector
    assert payload is not None
    metadata = json.loads(payload[_EXACT])
    passage = stored_passage(payload["id"], payload["text"], metadata, payload["about"])
    if not isinstance(vectors, dict):
        return Point(passage)
    mean, scales = (np.array(vectors[name], dtype=np.float32) for name in (MEAN, SCALES))
    words = (
        Words(
            np.array(block["terms"], dtype=np.int64).view(np.uint64),
            np.array(block["counts"], dtype=np.float32),
        )
        for block in (payload[words_name(number)] for number in range(blocks))
    )
    return Point(passage, mean, scales, tuple(words))
