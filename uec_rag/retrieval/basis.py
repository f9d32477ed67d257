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
        Of callables only that they are one is told.
    verifier : str or None
        Fingerprint of who reads the first hits, if anybody does.
    """
    state = (
        model.fingerprint,
        None if weights is None else weights.fingerprint,
        unanswerable,
        dict(filter) if isinstance(filter, Mapping) else type(filter).__name__,
        verifier,
    )
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]
