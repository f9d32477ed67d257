"""The options that calls of LangChain's classes take, by which types are checked."""

from __future__ import annotations

from typing import Any, TypedDict

from uec_rag.confidence.replies import Within
from uec_rag.retrieval.fitting import FitMode
from uec_rag.stores.base import Filter, Store
from uec_rag.stores.stored import Vectors


class Shown(TypedDict, total=False):
    """The parameters of a `UECRetriever` besides its store and k."""

    filter: Filter | None
    tenant: Filter | None
    details: bool
    search_type: str
    search_kwargs: dict[str, Any]
    tags: list[str] | None
    metadata: dict[str, Any] | None
    name: str | None


class Parameters(Shown, total=False):
    """The parameters of a `UECRetriever` besides its store."""

    k: int


class Kept(TypedDict, total=False):
    """The options of making an index, besides its embedding."""

    store: Store | None
    words: bool
    fit: FitMode


class Indexed(Kept, Parameters, total=False):
    """The options of `UECRetriever.from_texts`."""


class Loaded(Parameters, total=False):
    """The options of `UECRetriever.load` for what it was made over."""

    candidates: int
    vectors: Vectors | None
    words: bool


class CallOptions(TypedDict, total=False):
    """The options of a call of a retriever or a gate; see `UECRetriever`."""

    k: int | None
    filter: Filter | None
    tenant: Filter | None
    history: object
    within: Within | None
    fetch_k: int
    lambda_mult: float
    score_threshold: float | None
