"""`uec-rag gate`: a threshold that keeps wrong answers rare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.cli.console import Json, check_file, print_json, print_text, say
from uec_rag.cli.labels import find_noted
from uec_rag.cli.opening import Index, StoreUrl, Trust, open_index
from uec_rag.documents.labels import read_questions

Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS",
        help="A .jsonl, .csv or .tsv file with query and relevant_ids; by default the labels in "
        "INDEX.",
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
    to: Annotated[
        Path | None, typer.Option("--out", help="File for the gate; by default that of the index.")
    ] = None,
    max_wrong: Wrong = None,
    max_risk: Risk = None,
    k: Annotated[
        int, typer.Option("-k", min=1, help="Hits per question that an answer may use.")
    ] = 4,
    force: Annotated[
        bool, typer.Option("--force", help="Save the gate even if it answers no question.")
    ] = False,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Set the confidence above which to answer, from questions as users ask them.

    Each row has a question and, as relevant_ids, what answers it: an id that 'uec-rag ask --json'
    prints, a heading as it reads (faq.md#How do I return it?), or a file, any passage of which then
    answers; nothing, if the documents do not. A question with several answers has several rows, or
    a list in .jsonl. Without QUESTIONS, the labels are used that the explorer, `Retriever.label`
    and POST /labels wrote. A gate that would abstain on every question is not saved, unless with
    --force.

    Example: uec-rag gate idx questions.csv --max-wrong 0.1
    """
    from uec_rag.evaluation.labels import too_few_labels
    from uec_rag.retrieval.gate import GATE_FILE, Gate, check_target
    from uec_rag.retrieval.labelled import LABELS_FILE, LabelledSearch

    check_target(max_wrong, max_risk, 0.95)
    own = index / GATE_FILE
    to = own if to is None else to
    check_file(to, "--out")
    questions = index / LABELS_FILE if questions is None else questions
    asked = read_questions(questions, labelled=True)
    retriever = open_index(index, store, trust)
    labels = find_noted(asked, retriever, questions.name)
    relevant = [*labels.relevant.values()]
    searched = LabelledSearch.from_queries(retriever, [*labels.relevant], relevant, k=k)
    made = Gate.from_search(searched, max_risk, max_wrong=max_wrong)
    assert made.guarantee is not None
    if not made.guarantee.answered and not force:
        raise ValueError(f"{too_few_labels(searched, made.guarantee)}, or save it with --force")
    made.save(to)
    if json:
        print_json({"path": str(to), **made.metadata(), "report": made.report})
        return
    print_text(made.report)
    use = "" if to == own else f" --gate {to}"
    use += "" if store is None else f" --store {store}"
    say(f'Saved in {to}. Use it: uec-rag ask {index} "your question"{use}')
