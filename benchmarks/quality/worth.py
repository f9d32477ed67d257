"""What each piece of evidence is worth: decided with each one switched off, on all sets.

    python -m benchmarks.quality.worth DATA [MANUALS]

The sets are those of `contexts`. A line for each row of `uec_rag.evidence.EVIDENCE`, and for what
else reads words: how many questions more or fewer are right and wrong without it, by set, with its
lines of code. A row that helps on no two kinds of documents, of which nobody thought of one when it
was written, goes.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.quality.contexts import Asked, every, results
from benchmarks.quality.shared import Data, replaced
from benchmarks.tables import print_table, run_script
from uec_rag.clarify import readings
from uec_rag.confidence.model import WORDS
from uec_rag.evidence import EVIDENCE, QuestionWords, absence, family, table
from uec_rag.evidence.table import Row
from uec_rag.questions import grammar, user_messages
from uec_rag.retrieval import search, spelling

_PARTS: dict[str, Sequence[object]] = {
    "coverage": [table.coverage, table.Comparison.is_known],
    "names": [table.names],
    "unnamed": [table.unnamed, table.lowest_ratio, table.log_likelihood_ratio],
    "outside": [table.outside, QuestionWords.folder_names],
    "lacks_word": [table.lacks_word, table.Comparison.lacks],
    "family": [table.family, family],
    "unheard": [table.unheard, absence],
    "order": [table.order, QuestionWords.leaves_order],
    "namesakes": [table.namesakes, QuestionWords.namesakes, family.namesakes_of],
    "says_which": [table.says_which, readings.says_which],
    "goal": [table.goal, QuestionWords.lacks_goal],
    "halves": [grammar.parts_of, grammar.possible_parts, search.cover],
    "carried": [grammar.switched],
    "alone": [grammar.complete_question],
    "statements": [table.statements],
    "spelling": [spelling],
    "messages": [user_messages],
}
_OTHERS: dict[str, list[tuple[str, object]]] = {
    "halves": [
        ("questions.grammar.parts_of", lambda _: []),
        ("questions.grammar.possible_parts", lambda _: []),
    ],
    "carried": [("questions.grammar.switched", lambda *_: ())],
    "alone": [("questions.grammar.complete_question", lambda _: "")],
    "spelling": [("retrieval.spelling.spell", lambda queries, *_: queries)],
    "messages": [
        ("questions.user_messages.asking_part", lambda message: (message, "")),
        ("questions.grammar.without_noise", lambda text: text),
    ],
}
"""What reads words beside the table: the ways of asking a question, and of asking back."""


def off(row: Row) -> Row:
    """A row that says nothing."""
    blank = np.nan if row.name in WORDS else 0.0
    return replace(row, value=lambda _: blank)


@contextmanager
def without(name: str) -> Iterator[None]:
    """Switch a piece of evidence off."""
    with ExitStack() as stack:
        for rows in ("EVIDENCE", "OF_HITS", "AGAINST", "OPEN"):
            left = tuple(off(row) if row.name == name else row for row in getattr(table, rows))
            stack.enter_context(replaced(f"evidence.table.{rows}", left))
        for place, value in _OTHERS.get(name, []):
            stack.enter_context(replaced(place, value))
        yield


def decide(asked: Sequence[Asked]) -> list[tuple[bool, bool]]:
    """Whether each question is right and whether it is wrong."""
    # Those of an index are asked in one call, whatever sets they are of.
    told = {id(row): (row.is_right(hit), row.is_wrong(hit)) for row, hit in results(asked)}
    return [told[id(row)] for row in asked]


def lines_of(name: str) -> int:
    """The lines of code of a piece of evidence, without what others share."""
    parts: Sequence[object] = _PARTS.get(name) or [
        next(row.value for row in EVIDENCE if row.name == name)
    ]
    plain: list[Any] = [getattr(part, "fget", getattr(part, "function", part)) for part in parts]
    return sum(len(inspect.getsourcelines(part)[0]) for part in plain)


def main(
    folder: Data,
    manuals: Annotated[Path | None, typer.Argument(help="Folder of the manuals.")] = None,
) -> None:
    """Print what each piece of evidence is worth."""
    asked = every(folder, manuals)
    before, sizes = decide(asked), defaultdict[str, int](int)
    for row in asked:
        sizes[row.set] += 1
    totals = [f"{sum(column)}" for column in zip(*before, strict=True)]
    print(f"{len(asked)} questions: {totals[0]} right, {totals[1]} wrong")
    rows, pieces = (
        list[list[str]](),
        {row.name: row.context for row in EVIDENCE} | dict.fromkeys(_OTHERS, ""),
    )
    for name in pieces:
        with without(name):
            now = decide(asked)
        moved = defaultdict[str, list[int]](lambda: [0, 0])
        for row, old, new in zip(asked, before, now, strict=True):
            moved[row.set][0] += new[0] - old[0]
            moved[row.set][1] += new[1] - old[1]
        total = [sum(column) for column in zip(*moved.values(), strict=True)]
        told = [
            f"{of} {right:+d}, {wrong:+d}" for of, (right, wrong) in moved.items() if right or wrong
        ]
        rows.append(
            [name, str(lines_of(name)), f"{total[0]:+d}", f"{total[1]:+d}", "; ".join(told)]
        )
        print(rows[-1], flush=True)
    print_table("Without each", ["without", "lines", "right", "wrong", "by set"], rows)
    print(", ".join(f"{name} {size}" for name, size in sizes.items()))


if __name__ == "__main__":
    run_script(main)
