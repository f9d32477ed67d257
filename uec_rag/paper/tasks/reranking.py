"""Reranking: order the few passages that each query comes with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from uec_rag.encoders import Role
from uec_rag.paper.collections import Collection
from uec_rag.paper.scoring import mean_average_precision
from uec_rag.paper.systems import System


@dataclass(frozen=True)
class Reranking:
    """Mean average precision over each query's own candidates.

    Attributes
    ----------
    collection : Collection
    candidates : mapping
        Query id -> ids of the passages to order.
    small : bool
    """

    collection: Collection
    candidates: Mapping[str, list[str]]
    small: bool = False
    kind: ClassVar[str] = "reranking"
    metrics: ClassVar[tuple[str, ...]] = ("map",)

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
        """Order the candidates."""
        return {"map": self.selection(system)}

    def selection(self, system: System) -> float:
        """MAP."""
        scores = system.similarities(
            list(self.collection.queries.values()), list(self.collection.passages.values())
        )
        column = {passage: index for index, passage in enumerate(self.collection.passages)}
        ordered = [
            sorted(self.candidates[query], key=lambda passage: -row[column[passage]])
            for query, row in zip(self.collection.queries, scores.tolist(), strict=True)
        ]
        return mean_average_precision(self.collection, ordered)
