"""`uec-rag gate`, `questions` and `evaluate`: what labelled questions make and measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from uec_rag.base import __version__
from uec_rag.base.checks import six_digits
from uec_rag.base.errors import require
from uec_rag.cli.console import (
    Index,
    Json,
    Logs,
    open_index,
    out,
    plain,
    print_json,
    print_text,
    say,
)
from uec_rag.documents.question_tables import find_labels, read_questions


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
    from uec_rag.evaluation.evaluate import describe_log
    from uec_rag.evaluation.labels import save_gate, search_labels
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
        is_of_use = made.guarantee is None or not made.guarantee.caution
        use = f' Use it: uec-rag ask {index} "your question"' if is_of_use else ""
        say(f"Saved in {index}.{use}")


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


def evaluate(
    index: Annotated[Path | None, typer.Argument(metavar="INDEX")] = None,
    questions: Annotated[Path | None, typer.Argument()] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000)] = 10,
    log: Logs = None,
    confidence: str = "",
    verdict: str = "",
    picture: Path | None = None,
    json: Json = False,
) -> None:
    """Measure an index: its ranking, and the calibration of its confidence.

    The ensemble is compared with each of its members. The index is not changed. With logs alone,
    the decisions in them are measured, of any system.

    Example: uec-rag evaluate idx questions.csv

    Example: uec-rag evaluate --log runs.jsonl

    Parameters
    ----------
    index
        A folder that 'uec-rag index' made.
    questions
        A table, as 'uec-rag gate' takes it.
    k
        Hits per question.
    log
        A log of a gate's advisor, to compare with others; without an index, a log of decisions,
        also of ragas or LangSmith. May be repeated.
    confidence
        The name of the confidence in a log of decisions, if it has another.
    verdict
        The name of the verdict in a log of decisions, if it has another.
    picture
        An SVG to draw the first log's risk-coverage curve in.
    """
    if index is None or questions is None:
        if index is not None or not log:
            raise typer.BadParameter(
                "expected an index and questions, or a log of decisions (--log)"
            )
        measure_logs(log, confidence, verdict, picture, json=json)
        return
    asked = read_questions(questions, labelled=True)
    require("serve", "ir-measures")
    from uec_rag.evaluation.evaluate import describe_log
    from uec_rag.evaluation.evaluate import evaluate as measure

    retriever = open_index(index)
    labels = find_labels(asked, retriever.passages(), questions.name)
    measures = measure(retriever, labels, k=k)
    if log:
        measures["advisors"] = {path.name: describe_log(path, labels) for path in log}
    if json:
        print_json(six_digits(measures))
        return
    from rich.table import Table

    facts, calibrated = measures["facts"], measures["confidence"]
    print_text(f"{index.absolute().name}, uec-rag {__version__}: {questions.name}")
    print_text(
        f"{facts['questions']} questions, {facts['answerable']} with an answer, "
        f"{facts['passages']} passages, {facts['k']} hits each. ±: half of a 95% interval."
    )
    table = Table("ranking", box=None, pad_edge=False)
    for metric in measures["systems"]["ensemble"]:
        table.add_column(metric, overflow="fold", justify="right")
    for name, metrics in measures["systems"].items():
        table.add_row(plain(name), *map(_mean, metrics.values()))
    out.print(table)
    print_text(
        "Mean confidence minus the share answered correctly: "
        f"{_mean(calibrated['level'], sign='+')}; Brier score {calibrated['brier']:.3f}. "
        f"That is without the {facts['asked_back']} questions that are asked back."
    )
    if log:
        print_advisors(measures["advisors"])


def measure_logs(
    logs: Sequence[Path], confidence: str, verdict: str, picture: Path | None, *, json: bool
) -> None:
    """Measure the decisions in logs, and print them."""
    require("serve", "scipy")
    from rich.table import Table

    from uec_rag.evaluation.evaluate import draw_curve, measure_runs, read_runs

    found = {
        path.name: measure_runs(read_runs(path, confidence=confidence, verdict=verdict))
        for path in logs
    }
    if picture is not None:
        picture.write_text(draw_curve(next(iter(found.values()))["curve"]), encoding="utf-8")
    if json:
        print_json(six_digits(found))
        return
    for name, told in found.items():
        print_text(f"{name}: {told['questions']} questions. In brackets: the 95% interval.")
        table = Table("share", "", "of", box=None, pad_edge=False)
        for key, share in told["shares"].items():
            of = "?" if share is None else f"{share['of']} {_SHARES[key]}"
            value = (
                "?"
                if share is None
                else f"{share['share']:.3f} ({share['low']:.3f} to {share['high']:.3f})"
            )
            table.add_row(key.replace("_", " "), value, of)
        out.print(table)
        if told["aurc"] is not None:
            print_text(f"Mean risk over coverages (AURC): {told['aurc']:.3f}")
        if told["aurc"] is not None and not told["bins"]:
            print_text("Confidence is outside 0 to 1, so that there is no Brier score.")
        if told["bins"]:
            print_text(
                f"Brier score: {told['brier']:.3f}. Confidence, and the share that is right:"
            )
            for one in told["bins"]:
                interval = f"({one['low']:.2f} to {one['high']:.2f})"
                print_text(
                    f"  {one['confidence']:.2f}  {one['right']:.2f} {interval} of {one['count']}"
                )


_SHARES = {
    "answered": "questions",
    "asked_back": "questions",
    "wrong": "answers with a verdict",
    "over_refused": "answerable questions",
}


def print_advisors(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what advisors changed and cost, by the name of their log."""
    for name, row in described.items():
        told = [f"{key} {value:.3g}" for key, value in row.items() if value is not None]
        print_text(f"{name}: {', '.join(told)}")


def _mean(interval: Sequence[float], sign: str = "") -> str:
    """Format a mean with half of its interval."""
    mean, low, high = interval
    return f"{mean:{sign}.3f} ±{(high - low) / 2:.3f}"
