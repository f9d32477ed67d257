"""Gaussians on their way from `UECEmbedding` to `UECVectorStore`.

LlamaIndex asks the embedding for vectors and brings the store vectors: a variance finds no place in
between. The embedding therefore leaves what it has encoded here, by text, and the store takes it
out, so that the store knows each Gaussian in full and no text is encoded twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from uec_rag.base.gaussian import Gaussian
from uec_rag.encoders import Role
from uec_rag.ensemble import UEC
from uec_rag.laplace.posterior import Posterior

_ROOM = 2**25  # numbers that may wait; 128 MiB, an eighth of what LlamaIndex's own lists take

_Encoded: TypeAlias = tuple[Sequence[Gaussian], int]
"""Each encoder's Gaussians of a batch, and the row of the text."""


class Handover:
    """What was encoded and not yet stored or searched with, the oldest dropped when room is short.

    There is one per ensemble, see `handover`: an embedding and a store need not know each other.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[Role, str], _Encoded] = OrderedDict()
        self._posteriors: tuple[Posterior, ...] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def leave(self, uec: UEC, texts: Sequence[str], role: Role, parts: Sequence[Gaussian]) -> None:
        """Leave each encoder's Gaussians of texts.

        Parameters
        ----------
        uec : UEC
        texts : sequence of str
        role : {"query", "passage"}
        parts : sequence of Gaussian
            As `UEC.encode` returns them for these texts.
        """
        numbers = sum(part.dimension + part.scales.shape[1] for part in parts)
        with self._lock:
            self._drop_outdated(uec)
            for row, text in enumerate(texts):
                self._waiting[role, text] = parts, row
            while len(self._waiting) * numbers > _ROOM:
                self._waiting.popitem(last=False)

    def encode(self, uec: UEC, texts: Sequence[str], role: Role) -> list[Gaussian]:
        """`UEC.encode`, where texts that wait here are taken out instead of encoded."""
        known = self._take(uec, texts, role)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= _rows(missing, uec.encode(missing, role))
        return _gathered([known[text] for text in texts])

    async def aencode(self, uec: UEC, texts: Sequence[str], role: Role) -> list[Gaussian]:
        """`encode` without blocking the event loop."""
        known = self._take(uec, texts, role)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= _rows(missing, await uec.aencode(missing, role))
        return _gathered([known[text] for text in texts])

    def _take(self, uec: UEC, texts: Sequence[str], role: Role) -> dict[str, _Encoded]:
        with self._lock:
            self._drop_outdated(uec)
            keys = {text: (role, text) for text in texts}
            return {t: self._waiting.pop(key) for t, key in keys.items() if key in self._waiting}

    def _drop_outdated(self, uec: UEC) -> None:
        # `UEC.fit` puts new ones in place of the old one.
        if uec.posteriors is not self._posteriors:
            self._waiting.clear()
            self._posteriors = uec.posteriors


_HANDOVERS: WeakKeyDictionary[UEC, Handover] = WeakKeyDictionary()
_MAKING = threading.Lock()


def handover(uec: UEC) -> Handover:
    """Return the handover of an ensemble; it lives as long as the ensemble."""
    with _MAKING:
        return _HANDOVERS.setdefault(uec, Handover())


def _rows(texts: Sequence[str], parts: Sequence[Gaussian]) -> dict[str, _Encoded]:
    return {text: (parts, row) for row, text in enumerate(texts)}


def _gathered(encoded: Sequence[_Encoded]) -> list[Gaussian]:
    """One batch per encoder out of rows of several batches."""
    out = []
    for k, first in enumerate(encoded[0][0]):
        mean = np.stack([parts[k].mean[row] for parts, row in encoded])
        scales = np.stack([parts[k].scales[row] for parts, row in encoded])
        out.append(
            Gaussian(mean, scales)
            if first.profile is None
            else Gaussian.factored(mean, scales, first.profile)
        )
    return out
