"""What was measured, as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def print_table(title: str, header: list[str], rows: list[list[str]], *, markdown: bool) -> None:
    """Print a table, for a terminal or as Markdown."""
    if markdown:
        print(f"\n{title}\n")
        for line in (header, ["---"] * len(header), *rows):
            print(f"| {' | '.join(line)} |")
        return
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
