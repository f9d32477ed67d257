"""Hits that another retriever or a reranker hands on, with the decision of the search on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from uec_rag.confidence.advice import Advice, run_to_end
from uec_rag.confidence.decision import Decision
from uec_rag.ensemble.uec import UEC
from uec_rag.retrieval.gate import Gate, Pending
from uec_rag.retrieval.result import SearchResult, surest_decision
from uec_rag.retrieval.retriever import Retriever
from uec_rag.retrieval.sources import Source, SourceStore
from uec_rag.stores.base import Passage


class Hit(Protocol):
    """A document of LangChain, or a node of LlamaIndex."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Its metadata, with what the search added."""


_H = TypeVar("_H", bound=Hit)


class Hits(list[_H]):
    """Hits with the decision on them, which counts also if there are none.

    Attributes
    ----------
    decision : Decision
    """

    decision: Decision


def decision_on(hits: Sequence[Hit], expected: str) -> Decision:
    """Read the decision on hits from their metadata; to abstain if there are no hits.

    If they come from several searches, as in a fusion, it is the one with the highest confidence.
    ValueError if none has a decision; `expected` says which hits have.
    """
    if isinstance(hits, Hits):
        return hits.decision
    if not hits:
        return Decision.empty()
    decision = surest_decision(hit.metadata for hit in hits)
    if decision is None:
        raise ValueError(f"none has uec_decision and uec_confidence in its metadata; {expected}")
    return decision


def judge(
    uec: UEC, question: str, passages: Sequence[Passage], turns: Sequence[str] = ()
) -> SearchResult:
    """Judge the passages that another retriever has found for a question, in its order.

    The question and the passages are encoded, those of late only once. Confidence is unreliable if
    there are fewer than thirty, or if the ensemble is not fitted.

    Examples
    --------
    >>> found = [Passage("dogs", "Dogs bark.", {}), Passage("cats", "Cats purr.", {})]
    >>> judge(UEC(["bm25"]), "Why do cats purr?", found).ids
    [['dogs', 'cats']]
    """
    source = Source("what another retriever found", lambda *_: passages)
    index = Retriever(uec, SourceStore(uec, source), fit=False)
    [found] = index.search([question], max(len(passages), 1), history=[turns])
    place = {passage.id: at for at, passage in enumerate(passages)}
    order = sorted(range(len(found.ids)), key=lambda at: place[found.ids[at]])
    return SearchResult([found.select(order)])


@dataclass(frozen=True)
class GateOfHits(Generic[_H]):
    """A gate that decides on hits that others hand on.

    Attributes
    ----------
    gate : Gate or None
        None leaves the decision of the search.
    question : str
        The question with the turns before it, for an advisor.
    text_of : callable(hit) -> str
    expected : str
        For the error message: which hits have a decision.
    search : callable(question) -> list of hits, optional
        Searches for an advisor's rewrite.
    """

    gate: Gate | None
    question: str
    text_of: Callable[[_H], str]
    expected: str
    search: Callable[[str], list[_H]] | None = None

    def decide(self, hits: list[_H]) -> tuple[Decision, list[_H]]:
        """Return the decision, and its hits: those given, or those of a rewrite."""
        gate, decision, pending = self._begin(hits)
        replies = run_to_end(gate.consult(pending)) if pending.rows else []
        return self._settle(hits, decision, pending, replies)

    async def adecide(self, hits: list[_H]) -> tuple[Decision, list[_H]]:
        """Run `decide` in a thread; an asynchronous advisor is asked in this event loop."""
        gate, decision, pending = await asyncio.to_thread(self._begin, hits)
        replies = await gate.consult(pending)
        return await asyncio.to_thread(self._settle, hits, decision, pending, replies)

    def _at_threshold(self, hits: Sequence[_H]) -> Decision:
        decision = decision_on(hits, self.expected)
        if self.gate is None or not hits:
            return decision
        return self.gate.decide_again(decision, len(hits))

    def _begin(self, hits: Sequence[_H]) -> tuple[Gate, Decision, Pending]:
        gate, decision = self.gate or Gate(), self._at_threshold(hits)
        texts = [[self.text_of(hit) for hit in hits]]
        return gate, decision, gate.pending([self.question], texts, [decision])

    def _settle(
        self,
        hits: list[_H],
        decision: Decision,
        pending: Pending,
        replies: Sequence[Advice | str],
    ) -> tuple[Decision, list[_H]]:
        if self.gate is None or not replies:
            return decision, hits
        again = None if self.search is None else self._search_again
        [(decision, others)] = self.gate.settle([decision], pending, replies, again)
        return decision, hits if others is None else others

    def _search_again(self, rewrites: Sequence[str]) -> list[tuple[Decision, list[_H]]]:
        assert self.search is not None
        found = [self.search(rewrite) for rewrite in rewrites]
        return [(self._at_threshold(row), row) for row in found]
