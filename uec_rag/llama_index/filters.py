"""LlamaIndex's metadata filters in the form that every store takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from uec_rag.stores.base import Filter, Passage

_SAME = {
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.CONTAINS: "$contains",
}
_ALWAYS: dict[str, Any] = {"$and": []}
_NEVER: dict[str, Any] = {"$or": []}


def passage_filter(
    filters: MetadataFilters | None = None,
    *,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Filter | None:
    """Join what LlamaIndex restricts a query by into one filter; None where it does not.

    Operators mean what they mean in LlamaIndex's own `SimpleVectorStore`. Groups may be nested
    here. What has no equal in `uec_rag.stores.filters` (a text match, which ignores case or fails
    on what is no text) becomes a predicate of LlamaIndex's own code, for stores in memory.

    Parameters
    ----------
    filters : MetadataFilters, optional
    node_ids : sequence of str, optional
        Nodes to choose from. LlamaIndex's own index gives an empty list where it means all.
    doc_ids : sequence of str, optional
        Documents whose nodes to choose from.

    Raises
    ------
    TypeError
        If filters is something else.
    """
    conditions: list[dict[str, Any]] = []
    if filters is not None:
        if not isinstance(filters, MetadataFilters):
            raise TypeError(
                f"filters: expected LlamaIndex MetadataFilters, got {type(filters).__name__}."
            )
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
    if not members:
        return _ALWAYS
    if filters.condition == FilterCondition.OR:
        return {"$or": members}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": members}}
    return {"$and": members}


def _leaf(filter_: MetadataFilter) -> dict[str, Any]:
    key, value = filter_.key, filter_.value
    if key.startswith("$"):  # theirs are any text
        return _predicate(filter_)
    match filter_.operator:
        case FilterOperator.EQ:  # None is no value to LlamaIndex
            return _NEVER if value is None else {key: {"$eq": value}}
        case FilterOperator.NE:
            return _ALWAYS if value is None else {key: {"$ne": value}}
        case FilterOperator.IN if isinstance(value, list):
            return {key: {"$in": value}}
        case FilterOperator.NIN if isinstance(value, list):
            return {key: {"$nin": value}}
        case FilterOperator.ANY if isinstance(value, list):
            return {"$or": [{key: {"$contains": one}} for one in value]}
        case FilterOperator.ALL if isinstance(value, list):
            there = {key: {"$exists": True}}
            return {"$and": [there, *({key: {"$contains": one}} for one in value)]}
        case FilterOperator.IS_EMPTY:
            empty: list[dict[str, Any]] = [{"$eq": ""}, {"$eq": []}, {"$exists": False}]
            return {"$or": [{key: one} for one in empty]}
        case kind if kind in _SAME:
            return {key: {_SAME[kind]: value}}
    return _predicate(filter_)


def _predicate(filter_: MetadataFilter) -> dict[str, Any]:
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup = cast(Callable[[str], Mapping[str, Any]], _metadata)
    return {"$where": build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_]))}


def _metadata(passage: Passage) -> Mapping[str, Any]:
    return passage.metadata
