"""What is answered because a question like it was written for a passage, and what is not.

    python -m benchmarks.quality.asked [DATA] [--learn] [--write]

written/library.json are sections of a town library with questions and names, and for 15 of them a
question in other words, a paraphrase of a written question, and a neighbour: worded like it, and
answered by nothing. All was written before anything was searched. With DATA, the folder of test
collections, its handbooks are asked, too, of which another model wrote questions and neighbours.

`--learn` tries weights of the row `asked` on the library and the first handbook: of those with
which at most one neighbour in ten is answered, those that answer the most. The other handbook
is left to check them: by it, `asked` is 7 and `covered_most` 0.45 in place of 8 and 0.4, since two
neighbours fewer of it are answered.
"""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

import uec_rag.evidence
from benchmarks.quality.contexts import Asked, results, written
from benchmarks.quality.shared import shipped, write_learned
from benchmarks.tables import Tally, print_table, run_script
from uec_rag.evidence.table import weights
from uec_rag.retrieval.results import Result

LARGEST = 0.1  # share of neighbours that may be answered
TRIED = {
    "asked": (6.0, 7.0, 8.0),
    "alike_least": (0.26, 0.3, 0.34),
    "alike_most": (0.42, 0.45, 0.5),
    "covered_most": (0.4, 0.45, 0.5),
}
HELD_BACK = "university"


def has_answer(row: Asked, result: Result) -> bool:
    """Whether a question is answered rightly."""
    return row.wants == "answer" and row.is_right(result)


def learn(rows: list[Asked]) -> dict[str, float]:
    """The weights that answer the most, with few neighbours."""
    current, best = weights(), (-1, dict[str, float]())
    assert isinstance(current, dict)
    before = dict(current)
    for values in product(*TRIED.values()):
        current.update(zip(TRIED, values, strict=True))
        told = [*results(rows)]
        neighbours = [of.decision.action for row, of in told if row.set == "neighbour"]
        if neighbours.count("answer") <= LARGEST * len(neighbours):
            count = sum(has_answer(*pair) for pair in told)
            best = max(best, (count, dict(zip(TRIED, values, strict=True))), key=itemgetter(0))
    current.update(before)
    return best[1]


def main(
    folder: Annotated[Path | None, typer.Argument()] = None,
    learns: Annotated[bool, typer.Option("--learn")] = False,
    write: Annotated[bool, typer.Option("--write")] = False,
) -> None:
    """Print what is answered of each kind, with written questions and without."""
    uec, rows = shipped(), list[list[str]]()
    if learns:
        teachers = [row for row in written(uec, folder) if row.corpus != HELD_BACK]
        learned = learn(teachers)
        print(f"Learned: {learned}")
        if write:
            write_learned("weights.json", learned, uec_rag.evidence)
    for name, has_questions in (("without", False), ("with", True)):
        tally = Tally()
        for row, result in results([*written(uec, folder, has_questions=has_questions)]):
            outcomes = [result.decision.action, *["right"] * has_answer(row, result)]
            tally.note((row.corpus, row.set, name), *outcomes)
        rows += tally.rows("answer", "right")
    rows.sort(key=lambda row: (row[0], row[1]))
    print_table(
        "Answered", ["set", "questions", "written questions", "of", "answered", "right"], rows
    )


if __name__ == "__main__":
    run_script(main)
