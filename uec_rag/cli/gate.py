"""`uec-rag gate`: a threshold that keeps wrong answers rare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.console import Index, Json, open_index, print_json, print_text, say


def gate(
    index: Index,
    questions: Annotated[Path | None, typer.Argument(metavar="QUESTIONS")] = None,
    max_wrong: Annotated[float | None, typer.Option(show_default="0.1")] = None,
    max_risk: float | None = None,
    k: Annotated[int, typer.Option("-k", min=1)] = 4,
    json: Json = False,
) -> None:
    """Set the confidence above which to answer, from questions as users ask them.

    Each row has a question and, as relevant_ids, what answers it: an id that 'uec-rag ask --json'
    prints, a heading as it reads (faq.md#How do I return it?), or a file, any passage of which then
    answers; nothing, if the documents do not. A question with several answers has several rows.
    Without QUESTIONS, the labels are used that the explorer, `Retriever.label` and POST /labels
    wrote. A gate that would abstain on every question is not saved.

    Example: uec-rag gate idx questions.csv --max-wrong 0.1

    Parameters
    ----------
    questions
        A .csv file with query and relevant_ids; by default the labels in INDEX.
    max_wrong
        At most this share of all questions get a wrong answer, on average.
    max_risk
        Instead: at most this share of the answers is wrong, with 95% certainty.
    k
        Hits per question that an answer may use.
    """
    from uec_rag.evaluation.labels import save_gate, search_labels
    from uec_rag.retrieval.gate import check_target

    check_target(max_wrong, max_risk, 0.95)
    retriever = open_index(index)
    made = save_gate(retriever, search_labels(retriever, questions, k), max_wrong, max_risk)
    if json:
        print_json({**made.metadata(), "report": made.report})
    else:
        print_text(made.report)
        say(f'Saved in {index}. Use it: uec-rag ask {index} "your question"')
