"""Encode texts without running a model again on those whose vectors are known.

LlamaIndex requests vectors from the embedding, and the store encodes the same texts again for their
variances; over another package's vector store, the candidates of one question are often those of
the next. Recently encoded texts are therefore cached in memory.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders import CachedEncoder, Encoded, Encoder, Role
from uec_rag.encoders.base import TermEncoder, check_vectors
from uec_rag.ensemble.uec import UEC

_SAME = 0.999  # least cosine of two vectors of a text by the same model, whose store may round them

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


def with_caches(uec: UEC) -> UEC:
    """Return a copy of an ensemble that does not encode again what was encoded recently."""
    view = copy.copy(uec)
    view.encoders = _with_caches(uec)
    return view


def encode(uec: UEC, texts: Sequence[str], role: Role) -> list[Gaussian]:
    """Encode texts as `UEC.encode` does, except those that were encoded recently."""
    return with_caches(uec).encode(texts, role)


def encode_with_vectors(
    uec: UEC, texts: Sequence[str], vectors: Sequence[Sequence[float]]
) -> list[Gaussian]:
    """Encode passages as `encode` does, given their vectors by the first encoder, of any length.

    The first of them is compared with an encoding of its text.

    Raises
    ------
    TypeError, ValueError
        If they are not vectors of the first encoder, or do not determine its Gaussians since its
        last layer is not the identity.
    """
    first, *others = _with_caches(uec)
    matrix = check_vectors(vectors, rows=len(texts), encoder=first.name)
    probe = first.encode(texts[:1], "passage")
    if (
        matrix.shape[1:] != probe.embedding.shape[1:]
        or float(matrix[0] @ probe.embedding[0]) < _SAME
        or not np.array_equal(probe.embedding, probe.features)
    ):
        raise ValueError(
            f"vectors: expected those of the first encoder, {first.name!r}, with the identity as "
            f"last layer, but that of {texts[0][:40]!r} differs from what it returns; give `uec` "
            "the store's embedding as first encoder, or leave out `vectors`."
        )
    encoded = [Encoded(matrix, matrix), *(e.encode(texts, "passage") for e in others)]
    return uec.fitted.gaussians(encoded)


def _with_caches(uec: UEC) -> list[Encoder]:
    """Return the encoders of an ensemble with a cache of texts, as long as it lives."""
    with _MAKING:
        if uec not in _MEMBERS:
            _MEMBERS[uec] = [
                encoder
                if isinstance(encoder, (CachedEncoder, TermEncoder))
                else CachedEncoder(encoder, None)
                for encoder in uec.encoders
            ]
        return _MEMBERS[uec]
