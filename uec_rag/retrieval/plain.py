"""Conversion of objects of frameworks, such as an embedding, to an ensemble or an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeGuard

from uec_rag.encoders.black_box import BlackBoxEncoder
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.sources import Source, SourceStore, Vectors
from uec_rag.stores.base import Store


def as_ensemble(
    value: object,
    wrapper: type[Any],
    is_embedding: Callable[[object], TypeGuard[EncoderLike]],
    *,
    argument: str,
    expected: str,
    words: bool = True,
) -> UEC:
    """Convert a value to an ensemble.

    None is converted to `UEC()`, and an embedding to an ensemble without a fit, which an index
    makes at its first search (`Retriever.fit_from`).

    Parameters
    ----------
    value : UEC, wrapper, embedding or None
    wrapper : type
        The framework's embedding class that wraps an ensemble as `uec`.
    is_embedding : callable
        Returns whether a value is an embedding of the framework.
    argument, expected : str
        For the error message: name of the argument, and what is accepted besides a UEC.
    words : bool
        Whether words are compared beside an embedding.

    Raises
    ------
    TypeError
        If the value is none of these.
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
    ensemble = UEC([value, "bm25"] if words else [value])
    ensemble._warned = True  # do not warn that it is not fitted yet
    return ensemble


def index_over(
    uec: UEC, source: Source, embedding: object, vectors: Vectors | None, *, fit: bool
) -> Retriever:
    """Return an index over a source of candidates.

    Parameters
    ----------
    uec : UEC
    source : Source
        Its own vectors are used if `embedding`, which made them, is the first encoder.
    embedding : object
    vectors : Vectors, optional
        Returns vectors that the first encoder made, in place of the source's own.
    fit : bool
        Whether the first search may fit the ensemble.
    """
    first = uec.encoders[0]
    if vectors is not None:
        source = replace(source, vectors=vectors)
    elif not (isinstance(first, BlackBoxEncoder) and first.source is embedding):
        source = replace(source, vectors=None)
    return Retriever(uec, SourceStore(uec, source), fit=fit)


def as_index(
    value: object,
    store: Store | None,
    as_ensemble: Callable[..., UEC],
    *,
    words: bool = True,
    fit: bool = True,
) -> Retriever:
    """Return a Retriever unchanged, or make one from a value that `as_ensemble` converts.

    `words`: as in `as_ensemble`. `fit`: whether the first search may fit the ensemble. Raises the
    errors of `as_ensemble`, and ValueError if both a Retriever and a store are given.
    """
    if not isinstance(value, Retriever):
        return Retriever(as_ensemble(value, words=words), store, fit=fit)
    if store is not None:
        raise ValueError(
            "store: a Retriever has a store already; give the store to it: Retriever(uec, store)."
        )
    return value
