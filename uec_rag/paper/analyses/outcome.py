"""How well one setting of an ensemble searches, on average over collections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uec_rag.ensemble import UEC
from uec_rag.paper.collections import Collection
from uec_rag.paper.scoring import score_retrieval
from uec_rag.paper.systems import Ensemble


@dataclass(frozen=True)
class Outcome:
    """One setting, means over the collections.

    Attributes
    ----------
    name : str
    ndcg10, recall10, auc10 : float
    """

    name: str
    ndcg10: float
    recall10: float
    auc10: float


def outcome(
    name: str, uec: UEC, collections: Sequence[Collection], *, calibrated: bool = False
) -> Outcome:
    """Measure one ensemble on collections."""
    system = Ensemble(name, "UEC", uec, calibrated=calibrated)
    results = []
    for collection in collections:
        found = system.search(list(collection.queries.values()), collection.passages, 100)
        scores = score_retrieval(collection, found.ids, found.confidence)
        results.append((scores.ndcg10, scores.recall10, scores.auc10))
    return Outcome(name, *np.mean(results, axis=0).tolist())
