"""Each encoder's Gaussians of texts that have vectors already, without encoding a text twice.

LlamaIndex asks the embedding for vectors and brings the store vectors: a variance finds no place in
between. A vector store of someone else's keeps vectors, of one member perhaps. What the ensemble
encoded lately in this process is in memory, by text. And in the direct sum a passage's vector holds
every encoder's own; where the last layers are the identity the variance follows from these, in
whatever process the vector was made. What is left is encoded, and the log says how much of it had a
vector already.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders import CachedEncoder, Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread, WithoutVectors
from uec_rag.ensemble.convolution import blocks
from uec_rag.ensemble.uec import UEC

_log = logging.getLogger(__name__)

_SAME = 1e-4  # how far apart two copies of one vector may be after JSON
_UNIT = 1e-3  # how far the length of an encoder's vector may be from 1

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


Whose: TypeAlias = int | Literal["all"]
"""Whose vectors some are: of one encoder, by its place, or of the ensemble of all."""


def encode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
    whose: Whose | None = None,
) -> list[Gaussian]:
    """`UEC.encode`, of which memory and vectors spare what they can.

    Parameters
    ----------
    role : {"query", "passage"}
    vectors : sequence, optional
        Of passages: each the ensemble's mean perhaps, or one encoder's vector.
    whose : int or "all", optional
        Whose they are, as `whose_is` says; by default one text is encoded to see.
    """
    return _sparing(uec, texts, role, vectors, whose).encode(texts, role)


async def aencode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
) -> list[Gaussian]:
    """`encode` without blocking the event loop."""
    sparing = await asyncio.to_thread(_sparing, uec, texts, role, vectors)
    return await sparing.aencode(texts, role)


def whose_is(uec: UEC, text: str, vector: Sequence[float]) -> Whose | None:
    """Whose a passage's vector is, if it tells of an encoder all that its Gaussian is made of.

    `vector`: of the text, whoever made it.
    """
    view = copy.copy(uec)
    view.encoders = _remembering(uec)
    return _whose(view, text, np.asarray(vector, dtype=np.float32))


def _sparing(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None,
    whose: Whose | None = None,
) -> UEC:
    """The same ensemble, on encoders that remember, and know what vectors tell of some texts."""
    members = _remembering(uec)
    view = copy.copy(uec)
    view.encoders = members
    given = {t: v for t, v in zip(texts, vectors or (), strict=False) if v is not None}
    lacking = {
        t: np.asarray(given[t], dtype=np.float32)
        for t in (_unknown(members, list(given), role) if given else [])
    }
    if not lacking or (whose is None and len(lacking) == 1):  # of one the check would be the work
        return view
    if whose is None:
        whose = _whose(view, *next(iter(lacking.items())))
    if whose is None:
        _log.warning(
            "%d texts have vectors already and are encoded again: these are not the ensemble's, "
            "or carry no variance. Keep them apart from other models', and give encoders a "
            "CachedEncoder, which serves several processes",
            len(lacking),
        )
        return view
    view.encoders = [
        _Knowing(member, rows) if rows else member
        for member, rows in zip(members, _told(view, lacking, whose), strict=True)
    ]
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


def _whose(view: UEC, text: str, vector: FloatArray) -> Whose | None:
    """Encodes the text to see: its vectors must be those, and the features the vectors."""
    try:
        probed = [encoder.encode([text], "passage") for encoder in view.encoders]
    except Exception:  # the ensemble itself will say, or do without
        return None
    widths = [encoded.embedding.shape[1] for encoded in probed]
    if view.space == "direct" and len(vector) == sum(widths):
        members = blocks(vector, widths, view.fitted.weights)
        if all(map(_is_of, members, probed)):
            return "all"
    unit = vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))
    return next((i for i, encoded in enumerate(probed) if _is_of(unit, encoded)), None)


def _is_of(vector: FloatArray, encoded: Encoded) -> bool:
    """Whether a vector is an encoder's own, and all that its last layer takes in."""
    own = encoded.embedding
    same = len(vector) == own.shape[1] and np.allclose(own[0], vector, atol=_SAME)
    return same and np.array_equal(own, encoded.features)


def _told(
    view: UEC, vectors: Mapping[str, FloatArray], whose: Whose
) -> list[dict[str, FloatArray]]:
    """What passages' vectors tell of each encoder's own, by text; nothing of odd ones."""
    texts, matrix = list(vectors), np.stack([*vectors.values()])
    if whose == "all":
        widths = [encoder.dimension for encoder in view.encoders]
        members = blocks(matrix, widths, view.fitted.weights)
        lengths = [np.linalg.norm(ours, axis=1) for ours in members if ours.shape[1]]
        good = (np.abs(np.stack(lengths) - 1) < _UNIT).all(axis=0)
    else:  # as its own library leaves it: of any length
        members = [matrix if i == whose else matrix[:, :0] for i in range(len(view.encoders))]
        good = matrix.any(axis=1)
    return [
        {text: row for text, row, fits in zip(texts, ours, good, strict=True) if fits}
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
