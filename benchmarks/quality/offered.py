"""How many of the meanings that users may want are among the readings that are offered.

    python -m benchmarks.quality.offered FOLDER

FOLDER has the manuals of `first_week`, sixty of whose ambiguous questions are asked, of eleven
manuals. Two to four meanings of each (questions/meanings.csv) were written from the manuals before
any was searched, and no number is fitted on them. `texts` are texts, between "|", of which a
passage with the meaning, or the name of its file, has one. A manual may have further meanings: a
reading that holds none of these may still be sensible.

Asked of `UEC()` as it comes, at its usual gate. A meaning is held if a passage of a reading has
one of its texts. Printed are, for the questions that are asked back and for all, whose readings
are taken whatever was decided:

- held: the share of the wanted meanings that the readings hold, averaged over questions;
- half held: the questions of which at least half of the meanings are held;
- precision: the share of the readings that hold a wanted meaning, averaged over the questions
  that have readings;
- named: the share of the wanted meanings of which a title has a word that the question has not;
- readings: their number, on average;

and each question with its decision and the meanings that are not held.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import typer

from benchmarks.quality.first_week import passages_in
from benchmarks.quality.shared import Manuals, has_any, index_of, read_tables, shipped
from benchmarks.tables import print_table
from uec_rag import Retriever
from uec_rag.base.text import stems
from uec_rag.confidence.decision import Decision

Meanings = dict[str, list[str]]
"""What a user may mean -> the texts of which a passage with that meaning has one."""


@dataclass(frozen=True)
class Offered:
    """A question that was asked: its decision, and the meanings that each reading holds."""

    documents: str
    question: str
    meanings: Meanings
    decision: Decision
    by_reading: Sequence[set[str]]

    @property
    def asked_back(self) -> bool:
        """Whether the readings are offered to the user."""
        return self.decision.action == "clarify"

    @property
    def missing(self) -> list[str]:
        """The meanings that no reading holds."""
        held = set().union(*self.by_reading)
        return [meaning for meaning in self.meanings if meaning not in held]

    @property
    def named(self) -> float:
        """Share of the wanted meanings of which a title says what the question does not."""
        said = stems(self.question)
        told = [stems(meaning) - said for meaning in self.meanings]
        titles = frozenset[str]().union(*(stems(one.title) for one in self.decision.readings))
        return float(np.mean([not words.isdisjoint(titles) for words in told]))

    @property
    def share(self) -> float:
        """Share of the wanted meanings that are held."""
        return 1 - len(self.missing) / len(self.meanings)


def read_meanings() -> dict[str, dict[str, Meanings]]:
    """The meanings of each question to each manual."""
    read: dict[str, dict[str, Meanings]] = defaultdict(lambda: defaultdict(dict))
    for row in read_tables("meanings"):
        texts = [text.strip() for text in row["texts"].split("|")]
        read[row["documents"]][row["question"]][row["meaning"]] = texts
    return read


def held_by(index: Retriever, ids: Sequence[str], meanings: Meanings) -> set[str]:
    """The meanings that some passages hold."""
    passages = index.get(ids)
    return {name for name, texts in meanings.items() if any(has_any(p, texts) for p in passages)}


def summary(name: str, some: Sequence[Offered]) -> list[str]:
    """A row of the table."""
    if not some:
        return [name, "0", *[""] * 5]
    precisions = [np.mean([bool(held) for held in o.by_reading]) for o in some if o.by_reading]
    half = sum(one.share >= 0.5 for one in some)
    readings = np.mean([len(one.by_reading) for one in some])
    precision = f"{np.mean(precisions):.0%}" if precisions else ""
    held = f"{np.mean([one.share for one in some]):.0%}"
    named = f"{np.mean([one.named for one in some]):.0%}"
    return [name, str(len(some)), held, str(half), precision, named, f"{readings:.1f}"]


def main(folder: Manuals) -> None:
    """Print what is held by the readings that are offered, and each question."""
    warnings.simplefilter("ignore")
    asked = []
    for name, questions in read_meanings().items():
        index = index_of(shipped(), passages_in(folder, name))
        for question, result in zip(questions, index.search([*questions]), strict=True):
            meanings, decision = questions[question], result.decision
            held = [held_by(index, reading.ids, meanings) for reading in decision.readings]
            asked.append(Offered(name, question, meanings, decision, held))
    header = ["questions", "", "held", "half held", "precision", "named", "readings"]
    table = [summary("asked back", [one for one in asked if one.asked_back])]
    print_table("Meanings wanted", header, [*table, summary("all", asked)])
    for one in asked:
        missing = f", not held: {'; '.join(one.missing)}" if one.missing else ""
        print(
            f"{one.documents}: {one.question} {one.decision.action}, "
            f"{len(one.by_reading)} readings, {one.share:.0%} held{missing}"
        )


if __name__ == "__main__":
    typer.run(main)
