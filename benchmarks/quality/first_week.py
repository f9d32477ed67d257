"""Decisions on a first week's questions: ambiguous, ordinary, short, without an answer.

    python -m benchmarks.quality.first_week FOLDER

FOLDER has folders `git` and `debian`, with HTML and PDF files of Debian's packages git-doc,
debian-policy and developers-reference, and the Markdown files of repositories on GitHub: `cargo`
(rust-lang/cargo, doc/book/src without commands), `handbook` (basecamp/handbook), `fastapi`
(fastapi/fastapi, docs/en/docs without its release notes and lists of people), `uv` (astral-sh/uv,
docs without reference/cli.md) and `material` (squidfunk/mkdocs-material, docs without blog,
changelog and insiders), `redis` (redis/redis-doc, commands and docs), `jekyll` (jekyll/jekyll,
docs/_docs), `tts` (18F/handbook, pages), and `celery` (celery/celery, docs in reStructuredText
without history). Python's documentation is gathered from the Python that runs, as in `uec-rag
demo`. A folder that is not there is passed over. `benchmarks.quality.manuals` makes all of them, as
they were frozen.

The questions (questions/first_week.csv) were written, with what they expect, before any was asked,
and no number is fitted on them. Right are "clarify" for an ambiguous question, "answer" for an
ordinary or a short one if one of the four hits has the text that the file names (or one of several,
between "|"), in its name or its passage, and "abstain" for one without an answer. `UEC()` as it
comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quality.shared import (
    Manuals,
    index_of,
    is_found,
    read_tables,
    relevant_ids,
    shipped,
)
from benchmarks.tables import Tally, print_table, run_script
from uec_rag import UEC
from uec_rag.confidence.decision import Decision
from uec_rag.documents import passages_of, read_folder
from uec_rag.documents.python_docs import CHUNK_SIZE, gather_corpus
from uec_rag.stores.passage import Passage

KINDS = {
    "ordinary": "answer",
    "own words": "answer",
    "short": "answer",
    "ambiguous": "clarify",
    "absent": "abstain",
}
"""Kind of question -> the decision that is right."""

FOLDERS = ("git", "debian", "cargo", "handbook", "fastapi", "uv", "material", "redis", "jekyll")
FOLDERS += ("celery", "tts")


@dataclass(frozen=True)
class Asked:
    """A question that was asked: its kind, what was decided, and whether its passage was found."""

    question: str
    kind: str
    decision: Decision
    found: bool

    @property
    def outcome(self) -> str:
        """The decision, or that an answer lacks its passage."""
        wrong = KINDS[self.kind] == self.decision.action == "answer" and not self.found
        return "answer without it" if wrong else self.decision.action

    @property
    def right(self) -> bool:
        """Whether that is what is right for this kind of question."""
        return self.outcome == KINDS[self.kind]


def ask(uec: UEC, passages: Sequence[Passage], rows: Sequence[dict[str, str]]) -> list[Asked]:
    """Index passages, and ask questions of them."""
    relevant_ids(passages, rows)
    results = index_of(uec, passages).search([row["question"] for row in rows])
    return [
        Asked(row["question"], row["kind"], result.decision, is_found(row, result))
        for row, result in zip(rows, results, strict=True)
    ]


def main(folder: Manuals) -> None:
    """Print the decisions by kind of question, and each wrong one."""
    tally, wrong, uec = Tally(), list[str](), shipped()
    for name, passages, rows in manuals_of(folder, "first_week"):
        for one in ask(uec, passages, rows):
            for of in (name, "all"):
                tally.note((of, one.kind), one.outcome, *["right"] * one.right)
            if not one.right:
                decision = one.decision
                wrong.append(
                    f"{name}, {one.kind}: {one.question} {decision.action}, "
                    f"confidence {decision.confidence:.2f}, {decision.underspecified:.2f} "
                    f"underspecified{', found' if one.found else ''}"
                )
    outcomes = ("answer", "clarify", "abstain", "answer without it", "right")
    names, kinds = [*dict.fromkeys(of for of, _ in tally if of != "all"), "all"], [*KINDS]
    rows = sorted(tally.rows(*outcomes), key=lambda r: (names.index(r[0]), kinds.index(r[1])))
    table = [[*row[:-1], f"{int(row[-1]) / int(row[2]):.0%}"] for row in rows]
    print_table("Decisions", ["documents", "questions", "", *outcomes], table)
    print("\n".join(wrong))


def passages_in(folder: Path, name: str) -> list[Passage]:
    """The passages of a manual."""
    if name == "python":
        return passages_of(gather_corpus(3000), size=CHUNK_SIZE)
    return passages_of(read_folder(folder / name))


def corpora_of(folder: Path) -> dict[str, list[Passage]]:
    """The passages of each manual that is there."""
    names = ["python", *(name for name in FOLDERS if (folder / name).is_dir())]
    return {name: passages_in(folder, name) for name in names}


def manuals_of(
    folder: Path, *tables: str
) -> Iterator[tuple[str, list[Passage], list[dict[str, str]]]]:
    """Each manual that is there: its name, its passages, and the rows of tables about it."""
    rows = read_tables(*tables)
    for name, passages in corpora_of(folder).items():
        yield name, passages, [row for row in rows if row["documents"] == name]


if __name__ == "__main__":
    run_script(main)
