"""Indexes made of what a framework passes: an embedding, a folder, or a source of candidates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Self, TypedDict, TypeVar, cast

from uec_rag.base.loops import beside
from uec_rag.encoders.black_box import BlackBoxEncoder, is_langchain, is_llama_index
from uec_rag.encoders.loading import EncoderLike
from uec_rag.ensemble.uec import UEC
from uec_rag.index import learn
from uec_rag.index.first_fit import FitMode
from uec_rag.index.retriever import Retriever
from uec_rag.stores.base import Store
from uec_rag.stores.passage import Passage
from uec_rag.stores.source import SourceStore
from uec_rag.stores.stored import Source, Vectors

_T = TypeVar("_T")


def in_thread(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the asynchronous twin of a method, which runs it in a thread."""

    @wraps(method)
    async def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await beside(method, *args, **kwargs)

    return run


def made_in_thread(make: Any) -> Any:  # noqa: ANN401
    """Return the asynchronous twin of a class method that makes something."""
    return classmethod(in_thread(make.__func__))


class OverIndex:
    """The base of all classes of the adapters over an index."""

    _index: Retriever

    @property
    def index(self) -> Retriever:
        """The underlying index."""
        return self._index

    @property
    def report(self) -> str:
        """The description of what relevance and confidence are based on."""
        return self.index.report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save passages, vectors and ensemble to a folder, atomically; see `Retriever.save`."""
        self.index.save(path)


class FitFrom(OverIndex):
    """The base of the retrievers of the adapters."""

    _passages: Callable[[Any], list[Passage]]
    tenant_required: bool

    def _search_in(self, index: Retriever) -> None:
        """Search another index from now on."""
        self._index = index

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the index as in `Retriever.save`, which requires a tenant if this does."""
        self.index.save(path, tenant_required=self.tenant_required or None)

    def fit_from(self, documents: object = None, *, show_progress: bool | None = None) -> Self:
        """Fit the ensemble without labels on documents, nodes, or its own passages.

        See `Retriever.fit_from`.
        """
        passages = None if documents is None else self._passages(documents)
        self.index.fit_from(passages, show_progress=show_progress)
        return self

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        embedding: object = None,
        *,
        over: object = None,
        read_only: bool = False,
        encoders: Mapping[str, EncoderLike] | None = None,
        store: Store | None = None,
        trust: bool = False,
        fit: FitMode = True,
        **kwargs: Any,
    ) -> Self:
        """Load a retriever from a folder that `save`, here or of another class, has written.

        Parameters
        ----------
        path : path
        embedding : UEC or embedding, optional
            The embedding that the index was made with, if it cannot be loaded by its name.
        over : store, index or retriever, optional
            What it was made over, by `over`, whose parameters `**kwargs` may have then.
        read_only, encoders, store, trust, fit
            As in `Retriever.load`.
        **kwargs
            Parameters of the class.
        """
        options: dict[str, Any] = {"read_only": read_only, "encoders": encoders, "store": store}
        options |= {"trust": trust, "fit": fit}
        make: Any = cls  # which the adapters extend
        if over is None:
            retriever = make._made_of(load_index(path, embedding, options), **kwargs)
        else:
            retriever = make.over(over, embedding, fit=False, **kwargs)
            retriever._search_in(load_over(path, retriever.index, options))
        return cast(Self, retriever._with_usual_filter())

    aload = made_in_thread(load)


def in_thread_once_fitted(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the asynchronous twin of a method that searches an index of ours, see `in_thread`.

    It waits for the fit of the first search in no thread of the event loop.
    """

    @wraps(method)
    async def run(self: OverIndex, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        await self.index.afit_once()
        return await beside(method, self, *args, **kwargs)

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
    uec = getattr(value, "uec", value)
    if isinstance(uec, UEC):
        return uec
    if not (is_langchain(value) or is_llama_index(value)):
        raise TypeError(
            "uec, embedding: expected a UEC, or an embedding of LangChain or LlamaIndex, got "
            f"{type(value).__name__} {value!r:.60}; make an ensemble with UEC([encoder, ...])."
        )
    return UEC([value, "bm25"] if words else [value])


def as_judge(embedding: object) -> UEC | None:
    """Return the ensemble of `as_ensemble` that judges other retrievers' hits; None for None."""
    return None if embedding is None else as_ensemble(embedding)


def as_index(
    value: object, store: Store | None = None, *, words: bool = True, fit: FitMode = True
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


class MakeOptions(TypedDict, total=False):
    """The options of `as_index`, which all classes of the adapters have that make an index."""

    store: Store | None
    words: bool
    fit: FitMode


def load_index(
    path: str | os.PathLike[str], embedding: object, options: Mapping[str, Any]
) -> Retriever:
    """Load an index from a folder that `save` of any class has written.

    Parameters
    ----------
    path : path
    embedding : UEC, UECEmbeddings, UECEmbedding, embedding or None
        What the index was made with, if it cannot be loaded by its name.
    options : dict
        Those of `Retriever.load`, as are the errors.

    Raises
    ------
    TypeError
        If `embedding` is none, such as a store.
    """
    uec = getattr(embedding, "uec", embedding)
    if uec is None or isinstance(uec, UEC):
        return Retriever.load(path, uec, **options)
    if not (is_langchain(embedding) or is_llama_index(embedding) or callable(embedding)):
        kind = type(embedding).__name__
        raise TypeError(f"embedding: expected an embedding, got {kind}; pass a store as over=.")
    encoder = BlackBoxEncoder(embedding)
    encoders = {encoder.name: encoder, **(options.get("encoders") or {})}
    return Retriever.load(path, **{**options, "encoders": encoders})


def load_over(
    path: str | os.PathLike[str], base: Retriever, options: Mapping[str, Any]
) -> Retriever:
    """Load the fit and the gate of an index over a source of candidates, for one made over it.

    `options`: those of `Retriever.load` that are not known of `base`.
    """
    models = dict(zip(base.uec.names, base.uec.encoders, strict=True))
    encoders = options.get("encoders") or models
    loaded = Retriever.load(path, **{**options, "store": base.store, "encoders": encoders})
    if isinstance(loaded.store, SourceStore):
        learn.remember(base.uec, loaded.store, loaded.uec.fitted)
    return loaded


def index_over(
    source: Source,
    embedding: object,
    model: object,
    origin: object,
    vectors: Vectors | None = None,
    *,
    words: bool = True,
    fit: FitMode = True,
) -> Retriever:
    """Return an index over a source of candidates.

    Parameters
    ----------
    source : Source
    embedding : UEC, embedding or None
        Makes the ensemble; by default the source's own.
    model, origin : object
        The source's embedding or None, which embeds each question once if it is the first encoder,
        and has made the source's vectors then; the store.
    vectors : Vectors, optional
        Returns vectors that the encoders made, in place of the source's own.
    words, fit : bool
        As in `as_index`.

    Raises
    ------
    TypeError, ValueError
        Those of `as_ensemble`, or if there is no embedding.
    """
    if embedding is None and model is None:
        raise ValueError(
            f"embedding: {source.name} come without one; pass a UEC, or the embedding of the store."
        )
    uec = as_ensemble(model if embedding is None else embedding, words=words)
    encoder = getattr(uec.encoders[0], "uncached", uec.encoders[0])
    if isinstance(encoder, BlackBoxEncoder) and encoder.source is model:
        vectors = vectors or source.vectors
        if (by_vector := source.find_by_vector) is not None:  # embeds each question once
            find = lambda text, filter: by_vector(encoder.query_vector(text), filter)  # noqa: E731
            source = replace(source, find=find, is_by_encoder=True)
    source = replace(source, vectors=vectors, embedding=model, stored=source.vectors, origin=origin)
    return Retriever(uec, SourceStore(uec.with_cache().encoders, source), fit=fit)


def in_chroma(collection: Any) -> tuple[Vectors, Callable[..., list[str]]]:  # noqa: ANN401
    """Return what reads the vectors of a collection of Chroma, and what lists its ids.

    Ids are listed by their largest number and, if it is given, a filter of Chroma.
    """

    def vectors(ids: list[str]) -> Mapping[str, Sequence[float]]:
        records = collection.get(ids=[*ids], include=["embeddings"])
        return dict(zip(records["ids"], records["embeddings"], strict=True))

    def ids(limit: int, where: Mapping[str, Any] | None = None) -> list[str]:
        return [*collection.get(limit=limit, where=where, include=[])["ids"]]

    return vectors, ids
