"""The options that calls of LangChain's classes take, by which types are checked."""

from __future__ import annotations

from typing import Any, TypedDict

from uec_rag.confidence.replies import Within
from uec_rag.langchain.documents import turns
from uec_rag.retrieval.diversity import Diversity
from uec_rag.retrieval.learn import FitMode
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


def search_arguments(
    search_type: str,
    *,
    k: int,
    filter: Filter | None,
    tenant: Filter | None,
    history: object = None,
    within: Within | None = None,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
    score_threshold: float | None = None,
) -> dict[str, Any]:
    """Return the arguments of an index's search by the options of a call of a retriever."""
    if score_threshold is not None and search_type != "similarity_score_threshold":
        raise ValueError(
            'score_threshold: it needs search_type="similarity_score_threshold", got '
            f"{search_type!r}."
        )
    return {
        "k": k,
        "filter": filter,
        "tenant": tenant,
        "history": [turns(history)],
        "within": within,
        "diversity": Diversity(fetch_k, lambda_mult) if search_type == "mmr" else None,
    }
