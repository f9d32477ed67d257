"""`uec-rag evaluate`: the quality of an index's ranking and the calibration of its confidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from uec_rag.base.checks import six_digits
from uec_rag.base.environment import require
from uec_rag.base.version import __version__
from uec_rag.cli.console import Json, out, plain, print_json, print_text
from uec_rag.cli.opening import Index, StoreUrl, Trust, open_index
from uec_rag.documents.labels import find_labels, read_questions

if TYPE_CHECKING:
    from uec_rag.evaluation.evaluate import Evaluation

Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS",
        help="A table, as 'uec-rag gate' takes it. Without it, questions are made from the "
        "passages.",
    ),
]


def evaluate(
    index: Index,
    questions: Questions = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Hits per question.")] = 10,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Measure an index: ranking, confidence, what could be answered.

    The ensemble is compared with each of its members and with their reciprocal rank fusion. The
    index is not changed.

    Example: uec-rag evaluate idx questions.csv
    """
    asked = None if questions is None else read_questions(questions, labelled=True)
    name = "questions made from the passages" if questions is None else questions.name
    require("serve", "ir-measures")
    from uec_rag.evaluation.evaluate import evaluate as measure

    retriever = open_index(index, store, trust)
    labels = None if asked is None else find_labels(asked, retriever.passages(), name)
    found = measure(retriever, labels, k=k)
    if json:
        print_json(six_digits(asdict(found)))
        return
    print_text(f"{index.absolute().name}, uec-rag {__version__}: {name}")
    _show(found)
    if asked is None:
        print_text(retriever.report)


def _show(found: Evaluation) -> None:
    """Print an evaluation."""
    facts, confidence = found.facts, found.confidence
    print_text(
        f"{facts['questions']} questions, {facts['answerable']} with an answer, "
        f"{facts['passages']} passages, {facts['k']} hits each. ±: half of a 95% interval."
    )
    if facts["made_up"]:
        print_text("Made of the passages, questions are harder than users' questions.")
    metrics = {name: map(_mean, of.values()) for name, of in found.systems.items()}
    _print_table("ranking", metrics, found.systems["ensemble"])
    for problem in found.doubtful:
        print_text(problem)
    print_text(
        "Mean confidence minus the share answered correctly: "
        f"{_mean(confidence['level'], sign='+')}; Brier score {confidence['brier']:.3f}. "
        f"Here and below without the {facts['asked_back']} questions that are asked back."
    )
    bins = {
        f"{one['confidence']:.2f}": [f"{one['right']:.2f}", str(one["count"])]
        for one in confidence["reliability"]
    }
    _print_table("mean confidence", bins, ["right", "questions"])
    print_text(
        "Answered at each share of wrong answers: by a gate whose guarantee holds for future "
        "questions with 95% certainty, and by the best threshold for these questions, on "
        f"confidence or on the similarity of {facts['compared']}."
    )
    ways = ["gate", "confidence", "similarity"]
    risks = {str(row["risk"]): [f"{row[way]:.0%}" for way in ways] for row in found.risks}
    _print_table("risk", risks, ways)
    plainer = {
        name: (f"{value:.3f}" for value in item.values()) for name, item in found.baselines.items()
    }
    _print_table("thresholds chosen on these labels", plainer, ["right", "wrong", "AUROC"])


def _print_table(name: str, rows: Mapping[str, Iterable[str]], columns: Iterable[str]) -> None:
    shown = Table(name, box=None, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold", justify="right")
    for first, cells in rows.items():
        shown.add_row(plain(first), *cells)
    out.print(shown)


def _mean(interval: Sequence[float], sign: str = "") -> str:
    """Format a mean with half of its interval."""
    mean, low, high = interval
    return f"{mean:{sign}.3f} ±{(high - low) / 2:.3f}"
