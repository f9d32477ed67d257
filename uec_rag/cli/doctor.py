"""`uec-rag doctor`: what is installed, and what is wrong with it."""

from dataclasses import asdict

import typer
from rich.markup import escape
from rich.table import Table

from uec_rag.cli.console import Json, out, print_json, say


def doctor(
    json: Json = False,
) -> None:
    """Check the environment: libraries, devices, and what to do where something is wrong.

    Ends with exit code 1 if there is a problem.

    Example: uec-rag doctor
    """
    say("Looking at the installed libraries ...")
    from uec_rag.base.environment import report
    from uec_rag.encoders.artifacts import cache_folder

    found = report()
    rows = found.rows | {"cache folder": str(cache_folder())}
    if json:
        print_json({"rows": rows, "problems": [asdict(problem) for problem in found.problems]})
    else:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for label, value in rows.items():
            table.add_row(escape(label), escape(value))
        out.print(table)
        for problem in found.problems:
            out.print(f"\n[bold red]problem:[/] {escape(problem.what)}", soft_wrap=True)
            out.print(f"    to mend it: {escape(problem.fix)}", soft_wrap=True)
        if not found.problems:
            out.print("\n[green]All is well.[/]")
    if found.problems:
        raise typer.Exit(1)
