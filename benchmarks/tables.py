"""What was measured, as a table of Markdown."""

from collections.abc import Sequence


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print(f"\n{title}\n")
    for line in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(line)} |", flush=True)
