"""Conversion of LlamaIndex queries: their filters and modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from uec_rag.base.checks import check_type
from uec_rag.base.gaussian import FloatArray, as_matrix
from uec_rag.retrieval import Retriever
from uec_rag.stores.base import Filter

_SAME_OPERATOR = {
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
            return {"$or": [{key: {"$contains": text}} for text in value]}
        case FilterOperator.ALL if isinstance(value, list):
            there = {key: {"$exists": True}}
            return {"$and": [there, *({key: {"$contains": text}} for text in value)]}
        case FilterOperator.IS_EMPTY:
            empty: list[dict[str, Any]] = [{"$eq": ""}, {"$eq": []}, {"$exists": False}]
            return {"$or": [{key: fields} for fields in empty]}
        case kind if kind in _SAME_OPERATOR:
            return {key: {_SAME_OPERATOR[kind]: value}}
    return _predicate(filter_)


def _predicate(filter_: MetadataFilter) -> dict[str, Any]:
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup = cast(Callable[[str], Mapping[str, Any]], attrgetter("metadata"))
    return {"$where": build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_]))}


ALIKE = 0.3
"""The cosine that vectors of different models do not reach by chance, from 256 dimensions on."""


_MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)


def check_asked(
    index: Retriever, query: VectorStoreQuery
) -> tuple[str, FloatArray | None, Filter | None]:
    """Check a query; return its text or "", its vector, shape (1, d), or None, and its filter.

    Next to a text, the vector is ignored: LlamaIndex passes the first one computed for a question
    to all retrievers, so it may be of another index's model.

    Raises
    ------
    TypeError, ValueError
        If the mode is unknown, if the query has neither a text nor a vector of the right dimension,
        or if its filters are not valid or not supported by the store.
    """
    uec, text = index.uec, query.query_str or ""
    if query.mode not in _MODES:
        raise ValueError(
            f"mode: expected one of {[mode.value for mode in _MODES]}, got {query.mode!r}; for "
            "other weights of words and vectors, use a store over Retriever.with_weights(...)."
        )
    where = passage_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
    index._check_filter(where)
    if text:
        return text, None, where
    if query.query_embedding is None:
        raise ValueError("query: query_str is empty and query_embedding None; pass one.")
    vector = as_matrix([query.query_embedding], "query_embedding")
    if vector.shape[1] != uec.dimension:
        raise ValueError(
            f"query_embedding: expected {uec.dimension} numbers, the ensemble's dimension, got "
            f"{vector.shape[1]}; embed with UECEmbedding, or pass query_str."
        )
    return "", vector, where


def likeness(vectors: FloatArray, means: FloatArray) -> FloatArray:
    """Return the cosines of vectors with others, row by row; a single row is compared with each."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(means, axis=1)
    cosines: FloatArray = (vectors * means).sum(axis=1) / np.maximum(lengths, np.float32(1e-12))
    return cosines
