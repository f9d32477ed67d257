"""Learning by a gate with an advisor: from labels, with a guarantee, or without labels.

Without labels, a decision model is asked about questions made of the passages, once with and once
without those that answer them (`fit_opinion`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from uec_rag.confidence.advice import Advice, Advisor, Reply, ask_advisor, ask_rewriter, run_to_end
from uec_rag.confidence.decision import Decision
from uec_rag.confidence.opinion import READ, Case, Opinion, auroc, shipped_opinion_model
from uec_rag.confidence.risk import advised_thresholds, lowest_threshold
from uec_rag.documents.questions import questions_of
from uec_rag.retrieval.hits import SearchResult
from uec_rag.retrieval.labelled import FEWEST, LabelledSearch, Searchable
from uec_rag.retrieval.learn import sample_passages

Gate: TypeAlias = Any
"""A `uec_rag.Gate`, whose module imports this one."""

DOUBT = (0.05, 0.85)
"""The confidences between which an advisor is asked, without labels."""

UNDERSPECIFIED = (0.5, 0.9)
"""P(underspecified) above which an advisor is asked, too; above the second, the user is asked."""

MOST_ASKED = 60
"""The number of questions made of an index that a decision model is asked about, twice each."""

_SAID = 4  # bytes of a request for a token, about
_log = logging.getLogger("uec_rag")


def case_of(decision: Decision, question: str, texts: Sequence[str]) -> Case:
    """Return what an advisor is to judge: a question with its turns, and the texts of its hits."""
    titles = tuple(reading.title for reading in decision.readings)
    return Case(question, texts[:READ], titles, decision.underspecified)


@dataclass(frozen=True)
class OwnCase:
    """A question made of an index's passages, with what was found for it.

    Attributes
    ----------
    case : Case
    confidence : float
    is_answered : bool
        Whether a passage that answers it is among what was found.
    """

    case: Case
    confidence: float
    is_answered: bool


def own_cases(retriever: Searchable, most: int, k: int) -> list[OwnCase]:
    """Search for questions made of an index, with and without the passages that answer them.

    Parameters
    ----------
    retriever : Retriever
    most : int
        Largest number of questions.
    k : int
        Number of hits that confidence is about.
    """
    view, passages, cases = retriever.with_gate(None), sample_passages(retriever.store), []
    for question, ids in questions_of(passages, most).items():
        for among in (None, {"$not": {"$id": ids}}):
            [result] = view.search([question], READ, filter=among)
            # A sentence of a passage is no answer to itself.
            texts = [hit.text.replace(question, " ").strip() for hit in result.passages]
            if any(texts):
                case = case_of(result.decision, question, texts)
                cases.append(OwnCase(case, result.confidence_at(k), any(result.finds(ids))))
    if sum(one.is_answered for one in cases) < FEWEST:
        raise ValueError(
            f"retriever: expected passages of which {FEWEST} questions can be made whose answers "
            f"are found, got {len(cases) // 2} questions of {len(passages):,} passages. A question "
            "is a title in the metadata, a heading, or the first sentence of a passage. Use "
            "Gate.from_labels, or the gate as it is."
        )
    return cases


def fit_opinion(gate: Gate, advisor: Advisor, own: Sequence[OwnCase]) -> Gate:
    """Learn how confidence and an advisor's probability become one, as `Gate.fit_from` says."""
    cases = [one.case for one in own]
    _log.warning(
        "uec_rag: asking the advisor %s times about %s questions made of the passages: about %s "
        "tokens, once.",
        len(cases),
        len(cases) // 2,
        f"{sum(case.size for case in cases) // _SAID:,}",
    )
    replies = run_to_end(ask_advisor(advisor, cases, gate.timeout))
    odds = [reply.said.log_odds if isinstance(reply.said, Opinion) else None for reply in replies]
    given = [row for row, one in enumerate(odds) if one is not None]
    truth = np.array([own[row].is_answered for row in given], dtype=bool)
    if min(truth.sum(), (~truth).sum()) < FEWEST:
        failures = [reply.said for reply in replies if not isinstance(reply.said, Opinion)]
        raise ValueError(
            f"advisor: expected probabilities for {FEWEST} questions with and without their answer "
            f"or more, got them for {len(given)} of {len(cases)}"
            + (f" (most recently: {failures[-1]!s:.200})" if failures else "")
            + ". Pass a decision model, or a function that returns a number from 0 to 1."
        )
    sure = np.array([own[row].confidence for row in given])
    heard = np.array([odds[row] for row in given], dtype=np.float64)
    made = (gate.opinion or shipped_opinion_model()).fit(heard, truth)
    scores = {"before": sure, "after": made.log_odds(sure, heard)}
    told = {name: round(auroc(score, truth), 4) for name, score in scores.items()}
    return replace(gate, opinion=replace(made, questions=len(given) // 2, **told))


def with_guarantee(
    gate: Gate, searched: LabelledSearch, advisor: Advisor, max_wrong: float
) -> Gate:
    """Return a gate that keeps a guarantee with an advisor, which is asked each question."""
    result, k = searched.result, gate.k
    asked = zip(result.decisions, result.queries, result.passages, strict=True)
    cases = [case_of(one, query, [hit.searched for hit in hits]) for one, query, hits in asked]
    replies = run_to_end(ask_advisor(advisor, cases, gate.timeout))
    declined = [_may_decline(reply.said) for reply in replies]
    replies = run_to_end(ask_rewriter(gate.rewriter, cases, replies, declined, gate.timeout))
    rewrites = {
        query: line
        for query, reply in zip(result.queries, replies, strict=True)
        if (line := reply.question_to_search(query))
    }
    found = searched.retriever.search([*rewrites.values()], k, filter=searched.filter)
    again = dict(zip(rewrites, found, strict=True))
    sure = np.array([again[q].confidence_at(k) if q in again else -np.inf for q in result.queries])
    right = searched.are_right(again.get(one.query, one) for one in result)
    advised = _Advised(searched, replies, sure, right)
    gives_opinions = any(isinstance(reply.said, Opinion) for reply in replies)
    choose = advised.by_probabilities if gives_opinions else advised.by_verdicts
    made = choose(replace(gate, advisor=advisor, is_advised=True), max_wrong)
    known = {line: again[query] for query, line in rewrites.items()}
    pending = made.pending(
        result, result.queries, lambda lines: SearchResult([*map(known.__getitem__, lines)])
    )
    settled = pending.settle([replies[row] for row in pending.rows])
    answered = np.array([decision.action == "answer" for decision, _ in settled])
    wrong = answered & ~searched.are_right(one for _, one in settled)
    counts = {"answered": int(answered.sum()), "wrong": int(wrong.sum())}
    return replace(made, guarantee=replace(made.guarantee, **counts))


def _may_decline(said: Advice | Opinion | str) -> bool:
    if isinstance(said, Opinion):
        return (said.probability or 0.0) < DOUBT[1]
    return isinstance(said, str) or said.verdict == "no"


@dataclass(frozen=True, eq=False)
class _Advised:
    """Labelled questions that an advisor was asked about.

    Attributes
    ----------
    searched : LabelledSearch
    replies : sequence of n Reply
    sure : array, shape (n,)
        Confidence in the hits of the rewrite; -infinity if there is none.
    right : bool array, shape (n,)
        Whether these answer the question.
    """

    searched: LabelledSearch
    replies: Sequence[Reply]
    sure: NDArray[np.float64]
    right: NDArray[np.bool_]

    def by_verdicts(self, gate: Gate, max_wrong: float) -> Gate:
        """Choose thresholds for an advisor that gives verdicts; see `advised_thresholds`."""
        searched, (doubtful, vague) = self.searched, UNDERSPECIFIED
        unsaid = np.array([one.underspecified for one in searched.result.decisions])
        said = [reply.said for reply in self.replies]
        kinds = [int(one.verdict != "answer") if isinstance(one, Advice) else 2 for one in said]
        thresholds = advised_thresholds(
            searched.confidence,
            # What is asked back, whatever the advisor says, is never answered wrongly.
            searched.right | (searched.asks_back & (unsaid > vague)),
            np.array(kinds, dtype=np.intp),
            self.sure,
            self.right,
            unsaid <= doubtful,
            searched.asks_back,
            max_wrong,
        )
        return replace(
            gate,
            threshold=thresholds.threshold,
            doubt=(thresholds.low, thresholds.high),
            rewritten=thresholds.rewritten,
            guarantee=thresholds.guarantee,
        )

    def by_probabilities(self, gate: Gate, max_wrong: float) -> Gate:
        """Choose thresholds for an advisor that gives probabilities.

        It is asked in a fixed range of confidence, so that the score of a question, its confidence
        or the probability that both make, does not depend on the threshold. A rewrite that is
        answered wrongly counts as such at each threshold. The threshold without advice is at least
        that of the confidence alone, so that the limit is also kept if there is no advisor.
        """
        searched, shown = self.searched, [*self.searched.result]
        score = np.full(len(shown), -np.inf)
        for row, (result, reply) in enumerate(zip(shown, self.replies, strict=True)):
            known = replace(result.decision, confidence=float(searched.confidence[row]))
            made, said = known, reply.said
            if gate.is_doubted(known) and not isinstance(said, str):
                made, shown[row] = gate.advised(known, reply), result.with_first(said.named)
            if made.action != "clarify":
                is_verdict = made.advice_probability is None and made is not known
                score[row] = float(made.action == "answer") if is_verdict else made.confidence
        again = np.where(~self.right & (self.sure > DOUBT[1]), self.sure, -np.inf)
        harm = np.maximum(np.where(searched.are_right(shown), -np.inf, score), again)
        low, guarantee = lowest_threshold(harm, max_wrong)
        threshold = min(max(low, searched.threshold(max_wrong=max_wrong).threshold), 1.0)
        return replace(
            gate,
            threshold=threshold,
            advised_threshold=low,
            rewritten=max(gate.rewritten, low),
            guarantee=replace(guarantee, threshold=threshold),
        )
