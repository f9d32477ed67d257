"""The words and sections that documents lack, by the refused questions of a log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from uec_rag.evaluation.evaluate import Run

_SHOWN = 5  # questions of a group


def group_refusals(runs: Iterable[Run]) -> dict[str, Any]:
    """Group what was refused or handed over: what users ask and the documents do not say.

    Parameters
    ----------
    runs : iterable of Run
        Of a log whose lines have "lacking" and "closest", as that of `uec_rag.decisions` does.

    Returns
    -------
    dict
        JSON values. "refused": number of questions that got no answer, but messages that ask
        nothing. "words": for each word that no passage has, the largest group first, the "word",
        the "count" of questions with it and the first "questions". "sections": the same for the
        "section" that was closest. "other": number of questions with neither.

    Examples
    --------
    >>> asked = ["Who is on Ward 9?", "Is Ward 9 open?"]
    >>> runs = [Run(text, "abstain", 0.2, None, None, ("Ward 9",), ("Wards",)) for text in asked]
    >>> grouped = group_refusals(runs)
    >>> [(group["word"], group["count"]) for group in grouped["words"]]
    [('Ward 9', 2)]
    >>> [(group["section"], group["count"]) for group in grouped["sections"]]
    [('Wards', 2)]
    """
    refusals = [run for run in runs if run.decision == "abstain" and run.asks]
    return {
        "refused": len(refusals),
        "words": _groups("word", refusals, lambda run: run.gaps),
        "sections": _groups("section", refusals, lambda run: run.closest[:1]),
        "other": sum(not (run.gaps or run.closest) for run in refusals),
    }


def _groups(
    name: str, runs: Iterable[Run], values: Callable[[Run], Sequence[str]]
) -> list[dict[str, Any]]:
    """Group questions by values, whatever their case; the largest group comes first."""
    groups, spellings = defaultdict[str, list[str]](list), dict[str, str]()
    for run in runs:
        for key, value in {value.casefold(): value for value in values(run)}.items():
            spellings.setdefault(key, value)
            groups[key].append(run.question)
    order = sorted(groups, key=lambda key: -len(groups[key]))
    return [
        {
            name: spellings[key],
            "count": len(groups[key]),
            "questions": [*dict.fromkeys(groups[key])][:_SHOWN],
        }
        for key in order
    ]
