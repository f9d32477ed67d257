"""Labels that look wrong, since a confident search contradicts them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from uec_rag.base.checks import counted, one_line
from uec_rag.confidence.model import JUDGED
from uec_rag.retrieval.result import SearchResult

CONFIDENT = 0.9
"""The confidence above which a search contradicts a label."""

_QUOTED, _LONGEST = 3, 80  # questions in a sentence, and characters of each


def doubtful_labels(
    result: SearchResult, relevant: Sequence[Collection[str]], k: int = JUDGED
) -> list[str]:
    """Describe the labels that look wrong, to be checked by whoever gave them.

    These are the labels of questions that a search answers with a confidence above `CONFIDENT`,
    although they are labelled as without an answer, or none of their passages is found. A question
    that gets a clarifying question is left out.

    Parameters
    ----------
    result : SearchResult
    relevant : sequence of n collections of str
        Ids of the passages that answer each question; empty if none does.
    k : int
        Number of hits that confidence is about.

    Returns
    -------
    list of str
        A sentence for each of the two kinds that occurs, with some of the questions.
    """
    without, elsewhere = list[str](), list[str]()
    for one, ids in zip(result, relevant, strict=True):
        if one.decision.action == "clarify" or one.confidence_at(k) <= CONFIDENT:
            continue
        if not ids:
            without.append(one.query)
        elif {*ids}.isdisjoint(one.ids[:k]):
            elsewhere.append(one.query)
    kinds = (
        (without, "as without an answer", "look whether a passage answers"),
        (elsewhere, "with passages that are not found", "look whether what is found also answers"),
    )
    return [_sentence(*kind) for kind in kinds if kind[0]]


def _sentence(questions: Sequence[str], labelled: str, advice: str) -> str:
    shown = ", ".join(f'"{one_line(one)[:_LONGEST]}"' for one in questions[:_QUOTED])
    more = ", ..." if len(questions) > _QUOTED else ""
    have = "has" if len(questions) == 1 else "have"
    return (
        f"{counted(len(questions), 'question')} labelled {labelled} {have} a confidence above "
        f"{CONFIDENT}: {shown}{more}; {advice}."
    )
