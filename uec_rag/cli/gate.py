"""`uec-rag gate` and `questions`: a threshold that keeps wrong answers rare, and its labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.base.checks import check_share, six_digits
from uec_rag.base.errors import SavedMeanwhile
from uec_rag.cli.console import (
    Index,
    Json,
    StoreUrl,
    Trust,
    check_file,
    check_index,
    note,
    note_labels,
    open_index,
    print_json,
    print_text,
    say,
)
from uec_rag.documents.labels import find_labels, read_questions

if TYPE_CHECKING:
    from uec_rag.confidence.risk import Guarantee
    from uec_rag.retrieval.labelled import LabelledSearch

_CERTAINTY = 0.95


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
    typer.Option(help="Instead: at most this share of the answers is wrong, with --certainty."),
]
Certainty = Annotated[
    float | None,
    typer.Option(help="Probability that --max-risk is kept.", show_default=str(_CERTAINTY)),
]


def gate(
    index: Index,
    questions: Questions = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="File for the gate; by default that of the index.")
    ] = None,
    max_wrong: Wrong = None,
    max_risk: Risk = None,
    certainty: Certainty = None,
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
    _check_target(max_wrong, max_risk, certainty)
    sure = _CERTAINTY if certainty is None else certainty
    from uec_rag.evaluation.labels import doubtful_labels
    from uec_rag.retrieval.gate import GATE_FILE, Gate
    from uec_rag.retrieval.labelled import LabelledSearch

    own = index / GATE_FILE
    to = own if to is None else to
    check_index(index)
    check_file(to, "--out")
    questions = _labels_of(index) if questions is None else questions
    asked = read_questions(questions, labelled=True)
    retriever = open_index(index, store, trust)
    labels = find_labels(asked, retriever.passages(), questions.name)
    note_labels(labels, questions.name, own)
    relevant = [*labels.relevant.values()]
    changes = retriever.changes
    searched = LabelledSearch.from_queries(retriever, [*labels.relevant], relevant, k=k)
    for said in doubtful_labels(searched.result, searched.relevant, k):
        note(said)
    made = Gate.from_search(searched, max_risk, sure, max_wrong=max_wrong)
    assert made.guarantee is not None
    if not made.guarantee.answered and not force:
        raise ValueError(_too_little(searched, made.guarantee))
    if retriever.changes != changes and not made.fits(retriever):
        raise SavedMeanwhile(
            "no gate was saved: the index changed while the questions were being searched, so "
            "the gate's guarantee would not hold for it; run 'uec-rag gate' again"
        )
    replace(made, labels=labels.digests).save(to)
    if json:
        print_json({"path": str(to), **made.metadata(), "report": made.report})
    else:
        print_text(made.report)
        use = "" if to.absolute() == own.absolute() else f" --gate {to}"
        use += "" if store is None else f" --store {store}"
        say(f'Saved in {to}. Use it: uec-rag ask {index} "your question"{use}')


def _labels_of(index: Path) -> Path:
    """Return the table of an index's labels; FileNotFoundError if there is none."""
    from uec_rag.retrieval.label_file import LABELS_FILE

    if not (index / LABELS_FILE).is_file():
        raise FileNotFoundError(
            f"QUESTIONS: {str(index)!r} has no labels; give some on the page of 'uec-rag explore', "
            "with Retriever.label or POST /labels, or pass a table"
        )
    return index / LABELS_FILE


def questions(
    index: Index,
    asked: Annotated[
        Path | None,
        typer.Argument(
            metavar="ASKED",
            help="A .jsonl, .csv or .tsv file with a column query; the default is headings of the "
            "passages.",
        ),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="List at most so many.")] = 10,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """List the questions to label next: those that a label would teach most.

    These are the questions without a label whose confidence is nearest to the threshold, one for
    each passage that is found first. Label them on the page of 'uec-rag explore', with
    `Retriever.label` or POST /labels.

    Example: uec-rag questions idx asked.csv
    """
    check_index(index)
    from uec_rag.evaluation.labels import questions_to_label
    from uec_rag.retrieval.label_file import LabelFile
    from uec_rag.server.views import questions_to_ask

    own = None if asked is None else [*read_questions(asked, labelled=False)]
    labels = LabelFile(index).read()
    retriever = open_index(index, store, trust)
    own = questions_to_ask(retriever) if own is None else own
    results = questions_to_label(retriever, own, labels, most)
    if json:
        rows = [
            {"query": result.query, "confidence": result.decision.confidence} for result in results
        ]
        print_json(six_digits(rows))
    else:
        print_text(
            "\n".join(f"{result.decision.confidence:.2f}  {result.query}" for result in results)
        )


def _check_target(max_wrong: float | None, max_risk: float | None, certainty: float | None) -> None:
    """Raise ValueError if the options do not make one guarantee."""
    for name, value in {
        "--max-wrong": max_wrong,
        "--max-risk": max_risk,
        "--certainty": certainty,
    }.items():
        if value is not None:
            check_share(value, name, "a number in (0, 1)")
    if max_wrong is not None and max_risk is not None:
        raise ValueError(
            "--max-wrong and --max-risk are mutually exclusive: --max-wrong counts all questions, "
            "--max-risk only answered ones"
        )
    if certainty is not None and max_risk is None:
        raise ValueError("--certainty: expected --max-risk with it; --max-wrong is kept on average")


def _too_little(searched: LabelledSearch, asked: Guarantee) -> str:
    """Explain why the labels do not suffice, and which risk they allow."""
    option = "--max-wrong" if asked.delta is None else "--max-risk"
    target = asked.target[0].upper() + asked.target[1:]
    shares = (percent / 100 for percent in range(int(100 * asked.risk) + 1, 100))
    guarantees = (
        searched.threshold(max_wrong=share)
        if asked.delta is None
        else searched.threshold(share, 1 - asked.delta)
        for share in shares
    )
    allowed = next((guarantee for guarantee in guarantees if guarantee.answered), None)
    return (
        f"no gate was saved, since it would abstain on every question. {target} takes "
        f"at least {asked.needed} labelled questions, more if an answer of high confidence is "
        f"wrong; {asked.queries} were usable (questions that get a clarifying question do not "
        f"count), and the search found an answer to {searched.right.sum()} of them. "
        + (
            "They allow no risk below 99%"
            if allowed is None
            else f"They allow {option} {allowed.risk:.2f}, which answers {allowed.answered} of them"
        )
        + ". Check the labels, provide more, or save the gate with --force"
    )
