"""Conversion of LlamaIndex queries: their filters, modes and Gaussians."""

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
from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble import UEC
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
            return {"$or": [{key: {"$contains": one}} for one in value]}
        case FilterOperator.ALL if isinstance(value, list):
            there = {key: {"$exists": True}}
            return {"$and": [there, *({key: {"$contains": one}} for one in value)]}
        case FilterOperator.IS_EMPTY:
            empty: list[dict[str, Any]] = [{"$eq": ""}, {"$eq": []}, {"$exists": False}]
            return {"$or": [{key: one} for one in empty]}
        case kind if kind in _SAME_OPERATOR:
            return {key: {_SAME_OPERATOR[kind]: value}}
    return _predicate(filter_)


def _predicate(filter_: MetadataFilter) -> dict[str, Any]:
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup = cast(Callable[[str], Mapping[str, Any]], attrgetter("metadata"))
    return {"$where": build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_]))}


_SAME = 1e-4  # tolerance between copies of a vector after averaging and conversion to JSON
ALIKE = 0.3
"""The cosine that vectors of different models do not reach by chance, from 256 dimensions on."""


_WORDS = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_MODES = (
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.MMR,
    VectorStoreQueryMode.HYBRID,
    *_WORDS,
)


def check_asked(
    index: Retriever, query: VectorStoreQuery
) -> tuple[str, FloatArray | None, Filter | None]:
    """Check a query; return its text or "", its vector, shape (1, d), or None, and its filter.

    LlamaIndex passes the first vector computed for a question to all retrievers. Hence, next to a
    text, a vector of another dimension is from another index's model, and is ignored.

    Raises
    ------
    TypeError, ValueError
        If the mode is unknown or the ensemble has no members for it, if the query has neither a
        text nor a vector of the right dimension, or if its filters are not valid or not supported
        by the store.
    """
    uec, text = index.uec, query.query_str or ""
    _check_mode(uec, query)
    where = passage_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
    index.check_filter(where)
    if query.query_embedding is None:
        if not text:
            raise ValueError("query: query_str is empty and query_embedding None; pass one.")
        return text, None, where
    vector = as_matrix([query.query_embedding], "query_embedding")
    if vector.shape[1] == uec.dimension:
        return text, vector, where
    if not text:
        raise ValueError(
            f"query_embedding: expected {uec.dimension} numbers, the ensemble's dimension, got "
            f"{vector.shape[1]}; embed with UECEmbedding, or pass query_str."
        )
    return text, None, where


def _check_mode(uec: UEC, query: VectorStoreQuery) -> None:
    if query.mode not in _MODES:
        raise ValueError(
            f"mode: expected one of {[mode.value for mode in _MODES]}, got {query.mode!r}."
        )
    mode = VectorStoreQueryMode(query.mode).value
    if query.mode in (VectorStoreQueryMode.HYBRID, *_WORDS):
        if not any(_wordwise(uec)):
            raise ValueError(
                f"mode: {mode!r} searches for words, but the ensemble {uec.names} does not; add "
                "'bm25' to its members."
            )
        if not query.query_str:
            raise ValueError(f"query: mode {mode!r} needs query_str, the words.")
    if query.alpha is not None and not 0 <= query.alpha <= 1:
        raise ValueError(f"alpha: expected a number from 0 to 1, got {query.alpha}.")


def mode_weights(uec: UEC, query: VectorStoreQuery) -> dict[str, float] | None:
    """Return the weight of each member in the query's mode; None for the ensemble's own weights."""
    wordwise = _wordwise(uec)
    if query.mode in _WORDS:
        alpha = 0.0
    elif query.mode == VectorStoreQueryMode.HYBRID and query.alpha is not None:
        alpha = query.alpha if not all(wordwise) else 0.0
    else:
        return None
    words = sum(wordwise)
    return {
        name: (1 - alpha) / words if is_words else alpha / (len(wordwise) - words)
        for name, is_words in zip(uec.names, wordwise, strict=True)
    }


def _wordwise(uec: UEC) -> list[bool]:
    return [isinstance(encoder, TermEncoder) for encoder in uec.encoders]


def is_of(vector: FloatArray, uec: UEC, parts: Sequence[Gaussian]) -> bool:
    """Return whether a vector is that of `UECEmbedding` for the query with these Gaussians."""
    mean = uec.combine(parts, uec.coefficients(parts, "query")).mean
    return bool(np.allclose(vector, mean, atol=_SAME))


def likeness(vectors: FloatArray, means: FloatArray) -> FloatArray:
    """Return the cosines of vectors with others, row by row; a single row is compared with each."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(means, axis=1)
    cosines: FloatArray = (vectors * means).sum(axis=1) / np.maximum(lengths, np.float32(1e-12))
    return cosines


def averaged(parts: Sequence[Gaussian]) -> list[Gaussian]:
    """Average the Gaussians of the n texts of one query, for each encoder."""
    count = np.float32(len(parts[0]))
    out = []
    for part in parts:
        mean = part.mean.mean(axis=0, keepdims=True)
        scales = part.scales.sum(axis=0, keepdims=True) / count**2
        terms = [block.averaged for block in part.terms]
        out.append(Gaussian.factored(mean, scales, part.profile, terms=terms))
    return out
