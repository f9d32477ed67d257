"""What questions that a language model wrote for passages bring, on a manual of the first week.

    python -m benchmarks.quality.other_words MANUALS [--picture FILE.png]

written/handbook.jsonl has three questions and everyday names for each passage of the handbook, by
the hash of its text with headings. A language model wrote them on 30 November 2026, by the prompt
of `uec_rag.documents.question_writer`; it saw the passages alone, and no table of questions. It
skipped three passages that are lists of links or headings. They were asked once, and nothing was
tried out on them.

The questions are those of `first_week` and in people's own words (questions/own_words.csv). Found:
one of the first four hits has the text that the row names. Handed over: found, and uncertain.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, index_of, is_found, read_tables
from benchmarks.tables import Tally, print_table, run_script
from uec_rag import UEC, Retriever
from uec_rag.stores.passage import Passage, hash_text

MANUAL = "handbook"
KINDS = ("own words", "ordinary", "short", "absent", "ambiguous")
COLOURS = {
    "answered": "#1a7f37",
    "handed over": "#aceebb",
    "asked back": "#eac54f",
    "refused": "#8c959f",
    "answered wrongly": "#cf222e",
}
OUTCOMES = ("found", "answered", "handed over", "asked back", "refused")


def with_written(passages: Sequence[Passage], manual: str) -> list[Passage]:
    """Passages with the questions that were written for them in their metadata."""
    path = Path(__file__).parent / "written" / f"{manual}.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    written = {row["text"]: row["questions"] for row in rows}
    return [
        replace(p, metadata={**p.metadata, "questions": written.get(hash_text(p.headed), [])})
        for p in passages
    ]


def tally_of(index: Retriever, rows: Sequence[dict[str, str]], name: str) -> Tally:
    """How often each outcome came of each kind of question."""
    tally = Tally()
    results = index.search([row["question"] for row in rows])
    for row, result in zip(rows, results, strict=True):
        kind, decision = row["kind"], result.decision
        there = is_found(row, result) if row["passage"] else False
        outcome = {"answer": "answered", "clarify": "asked back"}.get(decision.action, "refused")
        if decision.code == "uncertain" and (there or kind in ("absent", "ambiguous")):
            outcome = "handed over"
        elif decision.action == "answer" and row["passage"] and not there:
            outcome = "answered wrongly"
        tally.note((kind, name), outcome, *["found"] * there)
    return tally


def draw(path: Path, tallies: dict[str, Tally]) -> None:
    """Draw the outcomes of questions in people's own words as stacked bars."""
    from benchmarks.paper.plots import stacked

    told = [tally[KINDS[0], name] for name, tally in tallies.items()]
    shares = {what: [of[what] for of in told] for what in COLOURS}
    names = [f"{name} written questions" for name in tallies]
    stacked(path, names, shares, COLOURS, "of 13 questions in people's own words")


def main(
    folder: Manuals,
    picture: Annotated[Path | None, typer.Option(help="Draw own words here.")] = None,
) -> None:
    """Print the outcomes by kind, without written questions and with them."""
    rows = [r for r in read_tables("first_week", "own_words") if r["documents"] == MANUAL]
    passages, table, costs = passages_in(folder, MANUAL), [], []
    tallies = dict[str, Tally]()
    for name, some in {"without": passages, "with": with_written(passages, MANUAL)}.items():
        uec = UEC()
        begun = time.process_time()
        index = index_of(uec, some)
        costs.append(time.process_time() - begun)
        tallies[name] = tally_of(index, rows, name)
        table += tallies[name].rows(*OUTCOMES, "answered wrongly")
    table.sort(key=lambda row: KINDS.index(row[0]))
    head = ["questions", "written questions", "of", *OUTCOMES, "answered wrongly"]
    print_table(f"{MANUAL}, {len(passages)} passages", head, table)
    if picture is not None:
        draw(picture, tallies)
    print(f"Processor time of the index: {costs[1] / costs[0]:.1f} times as much with them.")


if __name__ == "__main__":
    run_script(main)
