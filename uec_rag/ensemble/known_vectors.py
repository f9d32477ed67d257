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

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders import CachedEncoder, Encoder, Role
from uec_rag.encoders.base import TermEncoder
from uec_rag.ensemble.uec import UEC

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


def with_caches(uec: UEC) -> UEC:
    """Return a copy of an ensemble that does not encode again what was encoded recently.

    The caches live as long as the ensemble.
    """
    with _MAKING:
        if uec not in _MEMBERS:
            _MEMBERS[uec] = [
                encoder
                if isinstance(encoder, (CachedEncoder, TermEncoder))
                else CachedEncoder(encoder, None)
                for encoder in uec.encoders
            ]
    view = copy.copy(uec)
    view.encoders = _MEMBERS[uec]
    return view


def encode(uec: UEC, texts: Sequence[str], role: Role) -> list[Gaussian]:
    """Encode texts as `UEC.encode` does, except those that were encoded recently."""
    return with_caches(uec).encode(texts, role)
