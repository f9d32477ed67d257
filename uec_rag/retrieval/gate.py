"""The gate: answer only where the risk of a wrong answer is under control."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.records import Record
from uec_rag.confidence.decision import Action, Ambiguity, Decision, decide_one
from uec_rag.confidence.risk import RiskThreshold, risk_threshold
from uec_rag.retrieval.calibrate import check_labels
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter


@dataclass(frozen=True)
class Gate(Record):
    """Says of each query whether to answer it, to ask back or to abstain.

    Attributes
    ----------
    threshold : RiskThreshold
        The confidence above which to answer, and the guarantee that comes with it.
    k : int
        A query counts as rightly answered where one of its first k hits is relevant.
    """

    threshold: RiskThreshold
    k: int

    @classmethod
    def calibrate(
        cls,
        retriever: Retriever,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        risk: float = 0.05,
        certainty: float = 0.95,
        k: int = 4,
        filter: Filter | None = None,
        confidence: float | None = None,
    ) -> Self:
        """Choose the lowest threshold that keeps the share of wrong answers below a target.

        Learn then Test (Angelopoulos et al., 2021; see `uec_rag.confidence.risk`): with probability
        `certainty` over the draw of these queries, at most a share `risk` of the queries that
        are answered has no relevant passage among its hits. Queries to come must be drawn as these
        are, from the same kind of users and with the index as it is.

        Parameters
        ----------
        retriever : Retriever
            Calibrate it first, on other queries than these.
        queries : sequence of str
        relevant_ids : sequence of collection of str
            Ids of the passages that answer each query; empty where none does.
        risk : float
            Highest share of wrong ones among the answered, in (0, 1).
        certainty : float
            How sure to be of it, in (0, 1).
        k : int
            Hits that are looked at.
        filter : mapping or callable, optional
            As every search to come will have it.
        confidence : float, optional
            What `certainty` was called in version 0.1.

        Raises
        ------
        TypeError, ValueError
            As `Retriever.calibrate`, or if risk or certainty is outside (0, 1).
        """
        check_k(k)
        certainty = certainty if confidence is None else confidence
        for name, value in (("risk", risk), ("certainty", certainty)):
            if not 0 < value < 1:
                raise ValueError(f"{name}: expected a number in (0, 1), got {value}.")
        wanted = check_labels(queries, relevant_ids, retriever.store, fewest=1)
        result = retriever.search(queries, k, filter=filter)
        right = np.array(
            [any(id_ in ids for id_ in hits) for hits, ids in zip(result.ids, wanted, strict=True)]
        )
        return cls(risk_threshold(result.confidence, right, risk, 1 - certainty), k)

    def decide(self, result: SearchResult) -> list[Decision]:
        """Decide on each query of a result, with what the search knew of its ambiguity."""
        return result.decide(self.threshold.threshold)

    def redecide(self, decision: Decision) -> Decision:
        """Decide again on a query whose search decided at another threshold."""
        rivals = Ambiguity(f"{len(decision.candidates)} passages compete", decision.candidates)
        ambiguity = rivals if decision.candidates else None
        return decide_one(
            decision.confidence, ambiguity, self.threshold.threshold, decision.in_corpus
        )

    def __call__(self, confidence: float, decision: Decision) -> Action:
        """`redecide` as a callable, for whoever takes any callable as a gate."""
        return self.redecide(replace(decision, confidence=confidence)).action

    @property
    def report(self) -> str:
        """What was found, in plain words."""
        return self.threshold.report
