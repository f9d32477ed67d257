"""What confidence rests on, as one short text, to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from uec_rag.confidence.model import ConfidenceModel
from uec_rag.ensemble.evidence import EvidenceWeights
from uec_rag.stores.base import Filter


def basis_of(
    model: ConfidenceModel,
    weights: EvidenceWeights | None,
    unanswerable: float | None,
    filter: Filter | None,
    verifier: str | None,
) -> str:
    """Fingerprint of what turns a search's similarities into confidence.

    Parameters
    ----------
    model, weights
        In use.
    unanswerable : float or None
        Share of the questions that the corpus does not answer, where it is told.
    filter : mapping or callable, optional
        Keys may come in any order. Of callables only that they are one is told.
    verifier : str or None
        Fingerprint of who reads the first hits, if anybody does.

    Raises
    ------
    ValueError
        If the filter holds itself, or is nested that deep.
    """
    try:
        filtered = _as_text(filter)
    except RecursionError as error:
        raise ValueError("filter: expected values of finite depth, got one in itself.") from error
    state = (
        model.fingerprint,
        None if weights is None else weights.fingerprint,
        unanswerable,
        filtered,
        verifier,
    )
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def _as_text(filter: object) -> str:
    """A filter, or a part of one: the same text in every process."""
    if isinstance(filter, Mapping):
        parts = (f"{key!r}: {_as_text(filter[key])}" for key in sorted(filter, key=repr))
        return "{" + ", ".join(parts) + "}"
    if isinstance(filter, (list, tuple)):
        return "[" + ", ".join(map(_as_text, filter)) + "]"
    if isinstance(filter, (set, frozenset)):
        return "[" + ", ".join(sorted(map(_as_text, filter))) + "]"
    return type(filter).__name__ if callable(filter) or filter is None else repr(filter)
