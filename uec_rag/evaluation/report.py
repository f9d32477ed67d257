"""The guarantees that a gate of labelled questions could give, as numbers for a page."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from uec_rag.base.checks import visible
from uec_rag.confidence.risk import reliability, risk_over_coverage
from uec_rag.documents.labels import find_labels, read_questions
from uec_rag.evaluation.labels import doubtful_labels
from uec_rag.retrieval import Gate, Retriever
from uec_rag.retrieval.labelled import LabelledSearch

RISKS = [percent / 100 for percent in range(1, 51)]
"""The shares of wrong answers that a gate could guarantee."""

_POINTS = 200  # of a curve
_MOST_ROWS = 2_000  # questions that are listed


def search_table(retriever: Retriever, name: str, table: str | None, k: int) -> LabelledSearch:
    """Search the questions of a table, or questions made from the passages.

    Parameters
    ----------
    retriever : Retriever
    name : str
        File name of the table, whose suffix tells its format.
    table : str, optional
        Its text, with the columns query and relevant_ids; None to make questions.
    k : int
        Number of hits that an answer may use.

    Raises
    ------
    ValueError
        If the table is malformed, names a passage that is not in the index, or has no question with
        an answer; or if too few questions can be made.
    """
    if table is None:
        return LabelledSearch.from_passages(retriever, k=k)
    plain = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "table"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, plain)
        path.write_text(table, encoding="utf-8")
        asked = read_questions(path, labelled=True)
    labels = find_labels(asked, retriever.passages(), plain, complete=True)
    if not any(labels.values()):
        raise ValueError(
            f"{plain}: no question has relevant_ids; expected some, as 'query,relevant_ids' and a "
            "row for each question."
        )
    return LabelledSearch.from_queries(retriever, [*labels], [*labels.values()], k=k)


def gate_report(searched: LabelledSearch, *, made: bool = False) -> dict[str, Any]:
    """Return what each threshold would answer, and which threshold keeps each guarantee.

    `made`: whether the questions were made from the passages, so that no label can be wrong.

    Returns
    -------
    dict
        JSON values: "questions", "k", "doubtful" labels, "curve" (risk over coverage),
        "reliability", the guarantees "wrongs" (of all questions) and "risks" (of the answers) for
        each share in `RISKS`, and "rows", the most confident questions.
    """
    sure, right = searched.confidence, searched.right
    order = np.argsort(-sure, kind="stable")
    decisions = searched.result.decide(0.5, searched.k)
    # A question that is asked back is not answered, whatever the threshold.
    told = np.array([decision.action != "clarify" for decision in decisions])
    coverage, risk = risk_over_coverage(sure[told], right[told])
    places = np.unique(np.linspace(0, len(risk) - 1, min(len(risk), _POINTS)).round().astype(int))
    wrongs = [searched.threshold(max_wrong=share) for share in RISKS]
    risks = [searched.threshold(share) for share in RISKS]
    doubtful = [] if made else doubtful_labels(searched.result, searched.relevant, searched.k)
    return {
        "questions": len(sure),
        "k": searched.k,
        "doubtful": doubtful,
        "curve": np.stack([coverage * told.mean(), risk], axis=1)[places].tolist(),
        "reliability": [asdict(bin_) for bin_ in reliability(sure, right)],
        "wrongs": [one.metadata() | {"report": one.report} for one in wrongs],
        "risks": [one.metadata() | {"report": one.report} for one in risks],
        "rows": [
            {
                "question": visible(searched.result.queries[row])[:300],
                "confidence": float(sure[row]),
                "right": bool(right[row]),
                "answerable": bool(searched.relevant[row]),
                "asked_back": not bool(told[row]),
            }
            for row in order[:_MOST_ROWS].tolist()
        ],
    }


def gate_state(gate: Gate) -> dict[str, Any]:
    """Return the threshold, the number of hits and, if it has one, the guarantee of a gate."""
    guarantee = {} if gate.guarantee is None else gate.guarantee.metadata()
    return {**guarantee, "threshold": gate.threshold, "k": gate.k}
