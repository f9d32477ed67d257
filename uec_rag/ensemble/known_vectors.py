"""Encode texts whose vectors are already known, without running a model.

LlamaIndex requests vectors from the embedding, and the store encodes the same texts again for their
variances; recently encoded texts are therefore cached in memory. Another package's vector store may
hold the vectors of a member, or of the ensemble; if the last layers are the identity, variances can
be computed from them.
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
from uec_rag.encoders.base import EncoderInside, InThread, TermEncoder
from uec_rag.ensemble.convolution import blocks
from uec_rag.ensemble.uec import UEC

_SAME = 1e-4  # absolute tolerance between copies of a vector, after JSON
_UNIT = 1e-3  # tolerance of the length of an encoder's vector, which is 1

_MEMBERS: WeakKeyDictionary[UEC, list[Encoder]] = WeakKeyDictionary()
_MAKING = threading.Lock()


ENSEMBLE: Final = "ensemble"

VectorOwner: TypeAlias = int | Literal["ensemble"]
"""The encoder that made vectors, by its index, or the whole ensemble."""


def vector_owner(uec: UEC, name: str) -> VectorOwner:
    """Return the owner of vectors for a member's name, or for "ensemble".

    Raises ValueError if there is no dense member of this name.
    """
    if name == ENSEMBLE:
        return ENSEMBLE
    names = [
        known
        for known, encoder in zip(uec.names, uec.encoders, strict=True)
        if not isinstance(encoder, TermEncoder)
    ]
    if name not in names:
        raise ValueError(f"vectors: expected one of {[*names, ENSEMBLE]}, got {name!r}.")
    return uec.names.index(name)


def check_owner(uec: UEC, owner: VectorOwner, text: str, vector: Sequence[float]) -> None:
    """Raise ValueError unless a text's vector is the owner's, and determines its Gaussian."""
    if not _owns(_view(uec), owner, text, np.asarray(vector, dtype=np.float32)):
        name = "the ensemble" if owner == ENSEMBLE else f"{uec.names[owner]!r}"
        raise ValueError(
            f"vectors: expected vectors of {name}, with the identity as last layer, but the "
            f"stored vector of {text[:40]!r} differs from what it returns; leave out `vectors`."
        )


def encode(
    uec: UEC,
    texts: Sequence[str],
    role: Role,
    vectors: Sequence[Sequence[float] | None] | None = None,
    owner: VectorOwner | None = None,
) -> list[Gaussian]:
    """Encode texts as `UEC.encode` does, except those that are cached or have known vectors.

    Parameters
    ----------
    role : {"query", "passage"}
    vectors : sequence, optional
        Known vectors of the texts, None for a text without one.
    owner : VectorOwner, optional
        The owner of these vectors, already checked.
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
    """Return a view of an ensemble with encoders that cache texts, as long as it lives."""
    view = copy.copy(uec)
    with _MAKING:
        if uec not in _MEMBERS:
            _MEMBERS[uec] = [
                encoder
                if isinstance(encoder, (CachedEncoder, TermEncoder))
                else CachedEncoder(encoder, None)
                for encoder in uec.encoders
            ]
        view.encoders = _MEMBERS[uec]
    return view


def _owns(view: UEC, owner: VectorOwner, text: str, vector: FloatArray) -> bool:
    """Return whether a text's encoding equals a given vector, and is the last layers' input."""
    members = view.encoders if owner == ENSEMBLE else [view.encoders[owner]]
    try:
        probed = [encoder.encode([text], "passage") for encoder in members]
    except Exception:  # the ensemble will report or tolerate it
        return False
    if owner == ENSEMBLE:
        widths = [encoded.embedding.shape[1] for encoded in probed]
        if view.fitted.space != "direct" or len(vector) != sum(widths):
            return False
        parts = blocks(vector, widths, view.fitted.weights)
    else:
        parts = [vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))]
    return all(
        part.shape == encoded.embedding[0].shape
        and np.allclose(encoded.embedding[0], part, atol=_SAME)
        and np.array_equal(encoded.embedding, encoded.features)
        for part, encoded in zip(parts, probed, strict=True)
    )


def _vectors_by_member(
    view: UEC, vectors: Mapping[str, FloatArray], owner: VectorOwner
) -> list[dict[str, FloatArray]]:
    """Split vectors into those of each encoder, by text, without malformed ones."""
    texts, matrix = list(vectors), np.stack([*vectors.values()])
    if owner == ENSEMBLE:
        widths = [encoder.dimension for encoder in view.encoders]
        members = blocks(matrix, widths, view.fitted.weights)
        lengths = [np.linalg.norm(rows, axis=1) for rows in members if rows.shape[1]]
        good = (np.abs(np.stack(lengths) - 1) < _UNIT).all(axis=0)
    else:  # not normalised, so of any length
        members = [matrix if i == owner else matrix[:, :0] for i in range(len(view.encoders))]
        good = matrix.any(axis=1)
    return [
        {text: row for text, row, fits in zip(texts, rows, good, strict=True) if fits}
        if rows.shape[1]
        else {}
        for rows in members
    ]


@dataclass(eq=False)
class _Knowing(InThread, EncoderInside):
    """An encoder with known vectors of some texts."""

    _encoder: Encoder
    _known: Mapping[str, FloatArray]

    @property
    def revision(self) -> str:
        """The revision of the wrapped encoder."""
        return self._encoder.revision

    def encode(self, texts: Sequence[str], role: Role, *, show_progress: bool = False) -> Encoded:
        """Embed texts, except those whose vectors are known."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        known = dict(self._known)
        if unknown:
            new = self._encoder.encode(unknown, role, show_progress=show_progress)
            known |= dict(zip(unknown, new.embedding, strict=True))
        embedding = np.stack([known[text] for text in texts])
        embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
        return Encoded(embedding, embedding)
