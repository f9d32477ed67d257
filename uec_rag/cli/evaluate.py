"""`uec-rag evaluate`: the quality of an index's ranking and the calibration of its confidence."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from uec_rag.base.checks import six_digits, visible
from uec_rag.base.environment import require
from uec_rag.base.version import __version__
from uec_rag.cli.console import Json, check_file, out, plain, print_json, say
from uec_rag.cli.labels import find_noted
from uec_rag.cli.opening import Index, StoreUrl, Trust, open_index
from uec_rag.documents.labels import read_questions

if TYPE_CHECKING:
    from uec_rag.evaluation.evaluate import Evaluation
    from uec_rag.retrieval import Retriever


_PAGE = 120  # characters of a line

Questions = Annotated[
    Path, typer.Argument(metavar="QUESTIONS", help="A table, as 'uec-rag gate' takes it.")
]


def evaluate(
    index: Index,
    questions: Questions,
    against: Annotated[Path | None, typer.Option(help="Another index, to compare it with.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write it to an HTML page, too.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Hits per question.")] = 10,
    store: StoreUrl = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Measure an index: ranking, confidence, what plainer searches would decide.

    The ensemble is compared with each of its members and with their reciprocal rank fusion. The
    index is not changed.

    Example: uec-rag evaluate idx questions.csv --html report.html
    """
    if html is not None:
        check_file(html, "--html")
    asked, name = read_questions(questions, labelled=True), questions.name
    require("serve", "ir-measures")
    from uec_rag.evaluation.evaluate import compare
    from uec_rag.evaluation.evaluate import evaluate as measure

    def opened(folder: Path, place: str | None) -> tuple[Retriever, dict[str, set[str]]]:
        retriever = open_index(folder, place, trust)
        labels = find_noted(asked, retriever, name)
        if against is not None:
            labels.check_complete(f"{name}, asked of {folder}")
        return retriever, labels.relevant

    # Both are opened before either is evaluated, so that invalid labels are reported at once.
    mine = opened(index, store)
    other = None if against is None else opened(against, None)
    found = measure(*mine, k=k)
    difference = None if other is None else compare(found, measure(*other, k=k))
    title = f"{index.absolute().name}, uec-rag {__version__}: {name}"
    last = list[str]()
    if difference is not None:
        said = _mean(difference["difference"], sign="+")
        last.append(f"nDCG@{k} minus that of {against}: {said}.")
    if html is not None:
        page = Console(file=io.StringIO(), record=True, width=_PAGE, highlight=False)
        _show(page, title, found, last)
        page.save_html(str(html))
        say(f"Written to {html}.")
    if json:
        print_json(six_digits(asdict(found) | ({"against": difference} if difference else {})))
    else:
        _show(out, title, found, last)


def _show(console: Console, title: str, found: Evaluation, last: Iterable[str]) -> None:
    """Print an evaluation on a terminal or a page."""

    def line(text: str) -> None:
        console.print(visible(text), markup=False, soft_wrap=True)

    def table(name: str, rows: Mapping[str, Iterable[str]], columns: Iterable[str]) -> None:
        shown = Table(name, box=None, pad_edge=False)
        for column in columns:
            shown.add_column(column, overflow="fold", justify="right")
        for first, cells in rows.items():
            shown.add_row(plain(first), *cells)
        console.print(shown)

    facts, metrics = found.facts, list(found.systems["ensemble"])
    line(title)
    line(
        f"{facts['questions']} questions, {facts['answerable']} with an answer, "
        f"{facts['passages']} passages, {facts['k']} hits each. ±: half of a 95% interval."
    )
    table("ranking", {name: map(_mean, of.values()) for name, of in found.systems.items()}, metrics)
    level, brier = found.confidence["level"], found.confidence["brier"]
    line(
        f"Mean confidence minus the share answered correctly: {_mean(level, sign='+')}; "
        f"Brier score {brier:.3f}."
    )
    if facts["asked_back"]:
        line(f"Here and below without the {facts['asked_back']} questions that are asked back.")
    bins = found.confidence["reliability"]
    rows = {f"{one['confidence']:.2f}": [f"{one['right']:.2f}", str(one["count"])] for one in bins}
    table("mean confidence", rows, ["right", "questions"])
    decided = {
        name: (f"{value:.3f}" for value in item.values()) for name, item in found.baselines.items()
    }
    table("decisions, thresholds chosen on these labels", decided, ["right", "wrong", "AUROC"])
    for said in last:
        line(said)


def _mean(interval: Sequence[float], sign: str = "") -> str:
    """Format a mean with half of its interval."""
    mean, low, high = interval
    return f"{mean:{sign}.3f} ±{(high - low) / 2:.3f}"
