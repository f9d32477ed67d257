"""Conversion of frameworks' own objects, such as an embedding, to an ensemble or an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Store


def as_ensemble(
    value: object,
    wrapper: type[Any],
    is_embedding: Callable[[object], TypeGuard[EncoderLike]],
    *,
    argument: str,
    expected: str,
) -> UEC:
    """Convert a framework's value to the ensemble that it stands for.

    None stands for `UEC()`. An embedding becomes an ensemble of one member that is not fitted: a
    plain vector search, variance 0.

    Parameters
    ----------
    wrapper : type
        The framework's embedding around an ensemble, its `uec`.
    is_embedding : callable
        Whether a value is an embedding of the framework.
    argument, expected : str
        For the error: the argument's name, and what it may be beside a UEC.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if value is None:
        return UEC()
    if isinstance(value, UEC | wrapper):
        ensemble: UEC = value if isinstance(value, UEC) else value.uec
        return ensemble
    if not is_embedding(value):
        raise TypeError(
            f"{argument}: expected a UEC, {expected}, got {type(value).__name__} {value!r:.60}; "
            "make an ensemble with UEC([encoder, ...])."
        )
    ensemble = UEC([value])
    ensemble._warned = True  # that it is not fitted is no mistake
    return ensemble


def as_index(value: object, store: Store | None, as_ensemble: Callable[[Any], UEC]) -> Retriever:
    """Return an index as it is, or make one over a store with what `as_ensemble` takes.

    Raises TypeError, ValueError as `as_ensemble`, or if there is a store beside an index.
    """
    if not isinstance(value, Retriever):
        return Retriever(as_ensemble(value), store)
    if store is not None:
        raise ValueError(
            "store: a Retriever has a store already; give the store to it: Retriever(uec, store)."
        )
    return value
