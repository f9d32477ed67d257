"""Retrieval: find the relevant passages of a collection; know when they were not found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from uec_rag.encoders import Role
from uec_rag.paper.collections import Collection
from uec_rag.paper.scoring import mean_ndcg, score_retrieval
from uec_rag.paper.systems import System

_DEPTH = 100


@dataclass(frozen=True)
class Retrieval:
    """nDCG@10, Recall@10, Recall@100 and AUC@10 on a collection.

    Attributes
    ----------
    collection : Collection
    small : bool
    """

    collection: Collection
    small: bool = False
    kind: ClassVar[str] = "retrieval"
    metrics: ClassVar[tuple[str, ...]] = ("ndcg10", "recall10", "recall100", "auc10")

    @property
    def name(self) -> str:
        """Name of the collection."""
        return self.collection.name

    def texts(self) -> list[tuple[Role, list[str]]]:
        """Queries and passages."""
        return [
            ("query", list(self.collection.queries.values())),
            ("passage", list(self.collection.passages.values())),
        ]

    def evaluate(self, system: System) -> dict[str, float]:
        """Search all queries and score the best hits."""
        found = system.search(
            list(self.collection.queries.values()), self.collection.passages, _DEPTH
        )
        scores = asdict(score_retrieval(self.collection, found.ids, found.confidence))
        return {metric: float(scores[metric]) for metric in self.metrics}

    def selection(self, system: System) -> float:
        """nDCG@10."""
        found = system.search(list(self.collection.queries.values()), self.collection.passages, 10)
        return mean_ndcg(self.collection, found.ids)
