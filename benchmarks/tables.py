"""What scripts share: how they run, and how they print what was measured."""

import sys
import warnings
from collections import Counter
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


class Tally(dict[tuple[str, ...], Counter[str]]):
    """How often each kind of question had each outcome."""

    def note(self, kind: tuple[str, ...], *outcomes: str) -> None:
        """Count a question of a kind, and what became of it."""
        self.setdefault(kind, Counter()).update(("of", *outcomes))

    def rows(self, *outcomes: str, shares: bool = False) -> list[list[str]]:
        """A row for each kind: how many there are, and how many of them had each outcome."""
        return [
            [*kind, str(n := of["of"])]
            + [f"{of[one] / n:.2f}" if shares else str(of[one]) for one in outcomes]
            for kind, of in self.items()
        ]
