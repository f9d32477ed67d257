"""The gate: answer only where the risk of a wrong answer is under control."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from uec_rag.base.checks import check_k
from uec_rag.base.files import read_json, replace_file
from uec_rag.base.records import Record
from uec_rag.base.spans import span
from uec_rag.confidence.decision import Action, Ambiguity, Decision, decide_one
from uec_rag.confidence.risk import RiskThreshold, risk_threshold
from uec_rag.retrieval.calibrate import check_labels, corpus_fingerprint
from uec_rag.retrieval.result import SearchResult
from uec_rag.retrieval.retriever import Retriever
from uec_rag.stores.base import Filter
from uec_rag.stores.keeping import GATE, Keeping, keep_in


@dataclass(frozen=True)
class Gate(Record):
    """Says of each query whether to answer it, to ask back or to abstain.

    Attributes
    ----------
    threshold : RiskThreshold
        The confidence above which to answer, and the guarantee that comes with it.
    k : int
        A query counts as rightly answered where one of its first k hits is relevant.
    basis : str
        Fingerprint of the calibration, told share and filter that it was made with (see
        `Retriever.basis`); empty where that is not known, as of a gate saved by version 0.1.
    corpus : str
        Fingerprint of the passages.
    abstain : float or None
        Share of questions that one was willing to leave unanswered, where `budget` made the gate:
        nothing is guaranteed then.
    """

    threshold: RiskThreshold
    k: int
    basis: str = ""
    corpus: str = ""
    abstain: float | None = None

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
        retriever.check_filter(filter)
        wanted = check_labels(queries, relevant_ids, retriever.store, fewest=1)
        corpus = corpus_fingerprint(retriever.store)
        result = retriever.search(queries, k, filter=filter)
        right = np.array(
            [any(id_ in ids for id_ in hits) for hits, ids in zip(result.ids, wanted, strict=True)]
        )
        found = risk_threshold(result.confidence, right, risk, 1 - certainty)
        return cls(found, k, result.basis, corpus)

    @classmethod
    def budget(
        cls,
        retriever: Retriever,
        queries: Sequence[str],
        *,
        abstain: float = 0.1,
        k: int = 4,
        filter: Filter | None = None,
    ) -> Self:
        """Set the threshold by how many questions one is willing to leave unanswered.

        Needs no labels, and guarantees nothing: the least confident `abstain` of these questions
        are those that it does not answer.

        Parameters
        ----------
        retriever : Retriever
        queries : sequence of str
            As users ask them.
        abstain : float
            Share of them, in [0, 1).
        k, filter
            As in `calibrate`.

        Raises
        ------
        ValueError
            If there are no queries, or abstain is outside [0, 1).
        """
        check_k(k)
        if not 0 <= abstain < 1:
            raise ValueError(f"abstain: expected a share in [0, 1), got {abstain}.")
        if not len(queries):
            raise ValueError("queries: expected at least one, got none.")
        retriever.check_filter(filter)
        corpus = corpus_fingerprint(retriever.store)
        result = retriever.search(queries, k, filter=filter)
        sure = np.sort(result.confidence.astype(np.float64))
        left = math.floor(abstain * len(sure))
        threshold = float(sure[left - 1]) if left else float(np.nextafter(sure[0], -np.inf))
        answered = int((sure > threshold).sum())
        made = RiskThreshold(threshold, 1.0, 1.0, len(sure), answered, 0, 0)
        return cls(made, k, result.basis, corpus, abstain)

    def decide(self, result: SearchResult) -> list[Decision]:
        """Decide on each query of a result, with what the search knew of its ambiguity.

        On the confidence of the first `k` hits, however many were found. A result of another
        calibration, share or filter than the gate's is warned of.
        """
        self._check(result.basis)
        with span("gate", queries=len(result.queries), threshold=self.threshold.threshold):
            return result.decide_at(self.threshold.threshold, self.k)

    def fits(self, retriever: Retriever, filter: Filter | None = None) -> bool:
        """Whether an index is as it was when the gate was made; reads every passage once."""
        same = not self.basis or self.basis == retriever.basis(filter)
        return same and (not self.corpus or self.corpus == corpus_fingerprint(retriever.store))

    def _check(self, basis: str) -> None:
        if self.basis and basis and self.basis != basis:
            warnings.warn(
                "The gate was made with another calibration, share of unanswerable questions or "
                "filter than this search: its guarantee is about those. Make the gate again, after "
                "calibrating.",
                UserWarning,
                stacklevel=3,
            )

    def redecide(self, decision: Decision) -> Decision:
        """Decide again on a query whose search decided at another threshold.

        A search of another calibration, share or filter than the gate's is warned of, and one of
        more hits: confidence is then of all of them, the gate of its own `k`.
        """
        self._check(decision.basis)
        if decision.hits > self.k:
            warnings.warn(
                f"The search found {decision.hits} hits and the gate was made for {self.k}: its "
                f"guarantee is about answers among so many. Search with k={self.k}, or make a gate "
                f"of {decision.hits}.",
                UserWarning,
                stacklevel=2,
            )
        rivals = Ambiguity(f"{len(decision.candidates)} passages compete", decision.candidates)
        ambiguity = rivals if decision.candidates else None
        return decide_one(
            decision.confidence,
            ambiguity,
            self.threshold.threshold,
            decision.in_corpus,
            decision.unfamiliar,
        )

    def __call__(self, confidence: float, decision: Decision) -> Action:
        """`redecide` as a callable, for whoever takes any callable as a gate."""
        return self.redecide(replace(decision, confidence=confidence)).action

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, JSON, in one piece or not at all."""
        replace_file(Path(path), json.dumps(self.metadata(), ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        IndexCorrupted
            If it is no JSON object.
        ValueError
            If it is no gate.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"path: there is no gate in {os.fspath(path)!r}.")
        return cls.restore(read_json(Path(path)))

    def publish(self, retriever: Retriever) -> Self:
        """Keep the gate in the retriever's store, for all processes that search it.

        Raises
        ------
        TypeError
            If the store is one of this process alone.
        ValueError
            If nothing was ever added to it.
        """
        if not isinstance(retriever.store, Keeping):
            raise TypeError(
                f"retriever: a {type(retriever.store).__name__} keeps nothing for other processes; "
                "`save` the gate."
            )
        keep_in(retriever.store, GATE, json.dumps(self.metadata()).encode())
        return self

    @classmethod
    def published(cls, retriever: Retriever) -> Self | None:
        """The gate that was published last, if any was."""
        store = retriever.store
        found = store.kept(GATE) if isinstance(store, Keeping) else None
        return None if found is None else cls.restore(json.loads(found[1]))

    @property
    def report(self) -> str:
        """What was found, in plain words."""
        if self.abstain is None:
            return self.threshold.report
        return (
            f"Answering above confidence {self.threshold.threshold:.3f}: of "
            f"{self.threshold.queries} questions {self.threshold.answered} are answered, where "
            f"{self.abstain:.0%} may be left. Nothing is guaranteed: that takes labels, and "
            "`calibrate`."
        )
