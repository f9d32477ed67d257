"""The shared parts of the adapters: an embedding of a framework as an ensemble or an index."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Self

from uec_rag.encoders.black_box import BlackBoxEncoder, is_langchain, is_llama_index
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.sources import Source, SourceStore, Vectors
from uec_rag.stores.base import Store


class OverIndex:
    """The methods that all classes of the adapters over an index have."""

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        raise NotImplementedError

    @property
    def report(self) -> str:
        """The description of what relevance and confidence are based on."""
        return self.index.report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save passages, vectors and ensemble to a folder, atomically; see `Retriever.save`."""
        self.index.save(path)

    def calibrate(
        self, queries: Sequence[str], relevant_ids: Sequence[Collection[str]], **options: Any
    ) -> Self:
        """Fit relevance and confidence to labelled queries, see `Retriever.calibrate`."""
        self.index.calibrate(queries, relevant_ids, **options)
        return self


def in_thread(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the asynchronous twin of a method, which runs it in a thread."""

    @wraps(method)
    async def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await asyncio.to_thread(method, *args, **kwargs)

    return run


def as_ensemble(value: object, *, words: bool = True) -> UEC:
    """Convert a value to an ensemble.

    None is converted to `UEC()`, and an embedding to an ensemble without a fit, which an index
    makes at its first search (`Retriever.fit_from`).

    Parameters
    ----------
    value : UEC, UECEmbeddings, UECEmbedding, embedding of LangChain or LlamaIndex, or None
    words : bool
        Whether words are compared beside an embedding.

    Raises
    ------
    TypeError
        If the value is none of these.
    """
    if value is None:
        return UEC()
    known = getattr(value, "uec", value)
    if isinstance(known, UEC):
        return known
    if not (is_langchain(value) or is_llama_index(value)):
        raise TypeError(
            "uec, embedding: expected a UEC, or an embedding of LangChain or LlamaIndex, got "
            f"{type(value).__name__} {value!r:.60}; make an ensemble with UEC([encoder, ...])."
        )
    ensemble = UEC([value, "bm25"] if words else [value])
    ensemble._warned = True  # do not warn that it is not fitted yet
    return ensemble


def as_judge(embedding: object) -> UEC | None:
    """Return the ensemble of `as_ensemble` that judges other retrievers' hits; None for None."""
    return None if embedding is None else as_ensemble(embedding)


def as_index(
    value: object, store: Store | None = None, *, words: bool = True, fit: bool = True
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


def index_over(
    source: Source,
    embedding: object,
    own: object,
    vectors: Vectors | None = None,
    *,
    words: bool = True,
    fit: bool = True,
) -> Retriever:
    """Return an index over a source of candidates.

    Parameters
    ----------
    source : Source
    embedding : UEC, embedding or None
        Makes the ensemble; by default the source's own.
    own : embedding or None
        The source's own, whose vectors are used if it is the first encoder.
    vectors : Vectors, optional
        Returns vectors that the first encoder made, in place of the source's own.
    words, fit : bool
        As in `as_index`.

    Raises
    ------
    TypeError, ValueError
        Those of `as_ensemble`, or if there is no embedding.
    """
    if embedding is None and own is None:
        raise ValueError(
            f"embedding: {source.name} come without one; pass a UEC, or the embedding of the store."
        )
    uec = as_ensemble(own if embedding is None else embedding, words=words)
    first = uec.encoders[0]
    if vectors is None and isinstance(first, BlackBoxEncoder) and first.source is own:
        vectors = source.vectors
    return Retriever(uec, SourceStore(uec, replace(source, vectors=vectors)), fit=fit)
