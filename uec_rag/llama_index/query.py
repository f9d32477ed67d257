"""Conversion of LlamaIndex's filters to ours, and of ours to LlamaIndex's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from uec_rag.base.checks import check_type
from uec_rag.stores.base import Filter
from uec_rag.stores.filters import necessary

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}
_THEIRS = {ours: theirs for theirs, ours in _OPERATORS.items()}


def passage_filter(
    filters: MetadataFilters | None = None,
    *,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Filter | None:
    """Combine the restrictions of a LlamaIndex query to one filter; None if there are none.

    Operators have the semantics of LlamaIndex's `SimpleVectorStore`, and groups may be nested.
    Operators that `uec_rag.stores.filters` lacks, such as text matches, become predicates that call
    LlamaIndex's code, for stores in memory.

    `node_ids`: nodes to select; an empty list, as passed by LlamaIndex's index, means all.
    `doc_ids`: documents whose nodes to select. TypeError if `filters` has another type.
    """
    conditions: list[dict[str, Any]] = []
    if filters is not None:
        check_type(filters, MetadataFilters, "filters", "LlamaIndex MetadataFilters")
        conditions.append(_group(filters))
    if node_ids:
        conditions.append({"$id": list(node_ids)})
    if doc_ids is not None:
        conditions.append({"ref_doc_id": {"$in": list(doc_ids)}})
    return {"$and": conditions} if conditions else None


def _group(filters: MetadataFilters) -> dict[str, Any]:
    members = [
        _group(member) if isinstance(member, MetadataFilters) else _leaf(member)
        for member in filters.filters
    ]
    if filters.condition == FilterCondition.OR and members:
        return {"$or": members}
    if filters.condition == FilterCondition.NOT and members:
        return {"$not": {"$or": members}}
    return {"$and": members}


def _leaf(filter_: MetadataFilter) -> dict[str, Any]:
    key, value, operator = filter_.key, filter_.value, _OPERATORS.get(filter_.operator)
    is_plain = isinstance(value, list) == (operator in ("$in", "$nin")) and value is not None
    if operator is not None and is_plain and not key.startswith("$"):  # theirs are any text
        return {key: {operator: value}}
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup = cast(Callable[[str], Mapping[str, Any]], attrgetter("metadata"))
    return {"$where": build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_]))}


def metadata_filters(filter: Filter) -> MetadataFilters | None:
    """Translate what LlamaIndex's filters can say of a filter; None if that is nothing."""
    asked = necessary(filter)
    if asked is None:
        return None
    made = _translate(asked)
    return made if isinstance(made, MetadataFilters) else MetadataFilters(filters=[made])


def _translate(asked: Mapping[str, Any]) -> MetadataFilters | MetadataFilter:
    [(key, value)] = asked.items()
    if key in ("$and", "$or"):
        condition = FilterCondition.AND if key == "$and" else FilterCondition.OR
        return MetadataFilters(filters=[_translate(one) for one in value], condition=condition)
    [(operator, operand)] = value.items()
    return MetadataFilter(key=key, value=operand, operator=_THEIRS[operator])
