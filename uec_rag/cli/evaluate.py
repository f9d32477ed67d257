"""`uec-rag evaluate`: the paper's whole evaluation, on a folder of test sets."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from uec_rag.cli.console import note, out, print_json, progress, say
from uec_rag.encoders import EMBEDDED

if TYPE_CHECKING:
    from uec_rag.evaluation.groups import Group


def evaluate(
    to: Annotated[
        Path,
        typer.Option("--out", metavar="OUT", help="Folder for report, figures and results."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="UEC_DATA", help="Folder with a folder per test set."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Hub name, folder or pypi:NAME of a model; repeat for several."
        ),
    ] = None,
    specialist: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A model that knows some languages only; repeat. Adds the experiment on those.",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SET", help="A set to report; repeat. Default: all known."),
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(metavar="SET[:SPLIT]", help="A set to fit on; repeat."),
    ] = None,
    mteb: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="Run a task of the mteb package instead of --data; repeat."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny data set of our own, to see that all works.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Measure every system of the paper on a folder of test sets, and write a report.

    A run that was stopped continues where it was.

    Example: uec-rag evaluate --data ./data --model A --model B --model C --out results
    """
    if quick == (data is not None):
        raise ValueError("--data, --quick: expected one of them: a folder of sets, or our own")
    from uec_rag.cli.building import require_fitting_library

    require_fitting_library()
    models = list(model or EMBEDDED)
    if mteb:
        assert_mteb()
    with TemporaryDirectory() as folder:
        groups = _groups(
            Path(folder) if data is None else data, models, specialist, sets, fit, quick=quick
        )
        report = _run(groups, to)
    if mteb:
        _run_mteb(groups[0], mteb, to)
    if json:
        print_json({"report": str(report), "results": str(to / "results.json")})
    else:
        out.print(f"Report: {report}", markup=False, soft_wrap=True)
