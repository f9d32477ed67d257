"""What becomes of what people type first: ten small sets, second turns, a store without a fit.

    python -m benchmarks.quality.first_tries [CLONES] [--verbose]

CLONES has the two manuals of `contexts.short`, to which questions of a few words are asked, too. Of
questions that nothing answers, and of ambiguous ones, it counts what is answered; of second
turns by the reply that stands before them: none, a short one, a sentence, the passage.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality import contexts
from benchmarks.quality.shared import shipped
from benchmarks.tables import print_table, run_script


def main(
    clones: Annotated[Path | None, typer.Argument(help="Folder of pytest and flask.")] = None,
    verbose: bool = False,
) -> None:
    """Print what is right, wrong and asked back, by set and kind."""
    uec, counts = shipped(), Counter[tuple[str, str, str]]()
    rows = [*contexts.first_tries(uec), *contexts.second_turns(uec), *contexts.unfitted(uec)]
    rows += contexts.first_tries(uec, "small_facts")
    rows += contexts.short(uec, clones) if clones else ()
    for row, result in contexts.results([row for row in rows if row.set != "unfitted"]):
        decision = result.decision
        outcomes = {
            "of": True,
            "right": row.is_right(result),
            "wrong": row.is_wrong(result),
            "asked in vain": decision.action == "clarify" and row.wants != "clarify",
            "answered": decision.action == "answer",
        }
        counts.update({(row.set, row.kind, name): value for name, value in outcomes.items()})
        if verbose and not outcomes["right"]:
            told = f"{decision.action:8}{decision.confidence:.2f} {decision.underspecified:.2f}"
            print(f"{row.set:16} {row.kind:10} {told} {row.question} | {decision.reason[:90]}")
    names = ("of", "right", "wrong", "asked in vain", "answered")
    kinds = dict.fromkeys((of, kind) for of, kind, _ in counts)
    table = [[*key, *(str(counts[*key, name]) for name in names)] for key in kinds]
    print_table("First tries", ["set", "kind", *names], table)


if __name__ == "__main__":
    run_script(main)
