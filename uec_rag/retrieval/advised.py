"""Learning by a gate with an advisor: from labels, with a guarantee, or of an index's own texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from uec_rag.advice.ask import Advisor, ask_advisor, ask_rewriter
from uec_rag.advice.learn import FEWEST, OwnCase
from uec_rag.advice.opinion import READ, Opinion
from uec_rag.base.loops import run_to_end
from uec_rag.confidence.risk import lowest_threshold
from uec_rag.documents.questions import questions_of
from uec_rag.retrieval.hits import Result, SearchResult
from uec_rag.retrieval.labelled import LabelledSearch, Searchable
from uec_rag.retrieval.learn import sample_passages
from uec_rag.retrieval.pending import case_of, pending_on_results
from uec_rag.retrieval.policy import DOUBT, Policy

_P = TypeVar("_P", bound=Policy)

MOST_ASKED = 60
"""The number of questions made of an index that a decision model is asked about, twice each."""


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


def with_guarantee(gate: _P, searched: LabelledSearch, advisor: Advisor, max_wrong: float) -> _P:
    """Return a gate that keeps a guarantee with an advisor, which is asked each question."""
    result = searched.result
    asked = zip(result.decisions, result.queries, result.passages, strict=True)
    cases = [case_of(one, query, [hit.searched for hit in hits]) for one, query, hits in asked]
    opinions = run_to_end(ask_advisor(advisor, cases, gate.timeout))
    declined = [(one.contains or 0.0) < DOUBT[1] for one in opinions]
    opinions = run_to_end(ask_rewriter(gate.rewriter, cases, opinions, declined, gate.timeout))
    rewritten = [row for row, one in enumerate(opinions) if one.rewrite]
    found = searched.search([opinions[row].rewrite for row in rewritten])
    again = dict(zip(rewritten, found, strict=True))
    made = replace(gate, advisor=advisor, is_advised=True)
    made = advised_thresholds(made, searched, opinions, again, max_wrong)
    rewrites = {opinions[row].rewrite: one for row, one in again.items()}
    pending = pending_on_results(
        made,
        result,
        result.queries,
        lambda lines: SearchResult([*map(rewrites.__getitem__, lines)]),
    )
    settled = pending.settle([opinions[row] for row in pending.rows])
    answered = np.array([decision.action == "answer" for decision, _ in settled])
    wrong = answered & ~searched.are_right(one for _, one in settled)
    assert made.guarantee is not None
    counts = {"answered": int(answered.sum()), "wrong": int(wrong.sum())}
    return replace(made, guarantee=replace(made.guarantee, **counts))


def advised_thresholds(
    gate: _P,
    searched: LabelledSearch,
    opinions: Sequence[Opinion],
    again: Mapping[int, Result],
    max_wrong: float,
) -> _P:
    """Choose the lowest thresholds at which a bounded share of all questions is wrong.

    One number, t, says for each question whether it is answered. One that the advisor gave a
    probability for is answered if what this makes of the confidence is above t. A verdict tells
    nothing to compare with t, so that a yes is answered if the confidence is above t: nothing
    below is asked. A rewrite that is answered wrongly counts as such up to its confidence. The
    threshold without advice is at least that of the confidence alone, so that the limit is also
    kept if there is no advisor.

    Parameters
    ----------
    gate : Policy
        Whose advisor is asked in a range of confidence that does not depend on t.
    searched : LabelledSearch
    opinions : sequence of n Opinion
    again : mapping of int to Result
        What was found for the rewrites, by the position of the question.
    max_wrong : float
    """
    alone = min(searched.threshold(max_wrong=max_wrong).threshold, 1.0)
    gate = replace(gate, doubt=(DOUBT[0], max(DOUBT[1], alone)))
    shown, score = [*searched.result], np.full(len(opinions), -np.inf)
    for row, (result, said) in enumerate(zip(searched.result, opinions, strict=True)):
        known = replace(result.decision, confidence=float(searched.confidence[row]))
        made, is_asked = known, gate.is_doubted(known)
        if is_asked:
            made, shown[row] = gate.advised(known, said), result.with_first(said.passage)
        if made.action != "clarify" and not (is_asked and said.verdict == "no"):
            score[row] = known.confidence if said.verdict else made.confidence
    has_verdicts = any(said.verdict for said in opinions)
    found = [again.get(row, one) for row, one in enumerate(searched.result)]
    sure = np.full(len(found), -np.inf)
    for row, one in again.items():
        sure[row] = one.confidence_at(gate.k)
    is_harmful = ~searched.are_right(found) & (sure > gate.rewritten)
    sure = np.minimum(sure, searched.confidence) if has_verdicts else sure
    harm = np.where(searched.are_right(shown), -np.inf, score)
    harm = np.maximum(harm, np.where(is_harmful, sure, -np.inf))
    low, guarantee = lowest_threshold(harm, max_wrong)
    threshold, is_kept = max(low, alone), len(harm) >= guarantee.needed
    lowest = max(gate.doubt[0], low) if has_verdicts else gate.doubt[0]
    return replace(
        gate,
        threshold=threshold,
        advised_threshold=low,
        doubt=(lowest, max(gate.doubt[1], lowest)),
        rewritten=max(gate.rewritten, low),
        guarantee=replace(guarantee, threshold=threshold if is_kept else math.inf),
    )
