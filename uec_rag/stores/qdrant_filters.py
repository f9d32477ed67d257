"""Filters as Qdrant runs them, on the payload that `payload_of` makes."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from uec_rag.stores.base import Passage
from uec_rag.stores.facts import fact, facts_of, field, numbers_of
from uec_rag.stores.filters import Compare, Condition, Every, HasId, Not, Some, Where
from uec_rag.stores.point_ids import point_id

FACTS = "facts"
_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def payload_of(passage: Passage) -> dict[str, Any]:
    """What a point holds beside its vectors."""
    return {
        "id": passage.id,
        "text": passage.text,
        "metadata": passage.metadata,
        FACTS: facts_of(passage.metadata),
        "numbers": numbers_of(passage.metadata),
    }


def passage_of(payload: dict[str, Any] | None) -> Passage:
    """The passage that a point holds."""
    assert payload is not None
    return Passage(payload["id"], payload["text"], payload["metadata"])


def known(key: str) -> models.Filter:
    """What passages have a metadata key."""
    return _all(_fact(fact("key", key)))


def having(key: str, number: int) -> models.Filter:
    """What has a whole number among those of a key of the payload."""
    return _all(models.FieldCondition(key=key, match=models.MatchValue(value=number)))


def qdrant_filter(condition: Condition) -> models.Filter:
    """Translate a condition.

    Raises
    ------
    ValueError
        If Qdrant cannot run it: a callable, an order of what are no numbers, a part of a text
        under a key with a quotation mark.
    """
    match condition:
        case Every(conditions):
            return models.Filter(must=[qdrant_filter(one) for one in conditions])
        case Some(conditions):
            if not conditions:
                return models.Filter(must=[models.HasIdCondition(has_id=[])])
            return models.Filter(should=[qdrant_filter(one) for one in conditions])
        case Not(one):
            return models.Filter(must_not=[qdrant_filter(one)])
        case HasId(ids):
            return models.Filter(must=[models.HasIdCondition(has_id=[*map(point_id, ids)])])
        case Where():
            raise ValueError(
                "filter: a callable runs in Python and a Qdrant collection does not; use operators "
                "(uec_rag.stores.filters) or a MemoryStore."
            )
        case Compare():
            return _compared(condition)


def _compared(condition: Compare) -> models.Filter:
    key, value = condition.key, condition.value
    match condition.operator:
        case "$eq":
            return _all(_fact(fact("is", key, value)))
        case "$ne":
            return models.Filter(must_not=[_fact(fact("is", key, value))])
        case "$in":
            return _all(_fact(*(fact("is", key, one) for one in value)))
        case "$nin":
            return models.Filter(must_not=[_fact(*(fact("is", key, one) for one in value))])
        case "$exists":
            there = _fact(fact("there", key))
            return models.Filter(must=[there]) if value else models.Filter(must_not=[there])
        case "$contains":
            has = _fact(fact("has", key, value))
            if not isinstance(value, str):
                return _all(has)
            if '"' in key:
                raise ValueError(
                    f"filter: Qdrant looks for no part of a text under a key with a quotation "
                    f"mark, got {key!r}; name it otherwise."
                )
            text = models.FieldCondition(
                key=f'metadata."{key}"', match=models.MatchSubstring(substring=value)
            )
            part = models.Filter(must=[text], must_not=[_fact(fact("list", key))])
            return models.Filter(should=[has, part])
    if not isinstance(value, int | float):
        raise ValueError(
            f"filter: Qdrant orders numbers only, got {condition.operator} {value!r:.60} for "
            f"{key!r}; keep a number (a timestamp, say) beside it."
        )
    bound = models.Range(**{_BOUNDS[condition.operator]: float(value)})
    return _all(models.FieldCondition(key=f"numbers.{field(key)}", range=bound))


def _fact(*facts: str) -> models.FieldCondition | models.HasIdCondition:
    if not facts:
        return models.HasIdCondition(has_id=[])
    return models.FieldCondition(key=FACTS, match=models.MatchAny(any=list(facts)))


def _all(condition: models.FieldCondition | models.HasIdCondition) -> models.Filter:
    return models.Filter(must=[condition])
