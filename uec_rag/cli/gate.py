"""`uec-rag gate`: a threshold that keeps the share of wrong answers below a target."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.base.checks import check_share
from uec_rag.base.errors import SavedMeanwhile
from uec_rag.base.saved.generations import is_last
from uec_rag.cli.console import (
    Index,
    Json,
    StorePlace,
    Trust,
    check_file,
    check_index,
    open_index,
    print_json,
    print_text,
    progress,
    say,
)
from uec_rag.corpora.tables import ids_named, read_questions

if TYPE_CHECKING:
    from uec_rag.confidence.risk import RiskThreshold
    from uec_rag.retrieval.gate import LabelledSearch

_CERTAINTY = 0.95


def gate(
    index: Index,
    questions: Annotated[
        Path,
        typer.Argument(
            help="A .jsonl, .csv or .tsv file: query and, without --abstain, relevant_ids."
        ),
    ],
    to: Annotated[
        Path | None, typer.Option("--out", help="File for the gate; by default that of the index.")
    ] = None,
    wrong: Annotated[
        float | None,
        typer.Option(
            help="Largest share of all questions that get a wrong answer, on average.",
            show_default="0.1",
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            help="Instead: largest share of wrong answers among those given, with --certainty."
        ),
    ] = None,
    certainty: Annotated[
        float | None,
        typer.Option(help="Probability that --risk is kept.", show_default=str(_CERTAINTY)),
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(help="Share of questions to leave unanswered instead, without a guarantee."),
    ] = None,
    needless: Annotated[
        float | None,
        typer.Option(
            help="Largest share of the answerable questions that get a clarifying question."
        ),
    ] = None,
    one_per_answer: Annotated[
        bool,
        typer.Option(help="Choose the threshold on one question of those that share an answer."),
    ] = False,
    k: Annotated[
        int, typer.Option("-k", min=1, help="Hits per question that an answer may use.")
    ] = 4,
    store: StorePlace = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Set the confidence threshold for answers, from questions as users ask them.

    relevant_ids holds the id of a passage, as 'uec-rag ask --json' prints it, or a file, all of
    whose passages then answer; leave it empty if nothing answers. A question with several answers
    has several rows, or a list in .jsonl. A gate that would abstain on every question is not saved.

    Example: uec-rag gate idx questions.csv --wrong 0.1
    """
    promises = {"--wrong": wrong, "--risk": risk, "--certainty": certainty, "--needless": needless}
    for name, value in promises.items():
        if abstain is not None and value is not None:
            raise ValueError(
                f"--abstain and {name}: expected one of them, got both; --abstain leaves a share "
                "of the questions unanswered, whatever the risk"
            )
        if value is not None:
            check_share(value, name, "a number in (0, 1)")
    if abstain is not None:
        check_share(abstain, "--abstain", "a share in [0, 1)")
    if wrong is not None and risk is not None:
        raise ValueError(
            "--wrong and --risk: expected one of them; that is of all questions, this of answers"
        )
    if certainty is not None and risk is None:
        raise ValueError("--certainty: expected --risk with it; --wrong is kept on average")
    sure = _CERTAINTY if certainty is None else certainty
    from uec_rag.retrieval.gate import GATE_FILE, Gate, LabelledSearch, shared_answers

    own = index / GATE_FILE
    to = own if to is None else to
    check_index(index)
    check_file(to, "--out")
    asked = read_questions(questions, labelled=abstain is None)
    retriever = open_index(index, store, trust)
    if abstain is None:
        relevant = ids_named(asked.values(), retriever.passages(), questions.name)
    with progress() as bar:
        advance = partial(bar.show, "Searching")
        if abstain is not None:
            made = Gate.budget(retriever, [*asked], abstain=abstain, k=k, progress=advance)
        else:
            groups = shared_answers(relevant) if one_per_answer else None
            searched = LabelledSearch.of(
                retriever, [*asked], relevant, k=k, groups=groups, progress=advance
            )
            made = searched.gate(risk, sure, wrong=wrong, needless=needless)
    if abstain is None and not made.threshold.is_controlled:
        raise ValueError(_too_little(searched, made.threshold))
    saved_anew = not all(map(is_last, retriever.saved_as))
    if saved_anew and not made.fits(open_index(index, store, trust)):
        raise SavedMeanwhile(
            "no gate was saved: the index changed while the questions were being searched, so "
            "the gate's guarantee would not hold for it; run 'uec-rag gate' again"
        )
    made.save(to)
    if json:
        print_json({"path": str(to), **made.metadata(), "report": made.report})
    else:
        print_text(made.report)
        use = "" if to.absolute() == own.absolute() else f" --gate {to}"
        use += "" if store is None else f" --store {store}"
        say(f'Saved in {to}. Use it: uec-rag ask {index} "your question"{use}')


def _too_little(searched: LabelledSearch, asked: RiskThreshold) -> str:
    """Explain why the labels do not suffice, and which risk they allow."""
    right = searched.right[searched.rows].sum()
    if asked.delta is None:
        option, target = "--wrong", f"At most {asked.risk:.1%} of all questions answered wrongly"
    else:
        option = "--risk"
        target = f"At most {asked.risk:.1%} wrong answers with {1 - asked.delta:.0%} certainty"
    shares = (percent / 100 for percent in range(int(100 * asked.risk) + 1, 100))
    found = (
        searched.threshold(wrong=share)
        if asked.delta is None
        else searched.threshold(share, 1 - asked.delta)
        for share in shares
    )
    allowed = next((one for one in found if one.is_controlled), None)
    return (
        f"QUESTIONS: no gate was saved, since it would abstain on every question. {target} takes "
        f"at least {asked.needed} labelled questions, more if an answer of high confidence is "
        f"wrong; {asked.queries} were usable (questions that get a clarifying question do not "
        f"count), and the search found an answer to {right} of them. "
        + (
            "They allow no risk below 99%"
            if allowed is None
            else f"They allow {option} {allowed.risk:.2f}, which answers {allowed.answered} of them"
        )
    )
