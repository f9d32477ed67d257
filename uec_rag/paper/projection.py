"""The same vectors with the identity as their last layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders import Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside


class ProjectionOf(EncoderInside):
    """The same vectors with the identity as their last layer: nothing is encoded again.

    Parameters
    ----------
    encoder : Encoder
        One with ``last_layer="ffn"``; such a model closes with no linear layer of its own.
    """

    @property
    def ffn(self) -> Encoder:
        """The encoder with its own last layer."""
        return self._encoder

    @property
    def feature_dimension(self) -> int:
        """As wide as the embedding."""
        return self.dimension

    @property
    def gain(self) -> FloatArray:
        """(d,): ones."""
        return np.ones(self.dimension, dtype=np.float32)

    @property
    def revision(self) -> str:
        """That of the encoder inside, with the other layer."""
        return f"{self._encoder.revision}, projection"

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts."""
        embedding = self._encoder.encode(texts, role, show_progress=show_progress).embedding
        return Encoded(embedding, embedding)

    async def aencode(self, texts: Sequence[str], role: Role) -> Encoded:
        """Embed texts."""
        embedding = (await self._encoder.aencode(texts, role)).embedding
        return Encoded(embedding, embedding)
