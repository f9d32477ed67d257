"""`uec-rag evaluate`: the quality of an index's ranking and the calibration of its confidence."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from uec_rag.base.checks import six_digits
from uec_rag.base.environment import require
from uec_rag.cli.console import (
    Index,
    Json,
    StoreUrl,
    Trust,
    check_file,
    check_index,
    note,
    open_index,
    out,
    plain,
    print_json,
    print_text,
    say,
)
from uec_rag.cli.labels import find_noted
from uec_rag.documents.labels import read_questions

if TYPE_CHECKING:
    from uec_rag.evaluation.evaluate import Evaluation
    from uec_rag.retrieval import Retriever


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
    against: Annotated[Path | None, typer.Option(help="Another index, to compare it with.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write everything to one HTML page.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Hits per question.")] = 10,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Measure an index: ranking, confidence, what could be answered.

    The ensemble is compared with each of its members and with their reciprocal rank fusion. --html
    and --json also contain what could be answered at which risk. The index is not changed.

    Example: uec-rag evaluate idx questions.csv --html report.html
    """
    if html is not None:
        check_file(html, "--html")
    if against is not None and questions is None:
        raise ValueError("--against: two indexes are compared by labels; give QUESTIONS")
    asked = None if questions is None else read_questions(questions, labelled=True)
    name = None if questions is None else questions.name
    check_index(index)
    if against is not None:
        check_index(against, "--against")
    require("serve", "ir-measures", "jinja2")
    from uec_rag.evaluation.evaluate import compare
    from uec_rag.evaluation.evaluate import evaluate as measure
    from uec_rag.evaluation.report import evaluation_page

    def opened(folder: Path, place: str | None) -> tuple[Retriever, dict[str, set[str]] | None]:
        retriever, complete = open_index(folder, place, trust), against is not None
        if asked is None or name is None:
            return retriever, None
        return retriever, find_noted(asked, retriever, name, complete=complete).relevant

    # Both are opened before either is evaluated, so that invalid labels are reported at once.
    mine = opened(index, store)
    other = None if against is None else opened(against, None)
    evaluation = measure(*mine, k=k)
    for problem in evaluation.doubtful:
        note(problem)
    difference = None
    if other is not None and against is not None:
        difference = compare(evaluation, measure(*other, k=k)) | {"index": against.name}
    if html is not None:
        page = evaluation_page(evaluation, difference, index=index.absolute().name, questions=name)
        html.write_text(page, encoding="utf-8")
    if json:
        comparison = {} if difference is None else {"against": difference}
        print_json(six_digits(asdict(evaluation) | comparison))
        return
    _print(evaluation)
    if questions is None:
        print_text(mine[0].report)
    if difference is not None:
        mean, low, high = difference["difference"]
        print_text(
            f"nDCG@{k} minus that of {against}: {mean:+.3f} ({low:+.3f} to {high:+.3f}), "
            f"{difference['questions']} questions."
        )
    say(f"Written to {html}." if html else "With --html report.html all of it is on one page.")


def _print(evaluation: Evaluation) -> None:
    facts = evaluation.facts
    if facts["made_up"]:
        note("the questions were made from the passages and are harder than users' questions")
    print_text(
        f"{facts['questions']} questions, {facts['answerable']} with an answer, "
        f"{facts['passages']} passages, {facts['k']} hits each. ±: half of a 95 % interval."
    )
    metrics = list(next(iter(evaluation.systems.values())))
    ranking = _table("", *metrics)
    for name, of in evaluation.systems.items():
        cells = (f"{mean:.3f} ±{(high - low) / 2:.3f}" for mean, low, high in of.values())
        ranking.add_row(plain(name), *cells)
    out.print(ranking)
    mean, low, high = evaluation.confidence["level"]
    print_text(
        f"Mean confidence minus the share answered correctly: {mean:+.3f} ±{(high - low) / 2:.3f}; "
        f"Brier score {evaluation.confidence['brier']:.3f}."
    )
    decided = _table("decisions, thresholds chosen on these labels", "right", "wrong", "AUROC")
    for name, item in evaluation.baselines.items():
        decided.add_row(plain(name), *(f"{value:.3f}" for value in item.values()))
    out.print(decided)
    if facts["asked_back"]:
        note(f"confidence is measured without the {facts['asked_back']} questions asked back about")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if position else "left")
    return table
