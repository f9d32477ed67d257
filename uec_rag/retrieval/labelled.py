"""Labelled questions, searched once: the thresholds that keep a guarantee, and what they count.

`uec_rag.Gate.from_labels` makes a gate of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from uec_rag.base.checks import check_k
from uec_rag.base.errors import warn
from uec_rag.base.progress import progress_bar
from uec_rag.base.properties import cached_property
from uec_rag.confidence.advice import Advice, Advisor, Usage, ask_advisor, run_to_end
from uec_rag.confidence.decision import needs_clarification
from uec_rag.confidence.replies import Within
from uec_rag.confidence.risk import (
    AdvisedThresholds,
    Guarantee,
    advised_thresholds,
    conformal_threshold,
    risk_threshold,
)
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.calibrate import check_labels, make_trial, warn_of_lost
from uec_rag.retrieval.index import Index
from uec_rag.retrieval.result import Result, SearchResult
from uec_rag.retrieval.search import Method
from uec_rag.stores.base import Filter, Store

UNDERSPECIFIED = (0.5, 0.9)
"""P(underspecified) above which an advisor is asked, too; above the second, the user is asked."""

WRONG = 0.1
"""The default of `max_wrong`, the largest share of all questions that get a wrong answer."""

_BATCH = 32  # queries between two steps of the progress bar
_MOST = 1000  # confidences that a gate keeps


class Searchable(Protocol):
    """The part of a `uec_rag.Retriever` that a gate uses."""

    uec: UEC
    store: Store
    gate: Any

    def __len__(self) -> int:
        """Return the number of passages."""

    def snapshot(self) -> Self:
        """Return a read-only view."""

    def _method(self, filter: Filter | None = None) -> Method:
        """Return the method of a search, whose basis a gate compares with its own."""

    def search(
        self,
        queries: Sequence[str],
        k: int = 4,
        *,
        filter: Filter | None = None,
        history: Sequence[Sequence[str]] | None = None,
        within: Within | None = None,
    ) -> SearchResult:
        """Find the k best passages for each query, and decide."""


_S = TypeVar("_S", bound=Searchable)


def without_gate(retriever: _S) -> _S:
    """Return a view of an index that no gate decides in."""
    view = retriever.snapshot()
    view.gate = None
    return view


def confidence_at(result: SearchResult, k: int) -> NDArray[np.float64]:
    """Return the probability that each question is answered by its first k hits, shape (n,)."""
    return np.array([each.confidence_at(k) for each in result], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Advised:
    """The advice on labelled questions.

    Attributes
    ----------
    replies : list of n (Advice or str)
        The advice on each question, or the reason why there is none.
    rewrites : mapping of int to Result
        The results of its rewrites, by the rows of their questions.
    """

    replies: list[Advice | str]
    rewrites: Mapping[int, Result]


@dataclass(frozen=True, eq=False)
class LabelledSearch:
    """Labelled queries with their search results, for thresholds at any risk from one search.

    Attributes
    ----------
    retriever : Retriever
        The snapshot that was searched.
    result : SearchResult
    relevant : list of frozenset of str
        Ids of the passages that answer each query; empty if none does.
    k : int
    corpus : str
        Fingerprint of the passages.
    size : int
        Number of passages that were searched.
    filter : mapping, callable or None
    """

    retriever: Searchable
    result: SearchResult
    relevant: list[frozenset[str]]
    k: int
    corpus: str
    size: int
    filter: Filter | None = None

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that each question is answered by its first k hits, shape (n,)."""
        return confidence_at(self.result, self.k)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """True for each query that one of its first k hits answers, shape (n,)."""
        pairs = zip(self.result, self.relevant, strict=True)
        return np.array([any(hits.finds(ids)) for hits, ids in pairs], dtype=bool)

    @classmethod
    def from_queries(
        cls,
        retriever: Searchable,
        queries: Sequence[str],
        relevant_ids: Sequence[Collection[str]],
        *,
        k: int = 4,
        filter: Filter | None = None,
    ) -> Self:
        """Search labelled queries.

        Parameters
        ----------
        retriever, queries, relevant_ids, k, filter
            As in `Gate.from_labels`, with the same errors.
        """
        check_k(k)
        if not isinstance(retriever, Index):
            raise TypeError(
                f"retriever: expected a uec_rag.Retriever, got {type(retriever).__name__}; the "
                "UECRetriever of LangChain has it as .index, that of LlamaIndex as .retriever."
            )
        retriever.passages(filter)  # checks the filter
        wanted = check_labels(queries, relevant_ids, retriever.store, fewest=1)
        _warn_of_shared_answers(wanted)
        view = without_gate(retriever)
        corpus = view.store.corpus()
        result = search_in_batches(view, queries, k, filter)
        warn_of_lost(view.store, wanted)
        return cls(view, result, wanted, k, corpus, result.size, filter)

    @classmethod
    def from_passages(cls, retriever: Searchable, *, k: int = 4) -> LabelledSearch:
        """Search for questions made from the passages, to be used if there are no labels.

        They are harder to answer than the questions of users, and every fifth has no answer (see
        `questions_from_passages`).

        Raises ValueError if too few questions can be made.
        """
        queries, relevant, tried = questions_from_passages(retriever)
        labelled = cls.from_queries(tried, queries, relevant, k=k)
        corpus = retriever.store.corpus()
        return replace(labelled, retriever=retriever, corpus=corpus, size=len(retriever))

    def threshold(
        self,
        max_risk: float | None = None,
        certainty: float = 0.95,
        *,
        max_wrong: float | None = None,
    ) -> Guarantee:
        """Find the lowest threshold that keeps a guarantee, as `Gate.from_labels` does."""
        asks = self._asks_back
        if max_risk is not None:
            # The risk is a share of the answers, and a question that is asked back has none.
            is_answered = ~asks if not asks.all() else asks
            return risk_threshold(
                self.confidence[is_answered], self.right[is_answered], max_risk, 1 - certainty
            )
        confidence = np.where(asks, -np.inf, self.confidence)
        return conformal_threshold(
            confidence, ~self.right, WRONG if max_wrong is None else max_wrong
        )

    @cached_property
    def _asks_back(self) -> NDArray[np.bool_]:
        """True for each question that gets a clarifying question, shape (n,)."""
        return np.array(
            [
                needs_clarification(each.underspecified, each.in_corpus, each.readings)
                for each in self.result.decisions
            ],
            dtype=bool,
        )

    @property
    def sample(self) -> tuple[float, ...]:
        """At most 1,000 of the confidences, evenly spaced, in ascending order."""
        ordered = np.sort(self.confidence)
        positions = np.linspace(0, len(ordered) - 1, min(len(ordered), _MOST)).round()
        return tuple(ordered[positions.astype(np.intp)].round(4).tolist())

    def ask(self, advisor: Advisor, timeout: float, usage: Usage) -> Advised:
        """Ask an advisor about each question, and search for its rewrites."""
        texts = [[hit.text for hit in hits[: self.k]] for hits in self.result.passages]
        questions = self.result.queries
        replies = run_to_end(ask_advisor(advisor, questions, texts, timeout, usage))
        rewrites = {
            row: rewrite
            for row, reply in enumerate(replies)
            if isinstance(reply, Advice) and (rewrite := reply.question_to_search(questions[row]))
        }
        if not rewrites:
            return Advised(replies, {})
        result = self.retriever.search([*rewrites.values()], self.k, filter=self.filter)
        return Advised(replies, dict(zip(rewrites, result, strict=True)))

    def advised_thresholds(
        self, advice: Advised, max_wrong: float | None = None
    ) -> AdvisedThresholds:
        """Find the thresholds at which a gate keeps a guarantee with its advisor."""
        # Without a rewrite, no threshold answers it.
        sure = np.full(len(self.result), -np.inf)
        right = np.ones(len(self.result), dtype=bool)
        for row, result in advice.rewrites.items():
            sure[row] = result.confidence_at(self.k)
            right[row] = any(result.finds(self.relevant[row]))
        unsaid = np.array([decision.underspecified for decision in self.result.decisions])
        unclear, vague = UNDERSPECIFIED
        return advised_thresholds(
            self.confidence,
            # What is asked back, whatever the advisor says, is never answered wrongly.
            self.right | (self._asks_back & (unsaid > vague)),
            np.array([_kind(reply) for reply in advice.replies], dtype=np.intp),
            sure,
            right,
            unsaid <= unclear,
            self._asks_back,
            WRONG if max_wrong is None else max_wrong,
        )


def search_in_batches(
    retriever: Searchable, queries: Sequence[str], k: int, filter: Filter | None = None
) -> SearchResult:
    """Search for questions in batches, with a progress bar."""
    results: list[Result] = []
    with progress_bar("Searching", len(queries)) as bar:
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            results += retriever.search(batch, k, filter=filter)
            bar.update(len(batch))
    return SearchResult(results)


def _kind(reply: Advice | str) -> int:
    """Return the kind of a reply, or of the reason why there is none, in `advised_thresholds`."""
    return 2 if isinstance(reply, str) else int(reply.verdict != "answer")


def questions_from_passages(retriever: _S) -> tuple[list[str], list[set[str]], _S]:
    """Make questions from the passages, one for each answer.

    Returns the questions, the ids that answer each, and the index to ask, with the retriever's own
    calibration; see `uec_rag.retrieval.calibrate.make_trial`. Raises ValueError if too few
    questions can be made.
    """
    queries, relevant, store = make_trial(retriever.uec, retriever.store)
    tried = without_gate(retriever)
    tried.store = store
    return queries, relevant, tried


def _warn_of_shared_answers(relevant: Sequence[Collection[str]]) -> None:
    """Warn if queries share an answer, since a guarantee assumes independent queries."""
    seen, alike = set[str](), 0
    for ids in relevant:
        alike += not seen.isdisjoint(ids)
        seen.update(ids)
    if alike:
        warn(
            f"{alike} of {len(relevant)} questions share an answer with an earlier one. They "
            "succeed or fail together, so the guarantee, which assumes independent questions, "
            "fails more often than it says. Keep one question for each answer."
        )
