"""What LlamaIndex asks with, as the encoders' Gaussians of one query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from uec_rag.base.gaussian import FloatArray, Gaussian, as_matrix
from uec_rag.encoders.base import WithoutVectors
from uec_rag.ensemble import UEC
from uec_rag.llama_index.filters import passage_filter
from uec_rag.retrieval import Retriever
from uec_rag.stores.base import Filter

_SAME = 1e-4  # how far apart two copies of one vector may be after averaging and JSON


def check_query(uec: UEC, query: VectorStoreQuery) -> tuple[str, FloatArray | None]:
    """Return a query's text, or "", and its vector, shape (1, d), or None.

    A vector of another dimension next to a text comes from another index's model and is left out:
    LlamaIndex keeps the first vector it made of a question for all retrievers.

    Raises
    ------
    ValueError
        If the query has neither, or only a vector of another dimension.
    """
    text = query.query_str or ""
    if query.query_embedding is None:
        if not text:
            raise ValueError("query: query_str is empty and query_embedding None; give one.")
        return text, None
    vector = as_matrix([query.query_embedding], "query_embedding")
    if vector.shape[1] == uec.dimension:
        return text, vector
    if not text:
        raise ValueError(
            f"query_embedding: expected {uec.dimension} numbers, the ensemble's dimension, got "
            f"{vector.shape[1]}; embed with UECEmbedding, or give query_str."
        )
    return text, None


def check_asked(
    index: Retriever, query: VectorStoreQuery
) -> tuple[str, FloatArray | None, Filter | None]:
    """Check all that a query asks for, before anything is encoded for it.

    Returns
    -------
    text, vector
        As `check_query`.
    filter : Filter or None

    Raises
    ------
    TypeError, ValueError
        As `check_mode` and `check_query`, or if its filters are none, or of a kind that the
        index's store cannot run.
    """
    check_mode(index.uec, query)
    where = passage_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
    index.check_filter(where)
    return *check_query(index.uec, query), where


_WORDS = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_MODES = (
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.MMR,
    VectorStoreQueryMode.HYBRID,
    *_WORDS,
)


def check_mode(uec: UEC, query: VectorStoreQuery) -> None:
    """Raise ValueError unless the query's mode is known and the ensemble has members for it."""
    if query.mode not in _MODES:
        raise ValueError(
            f"mode: expected one of {[mode.value for mode in _MODES]}, got {query.mode!r}."
        )
    mode = VectorStoreQueryMode(query.mode).value
    if query.mode in (VectorStoreQueryMode.HYBRID, *_WORDS):
        if not any(_wordwise(uec)):
            raise ValueError(
                f"mode: {mode!r} looks for words, and the ensemble {uec.names} does not; add "
                "'bm25' to its members."
            )
        if not query.query_str:
            raise ValueError(f"query: mode {mode!r} needs query_str, the words.")
    if query.alpha is not None and not 0 <= query.alpha <= 1:
        raise ValueError(f"alpha: expected a number from 0 to 1, got {query.alpha}.")


def counted(uec: UEC, query: VectorStoreQuery) -> dict[str, float] | None:
    """How much each member counts in a mode, by name; None: as the ensemble has it."""
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
    return [isinstance(encoder, WithoutVectors) for encoder in uec.encoders]


def is_of(vector: FloatArray, uec: UEC, parts: Sequence[Gaussian]) -> bool:
    """Whether a vector is what `UECEmbedding` makes of the query with these parts."""
    mean = uec.combine(parts, uec.coefficients(parts, "query")).mean
    return bool(np.allclose(vector, mean, atol=_SAME))


def averaged(parts: Sequence[Gaussian]) -> list[Gaussian]:
    """Each encoder's Gaussian of the mean of n independent ones, n texts that make one query."""
    count = np.float32(len(parts[0]))
    out = []
    for part in parts:
        mean = part.mean.mean(axis=0, keepdims=True)
        scales = part.scales.sum(axis=0, keepdims=True) / count**2
        terms = [block.averaged for block in part.terms]
        out.append(
            Gaussian(mean, scales, terms=terms)
            if part.profile is None
            else Gaussian.factored(mean, scales, part.profile, terms=terms)
        )
    return out
