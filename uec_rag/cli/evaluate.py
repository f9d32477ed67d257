"""`uec-rag evaluate`: the quality of an index's ranking and the calibration of its confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from uec_rag.base import __version__
from uec_rag.base.checks import six_digits
from uec_rag.base.errors import require
from uec_rag.cli.console import Index, Json, Logs, open_index, out, plain, print_json, print_text
from uec_rag.documents.labels import find_labels, read_questions


def evaluate(
    index: Index,
    questions: Path,
    k: Annotated[int, typer.Option("-k", min=1, max=1000)] = 10,
    log: Logs = None,
    json: Json = False,
) -> None:
    """Measure an index: its ranking, and the calibration of its confidence.

    The ensemble is compared with each of its members. The index is not changed.

    Example: uec-rag evaluate idx questions.csv

    Parameters
    ----------
    questions
        A table, as 'uec-rag gate' takes it.
    k
        Hits per question.
    log
        A log of a gate's advisor, to compare with others; may be repeated.
    """
    asked = read_questions(questions, labelled=True)
    require("serve", "ir-measures")
    from uec_rag.evaluation.advisors import describe_log
    from uec_rag.evaluation.evaluate import evaluate as measure

    retriever = open_index(index)
    labels = find_labels(asked, retriever.passages(), questions.name)
    found = measure(retriever, labels, k=k)
    if log:
        found["advisors"] = {path.name: describe_log(path, labels) for path in log}
    if json:
        print_json(six_digits(found))
        return
    facts, confidence = found["facts"], found["confidence"]
    print_text(f"{index.absolute().name}, uec-rag {__version__}: {questions.name}")
    print_text(
        f"{facts['questions']} questions, {facts['answerable']} with an answer, "
        f"{facts['passages']} passages, {facts['k']} hits each. ±: half of a 95% interval."
    )
    table = Table("ranking", box=None, pad_edge=False)
    for metric in found["systems"]["ensemble"]:
        table.add_column(metric, overflow="fold", justify="right")
    for name, metrics in found["systems"].items():
        table.add_row(plain(name), *map(_mean, metrics.values()))
    out.print(table)
    print_text(
        "Mean confidence minus the share answered correctly: "
        f"{_mean(confidence['level'], sign='+')}; Brier score {confidence['brier']:.3f}. "
        f"That is without the {facts['asked_back']} questions that are asked back."
    )
    if log:
        print_advisors(found["advisors"])


def print_advisors(described: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what advisors changed and cost, by the name of their log."""
    for name, row in described.items():
        told = [f"{key} {value:.3g}" for key, value in row.items() if value is not None]
        print_text(f"{name}: {', '.join(told)}")


def _mean(interval: Sequence[float], sign: str = "") -> str:
    """Format a mean with half of its interval."""
    mean, low, high = interval
    return f"{mean:{sign}.3f} ±{(high - low) / 2:.3f}"
