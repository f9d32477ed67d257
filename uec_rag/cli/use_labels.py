"""`uec-rag gate`, `questions` and `evaluate`: what labelled questions make and measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from uec_rag.base import __version__
from uec_rag.base.checks import one_line, pluralize, six_digits
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
    force: bool = False,
    json: Json = False,
) -> None:
    """Set the confidence above which to answer, from questions as users ask them.

    Each row has a question and, as relevant_ids, what answers it: an id that 'uec-rag ask --json'
    prints, a heading as it reads (faq.md#How do I return it?), or a file, any passage of which then
    answers; nothing, if the documents do not. A question with several answers has several rows.
    Without QUESTIONS, the labels are used that the explorer, `Retriever.label` and POST /labels
    wrote. A gate that would abstain on every question is not saved, nor one of fewer than fifty.

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
    force
        Save a gate of fewer than fifty labelled questions, too.
    """
    from uec_rag.evaluation.evaluate import describe_log
    from uec_rag.evaluation.labelling import FEWEST_LABELS, save_gate, search_labels
    from uec_rag.gates.gate import check_target

    check_target(max_wrong, max_risk, 0.95)
    retriever = open_index(index)
    searched = search_labels(retriever, questions, k)
    labels = dict(zip(searched.result.queries, searched.relevant, strict=True))
    advisors = {path.name: describe_log(path, labels) for path in log or ()}
    fewest = 0 if force else FEWEST_LABELS
    new_gate = save_gate(retriever, searched, max_wrong, max_risk, fewest)
    if json:
        print_json({**new_gate.metadata(), "report": new_gate.report, "advisors": advisors})
    else:
        print_text(new_gate.report)
        if advisors:
            print_advisors(advisors)
        is_of_use = new_gate.guarantee is None or not new_gate.guarantee.caution
        use = f' Use it: uec-rag ask {index} "your question"' if is_of_use else ""
        say(f"Saved in {index}.{use}")


def questions(
    index: Index,
    file: Annotated[Path | None, typer.Argument(metavar="ASKED")] = None,
    limit: Annotated[int, typer.Option("--most", min=1)] = 10,
    json: Json = False,
) -> None:
    """List the questions to label next: those that a label would teach most.

    These are the questions without a label whose confidence is nearest to the threshold, one for
    each passage that is found first. Label them on the page of 'uec-rag explore', with
    `Retriever.label` or POST /labels.

    Example: uec-rag questions idx asked.csv

    Parameters
    ----------
    file
        A .csv file with a column query; the default is headings of the passages.
    limit
        List at most so many.
    """
    from uec_rag.evaluation.labelling import questions_to_ask, questions_to_label

    texts = [] if file is None else [*read_questions(file, labelled=False)]
    retriever = open_index(index)
    texts = questions_to_ask(retriever) if file is None else texts
    rows = [
        (result.query, result.decision.confidence)
        for result in questions_to_label(retriever, texts, limit)
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
    max_wrong: Annotated[float, typer.Option()] = 0.1,
    limit: Annotated[int, typer.Option("--most", min=1)] = 100,
    json: Json = False,
) -> None:
    """Measure an index: its ranking, and the calibration of its confidence.

    The ensemble is compared with each of its members. The index is not changed. Without questions,
    some are made of the passages, and asked as they are, with their passages left out, and with a
    number or a name changed: it prints how many are answered, also though nothing answers them.
    With logs alone, the decisions in them are measured, of any system; what was refused is grouped
    by the words and sections that the documents lack.

    Example: uec-rag evaluate idx questions.csv

    Example: uec-rag evaluate idx --max-wrong 0.05

    Example: uec-rag evaluate --log runs.jsonl

    Parameters
    ----------
    index
        A folder that 'uec-rag index' made.
    questions
        A table, as 'uec-rag gate' takes it; by default, questions are made of the passages.
    k
        Hits per question of the table.
    log
        A log of a gate's advisor, to compare with others; without an index, a log of decisions,
        also of ragas or LangSmith. May be repeated.
    confidence
        The name of the confidence in a log of decisions, if it has another.
    verdict
        The name of the verdict in a log of decisions, if it has another.
    max_wrong
        Without questions: print the threshold above which at most this share of the questions
        that nothing answers is answered.
    limit
        Without questions: make so many at most.
    """
    if index is None or questions is None:
        if (index is None) != bool(log):
            raise typer.BadParameter(
                "expected an index, an index and questions, or a log of decisions (--log) alone or "
                "with both"
            )
        if index is None:
            measure_logs(log or (), confidence, verdict, json=json)
        else:
            print_rates(index, max_wrong, limit, json=json)
        return
    entries = read_questions(questions, labelled=True)
    require("serve", "ir-measures")
    from uec_rag.evaluation.evaluate import describe_log
    from uec_rag.evaluation.evaluate import evaluate as measure

    retriever = open_index(index)
    labels = find_labels(entries, retriever.passages(), questions.name)
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
    if measures["other_words"] is not None:
        print_other_words(measures["other_words"])
    if log:
        print_advisors(measures["advisors"])


def print_other_words(counts: Mapping[str, Any]) -> None:
    """Print what questions beside passages bring."""
    from rich.table import Table

    titles = "questions in other words", f"found among {counts['hits']}", "answered or handed over"
    table = Table(*titles, box=None, pad_edge=False)
    for way in ("with", "without"):
        row = counts[way]
        table.add_row(
            f"{way} questions beside passages", str(row["found"]), str(row["handed_over"])
        )
    out.print(table)
    print_text(f"These are {pluralize(counts['questions'], 'question')}.")


def measure_logs(logs: Sequence[Path], confidence: str, verdict: str, *, json: bool) -> None:
    """Measure the decisions in logs, and print them."""
    require("serve", "scipy")
    from rich.table import Table

    from uec_rag.evaluation.evaluate import measure_runs, read_runs
    from uec_rag.evaluation.refusals import group_refusals

    log = {path.name: read_runs(path, confidence=confidence, verdict=verdict) for path in logs}
    measures = {
        name: measure_runs(runs) | {"refusals": group_refusals(runs)} for name, runs in log.items()
    }
    if json:
        print_json(six_digits(measures))
        return
    for name, facts in measures.items():
        counts = pluralize(facts["questions"], "question")
        if facts["different"] < facts["questions"]:
            counts += f", {facts['different']} different, by which the intervals are wide"
        if facts["failed"]:
            counts += f"; {pluralize(facts['failed'], 'run')} failed, and left out"
        print_text(f"{name}: {counts}. In brackets: the 95% interval.")
        table = Table("share", "", "of", box=None, pad_edge=False)
        for key, share in facts["shares"].items():
            of = "?" if share is None else f"{share['of']} {_SHARES[key]}"
            value = (
                "?"
                if share is None
                else f"{share['share']:.3f} ({share['low']:.3f} to {share['high']:.3f})"
            )
            table.add_row(key.replace("_", " "), value, of)
        out.print(table)
        if facts["aurc"] is not None:
            print_text(f"Mean risk over coverages (AURC): {facts['aurc']:.3f}")
        if facts["aurc"] is not None and not facts["bins"]:
            print_text("Confidence is outside 0 to 1, so that there is no Brier score.")
        if facts["bins"]:
            print_text(
                f"Brier score: {facts['brier']:.3f}. Confidence, and the share that is right:"
            )
            for row in facts["bins"]:
                interval = f"({row['low']:.2f} to {row['high']:.2f})"
                print_text(
                    f"  {row['confidence']:.2f}  {row['right']:.2f} {interval} of {row['count']}"
                )
        print_refusals(facts["refusals"])


def print_refusals(refusals: Mapping[str, Any]) -> None:
    """Print what was refused, by the words and sections that the documents lack."""
    for name, title in {"word": "Words that no passage has", "section": "Closest sections"}.items():
        if groups := refusals[f"{name}s"]:
            print_text(f"{title}, of {refusals['refused']} questions without an answer:")
        for group in groups[:_GROUPS]:
            question = one_line(group["questions"][0])
            print_text(f"  {group['count']}  {one_line(group[name])}, as in: {question}")


def print_rates(index: Path, max_wrong: float, size: int, *, json: bool) -> None:
    """Print how an index decides questions that are made of its passages."""
    from rich.table import Table

    from uec_rag.evaluation.rates import estimate_rates

    rates = estimate_rates(open_index(index), max_wrong=max_wrong, most=size)
    if json:
        print_json(six_digits(rates))
        return
    facts = rates["facts"]
    print_text(
        f"{index.absolute().name}, uec-rag {__version__}: {facts['questions']} questions made of "
        f"{facts['passages']} passages, answered above confidence {facts['threshold']:.3g}. Asked "
        "as they are, with what answers them left out, and with a number or a name changed. In "
        "brackets: the 95% interval."
    )
    ways = [way for way in _WAYS if way != "in_other_words" or rates[way]["questions"]]
    table = Table("", *map(_WAYS.__getitem__, ways), box=None, pad_edge=False)
    table.add_row("questions", *(str(rates[way]["questions"]) for way in ways))
    for name, title in _OUTCOMES.items():
        table.add_row(title, *(_share(rates[way][name]) for way in ways))
    out.print(table)
    table = Table("file", "questions", *_OF_FILES, box=None, pad_edge=False)
    for file, by_way in rates["files"].items():
        counts = by_way["as_they_are"]
        shares = _share(counts["answered_rightly"]), _share(by_way["still_answered"])
        table.add_row(plain(file or "(no file)"), str(counts["questions"]), *shares)
    out.print(table)
    print_text(f"Answered though nothing answers: {_share(rates['still_answered'])}")
    for mistake in rates["mistakes"][:_GROUPS]:
        place = f"{mistake['file']}, {_WAYS[mistake['way']]}"
        print_text(f"  {mistake['confidence']:.2f}  {one_line(mistake['question'])} ({place})")
    limit = rates["threshold"]
    if limit["still_answered"]["of"] < limit["needed"]:
        print_text(f"A limit of {max_wrong:.1%} takes {limit['needed']} questions or more.")
        return
    print_text(
        f"At most {max_wrong:.1%} of what nothing answers is answered, on average, above "
        f"confidence {limit['threshold']:.3f}: Gate({limit['threshold']:.3f}). Above it, answered "
        f"correctly: {_share(limit['answered_rightly'])}."
    )


_OF_FILES = "answered correctly", "though nothing answers"
_GROUPS = 10  # groups and mistakes that are printed
_WAYS = {
    "as_they_are": "as they are",
    "in_other_words": "in other words",
    "left_out": "left out",
    "changed": "changed",
}
_OUTCOMES = {
    "answered_rightly": "answered correctly",
    "answered_wrongly": "answered wrongly",
    "asked_back": "asked back",
    "handed_over": "handed over",
    "refused": "refused",
}


def _share(share: Mapping[str, float] | None) -> str:
    """Format a share with its interval."""
    if share is None:
        return "-"
    return f"{share['share']:.0%} ({share['low']:.0%} to {share['high']:.0%})"


_SHARES = {
    "answered": "questions",
    "asked_back": "questions",
    "wrong": "answers with a verdict",
    "over_refused": "answerable questions",
}


def print_advisors(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what advisors changed and cost, by the name of their log."""
    for name, row in described.items():
        parts = [f"{key} {value:.3g}" for key, value in row.items() if value is not None]
        print_text(f"{name}: {', '.join(parts)}")


def _mean(interval: Sequence[float], sign: str = "") -> str:
    """Format a mean with half of its interval."""
    mean, low, high = interval
    return f"{mean:{sign}.3f} ±{(high - low) / 2:.3f}"
