"""`uec-rag gate`: a threshold that keeps wrong answers rare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.console import Json, print_json, print_text, say
from uec_rag.cli.opening import Index, open_index
from uec_rag.documents.labels import find_labels, read_questions

Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS",
        help="A .csv file with query and relevant_ids; by default the labels in INDEX.",
    ),
]
Wrong = Annotated[
    float | None,
    typer.Option(
        help="At most this share of all questions get a wrong answer, on average.",
        show_default="0.1",
    ),
]
Risk = Annotated[
    float | None,
    typer.Option(help="Instead: at most this share of the answers is wrong, with 95% certainty."),
]


def gate(
    index: Index,
    questions: Questions = None,
    max_wrong: Wrong = None,
    max_risk: Risk = None,
    k: Annotated[
        int, typer.Option("-k", min=1, help="Hits per question that an answer may use.")
    ] = 4,
    json: Json = False,
) -> None:
    """Set the confidence above which to answer, from questions as users ask them.

    Each row has a question and, as relevant_ids, what answers it: an id that 'uec-rag ask --json'
    prints, a heading as it reads (faq.md#How do I return it?), or a file, any passage of which then
    answers; nothing, if the documents do not. A question with several answers has several rows.
    Without QUESTIONS, the labels are used that the explorer, `Retriever.label` and POST /labels
    wrote. A gate that would abstain on every question is not saved.

    Example: uec-rag gate idx questions.csv --max-wrong 0.1
    """
    from uec_rag.evaluation.labels import too_few_labels
    from uec_rag.retrieval.gate import GATE_FILE, Gate, check_target
    from uec_rag.retrieval.labelled import LABELS_FILE, LabelledSearch

    check_target(max_wrong, max_risk, 0.95)
    questions = index / LABELS_FILE if questions is None else questions
    asked = read_questions(questions, labelled=True)
    retriever = open_index(index)
    relevant = find_labels(asked, retriever.passages(), questions.name)
    searched = LabelledSearch.from_queries(retriever, [*relevant], [*relevant.values()], k=k)
    made = Gate.from_search(searched, max_risk, max_wrong=max_wrong)
    assert made.guarantee is not None
    if not made.guarantee.answered:
        raise ValueError(too_few_labels(made.guarantee))
    made.save(index / GATE_FILE)
    if json:
        print_json({**made.metadata(), "report": made.report})
    else:
        print_text(made.report)
        say(f'Saved in {index}. Use it: uec-rag ask {index} "your question"')
