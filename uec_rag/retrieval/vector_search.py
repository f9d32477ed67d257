"""Search by a query's vector, where its text is not known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.gaussian import Gaussian, as_matrix
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter, Found


def search_vector(
    retriever: Retriever,
    embedding: Sequence[float],
    k: int,
    *,
    filter: Filter | None = None,
) -> Found:
    """Find the k passages of the highest s_hat for one query given as a vector.

    A vector does not tell the query's own variance: it is taken as 0, and sigma_s^2 is that of the
    passages alone. Confidence needs the text, so there is none.

    Parameters
    ----------
    retriever : Retriever
    embedding : sequence of float, length d
        The mean that `UEC.embed` gives for the query. Where all means have length 1, with one
        encoder or in the shared space, it may be of any length but zero.
    k : int
    filter : Filter, optional

    Raises
    ------
    TypeError, ValueError
        If the vector is of another dimension, zero, or not finite, or k < 1.
    """
    check_k(k)
    uec = retriever.uec
    mean = as_matrix([embedding], "embedding")
    if mean.shape[1] != uec.dimension:
        raise ValueError(
            f"embedding: expected {uec.dimension} numbers, the ensemble's dimension, "
            f"got {mean.shape[1]}."
        )
    length = float(np.linalg.norm(mean))
    if not length:
        raise ValueError("embedding: expected a vector with a direction, got zeros.")
    if len(uec.encoders) == 1 or uec.space == "shared":
        mean = mean / np.float32(length)
    query = Gaussian(mean, np.zeros_like(mean))
    return retriever.store.search(query, k, beta=uec.beta, filter=filter)
