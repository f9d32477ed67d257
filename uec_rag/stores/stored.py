"""The vectors that another package's store has, in place of encoding its texts again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, cast

import numpy as np

from uec_rag.base.errors import warn_once
from uec_rag.base.gaussian import FloatArray
from uec_rag.encoders.base import (
    Encoded,
    Encoder,
    SilentEncoder,
    TermEncoder,
    are_same,
    check_vectors,
)

if TYPE_CHECKING:
    from uec_rag.stores.base import Passage

_COMPARED = 8  # texts from which it is learned how alike a model's vectors of one are

_log = logging.getLogger("uec_rag")

Vectors = Callable[[list[str]], Mapping[str, Sequence[float] | None]]
"""A function from ids to the stored vectors, by id; of some there may be none."""


class StoredVectors:
    """What encoders made of passages, read from a store.

    A stored vector is that of the first encoder with vectors, or those of all of them in their
    order, as `UEC.embed` joins them; it may have any length. The first one ever is compared with
    what the encoders make of its text.

    Parameters
    ----------
    name : str
        The store's, for messages.
    vectors : Vectors
    said : set
        What was said of the store.
    are_ours : bool
        Whether they are said to be of these encoders; if not, they are used if they are.
    """

    def __init__(self, name: str, vectors: Vectors, said: set[object], *, are_ours: bool) -> None:
        self._name, self._vectors, self._are_ours, self._said = name, vectors, are_ours, said
        self._are_of_these: bool | None = None  # once compared

    def read(self, encoders: Sequence[Encoder], passages: Sequence[Passage]) -> dict[int, Encoded]:
        """Return what encoders made of the passages, by their positions; not all are known.

        Texts without a vector are encoded.

        Raises
        ------
        TypeError, ValueError
            If the vectors are said to be of these encoders, and are not.
        """
        if self._are_of_these is False:
            return {}
        stored, trouble = dict[str, Sequence[float] | None](), ""
        try:
            stored = {**self._vectors([passage.id for passage in passages])}
        except Exception as error:
            trouble = f" ({type(error).__name__}: {str(error).strip():.100})"
        is_known = np.array([stored.get(passage.id) is not None for passage in passages])
        known = [*compress(passages, is_known)]
        others = [passage.text for passage in compress(passages, ~is_known)]
        if others:
            what = f"vectors are missing for {len(others)} of {len(passages)} candidates{trouble}"
            what = f"{self._name}: {what}. Their texts are encoded, and remembered."
            if self._are_ours or known:
                warn_once(self._said, "vectors", what)
        if not known:
            return {}
        units = self._split(encoders, [cast(Sequence[float], stored[one.id]) for one in known])
        silent = {at for at, one in enumerate(encoders) if isinstance(one, SilentEncoder)}
        if self._are_of_these is None and not silent:
            self._are_of_these = self._are_of(encoders, units, known)
            if not self._are_of_these:
                _log.info(
                    "uec_rag: %s: its vectors are of another model, so that texts are encoded, and "
                    "remembered.",
                    self._name,
                )
        found = dict[int, Encoded]()
        for position in units.keys() - silent if self._are_of_these else ():
            unit = units[position]
            matrix = np.empty((len(passages), unit.shape[1]), dtype=np.float32)
            matrix[is_known] = unit
            if others:
                matrix[~is_known] = encoders[position].encode(others, "passage").embedding
            found[position] = Encoded(matrix, matrix)
        return found

    def _split(
        self, encoders: Sequence[Encoder], rows: Sequence[Sequence[float]]
    ) -> dict[int, FloatArray]:
        """Return the unit vectors of each encoder, by its position, that stored vectors hold."""
        dense = [at for at, one in enumerate(encoders) if not isinstance(one, TermEncoder)]
        widths, given = [encoders[at].dimension for at in dense], {*map(len, rows)}
        if given == {*widths[:1]}:
            dense, widths = dense[:1], widths[:1]
        if given != {sum(widths)}:
            if self._are_ours and dense:
                raise ValueError(
                    f"vectors: expected {widths[0]} numbers each, as {encoders[dense[0]].name!r} "
                    f"makes, got {sorted(given)}."
                )
            return {}
        joined = check_vectors(rows, rows=len(rows), encoder=encoders[dense[0]].name)
        parts = np.split(joined, np.cumsum(widths)[:-1], axis=1)
        return {
            at: check_vectors(part, rows=len(rows), encoder=encoders[at].name)
            for at, part in zip(dense, parts, strict=True)
        }

    def _are_of(
        self,
        encoders: Sequence[Encoder],
        units: Mapping[int, FloatArray],
        passages: Sequence[Passage],
    ) -> bool:
        """Return whether the first vector is what the encoders make of its text."""
        some = [passage.text for passage in passages[:_COMPARED]]
        for position, unit in units.items():
            encoder = encoders[position]
            own = encoder.encode(some[:1], "passage")
            is_plain = np.array_equal(own.embedding, own.features)
            if is_plain and are_same(encoder, some, own.embedding, unit[:1]):
                continue
            if self._are_ours:
                raise ValueError(
                    f"vectors: expected those of the first encoder, {encoder.name!r}, got those of "
                    f"another model in the store (for {some[0][:40]!r}), or of one whose last "
                    "layer is not the identity. Embed the store's texts again, pass the "
                    "embedding that made them, or vectors=lambda ids: {} to encode its texts."
                )
            return False
        return bool(units)
