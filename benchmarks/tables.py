"""What scripts share: how they run, and how they print what was measured."""

import sys
import warnings
from collections.abc import Callable, Sequence

import typer


def run_script(*commands: Callable[..., None]) -> None:
    """Run a script, whose commands have typer's annotations, without libraries' warnings."""
    warnings.simplefilter("ignore")
    app = typer.Typer(help=sys.modules["__main__"].__doc__, add_completion=False)
    for command in commands:
        app.command()(command)
    app()


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print(f"\n{title}\n\n{markdown(header, rows)}", end="", flush=True)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *rows))
