"""Each encoder's Gaussians of what LlamaIndex brings, without encoding a text twice.

LlamaIndex asks the embedding for vectors and brings the store vectors: a variance finds no place in
between. What the ensemble encoded lately in this process is in memory, by text. And in the direct
sum a passage's vector holds every encoder's own; where the last layers are the identity the
variance follows from these, in whatever process the vector was made. What is left is encoded, and
the log says how much of it had a vector already.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders import CachedEncoder, Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread, WithoutVectors
from uec_rag.ensemble import UEC
from uec_rag.ensemble.convolution import blocks

_log = logging.getLogger(__name__)

_SAME = 1e-4  # how far apart two copies of one vector may be after JSON
_UNIT = 1e-3  # how far the length of an encoder's vector may be from 1

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


def encode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
) -> list[Gaussian]:
    """`UEC.encode`, of which memory and vectors spare what they can.

    Parameters
    ----------
    uec : UEC
    texts : sequence of str
    role : {"query", "passage"}
    vectors : sequence, optional
        Of passages, what `UECEmbedding` may have made of each: of the ensemble's dimension.
    """
    return _sparing(uec, texts, role, vectors).encode(texts, role)


async def aencode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
) -> list[Gaussian]:
    """`encode` without blocking the event loop."""
    sparing = await asyncio.to_thread(_sparing, uec, texts, role, vectors)
    return await sparing.aencode(texts, role)


def _sparing(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None,
) -> UEC:
    """The same ensemble, on encoders that remember, and know what vectors tell of some texts."""
    members = _remembering(uec)
    view = copy.copy(uec)
    view.encoders = members
    given = {t: v for t, v in zip(texts, vectors or (), strict=False) if v is not None}
    lacking = {t: given[t] for t in _unknown(members, list(given), role)} if given else {}
    if len(lacking) > 1:  # of one the check would be the work
        known = _told(view, lacking)
        view.encoders = [
            _Knowing(member, rows) if rows else member
            for member, rows in zip(members, known, strict=True)
        ]
        if not any(known):
            _log.warning(
                "%d texts have vectors already and are encoded again: these are not the "
                "ensemble's, or do not tell their variance. Keep them apart from other models', "
                "and give encoders a CachedEncoder, which serves several processes",
                len(lacking),
            )
    return view


def _remembering(uec: UEC) -> list[Encoder]:
    """An ensemble's encoders, with a memory that lives as long as the ensemble."""
    with _MAKING:
        if uec not in _MEMBERS:
            _MEMBERS[uec] = [
                encoder
                if isinstance(encoder, (CachedEncoder, WithoutVectors))
                else CachedEncoder(encoder, None)
                for encoder in uec.encoders
            ]
        return _MEMBERS[uec]


def _unknown(members: Sequence[Encoder], texts: Sequence[str], role: Role) -> list[str]:
    """Texts that an encoder would have to encode."""
    lacking = [set(m.unknown(texts, role)) for m in members if isinstance(m, CachedEncoder)]
    return [text for text in texts if any(text in some for some in lacking)]


def _told(view: UEC, vectors: Mapping[str, Sequence[float]]) -> list[dict[str, FloatArray]]:
    """What passages' vectors tell of each encoder's own, by text; nothing where they are others'.

    One text is encoded to see: its vectors must be those, and the features the vectors.
    """
    nothing: list[dict[str, FloatArray]] = [{} for _ in view.encoders]
    if view.space != "direct":
        return nothing
    texts = list(vectors)
    try:
        probed = [e.encode(texts[:1], "passage") for e in view.encoders]
    except Exception:  # the ensemble itself will say, or do without
        return nothing
    dimensions = [encoded.embedding.shape[1] for encoded in probed]
    matrix = np.stack([np.asarray(vectors[text], dtype=np.float32) for text in texts])
    members = blocks(matrix, dimensions, view.fitted.weights)
    for encoded, ours in zip(probed, members, strict=True):
        same = np.allclose(encoded.embedding[0], ours[0], atol=_SAME)
        if not (same and np.array_equal(encoded.embedding, encoded.features)):
            return nothing
    lengths = [np.linalg.norm(ours, axis=1) for ours in members if ours.shape[1]]
    unit = (np.abs(np.stack(lengths) - 1) < _UNIT).all(axis=0)
    return [
        {text: row for text, row, good in zip(texts, ours, unit, strict=True) if good}
        if ours.shape[1]
        else {}
        for ours in members
    ]


@dataclass(eq=False)
class _Knowing(InThread, EncoderInside):
    """An encoder some of whose vectors are known."""

    _encoder: Encoder
    _known: Mapping[str, FloatArray]

    @property
    def revision(self) -> str:
        """Revision of the encoder inside."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, those that are known by a look."""
        lacking = [text for text in dict.fromkeys(texts) if text not in self._known]
        known = dict(self._known)
        if lacking:
            new = self._encoder.encode(lacking, role, show_progress=show_progress)
            known |= dict(zip(lacking, new.embedding, strict=True))
        embedding = np.stack([known[text] for text in texts])
        embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
        return Encoded(embedding, embedding)
