"""A comparison of advisors by their logs: changes and costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from uec_rag.advice.learn import auroc
from uec_rag.advice.log import question_hash, read_log


def describe_log(path: Path, labels: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Describe a log that a `Gate` wrote, to compare advisors.

    Parameters
    ----------
    path : Path
        The log; of a question that is in it several times, the last line counts.
    labels : mapping of str to collection of str
        Maps questions to the ids of the passages that answer them, which may be none.

    Returns
    -------
    dict
        Counts of "questions" and of those whose action it "changed", and "calls", "tokens" and
        "seconds" of one; of the labelled ones, "answerable" and "unanswerable", and the AUROC of
        answerable over unanswerable, "before" and "after" the advice, or None.

    Raises
    ------
    ValueError
        If it is not a log, or is empty.
    """
    rows = {row.question: row for row in read_log(path)}
    if not rows:
        raise ValueError(f"log: {path} is empty; ask questions of a Gate(advisor=..., log=...).")
    answered = {question_hash(question): bool(ids) for question, ids in labels.items()}
    known = [row for row in rows.values() if row.question in answered]
    truth = np.array([answered[row.question] for row in known], dtype=bool)
    before, after = (
        np.array([getattr(row, name) for row in known], dtype=np.float64)
        for name in ("confidence_before", "confidence")
    )
    both = 0 < truth.sum() < len(truth)
    return {
        "questions": len(rows),
        "changed": sum(row.before != row.after for row in rows.values()),
        **{
            name: float(np.mean([getattr(row, name) for row in rows.values()]))
            for name in ("calls", "tokens", "seconds")
        },
        "answerable": int(truth.sum()),
        "unanswerable": int((~truth).sum()),
        "before": auroc(before, truth) if both else None,
        "after": auroc(after, truth) if both else None,
    }
