"""The decisions of a gate on results: by its threshold, and in doubt by what its advisor says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from uec_rag.base.loops import beside, run_to_end
from uec_rag.base.records import cached_property
from uec_rag.confidence.decision import Criteria, Decision, decide
from uec_rag.confidence.model import PLAUSIBLE
from uec_rag.gates.advisor import SHOWN, ask_advisor, ask_rewriter
from uec_rag.gates.decision_models import Case
from uec_rag.gates.opinion import Opinion, apply_opinion
from uec_rag.gates.policy import Policy
from uec_rag.gates.rewrites import changes_subject
from uec_rag.retrieval.results import Result, SearchResult
from uec_rag.retrieval.search import log_advice

_T = TypeVar("_T")


class Judged(NamedTuple, Generic[_T]):
    """The hits of a question, a `Result` or a list, with the decision at a threshold."""

    decision: Decision
    hits: _T
    texts: Sequence[str]


def case_of(decision: Decision, question: str, texts: Sequence[str]) -> Case:
    """Return what an advisor is to judge: a question with its turns, and the texts of its hits."""
    titles = tuple(reading.title for reading in decision.readings)
    return Case(question, texts[:SHOWN], titles, decision.underspecified)


def pending_on_results(
    gate: Policy,
    result: SearchResult,
    questions: Sequence[str],
    search: Callable[[Sequence[str]], SearchResult] | None = None,
) -> Pending[Result]:
    """Decide at the threshold of a gate, and list what its advisor is to be asked.

    Parameters
    ----------
    gate : Gate
    result : SearchResult
    questions : sequence of str
        The queries with the turns before them, one per line.
    search : callable, optional
        Searches for rewrites of queries.
    """

    def judge(results: SearchResult) -> list[Judged[Result]]:
        at_threshold = gate.threshold, gate.k, gate.clarify_from
        return [
            Judged(item.decide(*at_threshold), item, [hit.headed for hit in item.passages])
            for item in results
        ]

    again = None if search is None else lambda rewrites: judge(search(rewrites))
    return Pending(gate, judge(result), questions, again)


@dataclass(frozen=True, eq=False)
class Pending(Generic[_T]):
    """The questions of a search, some of which a gate's advisor is to be asked about.

    Attributes
    ----------
    gate : Gate
    items : sequence of n Judged
    questions : sequence of n str
        Each with the turns before it, one per line.
    search : callable, optional
        Searches for rewrites.
    """

    gate: Policy
    items: Sequence[Judged[_T]]
    questions: Sequence[str]
    search: Callable[[Sequence[str]], Sequence[Judged[_T]]] | None = None

    @cached_property
    def rows(self) -> list[int]:
        """The positions of the questions to ask about; none without an advisor."""
        if self.gate.advisor is None:
            return []
        is_doubted = self.gate.is_doubted
        return [r for r, item in enumerate(self.items) if is_doubted(item.decision) and item.texts]

    def finish(self) -> list[tuple[Decision, _T]]:
        """Ask from synchronous code; return each final decision with what it is about."""
        return self.settle(run_to_end(self.consult()) if self.rows else [])

    async def afinish(self) -> list[tuple[Decision, _T]]:
        """Run `finish`; an asynchronous advisor is asked in this event loop."""
        return await beside(self.settle, await self.consult())

    async def consult(self) -> list[Opinion]:
        """Ask the advisor about each of `rows`, and then the rewriter where it declines.

        An asynchronous one is asked in this event loop, others in threads.
        """
        gate, rows = self.gate, self.rows
        if not rows or gate.advisor is None:
            return []
        pairs = [(self.questions[row], self.items[row]) for row in rows]
        cases = [case_of(item.decision, question, item.texts) for question, item in pairs]
        opinions = await ask_advisor(gate.advisor, cases, gate.timeout)
        if gate.rewriter is None or gate.ask == "shadow":
            return opinions
        advised = map(apply_opinion, (item.decision for _, item in pairs), opinions)
        declined = [decision.action == "abstain" for decision in advised]
        return await ask_rewriter(gate.rewriter, cases, opinions, declined, gate.timeout)

    def settle(self, opinions: Sequence[Opinion]) -> list[tuple[Decision, _T]]:
        """Decide on all questions, given what `consult` returned.

        What was found is that of the rewrite if this is answered.
        """
        gate, final = self.gate, [(item.decision, item.hits) for item in self.items]
        advice = dict(zip(self.rows, opinions, strict=True))
        rulings = {row: apply_opinion(final[row][0], item) for row, item in advice.items()}
        again = {} if gate.ask == "shadow" else self._search_again(advice, rulings)
        for row, decision in rulings.items():
            earlier, hits = final[row]
            if gate.ask == "shadow":
                decision = replace(earlier, **decision.advice_metadata())
            elif decision.action == "answer":
                hits = with_first(hits, advice[row].passage)
            final[row] = again.get(row, (decision, hits))
        for row, ruling in rulings.items():
            after = again[row][0] if row in again else ruling
            log_advice(self.questions[row], self.items[row].decision, after, advice[row].seconds)
        return final

    def _search_again(
        self, advice: Mapping[int, Opinion], rulings: Mapping[int, Decision]
    ) -> dict[int, tuple[Decision, _T]]:
        """Return what the rewrites change, by the positions of their questions.

        What the hits of one answer is answered from these, unless it is about something else.
        """
        declined = [row for row, ruling in rulings.items() if ruling.action == "abstain"]
        rewrites = {row: advice[row].rewrite for row in declined if advice[row].rewrite}
        if not rewrites or self.search is None:
            return {}
        changes, bound = dict[int, tuple[Decision, _T]](), self.gate.rewritten
        again = self.search([*rewrites.values()])
        for (row, line), (verdict, hits, texts) in zip(rewrites.items(), again, strict=True):
            if verdict.confidence <= bound:
                continue
            before, evidence, above = rulings[row], replace(verdict, searched_as=line), bound
            note, share = "answer", None
            if changes_subject(self.questions[row], line, [*self.items[row].texts, *texts]):
                plausible = max(before.in_corpus, PLAUSIBLE)  # so that it is uncertain
                evidence, above = replace(before, in_corpus=plausible), before.threshold
                note, share = (
                    f"{before.advice}; its rewrite is about something else",
                    before.advice_probability,
                )
                hits = self.items[row].hits
            ruling = decide(evidence, Criteria(above, evidence.clarify_from, asks_back=False))
            costs = {name: getattr(before, name) for name in ("advice_calls", "advice_tokens")}
            changes[row] = replace(ruling, advice=note, advice_probability=share, **costs), hits
        return changes


def with_first(outcome: _T, position: int) -> _T:
    """Return a `Result`, or a list of hits, with the hit at a position as the first."""
    if isinstance(outcome, Result):
        return cast(_T, outcome.with_first(position))
    hits = cast(list[Any], outcome)
    head = hits[position : position + 1]
    return cast(_T, [*head, *hits[:position], *hits[position + 1 :]]) if position else outcome


def settled_result(
    pending: Pending[Result], settled: Sequence[tuple[Decision, Result]], k: int
) -> SearchResult:
    """Return the first k hits of each question, or of its rewrite, with the final decisions."""
    depth, results = pending.gate.hits_needed(k), list[Result]()
    for (before, original, _), (decision, final) in zip(pending.items, settled, strict=True):
        result = replace(final, query=original.query, decision=decision)
        result = result.first(max(depth, final.alike))
        if decision.advice_probability is not None:
            result = result.scaled(decision.confidence / max(before.confidence, 1e-7))
        results.append(result)
    return SearchResult(results)
