"""Labelled questions: which to label next, and what gates they allow."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from uec_rag.base.checks import one_line, visible
from uec_rag.base.errors import warn
from uec_rag.confidence.risk import interval_of, reliability, risk_curve
from uec_rag.documents.generated_questions import is_code, make_questions
from uec_rag.documents.question_tables import find_labels, read_questions
from uec_rag.gates.gate import GATE_FILE, Gate
from uec_rag.gates.labelled_search import LabelledSearch
from uec_rag.index.retriever import Retriever
from uec_rag.retrieval.results import Result
from uec_rag.stores.base import EVERYONE, Everyone, Filter

RISKS = [percent / 100 for percent in range(1, 51)]
"""The shares of wrong answers that a gate could guarantee."""

FEWEST_LABELS = 50
"""The number of labelled questions below which a gate is left to chance."""

_STATES = tuple(".!:;…。\uff01")  # how a text ends that is no question and no heading
_BATCH = 32  # questions that are searched together
_LOOKED_AT = 2_000  # passages that questions are made from
_POINTS = 200  # of a curve
_MOST_ROWS = 2_000  # questions that are listed


def questions_to_label(
    retriever: Retriever, questions: Iterable[str], limit: int, tenant: Filter | Everyone = EVERYONE
) -> list[Result]:
    """Choose the questions whose labels would teach a gate most.

    These are the ones whose confidence is nearest to the threshold, one of each neighbourhood:
    those that find the same passage first.

    Parameters
    ----------
    retriever : Retriever
        The index, whose gate has the threshold; `ANSWER_ABOVE` without a gate.
    questions : iterable of str
        Those that are labelled are left out.
    limit : int
        Largest number of questions.
    tenant : mapping or callable, optional
        As in `Retriever.search`.

    Returns
    -------
    list of Result
        Their searches, the nearest first. One that finds nothing, or gets a clarifying question,
        teaches nothing.
    """
    labelled = retriever.labels_of(tenant)
    candidates = [question for question in dict.fromkeys(questions) if question not in labelled]
    nearest: dict[str, tuple[float, Result]] = {}
    for start in range(0, len(candidates), _BATCH):
        for result in retriever.search(candidates[start : start + _BATCH], tenant=tenant):
            distance = abs(result.decision.confidence - min(max(result.decision.threshold, 0), 1))
            if result.ids and result.decision.action != "clarify":
                before = nearest.get(result.ids[0])
                if before is None or distance < before[0]:
                    nearest[result.ids[0]] = distance, result
    return [outcome for _, outcome in sorted(nearest.values(), key=lambda pair: pair[0])[:limit]]


def questions_to_ask(retriever: Retriever, tenant: Filter | Everyone = EVERYONE) -> list[str]:
    """List questions to ask an index: those with a question mark, then headings; no code.

    `tenant`: selects the passages of which they are made.
    """
    passages = [*islice(retriever.passages(tenant=tenant), _LOOKED_AT)]
    drafts = make_questions(passages, _LOOKED_AT)
    questions = [one_line(draft.replace("`", "")) for draft in drafts if not is_code(draft)]
    questions = [question for question in questions if not question.endswith(_STATES)]
    return sorted(questions, key=lambda question: not question.endswith(("?", "\uff1f", "\u061f")))


def search_labels(
    retriever: Retriever,
    table: Path | None = None,
    k: int = 4,
    tenant: Filter | Everyone = EVERYONE,
) -> LabelledSearch:
    """Search the questions of a table, by default of the labels of an index.

    Parameters
    ----------
    retriever : Retriever
    table : Path, optional
        A .csv file with the columns query and relevant_ids.
    k : int
        Number of hits that an answer may use.
    tenant : mapping or callable, optional
        As in `Retriever.search`; its labels are those of `Retriever.labels_of`.

    Raises
    ------
    ValueError
        If there are no labels, the table is malformed, or no question has an answer in the index.
    """
    questions = (
        retriever.labels_of(tenant) if table is None else read_questions(table, labelled=True)
    )
    if not questions and table is None:
        raise ValueError(
            "no question is labelled; label with 'uec-rag explore' or pass a table of labels"
        )
    labels = find_labels(
        questions, retriever.passages(tenant=tenant), table.name if table else "labels"
    )
    rows = [*labels], [*labels.values()]
    return LabelledSearch.from_queries(retriever, *rows, k=k, tenant=tenant)


def save_gate(
    retriever: Retriever,
    searched: LabelledSearch,
    max_wrong: float | None = None,
    max_risk: float | None = None,
    fewest: int = 0,
) -> Gate:
    """Save the gate of labelled questions with an index; it decides from then on.

    Warns if the labels do not show that half of its answers are right. Raises ValueError if the
    gate would answer nothing, or there are fewer labels than `fewest`.
    """
    retriever.check_whole("gate")
    assert retriever.folder is not None
    gate = Gate.from_search(searched, max_risk, max_wrong=max_wrong)
    goal = gate.guarantee
    assert goal is not None
    if not goal.answered:
        raise ValueError(
            "no gate was saved, since it would abstain on every question. "
            f"{goal.target[0].upper()}{goal.target[1:]} takes at least {goal.needed} labelled "
            f"questions, more if an answer of high confidence is wrong; {goal.queries} were "
            "usable (questions that get a clarifying question do not count). Check the labels, "
            "provide more, or allow more wrong answers"
        )
    if goal.queries < fewest:
        low, high = interval_of(goal.wrong, goal.queries)
        raise ValueError(
            f"no gate was saved, since {goal.queries} labelled questions leave too much to chance: "
            f"{goal.wrong} of them would be answered wrongly, and {low:.0%} to {high:.0%} of "
            f"others (95% interval). Label {fewest} or more, or save it with --force"
        )
    if goal.caution:
        warn(goal.caution)
    gate.save(retriever.folder / GATE_FILE)
    return gate


def gate_report(searched: LabelledSearch) -> dict[str, Any]:
    """Return what each threshold would answer, and which threshold keeps each guarantee.

    Returns
    -------
    dict
        JSON values: "questions", "k", "curve" (risk over coverage), "reliability", the guarantees
        "wrongs" (of all questions) and "risks" (of the answers) for each share in `RISKS`, and
        "rows", the most confident questions.
    """
    sure, right = searched.confidence, searched.right
    order = np.argsort(-sure, kind="stable")
    mask = ~searched.asks_back  # what is asked back is not answered, whatever the threshold
    count, risk = risk_curve(sure[mask], right[mask])
    coverage = count / len(sure)
    places = np.unique(np.linspace(0, len(risk) - 1, min(len(risk), _POINTS)).round().astype(int))
    wrongs = [searched.threshold(max_wrong=share) for share in RISKS]
    risks = [searched.threshold(share) for share in RISKS]
    return {
        "questions": len(sure),
        "k": searched.k,
        "curve": np.stack([coverage, risk], axis=1)[places].tolist(),
        "reliability": reliability(sure, right),
        "wrongs": [bound.metadata() | {"report": bound.report} for bound in wrongs],
        "risks": [bound.metadata() | {"report": bound.report} for bound in risks],
        "rows": [
            {
                "question": visible(searched.result.queries[row])[:300],
                "confidence": float(sure[row]),
                "right": bool(right[row]),
                "answerable": bool(searched.relevant[row]),
                "asked_back": not bool(mask[row]),
            }
            for row in order[:_MOST_ROWS].tolist()
        ],
    }


def gate_state(gate: Gate) -> dict[str, Any]:
    """Return the threshold, the number of hits and, if it has one, the guarantee of a gate."""
    guarantee = {} if gate.guarantee is None else gate.guarantee.metadata()
    return {**guarantee, "threshold": gate.threshold, "k": gate.k}
