"""An encoder whose latest answers stay in memory: many systems ask for the same texts."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside

_KEPT = 24  # lists of texts: what all systems ask for on a few tasks


class RememberedEncoder(EncoderInside):
    """An encoder that keeps its answers to the last few lists of texts.

    Parameters
    ----------
    encoder : Encoder
        The one to ask for what is not remembered.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self._kept: OrderedDict[tuple[Role, tuple[str, ...]], Encoded] = OrderedDict()

    @property
    def revision(self) -> str:
        """Revision of the encoder inside."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, from memory where this very list was asked for lately."""
        key = (role, tuple(texts))
        if key not in self._kept:
            self._kept[key] = self._encoder.encode(texts, role, show_progress=show_progress)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    async def aencode(self, texts: Sequence[str], role: Role) -> Encoded:
        """`encode` in a thread."""
        return await asyncio.to_thread(self.encode, texts, role)
