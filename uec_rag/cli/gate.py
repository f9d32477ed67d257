"""`uec-rag gate` and `uec-rag questions`: a threshold from labels, and what to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uec_rag.base.checks import six_digits
from uec_rag.cli.console import Index, Json, Logs, open_index, print_json, print_text, say
from uec_rag.documents.labels import read_questions


def gate(
    index: Index,
    questions: Annotated[Path | None, typer.Argument(metavar="QUESTIONS")] = None,
    max_wrong: Annotated[float | None, typer.Option(show_default="0.1")] = None,
    max_risk: float | None = None,
    k: Annotated[int, typer.Option("-k", min=1)] = 4,
    log: Logs = None,
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
    log
        A log of a gate's advisor, to tell what it is worth on these labels; may be repeated.
    """
    from uec_rag.cli.evaluate import print_advisors
    from uec_rag.evaluation.labels import save_gate, search_labels
    from uec_rag.evaluation.runs import describe_log
    from uec_rag.retrieval.gate import check_target

    check_target(max_wrong, max_risk, 0.95)
    retriever = open_index(index)
    searched = search_labels(retriever, questions, k)
    labels = dict(zip(searched.result.queries, searched.relevant, strict=True))
    advisors = {path.name: describe_log(path, labels) for path in log or ()}
    made = save_gate(retriever, searched, max_wrong, max_risk)
    if json:
        print_json({**made.metadata(), "report": made.report, "advisors": advisors})
    else:
        print_text(made.report)
        if advisors:
            print_advisors(advisors)
        say(f'Saved in {index}. Use it: uec-rag ask {index} "your question"')


def questions(
    index: Index,
    asked: Annotated[Path | None, typer.Argument(metavar="ASKED")] = None,
    most: Annotated[int, typer.Option(min=1)] = 10,
    json: Json = False,
) -> None:
    """List the questions to label next: those that a label would teach most.

    These are the questions without a label whose confidence is nearest to the threshold, one for
    each passage that is found first. Label them on the page of 'uec-rag explore', with
    `Retriever.label` or POST /labels.

    Example: uec-rag questions idx asked.csv

    Parameters
    ----------
    asked
        A .csv file with a column query; the default is headings of the passages.
    most
        List at most so many.
    """
    from uec_rag.evaluation.labels import questions_to_ask, questions_to_label

    own = [] if asked is None else [*read_questions(asked, labelled=False)]
    retriever = open_index(index)
    own = questions_to_ask(retriever) if asked is None else own
    rows = [
        (result.query, result.decision.confidence)
        for result in questions_to_label(retriever, own, most)
    ]
    if json:
        print_json(six_digits([{"query": query, "confidence": sure} for query, sure in rows]))
    else:
        print_text("\n".join(f"{sure:.2f}  {query}" for query, sure in rows))
