"""Encoding of texts whose vectors are known already, without a model.

LlamaIndex asks the embedding for vectors and has the store encode the same texts, for variances:
texts that the ensemble encoded lately in this process are in memory. Another package's vector store
may hold the vectors of one member, or of the ensemble: if the last layers are the identity, the
variance follows from these.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from uec_rag.base.gaussian import FloatArray, Gaussian
from uec_rag.encoders import CachedEncoder, Encoded, Encoder, Role
from uec_rag.encoders.base import EncoderInside, InThread, WithoutVectors
from uec_rag.ensemble.convolution import blocks
from uec_rag.ensemble.uec import UEC

_SAME = 1e-4  # how far apart two copies of one vector may be after JSON
_UNIT = 1e-3  # how far the length of an encoder's vector may be from 1

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


ENSEMBLE: Final = "ensemble"

VectorOwner: TypeAlias = int | Literal["ensemble"]
"""The encoder that made some vectors, by its index, or the whole ensemble."""


def vector_owner(uec: UEC, name: str) -> VectorOwner:
    """Return the owner of vectors from a member's name, or "ensemble".

    Raises ValueError if no member that has vectors is called so.
    """
    if name == ENSEMBLE:
        return ENSEMBLE
    names = [
        known
        for known, encoder in zip(uec.names, uec.encoders, strict=True)
        if not isinstance(encoder, WithoutVectors)
    ]
    if name not in names:
        raise ValueError(f"vectors: expected one of {[*names, ENSEMBLE]}, got {name!r}.")
    return uec.names.index(name)


def check_owner(uec: UEC, owner: VectorOwner, text: str, vector: Sequence[float]) -> None:
    """Raise ValueError unless a text's vector is the owner's and its Gaussian follows from it."""
    if not _owns(_view(uec), owner, text, np.asarray(vector, dtype=np.float32)):
        whose = "the ensemble" if owner == ENSEMBLE else f"{uec.names[owner]!r}"
        raise ValueError(
            f"vectors: expected vectors of {whose}, without a last layer of its own, but the "
            f"stored vector of {text[:40]!r} differs from what it returns; leave out `vectors`."
        )


def encode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
    owner: VectorOwner | None = None,
) -> list[Gaussian]:
    """Encode as `UEC.encode`, except texts that are in memory or have vectors.

    Parameters
    ----------
    role : {"query", "passage"}
    vectors : sequence, optional
        Vectors of passages, None if one has none.
    owner : VectorOwner, optional
        Their owner, already checked.
    """
    view = _view(uec)
    given = {t: v for t, v in zip(texts, vectors or (), strict=False) if v is not None}
    if given and owner is not None:
        known = {text: np.asarray(vector, np.float32) for text, vector in given.items()}
        by_member = _vectors_by_member(view, known, owner)
        view.encoders = [
            _Knowing(member, rows) if rows else member
            for member, rows in zip(view.encoders, by_member, strict=True)
        ]
    return view.encode(texts, role)


def _view(uec: UEC) -> UEC:
    """Return an ensemble with encoders that remember texts, as long as it lives."""
    view = copy.copy(uec)
    with _MAKING:
        if uec not in _MEMBERS:
            _MEMBERS[uec] = [
                encoder
                if isinstance(encoder, (CachedEncoder, WithoutVectors))
                else CachedEncoder(encoder, None)
                for encoder in uec.encoders
            ]
        view.encoders = _MEMBERS[uec]
    return view


def _owns(view: UEC, owner: VectorOwner, text: str, vector: FloatArray) -> bool:
    """Encode a text to see if its vectors are those given, and the input of the last layers."""
    members = view.encoders if owner == ENSEMBLE else [view.encoders[owner]]
    try:
        probed = [encoder.encode([text], "passage") for encoder in members]
    except Exception:  # which the ensemble will report, or do without
        return False
    if owner == ENSEMBLE:
        widths = [encoded.embedding.shape[1] for encoded in probed]
        if view.space != "direct" or len(vector) != sum(widths):
            return False
        own = blocks(vector, widths, view.fitted.weights)
    else:
        own = [vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))]
    return all(map(_is_of, own, probed))


def _is_of(vector: FloatArray, encoded: Encoded) -> bool:
    """Tell if a vector is an encoder's output and the input of its last layer."""
    own = encoded.embedding
    same = len(vector) == own.shape[1] and np.allclose(own[0], vector, atol=_SAME)
    return same and np.array_equal(own, encoded.features)


def _vectors_by_member(
    view: UEC, vectors: Mapping[str, FloatArray], owner: VectorOwner
) -> list[dict[str, FloatArray]]:
    """Split passages' vectors into each encoder's own, by text; leave out malformed ones."""
    texts, matrix = list(vectors), np.stack([*vectors.values()])
    if owner == ENSEMBLE:
        widths = [encoder.dimension for encoder in view.encoders]
        members = blocks(matrix, widths, view.fitted.weights)
        lengths = [np.linalg.norm(ours, axis=1) for ours in members if ours.shape[1]]
        good = (np.abs(np.stack(lengths) - 1) < _UNIT).all(axis=0)
    else:  # as its own library leaves it: of any length
        members = [matrix if i == owner else matrix[:, :0] for i in range(len(view.encoders))]
        good = matrix.any(axis=1)
    return [
        {text: row for text, row, fits in zip(texts, ours, good, strict=True) if fits}
        if ours.shape[1]
        else {}
        for ours in members
    ]


@dataclass(eq=False)
class _Knowing(InThread, EncoderInside):
    """An encoder that knows the vectors of some texts."""

    _encoder: Encoder
    _known: Mapping[str, FloatArray]

    @property
    def revision(self) -> str:
        """The revision of the encoder inside."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, except those whose vectors are known."""
        lacking = [text for text in dict.fromkeys(texts) if text not in self._known]
        known = dict(self._known)
        if lacking:
            new = self._encoder.encode(lacking, role, show_progress=show_progress)
            known |= dict(zip(lacking, new.embedding, strict=True))
        embedding = np.stack([known[text] for text in texts])
        embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
        return Encoded(embedding, embedding)
