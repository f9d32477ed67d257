"""LlamaIndex's metadata filters on the passages of an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from uec_rag.stores.base import Passage

Predicate: TypeAlias = Callable[[Passage], bool]


def passage_filter(
    filters: MetadataFilters | None = None,
    *,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
) -> Predicate | None:
    """Join what LlamaIndex restricts a query by into one predicate; None where it does not.

    Operators mean what they mean in LlamaIndex's own `SimpleVectorStore`, whose code decides them.
    Groups may be nested here.

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
    tests: list[Predicate] = []
    if filters is not None:
        if not isinstance(filters, MetadataFilters):
            raise TypeError(
                f"filters: expected LlamaIndex MetadataFilters, got {type(filters).__name__}."
            )
        tests.append(_group(filters))
    if node_ids:
        nodes = frozenset(node_ids)
        tests.append(lambda passage: passage.id in nodes)
    if doc_ids is not None:
        documents = frozenset(doc_ids)
        tests.append(lambda passage: passage.metadata.get("ref_doc_id") in documents)
    if not tests:
        return None
    return lambda passage: all(test(passage) for test in tests)


def _group(filters: MetadataFilters) -> Predicate:
    tests = [
        _group(member) if isinstance(member, MetadataFilters) else _leaf(member)
        for member in filters.filters
    ]
    if not tests:
        return lambda passage: True
    if filters.condition == FilterCondition.OR:
        return lambda passage: any(test(passage) for test in tests)
    if filters.condition == FilterCondition.NOT:
        return lambda passage: not any(test(passage) for test in tests)
    return lambda passage: all(test(passage) for test in tests)


def _leaf(filter_: MetadataFilter) -> Predicate:
    # What LlamaIndex calls a node's id is handed to the first argument and looked at nowhere else,
    # so a passage may take its place: one predicate is made for all of them.
    lookup = cast(Callable[[str], Mapping[str, Any]], _metadata)
    return cast(Predicate, build_metadata_filter_fn(lookup, MetadataFilters(filters=[filter_])))


def _metadata(passage: Passage) -> Mapping[str, Any]:
    return passage.metadata
